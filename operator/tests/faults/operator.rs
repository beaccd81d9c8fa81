//! The operator under test: its own reconciliations, one after the other, as a process that can end.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, OnceLock},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::events::Reporter;
use serde::de::DeserializeOwned;
use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};
use slipway_operator::{
    agent_deployment, engine,
    evidence::Pods,
    kube_io::{applied::Applied, events::EventRecorder, neighbours::Neighbours, read::Reader},
    leader::{Candidate, Election, Leadership, fence::fenced},
    metrics::{FailureCounts, Metrics},
    notifications::deliver::{Notifier, Outside},
    profile,
    reconcile::{Context, caught},
    store,
    turns::Turns,
};
use slipway_operator_core::{notifications::decide::Policy, settings::Settings};
use slipway_vocabulary::failure::chain;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        ApiServer,
        kinds::{AGENT_DEPLOYMENTS, CLAIMS, ENGINES, Kind, PROFILES},
    },
    watched::Watched,
};

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(Timestamp::UNIX_EPOCH) };
}

/// The time of day, as the test says.
pub fn now() -> Timestamp {
    NOW.get()
}

/// Sets it.
pub fn set_now(at: Timestamp) {
    NOW.set(at);
}

/// Lets time pass.
pub fn pass(seconds: i64) {
    NOW.set(now() + SignedDuration::from_secs(seconds));
}

/// A process of the operator's.
pub struct Operator {
    context: Arc<Context>,
    /// What its looks begin with a glance at, if they do.
    watched: Option<RefCell<Watched>>,
    lease: JoinHandle<()>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.lease.abort();
    }
}

/// How a look at everything ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Looked {
    /// With these failures.
    Through(Vec<String>),
    /// The process ended.
    Crashed,
}

impl Operator {
    /// Starts it; it leads from then on. For all pods somebody answers at this address.
    pub async fn start(server: &ApiServer, settings: &Arc<Settings>, pods: &str) -> Self {
        let client = server.client();
        let leadership = Leadership::default();
        let (namespace, lease) = ("slipway".to_owned(), "slipway-operator".to_owned());
        let candidate = Candidate { namespace, lease, identity: server.asked_by.to_owned() };
        let mut election = Election::new(client.clone(), candidate, leadership.clone());
        let forever = CancellationToken::new();
        assert!(election.win(&forever).await, "nobody else wants to lead");
        let lease = tokio::spawn(async move { drop(election.hold(&forever).await) });
        let metrics = Metrics::new();
        let outside = Outside { clock: now, dice: || 0.5 };
        let notifier = Notifier::new(&settings.notifications, metrics.clone(), Policy::default(), outside).unwrap();
        let reporter = Reporter { controller: "slipway".to_owned(), instance: Some("one".to_owned()) };
        let writer = fenced(client.clone(), leadership.clone());
        let http = reqwest::Client::builder().proxy(reqwest::Proxy::http(pods).unwrap()).tls_certs_only([]).build();
        let http = http.unwrap();
        let context = Context {
            recorder: EventRecorder::new(writer.clone(), reporter),
            reader: Reader::new(client),
            client: writer,
            pods: Pods::new(http.clone()),
            http,
            prometheus: None,
            settings: settings.clone(),
            leadership,
            notifier,
            metrics,
            neighbours: Neighbours::default(),
            glanced_neighbours: Neighbours::default(),
            applied: Applied::default(),
            turns: Turns::default(),
            caches: OnceLock::new(),
            failures: FailureCounts::default(),
            clock: now,
        };
        Self { context: Arc::new(context), watched: None, lease }
    }

    /// Has its looks begin with a glance at what watches have shown.
    #[must_use]
    pub fn watching(mut self, server: &ApiServer) -> Self {
        let watched = Watched::begin(&server.state().store);
        self.context.glance_at(watched.caches.clone());
        self.watched = Some(RefCell::new(watched));
        self
    }

    /// What it knows of a namespace is old: its own clock for that does not follow the test's.
    pub fn forget(&self, namespace: &str) {
        self.context.neighbours.forget(namespace);
        self.context.glanced_neighbours.forget(namespace);
    }

    /// What its controllers work with.
    pub fn context(&self) -> Arc<Context> {
        self.context.clone()
    }

    /// The process stands still, and renews no claim.
    pub fn stands_still(&self) {
        self.lease.abort();
    }

    /// Reconciles everything that there is, once.
    pub async fn look(&self, server: &ApiServer) -> Looked {
        if let Some(watched) = &self.watched {
            watched.borrow_mut().go_on(&server.state().store);
        }
        let crash = server.state().faults.crash.clone();
        tokio::select! {
            biased;
            failures = self.reconcile_all(server) => Looked::Through(failures),
            () = crash.notified() => Looked::Crashed,
        }
    }

    async fn reconcile_all(&self, server: &ApiServer) -> Vec<String> {
        let mut failures = Vec::new();
        for object in objects::<AgentDeployment>(server, AGENT_DEPLOYMENTS) {
            let reconciliation =
                agent_deployment::reconcile::reconcile(object, self.context.clone(), CancellationToken::new());
            failures.extend(caught(reconciliation).await.err());
        }
        for object in objects::<Engine>(server, ENGINES) {
            failures.extend(caught(engine::reconcile::reconcile(object, self.context.clone())).await.err());
        }
        for object in objects::<Profile>(server, PROFILES) {
            failures.extend(caught(profile::reconcile::reconcile(object, self.context.clone())).await.err());
        }
        for object in objects::<PersistentVolumeClaim>(server, CLAIMS) {
            failures.extend(caught(store::reconcile::reconcile(object, self.context.clone())).await.err());
        }
        failures.iter().map(|failure| chain(failure)).collect()
    }
}

/// The objects of a kind, as a controller's own watch has them: those that cannot be read are left alone.
fn objects<K: DeserializeOwned>(server: &ApiServer, kind: Kind) -> Vec<Arc<K>> {
    let state = server.state();
    let read = |object: &Arc<serde_json::Value>| serde_json::from_value((**object).clone()).ok();
    state.store.of_kind(kind).filter_map(|(_, object)| read(object).map(Arc::new)).collect()
}
