//! One reconciliation of an AgentDeployment. A table of contents.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::controller::Action};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_operator_core::agent_deployment::decide;

use super::observe::{self, Sources};
use crate::{
    kube_io::read::Reader,
    reconcile::{Context, ReconcileError, carry_out},
};

/// Glances at what watches have shown. Where that leaves something to be done: observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<AgentDeployment>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    if let Some(action) = glance(&object, &context).await {
        return Ok(action);
    }
    let _turn = context.turns.take(observe::has_canary(&object)).await;
    let namespace = object.namespace().unwrap_or_default();
    let sources = sources(&context, &context.reader);
    let observed = observe::observe(sources, &namespace, &object.name_any()).await.map_err(ReconcileError::Observe)?;
    let uid = object.uid().unwrap_or_default();
    let Some((object, mut world)) = observed else {
        context.notifier.forget(&uid);
        return Ok(Action::requeue(Duration::from_secs(3600)));
    };
    world.settled = context.notifier.settled(&world.owner.uid);
    let plan = decide::decide(&world).map_err(ReconcileError::Decide)?;
    carry_out(&context, &object, object.status.as_ref(), plan).await
}

fn sources<'a>(context: &'a Context, reader: &'a Reader) -> Sources<'a> {
    let Context { pods, prometheus, settings, clock, .. } = context;
    Sources { reader, pods, prometheus: prometheus.as_ref(), settings, clock: *clock }
}

/// When to look again, if caches show that there is nothing to do.
async fn glance(object: &AgentDeployment, context: &Context) -> Option<Action> {
    let reader = context.glance()?;
    let namespace = object.namespace().unwrap_or_default();
    let observed = observe::observe(sources(context, &reader), &namespace, &object.name_any()).await;
    let (object, mut world) = observed.ok()??;
    world.settled = context.notifier.settled(&world.owner.uid);
    let plan = decide::decide(&world).ok()?;
    context.is_at_rest(&object, object.status.as_ref(), &plan).then(|| Action::requeue(plan.requeue))
}
