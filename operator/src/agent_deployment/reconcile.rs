//! One reconciliation of an AgentDeployment. A table of contents.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::controller::Action};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_operator_core::agent_deployment::decide;

use super::observe::{self, Sources};
use crate::reconcile::{Context, ReconcileError, carry_out};

/// Observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<AgentDeployment>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let sources = Sources {
        reader: &context.reader,
        http: &context.http,
        prometheus: context.prometheus.as_ref(),
        settings: &context.settings,
        clock: context.clock,
    };
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
