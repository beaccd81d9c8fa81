//! One reconciliation of an Engine: observe and the table of contents.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt, runtime::controller::Action};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::Engine,
};
use slipway_operator_core::{
    engine::{
        decide, lost,
        world::{EngineWorld, Use},
    },
    jobs::view,
    plan::AT_ONCE,
};
use slipway_worker_contract::FailureClass;

use crate::kube_io::neighbours::Neighbours;
use crate::{
    kube_io::{
        apply::Ground,
        jobs::job_views,
        read::{ReadError, Reader},
    },
    reconcile::{Context, ReconcileError, carry_out},
};

/// Glances at what watches have shown. Where that leaves something to be done: observes, decides and carries out.
///
/// # Errors
/// When the API server does not answer or refuses; the controller tries again with a growing back-off.
pub async fn reconcile(object: Arc<Engine>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    if let Some(action) = glance(&object, &context).await {
        return Ok(action);
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (reader, looked) = context.reader.looking();
    let read = (&reader, &context.neighbours);
    let observed = observe_engine(&context, read, (&namespace, &name)).await.map_err(ReconcileError::Observe)?;
    let Some((mut object, mut world)) = observed else { return Ok(Action::requeue(Duration::from_secs(3600))) };
    let (mut plan, ground) = (decide::decide(&world), Ground::Looked(&looked));
    // Of a first attempt there is one Job, whatever lists have shown. A further one waits for another look.
    if plan.requeue == AT_ONCE && world.status.attempts.is_empty() {
        let carried = carry_out(&context, (&object, object.status.as_ref()), plan, ground).await?;
        let Some(recorded) = carried.recorded else { return Ok(carried.action) };
        world.status = recorded.status.clone().unwrap_or_default();
        world.resource_version = recorded.resource_version().unwrap_or_default();
        object = recorded;
        plan = decide::decide(&world);
    }
    Ok(carry_out(&context, (&object, object.status.as_ref()), plan, ground).await?.action)
}

/// When to look again, if caches show that there is nothing to do.
async fn glance(object: &Engine, context: &Context) -> Option<Action> {
    let (reader, namespace) = (context.glance()?, object.namespace().unwrap_or_default());
    let read = (&reader, &context.glanced_neighbours);
    let (object, world) = observe_engine(context, read, (&namespace, &object.name_any())).await.ok()??;
    let plan = decide::decide(&world);
    context.is_at_rest(&object, object.status.as_ref(), &plan).then(|| Action::requeue(plan.requeue))
}

async fn observe_engine(
    context: &Context,
    (reader, neighbours): (&Reader, &Neighbours),
    (namespace, name): (&str, &str),
) -> Result<Option<(Engine, EngineWorld)>, ReadError> {
    let Context { settings, .. } = context;
    let Some(object) = reader.get::<Engine>(namespace, name).await? else { return Ok(None) };
    let Some(owner) = object.controller_owner_ref(&()).filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let mine = format!("{}={name}", labels::ENGINE);
    let jobs = reader.list::<Job>(namespace, &mine).await?;
    let pods = reader.list::<Pod>(namespace, &mine).await?;
    let status = object.status.clone().unwrap_or_default();
    let missed_at = match &status.artifact {
        Some(_) => lost::missed_at(&neighbours.missed(reader, namespace).await?, name, &status),
        None => None,
    };
    let fetched_at = match status.attempts.last().and_then(|attempt| attempt.failure.as_ref()) {
        Some(failure) if failure.class == FailureClass::MissingArtifact => {
            fetched_at(reader, namespace, &object.spec.build.source_digest).await?
        }
        Some(_) | None => None,
    };
    let world = EngineWorld {
        now: (context.clock)(),
        settings: settings.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        generation: object.metadata.generation.unwrap_or_default(),
        owner,
        spec: object.spec.clone(),
        status,
        jobs: job_views(reader, namespace, (&jobs, &pods), |_| true).await?,
        resource_version: object.resource_version().unwrap_or_default(),
        used: use_of(reader, neighbours, &object).await?,
        missed_at,
        fetched_at,
    };
    Ok(Some((object, world)))
}

fn ours() -> String {
    format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY)
}

/// When the checkpoint was last fetched, by whomever of the namespace.
async fn fetched_at(reader: &Reader, namespace: &str, source_digest: &str) -> Result<Option<Timestamp>, ReadError> {
    let fetches = format!("{},{}={}", ours(), labels::APP_COMPONENT, Component::Fetch.as_str());
    let jobs = reader.list::<Job>(namespace, &fetches).await?;
    let pods = reader.list::<Pod>(namespace, &fetches).await?;
    Ok(lost::fetched_at(&view::job_views(&jobs, &pods), source_digest))
}

/// Whether anybody names an Engine; nobody knows of one that is not ours.
async fn use_of(reader: &Reader, neighbours: &Neighbours, object: &Engine) -> Result<Use, ReadError> {
    let is_ours = object.labels().get(labels::APP_MANAGED_BY).is_some_and(|manager| manager == labels::MANAGED_BY);
    if !is_ours {
        return Ok(Use::Unknown);
    }
    neighbours.use_of(reader, &object.namespace().unwrap_or_default(), &object.name_any()).await
}
