//! Condition types and reasons: the closed vocabulary that status, events and metrics share.

use std::fmt;

/// Types of conditions. `Ready`, `Reconciling` and `Stalled` follow kstatus
/// (<https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus>): Reconciling and Stalled are never both
/// true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// A revision serves (AgentDeployment), or the artifact can be used (Engine).
    Ready,
    /// Work towards the spec is in progress.
    Reconciling,
    /// Work has stopped, and only a person can help.
    Stalled,
    /// Some configuration meets every objective, as measured (AgentDeployment).
    SLOAttainable,
    /// The driver does not measure an objective, so candidates are not compared by it (AgentDeployment). Absent
    /// otherwise.
    ObjectivesUncompared,
    /// Traffic meets the objectives (AgentDeployment). Where error budgets are known, over their window.
    SLOMet,
    /// The rollout waits for a person (AgentDeployment).
    Suspended,
    /// A campaign runs beside the revision that serves (AgentDeployment).
    Profiling,
    /// What users ask has changed since the first day of the current revision (AgentDeployment). Absent while
    /// unknown.
    WorkloadDrift,
    /// The current revision serves like work worse than on its first day (AgentDeployment). Absent while unknown, and
    /// while the workload has changed.
    BehaviorDrift,
    /// Where stable's own pods are split into two groups, the judge finds harm no more often than
    /// `spec.rollout.judge.falseRollback` promises (AgentDeployment). Absent where nothing is judged.
    JudgeTrusted,
    /// The operator knows every receiver of `spec.alerts` (AgentDeployment). It does not affect serving.
    ReceiversResolved,
    /// The load is known by which `spec.serving.autoscaling` scales (AgentDeployment).
    ScalingActive,
    /// Somebody else scales an AgentDeployment with autoscaling. Absent otherwise.
    ReplicasContested,
    /// An annotation of an AgentDeployment names an unknown command, or no plan. Absent otherwise.
    CommandInvalid,
    /// The installed CRD lacks a field of the status. Absent otherwise.
    DefinitionOutdated,
}

impl ConditionType {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::SLOAttainable => "SLOAttainable",
            Self::ObjectivesUncompared => "ObjectivesUncompared",
            Self::SLOMet => "SLOMet",
            Self::Suspended => "Suspended",
            Self::Profiling => "Profiling",
            Self::WorkloadDrift => "WorkloadDrift",
            Self::BehaviorDrift => "BehaviorDrift",
            Self::JudgeTrusted => "JudgeTrusted",
            Self::ReceiversResolved => "ReceiversResolved",
            Self::ScalingActive => "ScalingActive",
            Self::ReplicasContested => "ReplicasContested",
            Self::CommandInvalid => "CommandInvalid",
            Self::DefinitionOutdated => "DefinitionOutdated",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Reasons of conditions and events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }
        }
    };
}

reasons! {
    /// The spec requests something impossible.
    SpecRefused,
    /// A Job is starting.
    JobStarting,
    /// A pod waits for a node.
    WaitingForCapacity,
    /// A Job waits for its image.
    ImageUnavailable,
    /// A Job waits for a Secret.
    SecretUnavailable,
    /// The API server refuses the pod of a Job: a quota, a limit range or an admission policy.
    PodsRefused,
    /// A Job runs.
    JobRunning,
    /// A Job failed for a temporary reason, and its next attempt follows.
    JobRetrying,
    /// A Job failed permanently: a retry would not help.
    JobFailed,
    /// The model reference is being resolved.
    ResolvingModel,
    /// The model reference was resolved.
    ModelResolved,
    /// The checkpoint is being copied into the artifact store.
    FetchingModel,
    /// The checkpoint is in the artifact store.
    ModelFetched,
    /// The artifact store's claim cannot be used.
    StoreUnavailable,
    /// Engines are being built.
    BuildingEngines,
    /// An engine was built.
    EngineBuilt,
    /// The artifact store lost an engine or a checkpoint, which is made again.
    ArtifactLost,
    /// A Job removed from the artifact store what nothing needed any more.
    StoreSwept,
    /// A Job that was to remove it failed, and another follows.
    StoreSweepFailed,
    /// The build of an engine failed.
    EngineFailed,
    /// No engine of the search space could be built.
    NoEngine,
    /// The quality of engines is being measured.
    MeasuringQuality,
    /// An engine may answer worse than the objective allows.
    EngineRefused,
    /// The data set of the quality objective cannot be used.
    DatasetUnusable,
    /// Configurations are being measured.
    Profiling,
    /// A configuration was measured.
    ConfigurationMeasured,
    /// The campaign failed.
    ProfilingFailed,
    /// The result of a campaign is not used: a person declined it, or the spec was edited meanwhile.
    CampaignDiscarded,
    /// The next scheduled campaign is planned.
    ReprofilingPlanned,
    /// The month's budget leaves too little for another campaign.
    ReprofilingBudgetUsed,
    /// A campaign after drift is planned.
    ReprofilingAfterDrift,
    /// Nothing has changed since the first day of the current revision.
    NoDrift,
    /// What users ask has changed.
    WorkloadChanged,
    /// Like work is served worse.
    BehaviorChanged,
    /// The baseline of drift restarted; earlier counts are no longer used.
    DriftBaselineRestarted,
    /// The judge keeps its promise among stable's own pods.
    SelfCheckPassed,
    /// It called harm more often than is promised, but chance explains that.
    SelfCheckUnclear,
    /// It calls harm among stable's own pods more often than chance explains.
    SelfCheckFailed,
    /// Stable has too few pods for the judge's self-check.
    TooFewPods,
    /// Stable has finished too few runs for the judge's self-check.
    TooLittleTraffic,
    /// The data of a workload cannot be used.
    WorkloadUnusable,
    /// The expectations of `spec.profiling.prior` cannot be used.
    PriorUnusable,
    /// No configuration meets the objectives.
    NoFeasibleConfiguration,
    /// Some configuration meets every objective.
    ConfigurationFound,
    /// The driver of a campaign does not measure an objective.
    NotMeasuredByDriver,
    /// Traffic meets every objective that it judges.
    ObjectivesMet,
    /// Traffic misses an objective.
    ObjectivesMissed,
    /// A configuration was chosen.
    ConfigurationChosen,
    /// Another server has the model, so nothing is built and nothing is measured.
    ServedElsewhere,
    /// A new revision is starting.
    RevisionStarting,
    /// The baseline of a new revision is starting: fresh pods of stable's plan.
    BaselineStarting,
    /// The API server refused an object, or somebody else owns it.
    ApplyFailed,
    /// The API server dropped a field that the installed CRD lacks.
    FieldNotKept,
    /// A defect of the operator ended the object's reconciliation; other objects are not affected.
    ReconcilePanicked,
    /// The object cannot be read by this release of the operator, and is left alone.
    Unreadable,
    /// Pods of the new revision fail.
    RevisionFailing,
    /// A node's GPUs are refused by the checks before a server starts.
    PreflightFailed,
    /// A new revision took over.
    RevisionPromoted,
    /// A rollout is in progress.
    RolloutProgressing,
    /// A new revision got more weight.
    RolloutAdvanced,
    /// `spec.rollout.paused` or zero replicas keep the rollout at its step.
    RolloutPaused,
    /// A new choice waits for approval.
    AwaitingApproval,
    /// The cluster lacks capacity for the pods of a new revision.
    InsufficientCapacity,
    /// Pods of a new revision replace stable pods.
    UpdatingInPlace,
    /// Drained stable pods are being restored.
    RestoringStable,
    /// A new revision did harm and lost its traffic.
    RolledBack,
    /// No traffic reaches the new revision.
    NoTraffic,
    /// No pod of the new revision reports its counts.
    EvidenceUnreachable,
    /// Traffic is not split as declared.
    TrafficSplitMismatch,
    /// Nodes slow their GPUs down or break them, and no other pod can be judged.
    NodeAtFault,
    /// A guardrail of the user is exceeded or has no value, and keeps the canary at its step.
    GuardrailBlocking,
    /// The maximum soak of a step has passed without a verdict.
    VerdictUnreachable,
    /// No gateway serves the route.
    RouteUnavailable,
    /// Somebody else also writes the route.
    RouteContested,
    /// `spec.alerts` names a receiver that the operator's configuration lacks.
    UnknownReceiver,
    /// The operator knows every receiver of `spec.alerts`.
    ReceiversKnown,
    /// An annotation names a command that the operator does not know, or no plan.
    CommandUnknown,
    /// The number of pods fits the load.
    ScaledToLoad,
    /// Pods were added for the load.
    ScaledUp,
    /// Pods that the load does not need were removed.
    ScaledDown,
    /// Fewer pods would suffice, but the scale-down delay has not passed.
    ScaleDownDelayed,
    /// The load needs more pods than are allowed.
    ScalingLimited,
    /// The load is unknown.
    LoadUnknown,
    /// Somebody else scales an agent with autoscaling.
    ScaledByOthers,
    /// A revision serves.
    Serving,
    /// No revision serves yet.
    NotServing,
    /// Nothing is left to do.
    UpToDate,
    /// The artifact is in the store.
    Available,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_camel_case_word_as_the_api_conventions_want() {
        let invalid: Vec<_> = Reason::ALL
            .iter()
            .map(|reason| reason.as_str())
            .filter(|name| !name.starts_with(char::is_uppercase) || !name.chars().all(|c| c.is_ascii_alphanumeric()))
            .collect();
        assert!(invalid.is_empty(), "{invalid:?}");
    }
}
