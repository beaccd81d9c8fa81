//! One reconciliation of an AgentDeployment. A table of contents.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, runtime::controller::Action};
use slipway_crds::v1alpha1::{AgentDeployment, AgentDeploymentStatus};
use slipway_operator_core::{
    agent_deployment::{at_once, decide, figures, monitoring::drift::config_map::object_name},
    plan::{Child, Plan},
};
use tokio_util::sync::CancellationToken;

use super::observe::{self, Observed, Sources};
use crate::{
    kube_io::{
        apply::{Ground, Seen},
        read::Reader,
    },
    reconcile::{Context, ReconcileError, carry_out},
    turns::Phase,
};

/// When figures are looked at again for which there was no turn.
const LATER: Duration = Duration::from_secs(10);
/// How often a glance hears the pods: once more where others are to be asked by the time that they have answered.
const HEARINGS: usize = 2;

/// Glances at what watches have shown. Where that leaves something to be done: observes, decides and carries out. Once
/// the process is ending, nothing is begun, and nothing waits any longer.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(
    object: Arc<AgentDeployment>,
    context: Arc<Context>,
    ending: CancellationToken,
) -> Result<Action, ReconcileError> {
    let agent = Agent::of(&object);
    // Who waits takes no memory.
    drop(object);
    let Some(glanced) = ending.run_until_cancelled(Box::pin(glance(&agent, &context))).await else {
        return Ok(Action::await_change());
    };
    match glanced {
        Glanced::AtRest(action) => return Ok(action),
        Glanced::Figures { object, plan, seen } => {
            // Figures do not wait either: they are the same, or better, a while later.
            let later = Action::requeue(LATER.min(plan.requeue));
            let Some(_turn) = context.turns.take_now(&agent.namespace, agent.phase) else { return Ok(later) };
            let observed = (object.as_ref(), object.status.as_ref());
            let carried = carry_out(&context, observed, *plan, Ground::Glanced(&seen)).await?;
            return Ok(carried.action);
        }
        Glanced::Unclear => {}
    }
    let Some(_turn) = ending.run_until_cancelled(context.turns.take(&agent.namespace, agent.phase)).await else {
        return Ok(Action::await_change());
    };
    Box::pin(look(agent, context.clone(), ending)).await
}

/// Which agent it is.
struct Agent {
    namespace: String,
    name: String,
    uid: String,
    phase: Phase,
}

impl Agent {
    fn of(object: &AgentDeployment) -> Self {
        let (namespace, uid) = (object.namespace().unwrap_or_default(), object.uid().unwrap_or_default());
        let phase = match &object.status {
            _ if observe::has_canary(object) => Phase::Canary,
            Some(status) if status.rollout.is_some() => Phase::Serving,
            Some(_) => Phase::Beginning,
            None => Phase::New,
        };
        Self { namespace, name: object.name_any(), uid, phase }
    }
}

/// Observes on the API server, decides and carries out. Once the first attempt of a Job is in the status, its Job may
/// follow on the same observation.
async fn look(agent: Agent, context: Arc<Context>, ending: CancellationToken) -> Result<Action, ReconcileError> {
    let Agent { namespace, name, uid, .. } = &agent;
    let (reader, looked) = context.reader.looking();
    let sources = sources(&context, &reader);
    let observed = Box::pin(observe::observe(sources, (namespace, name), None));
    let Some(observed) = ending.run_until_cancelled(observed).await else { return Ok(Action::await_change()) };
    let Some(Observed { mut object, mut world, room, .. }) = observed.map_err(ReconcileError::Observe)? else {
        context.notifier.forget(uid);
        return Ok(Action::requeue(Duration::from_secs(3600)));
    };
    world.settled = context.notifier.settled(&world.owner.uid);
    let ground = Ground::Looked(&looked);
    let mut plan = decide::decide(&world).map_err(ReconcileError::Decide)?;
    if at_once::follows(&world, &plan) {
        let carried = carry_out(&context, (&object, object.status.as_ref()), plan, ground).await?;
        let Some(recorded) = carried.recorded else { return Ok(carried.action) };
        world.status = recorded.status.clone().unwrap_or_default();
        object = recorded;
        plan = decide::decide(&world).map_err(ReconcileError::Decide)?;
    }
    // Nothing that was counted is needed while requests are answered.
    drop((world, room));
    Ok(carry_out(&context, (&object, object.status.as_ref()), plan, ground).await?.action)
}

fn sources<'a>(context: &'a Context, reader: &'a Reader) -> Sources<'a> {
    let Context { pods, http, prometheus, settings, clock, .. } = context;
    Sources { reader, pods, http, prometheus: prometheus.as_ref(), settings, clock: *clock }
}

/// What caches show.
enum Glanced {
    /// There is nothing to do.
    AtRest(Action),
    /// Nothing but figures is to be written.
    Figures {
        /// As it was seen.
        object: Box<AgentDeployment>,
        /// What is to be written.
        plan: Box<Plan<AgentDeploymentStatus>>,
        /// Over which versions.
        seen: Seen,
    },
    /// More is to be done, or caches cannot be read.
    Unclear,
}

async fn glance(agent: &Agent, context: &Context) -> Glanced {
    let Agent { namespace, name, phase, .. } = agent;
    let Some(reader) = context.glance() else { return Glanced::Unclear };
    let sources = sources(context, &reader);
    for _ in 0..HEARINGS {
        let Ok(Some(heard)) = observe::hear(sources, namespace, name).await else { return Glanced::Unclear };
        // Whoever waits for pods, or for a turn at the API server, keeps nobody from glancing.
        let _at_a_glance = context.turns.glance(namespace, *phase).await;
        match observe::observe(sources, (namespace, name), Some(heard)).await {
            Ok(Some(observed)) => return glanced(agent, context, observed),
            Ok(None) => {}
            Err(_) => return Glanced::Unclear,
        }
    }
    Glanced::Unclear
}

/// What is to be done about what was glanced at.
fn glanced(Agent { namespace, name, .. }: &Agent, context: &Context, observed: Observed) -> Glanced {
    let Observed { object, mut world, room, memory_version } = observed;
    world.settled = context.notifier.settled(&world.owner.uid);
    let Ok(plan) = decide::decide(&world) else { return Glanced::Unclear };
    let is_whole = world.are_all_heard;
    drop((world, room));
    if context.is_at_rest(&object, object.status.as_ref(), &plan) {
        return Glanced::AtRest(Action::requeue(plan.requeue));
    }
    let lacking: Vec<Child> = context.lacking(&object, &plan).cloned().collect();
    let are_figures = object.status.as_ref().is_some_and(|before| figures::are_all(name, before, &plan, &lacking));
    if !are_figures {
        return Glanced::Unclear;
    }
    // Those of some pods alone would be others a moment later.
    if !is_whole {
        return Glanced::AtRest(Action::requeue(LATER.min(plan.requeue)));
    }
    // A memory that lacks what was written last would be continued from there.
    let is_latest = |version: &String| context.applied.has_version::<ConfigMap>(namespace, &object_name(name), version);
    if !lacking.is_empty() && !memory_version.as_ref().is_some_and(is_latest) {
        return Glanced::Unclear;
    }
    let seen = memory_version.map(|version| (("ConfigMap".to_owned(), object_name(name)), version));
    let plan = Box::new(Plan { children: lacking, ..plan });
    Glanced::Figures { object: Box::new(object), plan, seen: seen.into_iter().collect() }
}
