//! The operator's own counters, for Prometheus.

mod agents;
mod conditions;
mod costs;
mod engines;
mod gauges;
mod jobs;
mod notifications;
mod objectives;
mod profiles;
mod rollouts;
mod stores;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::batch::v1::Job;
use kube::core::DeserializeGuard;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use slipway_crds::{
    store::StoreRecord,
    v1alpha1::{AgentDeployment, Engine, Profile},
};

pub use self::notifications::NotificationOutcome;
use self::{
    agents::Agents,
    engines::EngineBuilds,
    gauges::Watched,
    jobs::Jobs,
    notifications::Notifications,
    profiles::Campaigns,
    stores::{Claims, Stores},
};
use crate::kube_io::cache::Cache;

/// Labels of a reconciliation. Both are closed vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconciliationLabels {
    kind: String,
    outcome: &'static str,
}

/// Labels of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

/// The counters.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciliations: Family<ReconciliationLabels, Counter>,
    durations: Family<KindLabels, Histogram>,
    leading: Gauge,
    notifications: Notifications,
    shown: Shown,
}

/// What is read from objects when metrics are asked for.
#[derive(Clone, Default)]
struct Shown {
    agents: Watched<DeserializeGuard<AgentDeployment>>,
    engines: Watched<DeserializeGuard<Engine>>,
    profiles: Watched<DeserializeGuard<Profile>>,
    jobs: Watched<Job>,
    stores: Stores,
}

impl Shown {
    fn register(&self, registry: &mut Registry) {
        // No `..`: what is not registered is not shown.
        let Self { agents, engines, profiles, jobs, stores } = self.clone();
        registry.register_collector(Box::new(Agents(agents)));
        registry.register_collector(Box::new(EngineBuilds(engines)));
        registry.register_collector(Box::new(Campaigns(profiles)));
        registry.register_collector(Box::new(Jobs(jobs)));
        registry.register_collector(Box::new(stores));
    }
}

impl Metrics {
    /// Counters in a registry of their own.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("slipway_operator");
        let reconciliations = Family::<ReconciliationLabels, Counter>::default();
        let durations = Family::<KindLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
        });
        let leading = Gauge::default();
        registry.register("reconciliations", "Reconciliations by kind and outcome", reconciliations.clone());
        registry.register_with_unit(
            "reconciliation_duration",
            "Duration of a reconciliation",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register("leading", "Whether this process leads", leading.clone());
        let notifications = Notifications::default();
        notifications.register(&mut registry);
        let shown = Shown::default();
        shown.register(&mut registry);
        Self { registry: Arc::new(registry), reconciliations, durations, leading, notifications, shown }
    }

    /// Counts a reconciliation.
    pub fn reconciled(&self, kind: &str, outcome: &'static str, duration: Duration) {
        self.reconciliations.get_or_create(&ReconciliationLabels { kind: kind.to_owned(), outcome }).inc();
        self.durations.get_or_create(&KindLabels { kind: kind.to_owned() }).observe(duration.as_secs_f64());
    }

    /// Shows a receiver of notifications that has none yet.
    pub fn show_receiver(&self, receiver: &str) {
        self.notifications.begin(receiver);
    }

    /// Counts the outcome of a notification.
    pub fn notified(&self, receiver: &str, outcome: NotificationOutcome) {
        self.notifications.count(receiver, outcome);
    }

    /// Says how many notifications wait for a receiver.
    pub fn waiting(&self, receiver: &str, count: usize) {
        self.notifications.wait(receiver, count);
    }

    /// Names the AgentDeployments whose conditions, objectives and rollouts are shown.
    pub fn show(&self, agents: Cache<DeserializeGuard<AgentDeployment>>) {
        self.shown.agents.set(agents);
    }

    /// Names the Engines that are shown.
    pub fn show_engines(&self, engines: Cache<DeserializeGuard<Engine>>) {
        self.shown.engines.set(engines);
    }

    /// Names the Profiles that are shown.
    pub fn show_profiles(&self, profiles: Cache<DeserializeGuard<Profile>>) {
        self.shown.profiles.set(profiles);
    }

    /// Names the Jobs that are shown.
    pub fn show_jobs(&self, jobs: Cache<Job>) {
        self.shown.jobs.set(jobs);
    }

    /// Names the claims of the stores that are shown.
    pub fn show_stores(&self, claims: Claims) {
        self.shown.stores.claims.set(claims);
    }

    /// Shows what is recorded of the store of a namespace.
    pub fn store_recorded(&self, namespace: &str, record: &StoreRecord) {
        self.shown.stores.recorded(namespace, record);
    }

    /// Says that this process leads from now on.
    pub fn set_leading(&self) {
        self.leading.set(1);
    }

    /// The counters in the text format of OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap_or_default();
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Failures in a row, by object: an object that fails again waits longer.
#[derive(Debug, Clone, Default)]
pub struct FailureCounts(Arc<Mutex<HashMap<String, u32>>>);

impl FailureCounts {
    /// Counts a failure; gives the number of failures in a row.
    pub fn count(&self, key: &str) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Forgets the failures of an object.
    pub fn forget(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
