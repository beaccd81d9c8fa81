//! The status of an AgentDeployment: stage, conditions, counts. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    labels,
    v1alpha1::{
        AgentDeploymentStatus, ProfileStatus,
        agent_deployment::{SelectedArtifact, SelectedConfiguration, Stage, Upstream},
        profile::ProfilePhase,
        shared::ServingConfiguration,
    },
};
use slipway_selection::uncompared::uncompared;

use super::{
    defaults, facts,
    monitoring::{drift, error_budget, objectives, scaling, self_check},
    outcome::{Background, Outcome, invalid_commands, left_to_people, unknown_receivers},
    rollout::revision::{Served, ServedArtifact},
    world::{ServingView, World},
};
use crate::{
    conditions::{Answer, Draft, dated},
    jobs::kind::JobKind,
    why::{Blocked, Why},
};

/// The status with everything that follows from the outcome.
pub fn complete(world: &World, outcome: &Outcome, found: AgentDeploymentStatus) -> AgentDeploymentStatus {
    let view = outcome.serving.as_ref().and_then(|revision| world.serving.get(revision));
    let stand_in = stand_in(world, &found);
    let ready = view.map_or(0, |view| view.ready) + stand_in.as_ref().map_or(0, |stand_in| stand_in.ready);
    let profile = found.profile.as_ref().and_then(|name| world.profiles.get(name));
    let (slo, tally) = objectives::summarise(world, profile);
    let slo = error_budget::with_budgets(world, slo);
    let selector =
        |revision: &String| format!("{}={},{}={revision}", labels::AGENT_DEPLOYMENT, world.name, labels::REVISION);
    let status = AgentDeploymentStatus {
        observed_generation: Some(world.generation),
        replicas: view.map_or(0, |view| view.wanted) + stand_in.as_ref().map_or(0, |stand_in| stand_in.wanted),
        ready_replicas: Some(format!("{ready}/{}", world.replicas())),
        ready_pods: Some(ready),
        wanted_pods: Some(world.replicas()),
        selector: outcome.serving.as_ref().map(selector),
        stage: Some(stage(outcome)),
        selected: served_configuration(world, outcome).or(found.selected),
        missed_objectives: objectives::missed(&slo, &world.status.missed_objectives),
        slo,
        objectives_met: tally.map(|tally| tally.to_string()),
        observed_objectives: tally.map(|tally| tally.observed),
        met_objectives: tally.map(|tally| tally.met),
        ..found
    };
    let ready = ready_condition(world, outcome, view, stand_in.as_ref());
    let conditions = conditions(world, outcome, (&status, profile), ready);
    let told = facts::recorded(world, outcome, &status);
    AgentDeploymentStatus { conditions, told, ..status }
}

fn conditions(
    world: &World,
    outcome: &Outcome,
    (status, profile): (&AgentDeploymentStatus, Option<&ProfileStatus>),
    ready: Draft,
) -> Vec<Condition> {
    let elsewhere = world.spec.upstream().map(not_measured);
    let drafts = [ready, reconciling_condition(world, outcome), stalled_condition(outcome)]
        .into_iter()
        .chain(profile.filter(|_| elsewhere.is_none()).and_then(attainable_condition))
        .chain(uncompared_condition(world))
        .chain(error_budget::met_condition(&status.slo, &world.budgets, world.now))
        .chain(suspended_condition(world, outcome))
        .chain(outcome.background.as_ref().map(profiling_condition))
        .chain(status.drift.iter().flat_map(|drift| drift::conditions(world, drift)))
        .chain(receivers_condition(world))
        .chain(scaling::conditions(world, status.autoscaling.as_ref()))
        .chain(invalid_commands(world).map(invalid_condition));
    let trusted = status.self_check.as_ref().map(|known| self_check::condition(&world.spec, known));
    let answers = drafts.map(Answer::from).chain(trusted).chain(elsewhere);
    answers.map(|answer| dated(answer, &world.status.conditions, (world.generation, world.now))).collect()
}

/// Canary pods with traffic that replace drained pods of the serving revision.
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
    let (artifact, configuration) = match &plan.served {
        Served::Artifact(ServedArtifact { engine, configuration, .. }) => {
            let (engine, manifest_digest) = (engine.name.clone(), engine.manifest_digest.to_string());
            (Some(SelectedArtifact { engine, manifest_digest }), configuration.clone())
        }
        Served::Upstream(_) => (None, ServingConfiguration::default()),
    };
    let display_name = plan.served.display_name();
    let known = world.status.selected.clone().filter(|known| {
        // Engines of one name in two releases are told apart by their artifacts, upstreams by their names.
        let is_served = artifact.is_some() || known.display_name == display_name;
        is_served
            && known.artifact == artifact
            && known.max_in_flight == plan.max_in_flight
            && known.configuration == configuration
    });
    Some(known.unwrap_or_else(|| SelectedConfiguration {
        display_name,
        artifact,
        max_in_flight: plan.max_in_flight,
        configuration,
        cost: None,
        why: format!("kept revision {revision} has the same inputs"),
    }))
}

fn stage(outcome: &Outcome) -> Stage {
    let why = match &outcome.next {
        None => return Stage::Serving,
        Some(Blocked::Stopped(Why::SpecRefused { .. } | Why::EngineRefused { .. } | Why::EngineUnbuildable { .. })) => {
            return Stage::Refused;
        }
        Some(Blocked::Stopped(Why::PlanRejected(_))) => return Stage::RolledBack,
        Some(Blocked::Stopped(Why::InsufficientCapacity { .. })) => return Stage::Paused,
        Some(Blocked::Stopped(_)) if outcome.serving.is_some() => return Stage::Stalled,
        Some(Blocked::Stopped(_)) => return Stage::Failed,
        Some(Blocked::Waiting(why)) => why,
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
        | Why::PriorUnusable { .. }
        | Why::Profiling { .. }
        | Why::ProfilingFailed { .. }
        | Why::NoFeasibleConfiguration { .. } => Stage::Profiling,
        Why::RolloutPaused { .. } | Why::RolloutWithoutPods { .. } | Why::InsufficientCapacity { .. } => Stage::Paused,
        Why::AwaitingApproval(_) => Stage::AwaitingApproval,
        // No step waits for them.
        Why::UnknownReceiver { .. }
        | Why::CommandInvalid { .. }
        | Why::ReprofilingPlanned { .. }
        | Why::ReprofilingAfterDrift { .. }
        | Why::ReprofilingBudgetUsed { .. } => Stage::Serving,
        Why::RouteUnavailable { .. } | Why::RouteContested(_) if outcome.serving.is_some() => Stage::Serving,
        Why::RevisionStarting { .. }
        | Why::RevisionFailing { .. }
        | Why::PreflightFailed(_)
        | Why::RevisionUnscheduled { .. }
        | Why::UpdatingInPlace { .. }
        | Why::RestoringStable { .. }
        | Why::CanaryJudged { .. }
        | Why::RolloutHeld(_)
        | Why::PlanRejected(_)
        | Why::RouteUnavailable { .. }
        | Why::RouteContested(_) => Stage::RollingOut,
    }
}

fn ready_condition(world: &World, outcome: &Outcome, view: Option<&ServingView>, stand_in: Option<&StandIn>) -> Draft {
    let condition = ConditionType::Ready;
    let draft = |is_true, reason, message| Draft { condition, is_true, reason, message };
    if let (Some(revision), Some(stand_in)) = (&outcome.serving, stand_in.filter(|stand_in| stand_in.ready > 0)) {
        let message = format!(
            "revision {revision} serves with {} of {} pods, and {} with {} in place of the others",
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
            Some(Blocked::Waiting(why) | Blocked::Stopped(why)) => draft(false, why.reason(), why.to_string()),
            None => draft(false, Reason::NotServing, "no revision serves yet".to_owned()),
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

/// Present only while the driver does not measure an objective.
fn uncompared_condition(world: &World) -> Option<Draft> {
    let message = uncompared(&world.spec, defaults::driver(world)?)?.to_string();
    let (condition, reason) = (ConditionType::ObjectivesUncompared, Reason::NotMeasuredByDriver);
    Some(Draft { condition, is_true: true, reason, message })
}

/// What engines are measured for is not known of a server elsewhere before it has traffic.
fn not_measured(upstream: &Upstream) -> Answer {
    let what = upstream.display_name();
    let message = format!("{what} is not measured before it serves: status.slo has what its traffic shows");
    Answer { condition: ConditionType::SLOAttainable, holds: None, reason: Reason::ServedElsewhere, message }
}

/// A rollout that continues only when a person says so; absent otherwise.
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
        Some(Blocked::Waiting(why)) if left_to_people(world, outcome).is_none() => {
            Draft { condition, is_true: true, reason: why.reason(), message: why.to_string() }
        }
        // Nothing continues by itself before a person has looked at it.
        Some(Blocked::Waiting(_) | Blocked::Stopped(_)) | None => {
            Draft { condition, is_true: false, reason: Reason::UpToDate, message: "nothing is in progress".to_owned() }
        }
    }
}

fn stalled_condition(outcome: &Outcome) -> Draft {
    let condition = ConditionType::Stalled;
    match &outcome.next {
        Some(Blocked::Stopped(why)) => {
            Draft { condition, is_true: true, reason: why.reason(), message: why.to_string() }
        }
        Some(Blocked::Waiting(_)) | None => {
            Draft { condition, is_true: false, reason: Reason::UpToDate, message: "nothing blocks progress".to_owned() }
        }
    }
}

/// Present only while an annotation names an unknown command, or no plan.
fn invalid_condition(why: Why) -> Draft {
    let condition = ConditionType::CommandInvalid;
    Draft { condition, is_true: true, reason: why.reason(), message: why.to_string() }
}

/// Whether all named receivers are known; absent if the spec names no receiver.
fn receivers_condition(world: &World) -> Option<Draft> {
    let condition = ConditionType::ReceiversResolved;
    if world.spec.alerts.receivers.is_empty() {
        return None;
    }
    let known = || format!("{} are notified of events", world.spec.alerts.receivers.join(", "));
    Some(unknown_receivers(world).map_or_else(
        || Draft { condition, is_true: true, reason: Reason::ReceiversKnown, message: known() },
        |why| Draft { condition, is_true: false, reason: why.reason(), message: why.to_string() },
    ))
}
