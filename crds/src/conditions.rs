//! Condition types and reasons: the closed vocabulary that status, events and metrics share.

use std::fmt;

/// Types of conditions. `Ready`, `Reconciling` and `Stalled` follow kstatus
/// (<https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus>): Reconciling and Stalled are never both true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// Someone serves (AgentDeployment), or the artifact can be used (Engine).
    Ready,
    /// Work towards the spec is under way.
    Reconciling,
    /// Work has stopped, and only a person can help.
    Stalled,
    /// Some configuration meets every objective, as measured (AgentDeployment).
    SLOAttainable,
    /// Traffic meets the objectives, over the window of their error budgets where these are known (AgentDeployment).
    SLOMet,
    /// The rollout waits for a person (AgentDeployment).
    Suspended,
    /// What serves is measured anew in the background (AgentDeployment).
    Profiling,
    /// What users ask has changed since the first day of what serves (AgentDeployment). Absent until that can be told.
    WorkloadDrift,
    /// What serves does the same work worse than on its first day (AgentDeployment). Absent until that can be told, and while what users
    /// ask has changed.
    BehaviorDrift,
    /// Every receiver of `spec.alerts` is known to the operator (AgentDeployment). Says nothing of the agent: it serves all the same.
    ReceiversResolved,
    /// The load is known by which `spec.serving.autoscaling` scales (AgentDeployment).
    ScalingActive,
    /// Somebody scales an AgentDeployment that scales itself; absent otherwise.
    ReplicasContested,
}

impl ConditionType {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::SLOAttainable => "SLOAttainable",
            Self::SLOMet => "SLOMet",
            Self::Suspended => "Suspended",
            Self::Profiling => "Profiling",
            Self::WorkloadDrift => "WorkloadDrift",
            Self::BehaviorDrift => "BehaviorDrift",
            Self::ReceiversResolved => "ReceiversResolved",
            Self::ScalingActive => "ScalingActive",
            Self::ReplicasContested => "ReplicasContested",
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
    /// The spec names something that cannot be done.
    SpecRefused,
    /// A Job is about to start.
    JobStarting,
    /// A pod waits for a node.
    WaitingForCapacity,
    /// A Job waits for its image.
    ImageUnavailable,
    /// A Job waits for a Secret.
    SecretUnavailable,
    /// A Job runs.
    JobRunning,
    /// A Job ended in a failure that a repetition would not mend.
    JobFailed,
    /// Finding out what the model reference stands for.
    ResolvingModel,
    /// The model is known.
    ModelResolved,
    /// Bringing the checkpoint into the artifact store.
    FetchingModel,
    /// The checkpoint lies in the store.
    ModelFetched,
    /// The artifact store cannot be claimed.
    StoreUnavailable,
    /// Engines are being built.
    BuildingEngines,
    /// An engine was built.
    EngineBuilt,
    /// An engine could not be built.
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
    /// The campaign could not be carried out.
    ProfilingFailed,
    /// What serves is measured anew at a later time.
    ReprofilingPlanned,
    /// What serves may not be measured anew before the month is over.
    ReprofilingBudgetUsed,
    /// What serves is measured anew after drift, at a later time.
    ReprofilingAfterDrift,
    /// Nothing has changed since the first day of what serves.
    NoDrift,
    /// What users ask has changed.
    WorkloadChanged,
    /// The same work is done worse.
    BehaviorChanged,
    /// What was counted before is compared with no more.
    BaselineRestarted,
    /// The data of a workload cannot be used.
    WorkloadUnusable,
    /// No configuration meets the objectives.
    NoFeasibleConfiguration,
    /// Some configuration meets every objective.
    ConfigurationFound,
    /// Traffic meets every objective that it judges.
    ObjectivesMet,
    /// Traffic misses an objective.
    ObjectivesMissed,
    /// A configuration was chosen.
    ConfigurationChosen,
    /// A new revision is being brought up.
    RevisionStarting,
    /// Fresh pods of the serving plan are being brought up, which a new revision is compared with.
    BaselineStarting,
    /// The API server refused an object, or it is somebody else's.
    ApplyFailed,
    /// Pods of the new revision fail.
    RevisionFailing,
    /// A new revision took over.
    RevisionPromoted,
    /// A new revision is given traffic step by step.
    RolloutProgressing,
    /// A new revision is given more traffic.
    RolloutAdvanced,
    /// The rollout is kept at its step by `spec.rollout.paused`, or for want of replicas.
    RolloutPaused,
    /// A new choice waits for approval.
    AwaitingApproval,
    /// The cluster has no room for the pods of a new revision.
    InsufficientCapacity,
    /// Pods of a new revision take the place of serving ones.
    UpdatingInPlace,
    /// Pods that made room for a new revision are brought back.
    RestoringStable,
    /// A new revision did harm and lost its traffic.
    RolledBack,
    /// Nothing reaches the new revision.
    NoTraffic,
    /// The counts of the new revision's pods cannot be read.
    EvidenceUnreachable,
    /// Traffic is not split as declared.
    TrafficSplitMismatch,
    /// A guardrail of the user's is exceeded or has no value.
    GuardrailHolds,
    /// A step's longest soak has passed without a verdict.
    VerdictUnreachable,
    /// No gateway takes the route.
    RouteUnavailable,
    /// Somebody else writes the route too.
    RouteContested,
    /// `spec.alerts` names a receiver that the operator's configuration lacks.
    UnknownReceiver,
    /// Every receiver of `spec.alerts` is known.
    ReceiversKnown,
    /// There are as many pods as the load needs.
    ScaledToLoad,
    /// Pods were added for the load.
    ScaledUp,
    /// Pods that the load does not need were taken away.
    ScaledDown,
    /// Fewer pods would do, and are waited for.
    ScaleDownDelayed,
    /// The load needs more pods than are allowed.
    ScalingLimited,
    /// It is not known how much load there is.
    LoadUnknown,
    /// Somebody scales an agent that scales itself.
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
