//! The status of an AgentDeployment: stage, conditions, counts. Pure.

use slipway_crds::{
    conditions::{ConditionType, Reason},
    labels,
    v1alpha1::{
        AgentDeploymentStatus, ProfileStatus,
        agent_deployment::{OnInconclusive, SelectedConfiguration, Stage},
        profile::ProfilePhase,
    },
};

use super::{
    facts,
    monitoring::{drift, error_budget, objectives, scaling},
    world::{ServingView, World},
};
use crate::{
    conditions::{Draft, dated},
    jobs::kind::JobKind,
    why::{Step, Why},
};

/// What the planners came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The revision that takes traffic.
    pub serving: Option<String>,
    /// What is still to be done; absent when nothing is.
    pub next: Option<Step<()>>,
    /// What goes on beside it; absent where nothing is measured by schedule.
    pub background: Option<Background>,
}

/// Whether what serves is measured anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Background {
    /// It is: how far.
    Measuring(Why),
    /// It is not: until when, or why.
    Idle(Why),
}

/// Completes the status: everything that follows from the outcome.
pub fn complete(world: &World, outcome: &Outcome, status: &mut AgentDeploymentStatus) {
    let view = outcome.serving.as_ref().and_then(|revision| world.serving.get(revision));
    let stand_in = stand_in(world, status);
    let ready = view.map_or(0, |view| view.ready) + stand_in.as_ref().map_or(0, |stand_in| stand_in.ready);
    status.observed_generation = Some(world.generation);
    status.replicas = view.map_or(0, |view| view.wanted) + stand_in.as_ref().map_or(0, |stand_in| stand_in.wanted);
    status.ready_replicas = Some(format!("{ready}/{}", world.replicas()));
    status.selector = outcome
        .serving
        .as_ref()
        .map(|revision| format!("{}={},{}={revision}", labels::AGENT_DEPLOYMENT, world.name, labels::REVISION));
    status.stage = Some(stage(outcome));
    if let Some(selected) = served_configuration(world, outcome) {
        status.selected = Some(selected);
    }
    let profile = status.profile.as_ref().and_then(|name| world.profiles.get(name));
    (status.slo, status.objectives_met) = objectives::summarise(world, profile);
    status.slo = error_budget::with_budgets(world, std::mem::take(&mut status.slo));
    status.missed_objectives = objectives::missed(&status.slo, &world.status.missed_objectives);
    let ready = ready_condition(world, outcome, view, stand_in.as_ref());
    let drafts = [ready, reconciling_condition(world, outcome), stalled_condition(outcome)]
        .into_iter()
        .chain(profile.and_then(attainable_condition))
        .chain(error_budget::met_condition(&status.slo, &world.budgets, world.now))
        .chain(suspended_condition(world, outcome))
        .chain(outcome.background.as_ref().map(profiling_condition))
        .chain(status.drift.iter().flat_map(|drift| drift::conditions(world, drift)))
        .chain(receivers_condition(world))
        .chain(scaling::conditions(world, status.autoscaling.as_ref()));
    status.conditions =
        drafts.map(|draft| dated(draft, &world.status.conditions, (world.generation, world.now))).collect();
    facts::record(world, outcome, status);
}

/// Pods of a canary that have traffic in the place of drained pods of the serving revision.
struct StandIn {
    revision: String,
    ready: i32,
    wanted: i32,
}

fn stand_in(world: &World, status: &AgentDeploymentStatus) -> Option<StandIn> {
    let rollout = status.rollout.as_ref().filter(|rollout| rollout.weight.is_some_and(|weight| weight > 0))?;
    rollout.capacity.as_ref().filter(|room| room.drained > 0)?;
    let revision = rollout.canary.clone()?;
    let view = world.serving.get(&revision)?;
    Some(StandIn { revision, ready: view.ready, wanted: view.wanted })
}

/// The configuration of the serving revision, unless another one is on its way.
fn served_configuration(world: &World, outcome: &Outcome) -> Option<SelectedConfiguration> {
    let serving = outcome.serving.as_deref().filter(|_| outcome.next.is_none())?;
    configuration_of(world, serving).filter(|served| world.status.selected.as_ref() != Some(served))
}

/// The configuration of a kept revision: as the status knows it, or as its plan has it.
pub fn configuration_of(world: &World, revision: &str) -> Option<SelectedConfiguration> {
    let plan = &world.revision(revision)?.plan;
    let manifest_digest = plan.engine.manifest_digest.to_string();
    let known = world.status.selected.clone().filter(|known| {
        known.engine == plan.engine.name
            && known.manifest_digest == manifest_digest
            && known.max_in_flight == plan.max_in_flight
            && known.configuration == plan.configuration
    });
    Some(known.unwrap_or_else(|| SelectedConfiguration {
        display_name: plan.engine.display_name.clone(),
        engine: plan.engine.name.clone(),
        manifest_digest,
        max_in_flight: plan.max_in_flight,
        configuration: plan.configuration.clone(),
        why: format!("kept revision {revision} has the same inputs"),
    }))
}

fn stage(outcome: &Outcome) -> Stage {
    let why = match &outcome.next {
        None => return Stage::Serving,
        Some(Step::Done(())) => return Stage::Serving,
        Some(Step::Stopped(Why::SpecRefused { .. } | Why::EngineRefused { .. } | Why::EngineUnbuildable { .. })) => {
            return Stage::Refused;
        }
        Some(Step::Stopped(Why::PlanRejected { .. })) => return Stage::RolledBack,
        Some(Step::Stopped(Why::InsufficientCapacity { .. })) => return Stage::Paused,
        Some(Step::Stopped(_)) if outcome.serving.is_some() => return Stage::Stalled,
        Some(Step::Stopped(_)) => return Stage::Failed,
        Some(Step::Waiting(why)) => why,
    };
    match why {
        Why::SpecRefused { .. } | Why::EngineRefused { .. } | Why::EngineUnbuildable { .. } => Stage::Refused,
        Why::StoreUnbound { .. } => Stage::Fetching,
        Why::JobStarting { job }
        | Why::JobUnscheduled { job, .. }
        | Why::ImageUnavailable { job, .. }
        | Why::SecretUnavailable { job, .. }
        | Why::PodsRefused { job, .. }
        | Why::JobRunning { job, .. }
        | Why::JobRetrying { job, .. }
        | Why::JobFailed { job, .. } => match job.kind {
            JobKind::Fetch => Stage::Fetching,
            JobKind::Resolve | JobKind::Build | JobKind::Quality | JobKind::Profile => Stage::Resolving,
        },
        Why::EnginesBuilding { .. }
        | Why::BuildingAgain { .. }
        | Why::CheckpointMissing { .. }
        | Why::NoEngine { .. }
        | Why::CalibrationUnusable { .. }
        | Why::DatasetUnusable { .. }
        | Why::MeasuringQuality { .. } => Stage::Building,
        Why::WorkloadUnusable { .. }
        | Why::Profiling { .. }
        | Why::ProfilingFailed { .. }
        | Why::NoFeasibleConfiguration { .. } => Stage::Profiling,
        Why::RolloutPaused { .. } | Why::RolloutWithoutPods { .. } | Why::InsufficientCapacity { .. } => Stage::Paused,
        Why::AwaitingApproval { .. } => Stage::AwaitingApproval,
        // No step waits for them.
        Why::UnknownReceiver { .. }
        | Why::ReprofilingPlanned { .. }
        | Why::ReprofilingAfterDrift { .. }
        | Why::ReprofilingBudgetUsed { .. } => Stage::Serving,
        Why::RouteUnavailable { .. } | Why::RouteContested(_) if outcome.serving.is_some() => Stage::Serving,
        Why::RevisionStarting { .. }
        | Why::RevisionFailing { .. }
        | Why::RevisionUnscheduled { .. }
        | Why::UpdatingInPlace { .. }
        | Why::RestoringStable { .. }
        | Why::CanaryJudged { .. }
        | Why::RolloutHeld(_)
        | Why::PlanRejected { .. }
        | Why::RouteUnavailable { .. }
        | Why::RouteContested(_) => Stage::RollingOut,
    }
}

fn ready_condition(world: &World, outcome: &Outcome, view: Option<&ServingView>, stand_in: Option<&StandIn>) -> Draft {
    let condition = ConditionType::Ready;
    let draft = |is_true, reason, message| Draft { condition, is_true, reason, message };
    if let (Some(revision), Some(stand_in)) = (&outcome.serving, stand_in.filter(|stand_in| stand_in.ready > 0)) {
        let message = format!(
            "revision {revision} serves with {} of {} pods, {} with {} in the place of the others",
            view.map_or(0, |view| view.ready),
            world.replicas(),
            stand_in.revision,
            stand_in.ready
        );
        return draft(true, Reason::Serving, message);
    }
    match (&outcome.serving, view) {
        (Some(revision), Some(view)) if view.ready > 0 => {
            let message = format!("revision {revision} serves with {} of {} pods", view.ready, world.replicas());
            draft(true, Reason::Serving, message)
        }
        (Some(revision), _) if world.replicas() == 0 => {
            draft(false, Reason::NotServing, format!("revision {revision} is scaled to 0: set spec.serving.replicas"))
        }
        (Some(revision), _) => draft(false, Reason::NotServing, format!("no pod of revision {revision} is ready")),
        (None, _) => match &outcome.next {
            Some(Step::Waiting(why) | Step::Stopped(why)) => draft(false, why.reason(), why.to_string()),
            Some(Step::Done(())) | None => draft(false, Reason::NotServing, "no revision serves yet".to_owned()),
        },
    }
}

/// Whether some configuration meets every objective; absent until a campaign has said so.
fn attainable_condition(profile: &ProfileStatus) -> Option<Draft> {
    let condition = ConditionType::SLOAttainable;
    let (is_true, reason) = match profile.phase? {
        ProfilePhase::Chosen => (true, Reason::ConfigurationFound),
        ProfilePhase::Infeasible => (false, Reason::NoFeasibleConfiguration),
        ProfilePhase::Exploring | ProfilePhase::Confirming | ProfilePhase::Failed => return None,
    };
    let answer = profile.infeasible.as_ref().map(|infeasible| infeasible.what_it_would_take.clone());
    let why = profile.choice.as_ref().map(|choice| choice.why.clone());
    let message = answer.or(why).unwrap_or_else(|| profile.message.clone());
    Some(Draft { condition, is_true, reason, message })
}

/// What a person must say before anything goes on.
pub(super) fn left_to_people<'a>(world: &World, outcome: &'a Outcome) -> Option<&'a Why> {
    let Some(Step::Waiting(why)) = &outcome.next else { return None };
    let is_inconclusive = world.spec.rollout.on_inconclusive == OnInconclusive::Pause;
    let waits = match why {
        Why::RolloutPaused { .. }
        | Why::RolloutWithoutPods { .. }
        | Why::RolloutHeld(_)
        | Why::AwaitingApproval { .. } => true,
        Why::CanaryJudged { reason: Reason::VerdictUnreachable, .. } => is_inconclusive,
        _ => false,
    };
    waits.then_some(why)
}

/// A rollout that goes on only when a person says so; absent otherwise.
fn suspended_condition(world: &World, outcome: &Outcome) -> Option<Draft> {
    left_to_people(world, outcome).map(|why| Draft {
        condition: ConditionType::Suspended,
        is_true: true,
        reason: why.reason(),
        message: why.to_string(),
    })
}

fn profiling_condition(background: &Background) -> Draft {
    let (is_true, why) = match background {
        Background::Measuring(why) => (true, why),
        Background::Idle(why) => (false, why),
    };
    Draft { condition: ConditionType::Profiling, is_true, reason: why.reason(), message: why.to_string() }
}

fn reconciling_condition(world: &World, outcome: &Outcome) -> Draft {
    let condition = ConditionType::Reconciling;
    match &outcome.next {
        Some(Step::Waiting(why)) if left_to_people(world, outcome).is_none() => {
            Draft { condition, is_true: true, reason: why.reason(), message: why.to_string() }
        }
        // Nothing goes on by itself before somebody has looked at it.
        Some(Step::Waiting(_) | Step::Stopped(_) | Step::Done(())) | None => {
            Draft { condition, is_true: false, reason: Reason::UpToDate, message: "nothing is under way".to_owned() }
        }
    }
}

fn stalled_condition(outcome: &Outcome) -> Draft {
    let condition = ConditionType::Stalled;
    match &outcome.next {
        Some(Step::Stopped(why)) => Draft { condition, is_true: true, reason: why.reason(), message: why.to_string() },
        Some(Step::Waiting(_) | Step::Done(())) | None => Draft {
            condition,
            is_true: false,
            reason: Reason::UpToDate,
            message: "nothing stands in the way".to_owned(),
        },
    }
}

/// Whether everyone who is to be told is known; absent where nobody is to be told.
fn receivers_condition(world: &World) -> Option<Draft> {
    let condition = ConditionType::ReceiversResolved;
    if world.spec.alerts.receivers.is_empty() {
        return None;
    }
    let known = || format!("{} are told what happens", world.spec.alerts.receivers.join(", "));
    Some(unknown_receivers(world).map_or_else(
        || Draft { condition, is_true: true, reason: Reason::ReceiversKnown, message: known() },
        |why| Draft { condition, is_true: false, reason: why.reason(), message: why.to_string() },
    ))
}

/// Receivers that the operator's configuration lacks.
pub fn unknown_receivers(world: &World) -> Option<Why> {
    let notifications = &world.settings.notifications;
    let unknown = world.spec.alerts.receivers.iter().filter(|name| !notifications.knows(name));
    let unknown: Vec<String> = unknown.cloned().collect();
    let known = notifications.receivers.iter().map(|receiver| receiver.name.clone()).collect();
    (!unknown.is_empty()).then_some(Why::UnknownReceiver { unknown, known })
}
