//! Why something is not done yet, with its numbers: one typed value that condition, event and metric share.

mod blocked;
mod commands;
mod held;
mod plugin;
mod preflight;
mod reason;
mod rejected;
mod reprofiling;
mod scaling;

use std::fmt;

use slipway_crds::{commands::Source, conditions::Reason};

use crate::jobs::kind::JobRef;

pub use blocked::{Blocked, Step};
pub use commands::{CommandProblem, InvalidCommand};
pub use held::{CONTEST_REMEMBERED, Contested, Held};
pub use plugin::{Named, Proposed};
pub use preflight::RefusedGpus;
pub use rejected::{Rejected, Retry};
pub use reprofiling::AfterDrift;
pub use scaling::{Because, Needed, Scaling, counted_pods};

/// Why a step waits or has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The spec asks for what cannot be done.
    SpecRefused {
        /// Path of the field.
        field: &'static str,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// An engine that the spec asks for cannot be, as is known before anything is built.
    EngineRefused {
        /// Path of the field within the spec.
        field: String,
        /// What is wrong, and the remedy.
        problem: String,
        /// Further reasons against the spec.
        others: usize,
    },
    /// The tools cannot make an engine that the spec asks for.
    EngineUnbuildable {
        /// What is wrong, with the path of the field and the remedy.
        problem: String,
    },
    /// The calibration texts are not there yet, or cannot be used.
    CalibrationUnusable {
        /// Name of the ConfigMap.
        config_map: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// The claim of the artifact store is not bound.
    StoreUnbound {
        /// Name of the claim.
        claim: String,
        /// Its storage class, if one is configured.
        storage_class: Option<String>,
    },
    /// A Job is about to be created.
    JobStarting {
        /// The Job.
        job: JobRef,
    },
    /// The pod of a Job is not scheduled.
    JobUnscheduled {
        /// The Job.
        job: JobRef,
        /// The scheduler's own words.
        scheduler: String,
    },
    /// A container of a Job waits for its image.
    ImageUnavailable {
        /// The Job.
        job: JobRef,
        /// The kubelet's own words.
        message: String,
    },
    /// The pod of a Job waits for a Secret.
    SecretUnavailable {
        /// The Job.
        job: JobRef,
        /// What is missing.
        message: String,
    },
    /// The API server refuses the pod of a Job.
    PodsRefused {
        /// The Job.
        job: JobRef,
        /// The API server's own words.
        message: String,
    },
    /// A Job runs.
    JobRunning {
        /// The Job.
        job: JobRef,
        /// Seconds since its pod started.
        seconds: i64,
    },
    /// A Job failed for a reason of the cluster's and is tried again.
    JobRetrying {
        /// The failed Job.
        job: JobRef,
        /// The attempt that comes next.
        next_attempt: i32,
        /// Attempts in all.
        max_attempts: i32,
        /// What happened.
        failure: String,
    },
    /// A Job failed, and a retry would not help.
    JobFailed {
        /// The failed Job.
        job: JobRef,
        /// Class of the failure.
        class: &'static str,
        /// What happened.
        failure: String,
        /// Attempts that failed so, where the failure is one that is tried again; absent of one attempt.
        attempts: Option<i32>,
    },
    /// Engines are being built.
    EnginesBuilding {
        /// Engines that are ready.
        ready: usize,
        /// Engines in all.
        total: usize,
        /// State of the first that is not.
        state: String,
    },
    /// The store lost an artifact, which is built again.
    BuildingAgain {
        /// First digits of the manifest's digest.
        manifest: String,
        /// How far it is.
        state: String,
    },
    /// The store lost a checkpoint that a build needs.
    CheckpointMissing {
        /// The Job that found it missing.
        job: JobRef,
        /// What it said.
        failure: String,
    },
    /// No engine of the search space could be built.
    NoEngine {
        /// Engines in all.
        total: usize,
        /// What happened to the first.
        failure: String,
    },
    /// The data set of the quality objective is not there yet, or cannot be used.
    DatasetUnusable {
        /// Name of the ConfigMap.
        config_map: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// The quality of engines is being measured.
    MeasuringQuality {
        /// Engines whose quality is known.
        measured: usize,
        /// Engines in all.
        total: usize,
        /// State of the first whose quality is not known.
        state: String,
    },
    /// The data of a workload is not there yet, or cannot be used.
    WorkloadUnusable {
        /// Name of the ConfigMap.
        config_map: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// The expectations of the search are not there yet, or cannot be used.
    PriorUnusable {
        /// Name of the ConfigMap.
        config_map: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// Configurations are being measured.
    Profiling {
        /// Name of the Profile.
        profile: String,
        /// Where it is.
        state: String,
    },
    /// The campaign could not be carried out.
    ProfilingFailed {
        /// Name of the Profile.
        profile: String,
        /// What happened.
        failure: String,
    },
    /// The serving choice is measured again later.
    ReprofilingPlanned {
        /// When it is due.
        at: String,
        /// What it waits for, where it is due.
        held: Option<&'static str>,
        /// Its latest result.
        latest: Option<String>,
    },
    /// The serving choice is measured again after drift.
    ReprofilingAfterDrift {
        /// What it waits for.
        waits: AfterDrift,
        /// What is at risk.
        risk: String,
        /// Its latest result.
        latest: Option<String>,
    },
    /// The month's budget does not allow for another campaign.
    ReprofilingBudgetUsed {
        /// The month.
        month: String,
        /// GPU hours that were used in it.
        used: String,
        /// GPU hours that may be.
        limit: String,
        /// GPU hours that it is expected to take.
        expected: String,
    },
    /// No configuration meets the objectives.
    NoFeasibleConfiguration {
        /// Name of the Profile.
        profile: String,
        /// The binding objective, and what it would take.
        answer: String,
    },
    /// Pods of a revision are not all ready.
    RevisionStarting {
        /// Hash of the revision's plan.
        revision: String,
        /// Pods that are ready.
        ready: i32,
        /// Pods wanted.
        wanted: i32,
    },
    /// Pods of a revision fail.
    RevisionFailing {
        /// Hash of the revision's plan.
        revision: String,
        /// What the pod says.
        failure: String,
    },
    /// A node's GPUs are refused before a server starts there.
    PreflightFailed(RefusedGpus),
    /// A pod of a revision waits for a node.
    RevisionUnscheduled {
        /// Hash of the revision's plan.
        revision: String,
        /// The scheduler's own words.
        scheduler: String,
        /// What comes next, and when.
        then: String,
    },
    /// The cluster has no room for a revision beside the one that serves.
    InsufficientCapacity {
        /// Hash of the revision's plan.
        revision: String,
        /// Pods that it goes on with.
        pods: i32,
        /// Pods that it needs.
        wanted: i32,
        /// The scheduler's own words.
        scheduler: String,
        /// What a person can do.
        remedy: String,
    },
    /// Pods of a revision take the place of serving ones.
    UpdatingInPlace {
        /// Hash of the revision's plan.
        revision: String,
        /// Hash of the plan that serves.
        stable: String,
        /// Pods of the latter that made room.
        drained: i32,
        /// Pods of the latter that go on.
        left: i32,
        /// Pods of the revision that are ready.
        ready: i32,
        /// What the first says that is not, if it says anything.
        failure: Option<String>,
    },
    /// Pods that made room are brought back.
    RestoringStable {
        /// Hash of the plan that serves.
        stable: String,
        /// Pods of it that are ready.
        ready: i32,
        /// Pods of it that are to serve in the end.
        wanted: i32,
        /// Why.
        reason: String,
    },
    /// A revision has a share of the traffic and is judged.
    CanaryJudged {
        /// Hash of the revision's plan.
        revision: String,
        /// Its share in percent.
        weight: i32,
        /// What the judge says, in one word.
        reason: Reason,
        /// What the judge says, with numbers.
        message: String,
    },
    /// The rollout is kept at its step.
    RolloutPaused {
        /// Hash of the revision's plan.
        revision: String,
        /// Its share in percent.
        weight: i32,
        /// The command that keeps it.
        by: Source,
        /// Whose rollout it is.
        named: Named,
    },
    /// A revision is on trial, and no pods are asked for.
    RolloutWithoutPods {
        /// Hash of the revision's plan.
        revision: String,
    },
    /// Something other than the verdict has kept the canary at its step for longer than the step may take.
    RolloutHeld(Held),
    /// A new choice waits for a person.
    AwaitingApproval(Box<Proposed>),
    /// A plan did harm.
    PlanRejected(Box<Rejected>),
    /// No gateway serves the route.
    RouteUnavailable {
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// Somebody else writes the route too.
    RouteContested(Contested),
    /// Someone is to be told whom the operator does not know. Keeps nothing from going on.
    UnknownReceiver {
        /// The names that it does not know.
        unknown: Vec<String>,
        /// The names that it knows.
        known: Vec<String>,
    },
    /// Annotations name unknown commands, or no plan. Keeps nothing from going on.
    CommandInvalid {
        /// The annotations.
        invalid: Vec<InvalidCommand>,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpecRefused { field, problem } => write!(f, "{field}: {problem}"),
            Self::EngineRefused { field, problem, others: 0 } => write!(f, "spec.{field}: {problem}"),
            Self::EngineRefused { field, problem, others } => {
                write!(f, "spec.{field}: {problem} (and {others} further problems)")
            }
            Self::EngineUnbuildable { problem } => write!(f, "spec.{problem}"),
            Self::CalibrationUnusable { config_map, problem } => {
                write!(f, "spec.engine.tensorRTLLM.calibration: ConfigMap {config_map}: {problem}")
            }
            Self::StoreUnbound { claim, storage_class: Some(class) } => {
                write!(f, "claim {claim} of storage class {class} is not bound: see `kubectl describe pvc {claim}`")
            }
            Self::StoreUnbound { claim, storage_class: None } => write!(
                f,
                "claim {claim} is not bound, and no storage class is configured: set store.storageClassName of the \
                 operator's chart, or mark a class as the cluster's default"
            ),
            Self::JobStarting { job } => write!(f, "Job {job} is about to start"),
            Self::JobUnscheduled { job, scheduler } => write!(f, "Job {job} waits for a node: {scheduler}"),
            Self::ImageUnavailable { job, message } => write!(f, "Job {job} waits for an image: {message}"),
            Self::SecretUnavailable { job, message } => write!(f, "Job {job} cannot start: {message}"),
            Self::PodsRefused { job, message } => {
                write!(f, "Job {job} has no pod, since the API server refuses it: {message}")
            }
            // The seconds are left out: a message that changed with every look would be a write with every look.
            Self::JobRunning { job, .. } => write!(f, "Job {job} runs"),
            Self::JobRetrying { job, next_attempt, max_attempts, failure } => {
                write!(f, "Job {job} failed ({failure}); attempt {next_attempt} of {max_attempts} follows")
            }
            Self::JobFailed { job, class, failure, attempts } => {
                write!(f, "{}. Delete the Job to try again", job.failed(class, failure, *attempts))
            }
            Self::EnginesBuilding { ready, total, state } => write!(f, "{ready} of {total} engines are ready; {state}"),
            Self::BuildingAgain { manifest, state } => {
                write!(f, "the store has lost artifact {manifest}, and it is built again: {state}")
            }
            Self::CheckpointMissing { job, failure } => {
                write!(f, "Job {job} found no checkpoint ({failure}); it is built once that has been fetched again")
            }
            Self::NoEngine { total, failure } => write!(f, "none of {total} engines could be built: {failure}"),
            Self::DatasetUnusable { config_map, problem } => {
                write!(f, "spec.slo.quality.dataset: ConfigMap {config_map}: {problem}")
            }
            Self::MeasuringQuality { measured, total, state } => {
                write!(f, "the quality of {measured} of {total} engines is known; {state}")
            }
            Self::WorkloadUnusable { config_map, problem } => {
                write!(f, "spec.profiling.workloads: ConfigMap {config_map}: {problem}")
            }
            Self::PriorUnusable { config_map, problem } => {
                write!(f, "spec.profiling.prior: ConfigMap {config_map}: {problem}")
            }
            Self::Profiling { profile, state } => write!(f, "Profile {profile}: {state}"),
            Self::ProfilingFailed { profile, failure } => {
                write!(f, "Profile {profile} failed: {failure}. Delete the Profile to try again")
            }
            Self::ReprofilingPlanned { at, held, latest } => {
                f.write_str(&reprofiling::planned(at, *held, latest.as_deref()))
            }
            Self::ReprofilingAfterDrift { waits, risk, latest } => {
                f.write_str(&reprofiling::after_drift(waits, risk, latest.as_deref()))
            }
            Self::ReprofilingBudgetUsed { month, used, limit, expected } => write!(
                f,
                "spec.profiling.budget.perMonth: {used} of {limit} GPU hours of {month} are used, and a campaign takes \
                 about {expected}: it waits for the next month, or for a higher limit"
            ),
            Self::NoFeasibleConfiguration { profile, answer } => {
                write!(f, "no configuration that Profile {profile} measured meets spec.slo: {answer}")
            }
            Self::RevisionStarting { revision, ready, wanted } => {
                write!(f, "revision {revision} has {ready} of {wanted} pods ready")
            }
            Self::RevisionFailing { revision, failure } => write!(f, "revision {revision} does not start: {failure}"),
            Self::PreflightFailed(refused) => refused.fmt(f),
            Self::RevisionUnscheduled { revision, scheduler, then } => {
                write!(f, "revision {revision} waits for a node: {scheduler}. {then}")
            }
            Self::InsufficientCapacity { revision, pods: 0, wanted, scheduler, remedy } => write!(
                f,
                "the cluster lacks capacity for {} of revision {revision} beside the serving pods: {scheduler}. These \
                 continue to serve. The operator probes for capacity regularly, and at once when the spec changes. \
                 {remedy}",
                counted_pods(*wanted)
            ),
            Self::InsufficientCapacity { revision, pods, wanted, scheduler, remedy } => write!(
                f,
                "revision {revision} cannot take over: it has {}, and the cluster lacks capacity for {wanted} beside \
                 the serving pods: {scheduler}. It keeps its share, and the operator probes for capacity regularly. \
                 {remedy}",
                counted_pods(*pods)
            ),
            Self::UpdatingInPlace { revision, stable, drained, left, ready, failure } => {
                let drained = counted_pods(*drained);
                write!(
                    f,
                    "{drained} of {stable} drained for revision {revision}, which has {ready} ready; {left} of \
                     {stable} remain"
                )?;
                failure.as_ref().map_or(Ok(()), |failure| write!(f, ": {failure}"))
            }
            Self::RestoringStable { stable, ready, wanted, reason } => {
                write!(f, "restoring the pods of {stable}, {ready} of {wanted} are ready: {reason}")
            }
            Self::CanaryJudged { revision, weight, message, reason: _ } => {
                write!(f, "revision {revision} has {weight} % of the traffic; {message}")
            }
            Self::RolloutPaused { revision, weight, by, named } => {
                let resume = named.command("resume");
                write!(
                    f,
                    "revision {revision} is paused at {weight} % of the traffic. To resume, run {resume}, or remove \
                     {by}"
                )
            }
            Self::RolloutWithoutPods { revision } => write!(
                f,
                "revision {revision} is being rolled out, but replicas are 0: its rollout restarts once replicas are \
                 above 0"
            ),
            Self::RolloutHeld(held) => held.fmt(f),
            Self::AwaitingApproval(proposed) => proposed.fmt(f),
            Self::PlanRejected(rejected) => rejected.fmt(f),
            Self::RouteUnavailable { problem } => write!(f, "spec.rollout.traffic.gatewayAPI: {problem}"),
            Self::RouteContested(contested) => contested.fmt(f),
            Self::UnknownReceiver { unknown, known } => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                write!(
                    f,
                    "spec.alerts.receivers: the operator does not know {}; it knows {known}. Name one of those, or add it to \
                     notifications.receivers of the chart, for this namespace",
                    unknown.join(", ")
                )
            }
            Self::CommandInvalid { invalid } => f.write_str(&commands::listed(invalid)),
        }
    }
}
