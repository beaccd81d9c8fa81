//! One reconciliation of an AgentDeployment. A table of contents.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::controller::Action};
use slipway_crds::v1alpha1::{AgentDeployment, AgentDeploymentStatus};
use slipway_operator_core::{
    agent_deployment::{decide, figures},
    plan::{Child, Plan},
};

use super::observe::{self, Observed, Sources};
use crate::{
    kube_io::read::Reader,
    reconcile::{Context, ReconcileError, carry_out},
};

/// Glances at what watches have shown. Where that leaves something to be done: observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<AgentDeployment>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let has_canary = observe::has_canary(&object);
    let at_a_glance = context.turns.glance(&object.namespace().unwrap_or_default(), has_canary).await;
    let glanced = Box::pin(glance(&object, &context)).await;
    // Whoever waits for a turn at the API server keeps nobody from glancing.
    drop(at_a_glance);
    if let Glanced::AtRest(action) = glanced {
        return Ok(action);
    }
    if let Glanced::Figures(object, plan) = glanced {
        let _turn = context.turns.take(has_canary).await;
        return carry_out(&context, object.as_ref(), object.status.as_ref(), *plan).await;
    }
    let _turn = context.turns.take(has_canary).await;
    Box::pin(look(object, context.clone())).await
}

/// Observes on the API server, decides and carries out.
async fn look(object: Arc<AgentDeployment>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let sources = sources(&context, &context.reader);
    let observed = observe::observe(sources, &namespace, &object.name_any()).await.map_err(ReconcileError::Observe)?;
    let uid = object.uid().unwrap_or_default();
    let Some(Observed { object, mut world, room }) = observed else {
        context.notifier.forget(&uid);
        return Ok(Action::requeue(Duration::from_secs(3600)));
    };
    world.settled = context.notifier.settled(&world.owner.uid);
    let plan = decide::decide(&world).map_err(ReconcileError::Decide)?;
    // Nothing that was counted is needed while requests are answered.
    drop((world, room));
    carry_out(&context, &object, object.status.as_ref(), plan).await
}

fn sources<'a>(context: &'a Context, reader: &'a Reader) -> Sources<'a> {
    let Context { pods, prometheus, settings, clock, .. } = context;
    Sources { reader, pods, prometheus: prometheus.as_ref(), settings, clock: *clock }
}

/// What caches show.
enum Glanced {
    /// There is nothing to do.
    AtRest(Action),
    /// Nothing but figures is to be written.
    Figures(Box<AgentDeployment>, Box<Plan<AgentDeploymentStatus>>),
    /// More is to be done, or caches cannot be read.
    Unclear,
}

async fn glance(object: &AgentDeployment, context: &Context) -> Glanced {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let Some(reader) = context.glance() else { return Glanced::Unclear };
    let observed = observe::observe(sources(context, &reader), &namespace, &name).await;
    let Ok(Some(Observed { object, mut world, .. })) = observed else { return Glanced::Unclear };
    world.settled = context.notifier.settled(&world.owner.uid);
    let Ok(plan) = decide::decide(&world) else { return Glanced::Unclear };
    if context.is_at_rest(&object, object.status.as_ref(), &plan) {
        return Glanced::AtRest(Action::requeue(plan.requeue));
    }
    let lacking: Vec<Child> = context.lacking(&object, &plan).cloned().collect();
    match &object.status {
        Some(before) if figures::are_all(&name, before, &plan, &lacking) => {
            Glanced::Figures(Box::new(object), Box::new(Plan { children: lacking, ..plan }))
        }
        Some(_) | None => Glanced::Unclear,
    }
}
