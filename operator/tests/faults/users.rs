//! Users of the agent: what they send is counted by the pods that have a share of it, and shown to those who ask a pod.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, Uri},
};
use serde_json::Value;
use slipway_vocabulary::evidence::{
    Evidence, Histogram, Metric, MetricWindow, Unit, WINDOW_SECONDS, Window, window_id,
};

use crate::{
    api::{
        kinds::{CONFIG_MAPS, PODS, ROUTES},
        store::{Key, Store, is_going},
    },
    cluster::kubelet::is_ready,
    story::{AGENT, NAMESPACE},
};

/// The word in a prompt by which the runs of its revision take twice as long.
pub const SLOW: &str = "SLOW";

/// Windows that a pod remembers: enough for a rollout.
const KEPT: usize = 180;
/// Runs in ten seconds.
const RUNS: u64 = 400;

/// What each pod counted, by its address.
#[derive(Clone, Default)]
pub struct Users(Arc<Mutex<BTreeMap<String, Arc<Evidence>>>>);

impl Users {
    /// The same counts, which go their own way from here.
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap().clone())))
    }

    /// Answers for all pods, as a proxy. Gives its address.
    pub async fn answer(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(evidence).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    /// Lets users send from one second to another.
    pub fn send(&self, store: &Store, from: i64, to: i64) {
        let id = |second: i64| window_id(u64::try_from(second).unwrap());
        let shares = shares(store);
        for window in id(from)..id(to) {
            for (revision, percent) in &shares {
                self.count(store, window, revision, *percent);
            }
        }
    }

    fn count(&self, store: &Store, id: u64, revision: &str, percent: u64) {
        let pods: Vec<_> = store.of_kind(PODS).filter(|(_, pod)| serves(pod, revision)).collect();
        let slowdown = if is_slow(store, revision) { 2.0 } else { 1.0 };
        let runs = RUNS * percent / 100 / u64::try_from(pods.len().max(1)).unwrap();
        let mut counted = self.0.lock().unwrap();
        for (key, pod) in pods {
            let address = pod["status"]["podIP"].as_str().unwrap().to_owned();
            let evidence = counted.entry(address).or_insert_with(|| {
                Arc::new(Evidence {
                    version: 1,
                    revision: revision.to_owned(),
                    pod: key.name.clone(),
                    started_at: pod["metadata"]["creationTimestamp"].as_str().unwrap().to_owned(),
                    windows: Vec::new(),
                })
            });
            let evidence = Arc::make_mut(evidence);
            evidence.windows.push(window(id, runs, slowdown));
            let old = evidence.windows.len().saturating_sub(KEPT);
            evidence.windows.drain(..old);
        }
    }
}

async fn evidence(State(users): State<Users>, uri: Uri) -> Result<Json<Evidence>, StatusCode> {
    let counted = users.0.lock().unwrap();
    let found = uri.host().and_then(|host| counted.get(host).cloned());
    found.map(|evidence| Json(Arc::unwrap_or_clone(evidence))).ok_or(StatusCode::NOT_FOUND)
}

fn serves(pod: &Value, revision: &str) -> bool {
    pod["metadata"]["labels"]["slipway.dev/revision"] == revision && is_ready(pod) && !is_going(pod)
}

/// Percents of the traffic by revision, of an agent with a route. Users of others send nothing.
fn shares(store: &Store) -> BTreeMap<String, u64> {
    let prefix = format!("{AGENT}-");
    let route = store.get(&Key::new(ROUTES, NAMESPACE, AGENT));
    let rules = route.and_then(|route| route["spec"]["rules"].as_array().cloned()).unwrap_or_default();
    let backends = rules.last().and_then(|rule| rule["backendRefs"].as_array().cloned()).unwrap_or_default();
    let share = |backend: &Value| {
        Some((backend["name"].as_str()?.strip_prefix(&prefix)?.to_owned(), backend["weight"].as_u64()?))
    };
    backends.iter().filter_map(share).collect()
}

fn is_slow(store: &Store, revision: &str) -> bool {
    let config = store.get(&Key::new(CONFIG_MAPS, NAMESPACE, &format!("{AGENT}-{revision}")));
    config.is_some_and(|config| config["data"]["config.json"].as_str().is_some_and(|text| text.contains(SLOW)))
}

/// Runs of so many milliseconds, spread as those of users are.
fn window(id: u64, runs: u64, slowdown: f64) -> Window {
    let spread = [620.0, 750.0, 860.0, 950.0, 1_040.0, 1_150.0, 1_300.0, 1_520.0, 1_900.0, 2_600.0];
    let mut buckets = Histogram::default();
    for run in 0..runs {
        let jitter = 1.0 + ((run * 7 + id * 13) % 11) as f64 / 100.0;
        buckets.record((spread[(run % 10) as usize] * 200.0 * jitter * slowdown) as u64);
    }
    let counted = MetricWindow {
        metric: Metric::AgentRunLatency,
        unit: Unit::Run,
        stratum: String::new(),
        started: runs,
        new_sessions: runs,
        in_flight: 0,
        oldest_in_flight_microseconds: 0,
        in_flight_ages: None,
        count: runs,
        errors: 0,
        sum_microseconds: 0,
        buckets,
    };
    Window { id, metrics: vec![counted], load: None, gpus: Vec::new() }
}

/// Seconds of a window, for those who look once in each.
pub const WINDOW: i64 = WINDOW_SECONDS as i64;
