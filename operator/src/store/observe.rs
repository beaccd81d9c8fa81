//! Reads everything that a decision on a store needs. Reads IO.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{ResourceExt, core::DeserializeGuard};
use slipway_crds::{
    labels::{self, Component},
    store::{KEY, NAME, StoreRecord, VERSION},
    v1alpha1::Engine,
};
use slipway_operator_core::store::{
    references::{Namespace, References},
    world::{SeenJob, SeenTask, StoreWorld},
};
use tracing::warn;

use crate::{
    kube_io::{
        jobs::job_views,
        neighbours,
        read::{ReadError, Reader},
    },
    reconcile::Context,
};

/// Observes the store of a namespace as it is now; absent where there is none of ours, and where its record is of a
/// later version.
///
/// # Errors
/// When the API server does not answer.
pub(super) async fn observe(
    (context, reader): (&Context, &Reader),
    namespace: &str,
) -> Result<Option<(PersistentVolumeClaim, StoreWorld)>, ReadError> {
    let Context { settings, clock, .. } = context;
    let Some(claim) = reader.get::<PersistentVolumeClaim>(namespace, NAME).await?.filter(is_ours) else {
        return Ok(None);
    };
    let Some(owner) = owner(&claim) else { return Ok(None) };
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    let of = |component: Component| format!("{ours},{}={}", labels::APP_COMPONENT, component.as_str());
    let Some(record) = read_record(reader.get::<ConfigMap>(namespace, NAME).await?, namespace) else {
        return Ok(None);
    };
    let users = neighbours::users(reader, namespace).await?;
    let engines = reader.list::<DeserializeGuard<Engine>>(namespace, "").await?;
    let engines = engines.into_iter().map(|object| object.0.ok()).collect::<Option<Vec<_>>>();
    let deployments = reader.list::<Deployment>(namespace, &ours).await?;
    let jobs = reader.list::<Job>(namespace, &ours).await?;
    let pods = reader.list::<Pod>(namespace, &ours).await?;
    let tasks = reader.list::<ConfigMap>(namespace, &of(Component::Sweep)).await?;
    let is_sweep = |job: &Job| component(job) == Component::Sweep.as_str();
    let views = job_views(reader, namespace, (&jobs, &pods), is_sweep).await?;
    let seen = |job: &Job| {
        let view = views.get(&job.name_any())?.clone();
        Some(SeenJob { view, component: component(job), uid: job.uid()?, resource_version: job.resource_version()? })
    };
    let seen_jobs = jobs.iter().filter_map(seen).collect();
    let references = users.zip(engines).map(|(users, engines)| {
        References::of(&Namespace { users, engines, deployments, jobs, views: views.clone(), pods })
    });
    let world = StoreWorld {
        now: clock(),
        settings: settings.clone(),
        namespace: namespace.to_owned(),
        owner,
        record,
        references,
        jobs: seen_jobs,
        tasks: tasks.iter().filter_map(task).collect(),
    };
    Ok(Some((claim, world)))
}

/// Nobody knows what a claim of somebody else's holds, and one that goes is left in peace.
fn is_ours(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none()
        && claim.labels().get(labels::APP_MANAGED_BY).is_some_and(|manager| manager == labels::MANAGED_BY)
}

/// Record and Jobs go with the claim. They do not keep it from going.
fn owner(claim: &PersistentVolumeClaim) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "PersistentVolumeClaim".to_owned(),
        name: claim.name_any(),
        uid: claim.uid()?,
        controller: Some(true),
        block_owner_deletion: None,
    })
}

/// The record; an empty one where there is none, and nothing where this version cannot read it.
fn read_record(object: Option<ConfigMap>, namespace: &str) -> Option<StoreRecord> {
    let Some(object) = object else { return Some(StoreRecord::default()) };
    let text = object.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default();
    let record = serde_json::from_str::<StoreRecord>(&text).ok().filter(|record| record.version == VERSION);
    if record.is_none() {
        warn!(namespace, "ConfigMap {NAME} cannot be read: the store is not swept until it is deleted or restored");
    }
    record
}

fn component(job: &Job) -> String {
    job.labels().get(labels::APP_COMPONENT).cloned().unwrap_or_default()
}

fn task(object: &ConfigMap) -> Option<SeenTask> {
    Some(SeenTask { name: object.name_any(), uid: object.uid()?, resource_version: object.resource_version()? })
}
