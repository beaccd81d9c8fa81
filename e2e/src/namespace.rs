//! A namespace of a scenario's own, with the things in it that a scenario looks at. Reads and writes IO.

use std::{fmt::Debug, io, path::PathBuf, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Event, Namespace as KubernetesNamespace, Pod},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;

use crate::cluster::{self, ClusterError};

/// Why a scenario cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// There is no cluster.
    #[error("there is no cluster to run on")]
    Cluster(#[source] ClusterError),
    /// The API server refused.
    #[error("failed to {action}")]
    Kubernetes {
        /// What was tried.
        action: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A request that goes through the API server to a Service cannot be made.
    #[error("failed to make a request to {path}")]
    Request {
        /// Path of the request.
        path: String,
        /// What is wrong with it.
        #[source]
        source: axum::http::Error,
    },
    /// The answer is not JSON.
    #[error("failed to read the answer {text:?}")]
    Answer {
        /// The answer.
        text: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// Something did not come true in time.
    #[error("waited {seconds} s for {what}; last seen: {last}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// What was seen last.
        last: String,
    },
    /// The log of a pod breaks off.
    #[error("failed to read the log of {pod}")]
    Log {
        /// The pod.
        pod: String,
        /// What the connection said.
        #[source]
        source: std::io::Error,
    },
    /// A program that administrators use refused.
    #[error("{what} failed: {failure}")]
    Refused {
        /// What was tried.
        what: String,
        /// What the program said.
        failure: String,
    },
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// A manifest is not valid YAML.
    #[error("failed to read a manifest")]
    Manifest(#[source] serde_norway::Error),
}

/// Result of a step of a scenario.
pub type Outcome<T> = Result<T, ScenarioError>;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A namespace. It stays when a scenario fails, for inspection, and goes with the cluster.
pub struct Namespace {
    client: Client,
    name: String,
}

impl Namespace {
    /// Makes a namespace that admits restricted pods only.
    ///
    /// # Errors
    /// When there is no cluster, or the API server refuses.
    pub async fn create(name: &str) -> Outcome<Self> {
        let client = cluster::client().await.map_err(ScenarioError::Cluster)?;
        let namespaces: Api<KubernetesNamespace> = Api::all(client.clone());
        // By the second label `e2e/run.sh` finds what a suite left behind.
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "e2e.slipway.dev/scenario": "true"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        namespaces
            .patch(name, &PatchParams::apply("e2e"), &Patch::Apply(object))
            .await
            .map_err(|source| refused(format!("create namespace {name}"), source))?;
        Ok(Self { client, name: name.to_owned() })
    }

    /// The client of its cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes the namespace with all that is in it, so that failing Jobs do not run beside the next scenario.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete(self) -> Outcome<()> {
        let namespaces: Api<KubernetesNamespace> = Api::all(self.client);
        let deleted = namespaces.delete(&self.name, &DeleteParams::background()).await;
        deleted.map_err(|source| refused(format!("delete namespace {}", self.name), source))?;
        Ok(())
    }

    /// Removes the namespace, and waits until nothing is left of it.
    ///
    /// # Errors
    /// When it is still there after `limit`, with what Kubernetes says keeps it.
    pub async fn delete_to_its_end(self, limit: Duration) -> Outcome<()> {
        let namespaces: Api<KubernetesNamespace> = Api::all(self.client.clone());
        let name = self.name.clone();
        self.delete().await?;
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let found = namespaces.get_opt(&name).await;
            let found = found.map_err(|source| refused(format!("get namespace {name}"), source))?;
            let Some(namespace) = found else { return Ok(()) };
            if tokio::time::Instant::now() > deadline {
                let (what, last) = (format!("namespace {name}: gone"), format!("{:?}", namespace.status));
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The objects of a kind.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies every document of a manifest with kubectl, as a user does.
    ///
    /// # Errors
    /// When kubectl refuses, in its own words.
    pub fn kubectl_apply(&self, path: &str) -> Result<(), String> {
        let output = cluster::kubectl(&["--namespace", &self.name, "apply", "-f", path]).map_err(|e| e.to_string())?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// Creates or changes an AgentDeployment.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn apply(&self, object: &Value) -> Outcome<AgentDeployment> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.api::<AgentDeployment>()
            .patch(name, &PatchParams::apply("e2e").force(), &Patch::Apply(object))
            .await
            .map_err(|source| refused(format!("apply AgentDeployment {name}"), source))
    }

    /// Waits until an object is as it should be. `look` gives what it found, or what it saw instead.
    ///
    /// # Errors
    /// When the object does not become so within `limit`, with what was seen last.
    pub async fn wait<K, T>(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        look: impl Fn(&K) -> Result<T, String>,
    ) -> Outcome<T>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api = self.api::<K>();
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let found = api.get_opt(name).await.map_err(|source| refused(format!("get {name}"), source))?;
            let last = match found.as_ref().map(&look) {
                Some(Ok(result)) => return Ok(result),
                Some(Err(last)) => last,
                None => "nothing of that name".to_owned(),
            };
            if tokio::time::Instant::now() > deadline {
                let what = format!("{name} in {}: {what}", self.name);
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the object of a name is gone.
    ///
    /// # Errors
    /// When it is still there after `limit`.
    pub async fn wait_until_gone<K>(&self, name: &str, limit: Duration) -> Outcome<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let found = self.api::<K>().get_opt(name).await;
            let Some(object) = found.map_err(|source| refused(format!("get {name}"), source))? else { return Ok(()) };
            if tokio::time::Instant::now() > deadline {
                let (what, last) = (format!("{name} in {}: gone", self.name), format!("{:?}", object.meta()));
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until an AgentDeployment is Ready for the generation that was applied, and nothing is under way.
    ///
    /// # Errors
    /// When that does not come true within `limit`.
    pub async fn wait_until_served(&self, object: &AgentDeployment, limit: Duration) -> Outcome<AgentDeployment> {
        let generation = object.metadata.generation;
        self.wait(&object.name_any(), "served and at rest", limit, move |object: &AgentDeployment| {
            let is_current = object.status.as_ref().is_some_and(|status| status.observed_generation == generation);
            let is = |condition| condition_of(object, condition).is_some_and(|(status, ..)| status == "True");
            if is_current && is("Ready") && !is("Reconciling") && !is("Stalled") {
                Ok(object.clone())
            } else {
                Err(summary(object))
            }
        })
        .await
    }

    /// Waits until an AgentDeployment's condition is true and its message holds a text; gives the message.
    ///
    /// # Errors
    /// When that does not come true within `limit`.
    pub async fn wait_for_message(&self, name: &str, condition: &str, text: &str, limit: Duration) -> Outcome<String> {
        self.wait(name, &format!("{condition} with {text:?}"), limit, |object: &AgentDeployment| {
            match condition_of(object, condition) {
                Some((status, _, message)) if status == "True" && message.contains(text) => Ok(message),
                _ => Err(summary(object)),
            }
        })
        .await
    }

    /// Waits until a Deployment of the scenario has all its pods ready.
    ///
    /// # Errors
    /// When that does not come true within `limit`.
    pub async fn wait_until_available(&self, deployment: &str, limit: Duration) -> Outcome<()> {
        self.wait(deployment, "available", limit, |object: &Deployment| {
            let wanted = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let ready = object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            if ready >= wanted { Ok(()) } else { Err(format!("{ready} of {wanted} pods ready")) }
        })
        .await
    }

    /// Scales a Deployment.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn scale(&self, deployment: &str, replicas: i32) -> Outcome<()> {
        self.api::<Deployment>()
            .patch_scale(deployment, &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": replicas}})))
            .await
            .map_err(|source| refused(format!("scale {deployment}"), source))?;
        Ok(())
    }

    /// The pods with a label.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn pods(&self, selector: &str) -> Outcome<Vec<Pod>> {
        let list = self.api::<Pod>().list(&ListParams::default().labels(selector)).await;
        Ok(list.map_err(|source| refused(format!("list pods with {selector}"), source))?.items)
    }

    /// Waits until no pod has a label.
    ///
    /// # Errors
    /// When one is left after `limit`, with its name.
    pub async fn wait_until_no_pods(&self, selector: &str, limit: Duration) -> Outcome<()> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let pods = self.pods(selector).await?;
            let Some(pod) = pods.first() else { return Ok(()) };
            if tokio::time::Instant::now() > deadline {
                let what = format!("{selector} in {}: no pods", self.name);
                let last = format!("{} of {} left", pod.name_any(), pods.len());
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reasons of the events about an object of the scenario, the oldest first.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn event_reasons(&self, name: &str) -> Outcome<Vec<String>> {
        Ok(self.events(name).await?.into_iter().filter_map(|event| event.reason).collect())
    }

    async fn events(&self, name: &str) -> Outcome<Vec<Event>> {
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let list = self.api::<Event>().list(&about).await;
        let mut events = list.map_err(|source| refused(format!("list events about {name}"), source))?.items;
        events.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
        Ok(events)
    }

    /// Waits for an event about an object; gives its message.
    ///
    /// # Errors
    /// When none has come within `limit`, with the reasons of those that have.
    pub async fn wait_for_event(&self, name: &str, reason: &str, limit: Duration) -> Outcome<String> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let mut events = self.events(name).await?;
            if let Some(at) = events.iter().position(|event| event.reason.as_deref() == Some(reason)) {
                return Ok(events.swap_remove(at).message.unwrap_or_default());
            }
            if tokio::time::Instant::now() > deadline {
                let what = format!("{name} in {}: an event {reason}", self.name);
                let last = format!("{:?}", events.into_iter().filter_map(|event| event.reason).collect::<Vec<_>>());
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The log of a pod's container.
    ///
    /// # Errors
    /// When the kubelet has none.
    pub async fn log(&self, pod: &str, container: &str) -> Outcome<String> {
        let params = LogParams { container: Some(container.to_owned()), ..Default::default() };
        self.api::<Pod>().logs(pod, &params).await.map_err(|source| refused(format!("read the log of {pod}"), source))
    }

    /// Creates an object of a kind that is known at compile time.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn create_object<K>(&self, object: &K) -> Outcome<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + serde::Serialize
            + Debug,
    {
        let created = self.api::<K>().create(&PostParams::default(), object).await;
        created.map_err(|source| refused(format!("create {}", object.meta().name.clone().unwrap_or_default()), source))
    }

    /// Runs a pod of one container to its end, and gives its log.
    ///
    /// # Errors
    /// When the cluster refuses, or the pod does not succeed, with its log.
    pub async fn run_to_end(&self, pod: &Pod) -> Outcome<String> {
        let name = self.create_object(pod).await?.name_any();
        let limit = Duration::from_secs(60);
        let phase = self
            .wait(&name, "ended", limit, |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
                if matches!(phase.as_str(), "Succeeded" | "Failed") { Ok(phase) } else { Err(phase) }
            })
            .await?;
        let container = pod.spec.iter().flat_map(|spec| &spec.containers).map(|c| c.name.as_str()).next();
        let log = self.log(&name, container.unwrap_or_default()).await?;
        if phase == "Succeeded" {
            Ok(log)
        } else {
            Err(ScenarioError::Refused { what: format!("pod {name}"), failure: log })
        }
    }

    /// Deletes the pods with a label, so that their owner makes new ones.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn delete_pods(&self, selector: &str) -> Outcome<()> {
        self.api::<Pod>()
            .delete_collection(&DeleteParams::default().grace_period(1), &ListParams::default().labels(selector))
            .await
            .map_err(|source| refused(format!("delete pods with {selector}"), source))?;
        Ok(())
    }

    /// Sends a request to a Service through the API server. The answer is JSON, whatever its status.
    ///
    /// # Errors
    /// When there is no answer, or it is not JSON.
    pub async fn request(&self, method: &str, service: &str, path: &str, body: Option<&Value>) -> Outcome<Value> {
        let text = self.request_text(method, service, path, body).await?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|source| ScenarioError::Answer { text, source })
    }

    /// The same, where the answer is a text, such as metrics.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn request_text(&self, method: &str, service: &str, path: &str, body: Option<&Value>) -> Outcome<String> {
        let path = format!("/api/v1/namespaces/{}/services/{service}:80/proxy{path}", self.name);
        let request = axum::http::Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", "application/json")
            .body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
            .map_err(|source| ScenarioError::Request { path: path.clone(), source })?;
        self.client.request_text(request).await.map_err(|source| refused(format!("{method} {path}"), source))
    }
}

/// The API server's refusal of an action.
pub(crate) fn refused(action: String, source: kube::Error) -> ScenarioError {
    ScenarioError::Kubernetes { action, source: Box::new(source) }
}

/// Status, reason and message of a condition.
pub fn condition_of(object: &AgentDeployment, condition: &str) -> Option<(String, String, String)> {
    let conditions = &object.status.as_ref()?.conditions;
    let found = conditions.iter().find(|c| c.type_ == condition)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

fn summary(object: &AgentDeployment) -> String {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)).collect::<Vec<_>>().join("; ")
}
