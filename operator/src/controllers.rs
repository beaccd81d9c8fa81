//! The controllers: what wakes them, what they share, and how a plan is carried out.

use std::{error::Error, fmt::Debug, future::Future, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{Pod, Service},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        Controller,
        controller::{Action, Config},
        events::Recorder,
        reflector::ObjectRef,
        watcher,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use slipway_crds::{
    conditions::Reason,
    identity::IdentityError,
    labels,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    agent_deployment::{self, observe::ObserveError},
    engine,
    failure::chain,
    kube_io::{
        apply::{self, ApplyError},
        record::{self, RecordError},
    },
    leader::{Leadership, NotLeading},
    metrics::Metrics,
    notifications::deliver::Notifier,
    plan::{Note, Plan},
    profile,
    promql::Prometheus,
    settings::Settings,
};

/// Objects of one kind that are reconciled at once.
const CONCURRENCY: u16 = 8;
/// Waiting time after a first failure of an object; each further one doubles it.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Longest waiting time after a failure.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// What all reconciliations share.
pub struct Context {
    /// The connection to the API server.
    pub client: Client,
    /// The connection to pods: what they counted and measured.
    pub http: reqwest::Client,
    /// What counted for weeks, where the configuration names one.
    pub prometheus: Option<Prometheus>,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Publishes events.
    pub recorder: Recorder,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Tells receivers what happens.
    pub notifier: Notifier,
    /// Counters.
    pub metrics: Metrics,
    /// Failures in a row, by object.
    pub failures: crate::metrics::FailureCounts,
}

/// Why a reconciliation came to no end.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The world could not be seen.
    #[error("failed to observe")]
    Observe(#[source] ObserveError),
    /// Nothing could be decided.
    #[error("failed to decide")]
    Decide(#[source] IdentityError),
    /// A child is not as it should be.
    #[error("failed to apply")]
    Apply(#[source] ApplyError),
    /// Status or event is not recorded.
    #[error("failed to record")]
    Record(#[source] RecordError),
    /// Another process leads.
    #[error("refused to write")]
    Leadership(#[source] NotLeading),
}

impl ReconcileError {
    /// The failed action, as a bounded label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Observe(_) => "observe",
            Self::Decide(_) => "decide",
            Self::Apply(_) => "apply",
            Self::Record(_) => "record",
            Self::Leadership(_) => "leadership",
        }
    }
}

/// Carries a plan out: status, announcements, children, removals, events.
///
/// The status comes first, with the resource version that was observed: a decision on an object that has since changed ends
/// there. What receivers are told follows from it, and is told at once: the next reconciliation would not know. Children are applied in the order of the plan; nothing is removed before all of them are there.
///
/// # Errors
/// At the first refusal; the next reconciliation starts over.
pub async fn carry_out<K, S>(
    context: &Context,
    object: &K,
    observed: Option<&S>,
    plan: Plan<S>,
) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq,
{
    // No `..`: a new part of a plan must be carried out here.
    let Plan { children, removals, status, notes, announcements, requeue } = plan;
    let namespace = object.namespace().unwrap_or_default();
    context.leadership.check().map_err(ReconcileError::Leadership)?;
    record::status(&context.client, object, observed, &status).await.map_err(ReconcileError::Record)?;
    context.notifier.offer(announcements);
    // What is new in the status is told once: a child that cannot be applied must not keep it from being told at all, nor the other way.
    let told = record::events(&context.recorder, object, &notes).await.map_err(ReconcileError::Record);
    for note in &notes {
        info!(name = object.name_any(), namespace, reason = note.reason.as_str(), "{}", note.message);
    }
    for child in &children {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        if let Err(error) = apply::apply(&context.client, &namespace, child).await {
            tell_refusal(context, object, &error).await;
            return Err(ReconcileError::Apply(error));
        }
    }
    for removal in &removals {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        apply::remove(&context.client, &namespace, removal).await.map_err(ReconcileError::Apply)?;
    }
    told?;
    context.failures.forget(&key(object));
    Ok(Action::requeue(requeue))
}

/// A quota, an admission policy or somebody else's object keeps a child from being what it should be: people look at the object, not at
/// our log. Nothing depends on its being told.
async fn tell_refusal<K: Resource<DynamicType = ()>>(context: &Context, object: &K, error: &ApplyError) {
    let note = Note::warning(Reason::ApplyFailed, chain(error));
    if let Err(error) = record::events(&context.recorder, object, &[note]).await {
        debug!(error = &error as &dyn Error, "a refusal was not told");
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{}/{}/{name}", K::kind(&()), object.meta().namespace.as_deref().unwrap_or_default())
}

/// Runs a reconciliation on an object that could be read.
async fn guarded<K, F>(
    object: Arc<DeserializeGuard<K>>,
    context: Arc<Context>,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> F,
) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone,
    F: Future<Output = Result<Action, ReconcileError>>,
{
    match &object.0 {
        Ok(object) => {
            let started = tokio::time::Instant::now();
            let result = reconcile(Arc::new(object.clone()), context.clone()).await;
            let outcome = result.as_ref().map_or_else(ReconcileError::kind, |_| "success");
            context.metrics.reconciled(&K::kind(&()), outcome, started.elapsed());
            result
        }
        Err(invalid) => {
            warn!(name = invalid.metadata.name, error = %invalid.error, "an object cannot be read and is left alone");
            Ok(Action::await_change())
        }
    }
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

fn labelled_profile<K: ResourceExt>(object: &K) -> Option<ObjectRef<DeserializeGuard<Profile>>> {
    let name = object.labels().get(labels::PROFILE)?;
    Some(ObjectRef::new(name).within(&object.namespace()?))
}

/// Runs the controller of AgentDeployments until `shutdown`.
pub async fn run_agent_deployments(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let all = || watcher::Config::default();
    let controller = Controller::new(Api::<DeserializeGuard<AgentDeployment>>::all(client.clone()), all());
    let store = controller.store();
    context.metrics.show(store.clone());
    // Whoever shares an engine or a fetch Job is woken by it: these carry no name of an AgentDeployment.
    let of_namespace = move |namespace: Option<String>| {
        let state = store.state();
        state
            .into_iter()
            .filter(move |object| object.namespace() == namespace)
            .map(|object| ObjectRef::from_obj(object.as_ref()))
            .collect::<Vec<_>>()
    };
    let of_namespace_again = of_namespace.clone();
    controller
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), move |job: Job| of_namespace(job.namespace()))
        .watches(Api::<Engine>::all(client.clone()), all(), move |engine: Engine| {
            of_namespace_again(engine.namespace())
        })
        .watches(Api::<Profile>::all(client.clone()), ours(), |profile: Profile| labelled_agent_deployment(&profile))
        .watches(Api::<Pod>::all(client.clone()), ours(), |pod: Pod| labelled_agent_deployment(&pod))
        .watches(Api::<Deployment>::all(client.clone()), ours(), |object: Deployment| {
            labelled_agent_deployment(&object)
        })
        .watches(Api::<Service>::all(client), ours(), |object: Service| labelled_agent_deployment(&object))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, agent_deployment::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result.map(|(object, _)| object.name)) })
        .await;
}

/// Runs the controller of Engines until `shutdown`.
pub async fn run_engines(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    Controller::new(Api::<DeserializeGuard<Engine>>::all(client.clone()), watcher::Config::default())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), |job: Job| labelled_engine(&job))
        .watches(Api::<Pod>::all(client), ours(), |pod: Pod| labelled_engine(&pod))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, engine::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result.map(|(object, _)| object.name)) })
        .await;
}

/// Runs the controller of Profiles until `shutdown`.
pub async fn run_profiles(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    Controller::new(Api::<DeserializeGuard<Profile>>::all(client.clone()), watcher::Config::default())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Job>::all(client.clone()), ours(), |job: Job| labelled_profile(&job))
        .watches(Api::<Pod>::all(client), ours(), |pod: Pod| labelled_profile(&pod))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(|object, context| guarded(object, context, profile::reconcile::reconcile), back_off, context)
        .for_each(|result| async move { log(result.map(|(object, _)| object.name)) })
        .await;
}

/// Failures of reconciliations are logged where their waiting time is decided; here only those of the queue itself are left.
fn log<E: Error>(result: Result<String, E>) {
    match result {
        Ok(name) => debug!(name, "reconciled"),
        Err(error) => debug!(%error, "a reconciliation ended with an error"),
    }
}
