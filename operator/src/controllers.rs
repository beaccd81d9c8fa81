//! The controllers: what wakes them, and how long they wait after a failure.

use std::{error::Error, fmt::Debug, future::Future, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod, Service},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action, Config},
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use slipway_crds::{
    labels::{self, Component},
    store::NAME,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_operator_core::{agent_deployment::wakes, engine::lost};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::{
    agent_deployment, engine,
    kube_io::neighbours::Neighbours,
    kube_io::record::RecordError,
    profile,
    reconcile::{Context, ReconcileError, caught, key, publish_panic},
    store,
};

/// Objects of one kind that are reconciled at once.
const CONCURRENCY: u16 = 8;
/// Stores that are looked at at once: nobody waits for them.
const STORES_AT_ONCE: u16 = 2;
/// Several Engines of a namespace often change together.
const STORE_SETTLES: Duration = Duration::from_secs(10);
/// Waiting time after a first failure of an object; each further one doubles it.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Longest waiting time after a failure.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// Runs a reconciliation on an object that could be read.
async fn guarded<K, F>(
    object: Arc<DeserializeGuard<K>>,
    context: Arc<Context>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> F,
) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
    F: Future<Output = Result<Action, ReconcileError>>,
{
    match &object.0 {
        Ok(object) => {
            let started = tokio::time::Instant::now();
            let result = caught(reconcile(Arc::new(object.clone()), context.clone())).await;
            if let Err(error @ ReconcileError::Panicked { .. }) = &result {
                publish_panic(&context, object, error).await;
            }
            context.metrics.reconciled(&K::kind(&()), outcome(&result), started.elapsed());
            result
        }
        Err(invalid) => {
            warn!(name = invalid.metadata.name, error = %invalid.error, "an object cannot be read and is left alone");
            Ok(Action::await_change())
        }
    }
}

fn outcome(result: &Result<Action, ReconcileError>) -> &'static str {
    match result {
        Ok(_) => "success",
        // Nothing failed: somebody else wrote the object first.
        Err(error) if is_conflict(error) => "conflict",
        Err(error) => error.kind(),
    }
}

/// The same of a claim. Its status is Kubernetes' own: a panic is logged, and nothing is written there.
async fn guarded_store(
    claim: Arc<DeserializeGuard<PersistentVolumeClaim>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Ok(claim) = &claim.0 else { return Ok(Action::await_change()) };
    let started = tokio::time::Instant::now();
    let result = caught(store::reconcile::reconcile(Arc::new(claim.clone()), context.clone())).await;
    context.metrics.reconciled("PersistentVolumeClaim", outcome(&result), started.elapsed());
    result
}

fn back_off<K>(object: Arc<DeserializeGuard<K>>, error: &ReconcileError, context: Arc<Context>) -> Action
where
    K: Resource<DynamicType = ()>,
{
    let failures = object.0.as_ref().map_or(1, |object| context.failures.count(&key(object)));
    let wait = LONGEST_BACK_OFF.min(FIRST_BACK_OFF * 2u32.pow(failures.saturating_sub(1).min(6)));
    if is_conflict(error) {
        debug!("the object has changed since it was read");
        return Action::requeue(FIRST_BACK_OFF);
    }
    warn!(error = error as &dyn Error, failures, wait_seconds = wait.as_secs(), "a reconciliation failed");
    Action::requeue(wait)
}

fn is_conflict(error: &ReconcileError) -> bool {
    let ReconcileError::Record(RecordError::Status { source, .. }) = error else { return false };
    matches!(source.as_ref(), kube::Error::Api(status) if status.is_conflict())
}

/// Only objects of ours: the operator sees no foreign pod.
fn ours() -> watcher::Config {
    watcher::Config::default().labels(&format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY))
}

/// The AgentDeployment that an object is labelled with.
fn labelled_agent_deployment<K: ResourceExt>(object: &K) -> Option<ObjectRef<DeserializeGuard<AgentDeployment>>> {
    let name = object.labels().get(labels::AGENT_DEPLOYMENT)?;
    Some(ObjectRef::new(name).within(&object.namespace()?))
}

fn labelled_engine<K: ResourceExt>(object: &K) -> Option<ObjectRef<DeserializeGuard<Engine>>> {
    let name = object.labels().get(labels::ENGINE)?;
    Some(ObjectRef::new(name).within(&object.namespace()?))
}

/// The Engine whose artifact a pod misses in the store; it is to see the pod.
fn missed_engine(pod: &Pod, neighbours: &Neighbours) -> Option<ObjectRef<DeserializeGuard<Engine>>> {
    let (missed, namespace) = (lost::missed(pod)?, pod.namespace()?);
    neighbours.forget(&namespace);
    Some(ObjectRef::new(&missed.engine).within(&namespace))
}

fn labelled_profile<K: ResourceExt>(object: &K) -> Option<ObjectRef<DeserializeGuard<Profile>>> {
    let name = object.labels().get(labels::PROFILE)?;
    Some(ObjectRef::new(name).within(&object.namespace()?))
}

/// The AgentDeployments of a namespace that an object concerns: of what they share, nothing carries the names of all.
fn concerned(
    store: &Store<DeserializeGuard<AgentDeployment>>,
    namespace: Option<String>,
    is_concerned: impl Fn(&AgentDeployment) -> bool,
) -> Vec<ObjectRef<DeserializeGuard<AgentDeployment>>> {
    let known = store.state().into_iter().filter(|object| object.namespace() == namespace);
    let woken = known.filter(|object| object.0.as_ref().is_ok_and(&is_concerned));
    woken.map(|object| ObjectRef::from_obj(object.as_ref())).collect()
}

/// Runs the controller of AgentDeployments until `shutdown`.
pub async fn run_agent_deployments(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let all = || watcher::Config::default();
    let controller = Controller::new(Api::<DeserializeGuard<AgentDeployment>>::all(client.clone()), all());
    let store = controller.store();
    context.metrics.show(store.clone());
    let store_again = store.clone();
    controller
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), move |job: Job| {
            concerned(&store, job.namespace(), |object| {
                wakes::is_concerned_by_job(&object.name_any(), object.status.as_ref(), &job)
            })
        })
        .watches(
            Api::<DeserializeGuard<Engine>>::all(client.clone()),
            all(),
            move |engine: DeserializeGuard<Engine>| {
                concerned(&store_again, engine.namespace(), |object| {
                    wakes::is_concerned_by_engine(object.status.as_ref(), &engine.name_any())
                })
            },
        )
        .watches(Api::<DeserializeGuard<Profile>>::all(client.clone()), ours(), |profile: DeserializeGuard<Profile>| {
            labelled_agent_deployment(&profile)
        })
        .watches(Api::<Pod>::all(client.clone()), ours(), |pod: Pod| labelled_agent_deployment(&pod))
        .watches(Api::<Deployment>::all(client.clone()), ours(), |object: Deployment| {
            labelled_agent_deployment(&object)
        })
        .watches(Api::<Service>::all(client), ours(), |object: Service| labelled_agent_deployment(&object))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, agent_deployment::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result) })
        .await;
}

/// Runs the controller of Engines until `shutdown`.
pub async fn run_engines(context: Arc<Context>, shutdown: CancellationToken) {
    let (client, woken) = (context.client.clone(), Arc::clone(&context));
    let controller = Controller::new(Api::<DeserializeGuard<Engine>>::all(client.clone()), watcher::Config::default());
    context.metrics.show_engines(controller.store());
    controller
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), |job: Job| labelled_engine(&job))
        .watches(Api::<Pod>::all(client), ours(), move |pod: Pod| {
            labelled_engine(&pod).or_else(|| missed_engine(&pod, &woken.neighbours))
        })
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, engine::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result) })
        .await;
}

/// The claim of the store in the namespace of an object.
fn store_beside<K: ResourceExt>(object: &K) -> Option<ObjectRef<DeserializeGuard<PersistentVolumeClaim>>> {
    Some(ObjectRef::new(NAME).within(&object.namespace()?))
}

/// Runs the controller of artifact stores until `shutdown`.
pub async fn run_stores(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let of = |component: Component| {
        let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
        watcher::Config::default().labels(&format!("{ours},{}={}", labels::APP_COMPONENT, component.as_str()))
    };
    let claims = Api::<DeserializeGuard<PersistentVolumeClaim>>::all(client.clone());
    let controller = Controller::new(claims, of(Component::Store));
    context.metrics.show_stores(controller.store());
    controller
        .with_config(Config::default().concurrency(STORES_AT_ONCE).debounce(STORE_SETTLES))
        .watches(Api::<Job>::all(client.clone()), of(Component::Sweep), |job: Job| store_beside(&job))
        .watches(
            Api::<DeserializeGuard<Engine>>::all(client),
            watcher::Config::default(),
            |engine: DeserializeGuard<Engine>| store_beside(&engine),
        )
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(guarded_store, back_off, context)
        .for_each(|result| async move { log(result) })
        .await;
}

/// Runs the controller of Profiles until `shutdown`.
pub async fn run_profiles(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = Controller::new(Api::<DeserializeGuard<Profile>>::all(client.clone()), watcher::Config::default());
    context.metrics.show_profiles(controller.store());
    controller
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), |job: Job| labelled_profile(&job))
        .watches(Api::<Pod>::all(client), ours(), |pod: Pod| labelled_profile(&pod))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, profile::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result) })
        .await;
}

/// Keeps the Jobs that the metrics count until `shutdown`, without their templates.
pub async fn watch_jobs(context: Arc<Context>, shutdown: CancellationToken) {
    let (jobs, writer) = reflector::store();
    context.metrics.show_jobs(jobs);
    watcher(Api::<Job>::all(context.client.clone()), ours())
        .default_backoff()
        .modify(|job| {
            job.spec = None;
            job.metadata.managed_fields = None;
        })
        .reflect(writer)
        .take_until(shutdown.cancelled_owned())
        .for_each(|event| async move {
            if let Err(error) = event {
                warn!(error = &error as &dyn Error, "the watch that counts Jobs failed; it is tried again");
            }
        })
        .await;
}

/// A failed reconciliation is logged where its waiting time is decided. A failed watch is logged here: the controller
/// sees no changes until the watch is back.
fn log<K: Resource>(result: Result<(ObjectRef<K>, Action), controller::Error<ReconcileError, watcher::Error>>) {
    use controller::Error as Failure;
    match result {
        Ok((object, _)) => debug!(name = object.name, "reconciled"),
        Err(error @ (Failure::ReconcilerFailed(..) | Failure::ObjectNotFound(_))) => {
            debug!(%error, "a reconciliation ended with an error");
        }
        Err(Failure::QueueError(error)) => {
            warn!(error = &error as &dyn Error, "a watch failed; it is tried again");
        }
        Err(Failure::RunnerError(error)) => {
            error!(error = &error as &dyn Error, "the queue of a controller failed");
        }
    }
}
