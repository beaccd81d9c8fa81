//! Which reason every "not yet" has. Pure.

use slipway_crds::conditions::Reason;

use super::Why;

impl Why {
    /// Whether its end is reported by no watch: a Job whose pod is not admitted, or not seen yet.
    pub fn is_unwatched(&self) -> bool {
        matches!(self, Self::PodsRefused { .. } | Self::JobRunning { seconds: 0, .. })
    }

    /// The reason, for conditions, events and metric labels.
    pub fn reason(&self) -> Reason {
        match self {
            Self::SpecRefused { .. } | Self::EngineRefused { .. } | Self::EngineUnbuildable { .. } => {
                Reason::SpecRefused
            }
            Self::CalibrationUnusable { .. } => Reason::DatasetUnusable,
            Self::StoreUnbound { .. } => Reason::StoreUnavailable,
            Self::JobStarting { .. } => Reason::JobStarting,
            Self::JobUnscheduled { .. } => Reason::WaitingForCapacity,
            Self::ImageUnavailable { .. } => Reason::ImageUnavailable,
            Self::SecretUnavailable { .. } => Reason::SecretUnavailable,
            Self::PodsRefused { .. } => Reason::PodsRefused,
            Self::JobRunning { .. } => Reason::JobRunning,
            Self::JobRetrying { .. } => Reason::JobRetrying,
            Self::JobFailed { .. } => Reason::JobFailed,
            Self::EnginesBuilding { .. } => Reason::BuildingEngines,
            Self::BuildingAgain { .. } | Self::CheckpointMissing { .. } => Reason::ArtifactLost,
            Self::NoEngine { .. } => Reason::NoEngine,
            Self::DatasetUnusable { .. } => Reason::DatasetUnusable,
            Self::MeasuringQuality { .. } => Reason::MeasuringQuality,
            Self::WorkloadUnusable { .. } => Reason::WorkloadUnusable,
            Self::PriorUnusable { .. } => Reason::PriorUnusable,
            Self::Profiling { .. } => Reason::Profiling,
            Self::ProfilingFailed { .. } => Reason::ProfilingFailed,
            Self::ReprofilingPlanned { .. } => Reason::ReprofilingPlanned,
            Self::ReprofilingAfterDrift { .. } => Reason::ReprofilingAfterDrift,
            Self::ReprofilingBudgetUsed { .. } => Reason::ReprofilingBudgetUsed,
            Self::NoFeasibleConfiguration { .. } => Reason::NoFeasibleConfiguration,
            Self::RevisionStarting { .. } => Reason::RevisionStarting,
            Self::RevisionFailing { .. } => Reason::RevisionFailing,
            Self::PreflightFailed(_) => Reason::PreflightFailed,
            Self::RevisionUnscheduled { .. } => Reason::WaitingForCapacity,
            Self::InsufficientCapacity { .. } => Reason::InsufficientCapacity,
            Self::UpdatingInPlace { .. } => Reason::UpdatingInPlace,
            Self::RestoringStable { .. } => Reason::RestoringStable,
            Self::CanaryJudged { reason, .. } => *reason,
            Self::RolloutPaused { .. } | Self::RolloutWithoutPods { .. } => Reason::RolloutPaused,
            Self::RolloutHeld(_) => Reason::VerdictUnreachable,
            Self::AwaitingApproval(_) => Reason::AwaitingApproval,
            Self::PlanRejected(_) => Reason::RolledBack,
            Self::RouteUnavailable { .. } => Reason::RouteUnavailable,
            Self::RouteContested(_) => Reason::RouteContested,
            Self::UnknownReceiver { .. } => Reason::UnknownReceiver,
            Self::CommandInvalid { .. } => Reason::CommandUnknown,
        }
    }
}
