//! One reconciliation of an Engine: observe and the table of contents.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt, runtime::controller::Action};
use slipway_crds::{labels, v1alpha1::Engine};
use slipway_operator_core::{
    engine::{decide, world::EngineWorld},
    jobs::view::job_views,
    settings::Settings,
};

use crate::{
    kube_io::read::{ReadError, Reader},
    reconcile::{Context, ReconcileError, carry_out},
};

/// Observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<Engine>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let observed = observe_engine(&context.reader, &context.settings, &namespace, &object.name_any())
        .await
        .map_err(ReconcileError::Observe)?;
    let Some((object, world)) = observed else { return Ok(Action::requeue(Duration::from_secs(3600))) };
    let plan = decide::decide(&world);
    carry_out(&context, &object, object.status.as_ref(), plan).await
}

async fn observe_engine(
    reader: &Reader,
    settings: &Arc<Settings>,
    namespace: &str,
    name: &str,
) -> Result<Option<(Engine, EngineWorld)>, ReadError> {
    let Some(object) = reader.get::<Engine>(namespace, name).await? else { return Ok(None) };
    let Some(owner) = object.controller_owner_ref(&()).filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let mine = format!("{}={name}", labels::ENGINE);
    let jobs = reader.list::<Job>(namespace, &mine).await?;
    let pods = reader.list::<Pod>(namespace, &mine).await?;
    let world = EngineWorld {
        now: Timestamp::now(),
        settings: settings.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        generation: object.metadata.generation.unwrap_or_default(),
        owner,
        spec: object.spec.clone(),
        status: object.status.clone().unwrap_or_default(),
        jobs: job_views(&jobs, &pods),
    };
    Ok(Some((object, world)))
}
