//! The controllers: what wakes them, and how long they wait after a failure.

use std::{
    convert::Infallible, error::Error, fmt::Debug, future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration,
};

use futures::{StreamExt, channel::mpsc::Receiver};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::PersistentVolumeClaim};
use kube::{
    Resource,
    core::DeserializeGuard,
    runtime::{
        applier,
        controller::{self, Action, Config},
        reflector::ObjectRef,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::{
    agent_deployment, engine,
    kube_io::{
        cache::{Cache, Caches, Kept},
        record::RecordError,
    },
    profile,
    reconcile::{Context, ReconcileError, caught, key, publish_panic, publish_panic_as_event},
    store, unreadable,
    watches::{self, Controlled, Named, Queues, Watches},
};

/// AgentDeployments that are looked at at once: all, so that canaries overtake others. They wait in [`crate::turns`].
const AGENTS_AT_ONCE: u16 = 0;
/// Engines that are looked at at once.
const ENGINES_AT_ONCE: u16 = 8;
/// Campaigns that are looked at at once; each waits for its pods.
const PROFILES_AT_ONCE: u16 = 64;
/// How long the first lists of all kinds are waited for.
const FIRST_LISTS: Duration = Duration::from_secs(30);
/// Time between two looks at whether they have come.
const READY_LOOK: Duration = Duration::from_millis(20);
/// Stores that are looked at at once: nobody waits for them.
const STORES_AT_ONCE: u16 = 2;
/// Several Engines of a namespace often change together.
const STORE_SETTLES: Duration = Duration::from_secs(10);
/// Waiting time after a first failure of an object; each further one doubles it.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Longest waiting time after a failure.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// An object as a cache shows it.
fn object<K: Kept>(named: &Named<K>, objects: &Cache<DeserializeGuard<K>>) -> Option<DeserializeGuard<K>> {
    let Named { metadata, .. } = named;
    objects.get(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// Runs a reconciliation on an object that could be read.
async fn guarded<K, F>(
    (named, objects): (Arc<Named<K>>, Cache<DeserializeGuard<K>>),
    context: Arc<Context>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> F,
) -> Result<Action, ReconcileError>
where
    K: Kept + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug,
    F: Future<Output = Result<Action, ReconcileError>>,
{
    // One that is gone needs no look.
    let Some(found) = object(&named, &objects) else { return Ok(Action::await_change()) };
    match found.0 {
        Ok(found) => {
            let started = tokio::time::Instant::now();
            let result = caught(reconcile(Arc::new(found), context.clone())).await;
            if let Err(error @ ReconcileError::Panicked { .. }) = &result
                && let Some(DeserializeGuard(Ok(met))) = object(&named, &objects)
            {
                publish_panic(&context, &met, error).await;
            }
            context.metrics.reconciled(&K::kind(&()), outcome(&result), started.elapsed());
            result
        }
        Err(invalid) => unreadable::tell::<K>(&context, &invalid).await,
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

/// The same of a claim. Its status is Kubernetes' own: of a panic there is an event.
async fn guarded_store(
    (named, claims): (Arc<Named<PersistentVolumeClaim>>, Cache<DeserializeGuard<PersistentVolumeClaim>>),
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Some(DeserializeGuard(Ok(claim))) = object(&named, &claims) else { return Ok(Action::await_change()) };
    let started = tokio::time::Instant::now();
    let claim = Arc::new(claim);
    let result = caught(store::reconcile::reconcile(claim.clone(), context.clone())).await;
    if let Err(error @ ReconcileError::Panicked { .. }) = &result {
        publish_panic_as_event(&context, claim.as_ref(), error).await;
    }
    context.metrics.reconciled("PersistentVolumeClaim", outcome(&result), started.elapsed());
    result
}

fn back_off<K>(named: Arc<Named<K>>, error: &ReconcileError, context: Arc<Context>) -> Action
where
    K: Resource<DynamicType = ()>,
{
    let failures = context.failures.count(&key(named.as_ref()));
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

/// A reconciliation in a task of its own, which ends with it.
struct Spawned(JoinHandle<Result<Action, ReconcileError>>);

impl Future for Spawned {
    type Output = Result<Action, ReconcileError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let ended = |error: JoinError| Err(ReconcileError::Panicked { message: error.to_string() });
        Pin::new(&mut self.0).poll(context).map(|joined| joined.unwrap_or_else(ended))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a controller looks at, and how often at once.
struct Control<K: Kept> {
    controlled: Controlled<K>,
    queue: Receiver<ObjectRef<Named<K>>>,
    config: Config,
}

/// Runs a controller until `shutdown`, then to the end of what it has begun.
async fn control<K, F>(
    control: Control<K>,
    reconcile: impl Fn((Arc<Named<K>>, Cache<DeserializeGuard<K>>), Arc<Context>) -> F,
    context: Arc<Context>,
    shutdown: CancellationToken,
) where
    K: Kept + Debug,
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    let Control { controlled: Controlled { names, objects }, queue, config } = control;
    let queue = queue.map(Ok::<_, Infallible>).take_until(Box::pin(shutdown.cancelled_owned()));
    let spawned = |named, context| Spawned(tokio::spawn(reconcile((named, objects.clone()), context)));
    applier(spawned, back_off, context, names, queue, config).for_each(|result| async move { log(result) }).await;
}

/// Runs all controllers until `shutdown`. Gives the name of one that has ended on its own.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) -> &'static str {
    let (mut watches, queues) = watches::begin(&context);
    let Watches { agents, engines, profiles, claims, jobs, caches, .. } = &watches;
    context.metrics.show(agents.objects.clone());
    context.metrics.show_engines(engines.objects.clone());
    context.metrics.show_profiles(profiles.objects.clone());
    context.metrics.show_stores(claims.objects.clone());
    context.metrics.show_jobs(jobs.clone());
    tokio::select! {
        () = shutdown.cancelled() => return "",
        () = first_lists(caches) => {}
    }
    context.glance_at(caches.clone());
    let Queues { agents: of_agents, engines: of_engines, profiles: of_profiles, stores: of_stores } = queues;
    let many = |concurrency| Config::default().concurrency(concurrency);
    let mut running = JoinSet::new();
    let (with, until) = (context.clone(), shutdown.clone());
    let agents = Control { controlled: agents.clone(), queue: of_agents, config: many(AGENTS_AT_ONCE) };
    let ending = shutdown.clone();
    running.spawn(async move {
        let reconcile = move |object, context| {
            let ending = ending.clone();
            let reconcile =
                move |object, context| agent_deployment::reconcile::reconcile(object, context, ending.clone());
            guarded(object, context, reconcile)
        };
        control(agents, reconcile, with, until).await;
        "agent-deployments"
    });
    let (with, until) = (context.clone(), shutdown.clone());
    let engines = Control { controlled: engines.clone(), queue: of_engines, config: many(ENGINES_AT_ONCE) };
    running.spawn(async move {
        control(engines, |object, context| guarded(object, context, engine::reconcile::reconcile), with, until).await;
        "engines"
    });
    let (with, until) = (context.clone(), shutdown.clone());
    let profiles = Control { controlled: profiles.clone(), queue: of_profiles, config: many(PROFILES_AT_ONCE) };
    running.spawn(async move {
        control(profiles, |object, context| guarded(object, context, profile::reconcile::reconcile), with, until).await;
        "profiles"
    });
    let until = shutdown.clone();
    let config = many(STORES_AT_ONCE).debounce(STORE_SETTLES);
    let stores = Control { controlled: claims.clone(), queue: of_stores, config };
    running.spawn(async move {
        control(stores, guarded_store, context, until).await;
        "stores"
    });
    let first = tokio::select! {
        // A task that has panicked has been reported by the runtime.
        first = running.join_next() => first.and_then(Result::ok).unwrap_or("controllers"),
        () = watches.ended() => "watches",
    };
    if shutdown.is_cancelled() {
        while running.join_next().await.is_some() {}
    }
    first
}

/// Waits until caches have what there is. Who cannot list a kind looks at everything by itself.
async fn first_lists(caches: &Caches) {
    let ready = async {
        while !caches.are_ready() {
            tokio::time::sleep(READY_LOOK).await;
        }
    };
    if tokio::time::timeout(FIRST_LISTS, ready).await.is_err() {
        warn!("not all kinds could be listed yet: until then every look reads the API server");
    }
}

/// A failed reconciliation is logged where its waiting time is decided.
fn log<K: Resource>(result: Result<(ObjectRef<K>, Action), controller::Error<ReconcileError, Infallible>>) {
    use controller::Error as Failure;
    match result {
        Ok((object, _)) => debug!(name = object.name, "reconciled"),
        Err(error @ (Failure::ReconcilerFailed(..) | Failure::ObjectNotFound(_))) => {
            debug!(%error, "a reconciliation ended with an error");
        }
        Err(Failure::QueueError(never)) => match never {},
        Err(Failure::RunnerError(error)) => {
            error!(error = &error as &dyn Error, "the queue of a controller failed");
        }
    }
}
