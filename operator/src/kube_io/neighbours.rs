//! What an Engine needs to know of the other objects of its namespace. Reads IO.
//!
//! Each Engine is looked at by itself, and who names it stands in objects that bear no label of it. One look at them
//! serves all Engines of the namespace for a while, so that N Engines do not read N objects N times. An Engine is
//! found unused, and so removed, by a look of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kube::core::DeserializeGuard;
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, Profile},
};
use slipway_operator_core::{
    agent_deployment::{engine_users::Users, rollout::revision::Revision},
    engine::{
        lost::{self, Missed},
        world::Use,
    },
};
use tokio::time::Instant;

use super::read::{ReadError, Reader};

/// How old a look may be that finds an Engine in use. A pod that misses an artifact ends it at once.
const SHARED: Duration = Duration::from_secs(30);

/// What was seen of a namespace.
#[derive(Debug)]
struct Seen {
    /// The Engines that somebody names; absent where something cannot be read that may name any.
    engines: Option<BTreeSet<String>>,
    /// What pods missed in the store.
    missed: Vec<Missed>,
}

#[derive(Debug, Default)]
struct Namespace {
    /// Counts events after which an earlier look does not do.
    events: AtomicU64,
    last: tokio::sync::Mutex<Option<Look>>,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    events: u64,
    seen: Arc<Seen>,
}

/// The last look at each namespace that has Engines.
#[derive(Debug, Default)]
pub struct Neighbours {
    namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
}

impl Neighbours {
    /// A pod misses an artifact: the next look at an Engine of the namespace is to see it.
    pub fn forget(&self, namespace: &str) {
        self.namespace(namespace).events.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether anybody names the Engine. Of one that cannot be read, nobody knows.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(crate) async fn use_of(&self, reader: &Reader, namespace: &str, engine: &str) -> Result<Use, ReadError> {
        for age in [SHARED, Duration::ZERO] {
            let seen = self.look(reader, namespace, age).await?;
            match &seen.engines {
                Some(engines) if engines.contains(engine) => return Ok(Use::Used),
                Some(_) if age.is_zero() => return Ok(Use::Unused),
                Some(_) | None => {}
            }
        }
        Ok(Use::Unknown)
    }

    /// What pods of the namespace missed in the store.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(crate) async fn missed(&self, reader: &Reader, namespace: &str) -> Result<Vec<Missed>, ReadError> {
        Ok(self.look(reader, namespace, SHARED).await?.missed.clone())
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        // No code panics while it holds the lock.
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains_key(name) {
            // Those that nobody asked for lately go, so that the memory follows the namespaces that there are.
            namespaces.retain(|_, known| Arc::strong_count(known) > 1 || known.is_recent());
        }
        Arc::clone(namespaces.entry(name.to_owned()).or_default())
    }

    /// A look of at most this age, for any Engine.
    async fn look(&self, reader: &Reader, name: &str, age: Duration) -> Result<Arc<Seen>, ReadError> {
        let namespace = self.namespace(name);
        let asked = Instant::now();
        let mut last = namespace.last.lock().await;
        let events = namespace.events.load(Ordering::Acquire);
        let is_enough = |look: &&Look| look.events == events && (look.at >= asked || asked - look.at < age);
        if let Some(look) = last.as_ref().filter(is_enough) {
            return Ok(Arc::clone(&look.seen));
        }
        let at = Instant::now();
        let seen = Arc::new(read(reader, name).await?);
        *last = Some(Look { at, events, seen: Arc::clone(&seen) });
        Ok(seen)
    }
}

impl Namespace {
    fn is_recent(&self) -> bool {
        self.last.try_lock().is_ok_and(|last| last.as_ref().is_some_and(|look| look.at.elapsed() < SHARED))
    }
}

async fn read(reader: &Reader, namespace: &str) -> Result<Seen, ReadError> {
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    let pods = reader.list::<Pod>(namespace, &ours).await?;
    let users = users(reader, namespace).await?;
    Ok(Seen { engines: users.map(|users| users.engines()), missed: pods.iter().filter_map(lost::missed).collect() })
}

/// Everything that may name an Engine of a namespace; absent where one of them cannot be read.
///
/// # Errors
/// When the API server does not answer.
pub(crate) async fn users(reader: &Reader, namespace: &str) -> Result<Option<Users>, ReadError> {
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    let agent_deployments = reader.list::<DeserializeGuard<AgentDeployment>>(namespace, "").await?;
    let revisions = reader.list::<ControllerRevision>(namespace, labels::AGENT_DEPLOYMENT).await?;
    let profiles = reader.list::<DeserializeGuard<Profile>>(namespace, &ours).await?;
    let agent_deployments = agent_deployments.into_iter().map(|object| object.0.ok()).collect::<Option<Vec<_>>>();
    let revisions = revisions.iter().map(|record| Revision::read(record).ok()).collect::<Option<Vec<_>>>();
    let profiles = profiles.into_iter().map(|object| object.0.ok()).collect::<Option<Vec<_>>>();
    let users = agent_deployments.zip(revisions).zip(profiles);
    Ok(users.map(|((agent_deployments, revisions), profiles)| Users { agent_deployments, revisions, profiles }))
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::atomic::AtomicUsize};

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    /// Lists of a namespace, and how many were asked for.
    #[derive(Clone, Default)]
    struct Cluster {
        asked: Arc<AtomicUsize>,
        agents: Arc<Mutex<Vec<Value>>>,
    }

    impl Cluster {
        fn names(&self, engine: &str) {
            let agent = json!({
                "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": "support"},
                "spec": {"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": "x"}},
                "status": {"engines": [{"name": engine, "precision": "FP32", "state": ""}]},
            });
            *self.agents.lock().unwrap() = vec![agent];
        }

        /// An agent of a version with another spec.
        fn has_one_that_cannot_be_read(&self) {
            let agent = json!({"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
                "metadata": {"name": "support"}, "spec": {"engine": {"backend": "OfTomorrow"}}});
            *self.agents.lock().unwrap() = vec![agent];
        }

        fn reader(&self) -> Reader {
            let cluster = self.clone();
            let answer = move |request: Request<Body>| {
                let cluster = cluster.clone();
                async move {
                    cluster.asked.fetch_add(1, Ordering::Relaxed);
                    let is_agents = request.uri().path().ends_with("/agentdeployments");
                    let items = if is_agents { cluster.agents.lock().unwrap().clone() } else { Vec::new() };
                    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
                    Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
                }
            };
            Reader::new(Client::new(tower::service_fn(answer), "team"))
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    /// Requests of one look.
    const LOOK: usize = 4;

    #[tokio::test(start_paused = true)]
    async fn a_hundred_engines_of_a_namespace_are_looked_at_with_one_look() {
        let (cluster, neighbours) = (Cluster::default(), Neighbours::default());
        cluster.names("engine-1");
        let reader = cluster.reader();
        let looks = (0..100).map(async |_| {
            let used = neighbours.use_of(&reader, "team", "engine-1").await.unwrap();
            (used, neighbours.missed(&reader, "team").await.unwrap())
        });
        let found = futures::future::join_all(looks).await;
        assert_eq!(found, vec![(Use::Used, Vec::new()); 100]);
        assert_eq!(cluster.asked(), LOOK);
        tokio::time::advance(SHARED).await;
        neighbours.missed(&reader, "team").await.unwrap();
        assert_eq!(cluster.asked(), 2 * LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_is_found_unused_by_a_look_of_its_own() {
        let (cluster, neighbours) = (Cluster::default(), Neighbours::default());
        let reader = cluster.reader();
        neighbours.missed(&reader, "team").await.unwrap();
        cluster.names("engine-2");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(neighbours.use_of(&reader, "team", "engine-2").await.unwrap(), Use::Used);
        assert_eq!(neighbours.use_of(&reader, "team", "engine-1").await.unwrap(), Use::Unused);
    }

    #[tokio::test(start_paused = true)]
    async fn who_uses_what_is_unknown_while_something_cannot_be_read() {
        let (cluster, neighbours) = (Cluster::default(), Neighbours::default());
        cluster.has_one_that_cannot_be_read();
        assert_eq!(neighbours.use_of(&cluster.reader(), "team", "engine-1").await.unwrap(), Use::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_misses_an_artifact_is_seen_at_the_next_look() {
        let (cluster, neighbours) = (Cluster::default(), Neighbours::default());
        let reader = cluster.reader();
        neighbours.missed(&reader, "team").await.unwrap();
        neighbours.forget("team");
        neighbours.forget("other");
        neighbours.missed(&reader, "team").await.unwrap();
        neighbours.missed(&reader, "team").await.unwrap();
        assert_eq!(cluster.asked(), 2 * LOOK);
    }
}
