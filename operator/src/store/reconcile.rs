//! One reconciliation of a store: observe, decide, and the table of what follows.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, runtime::controller::Action};
use slipway_crds::{conditions::Reason, store::StoreRecord};
use slipway_operator_core::{
    plan::{Child, Note, Plan},
    store::{decide, world::StoreWorld},
};
use slipway_vocabulary::failure::chain;
use tracing::info;

use super::observe;
use crate::{
    kube_io::{
        apply::{self, Ground, Target},
        looked::Looked,
    },
    reconcile::{Context, ReconcileError, key},
};

/// Observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<PersistentVolumeClaim>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let (reader, looked) = context.reader.looking();
    let observed = observe::observe((&context, &reader), &namespace).await.map_err(ReconcileError::Observe)?;
    let Some((claim, world)) = observed else { return Ok(Action::requeue(Duration::from_secs(3600))) };
    let plan = decide::decide(&world);
    carry_out(&context, (&claim, &world), plan, &looked).await
}

/// Carries a plan out: the record, events, children, removals. The record is a ConfigMap, which has no status that
/// could be refused because of a later version; nobody but the leader writes it.
async fn carry_out(
    context: &Context,
    (claim, world): (&PersistentVolumeClaim, &StoreWorld),
    plan: Plan<StoreRecord>,
    looked: &Looked,
) -> Result<Action, ReconcileError> {
    // No `..`: a new part of a plan must be carried out here. Receivers are told nothing of stores.
    let Plan { children, removals, status, notes, announcements: _, requeue } = plan;
    let recorded = (status != world.record).then(|| Child::ConfigMap(Box::new(decide::record_object(world, &status))));
    let apply = async |child: &Child| {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        let Context { client, applied, .. } = context;
        let target = Target { client, applied, ground: Ground::Looked(looked), namespace: &world.namespace };
        let applied = apply::apply(target, child).await;
        if let Err(error) = &applied {
            // A quota or an admission policy: people look at the claim, not at our log.
            let note = Note::warning(Reason::ApplyFailed, chain(error));
            drop(context.recorder.publish(claim, &[note]).await);
        }
        applied.map_err(ReconcileError::Apply)
    };
    if let Some(record) = &recorded {
        apply(record).await?;
    }
    context.metrics.store_recorded(&world.namespace, &status);
    let told = context.recorder.publish(claim, &notes).await.map_err(ReconcileError::Record);
    for note in &notes {
        info!(namespace = world.namespace, reason = note.reason.as_str(), "{}", note.message);
    }
    for child in &children {
        apply(child).await?;
    }
    for removal in &removals {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        let removed = apply::remove(&context.client, &context.applied, &world.namespace, removal).await;
        removed.map_err(ReconcileError::Apply)?;
    }
    told?;
    context.failures.forget(&key(claim));
    Ok(Action::requeue(requeue))
}
