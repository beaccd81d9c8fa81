//! The cluster: reads AgentDeployments, events and evidence, writes decisions, asks agents. Reads and writes IO.

use std::{io, path::PathBuf};

use futures::Stream;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    store::{self, StoreRecord},
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_vocabulary::{
    evidence::{Evidence, Implausible, PATH as EVIDENCE_PATH},
    recording::{PATH as RECORDING_PATH, Recording},
};
use thiserror::Error;

use crate::{
    conversation::Run,
    failure::said,
    record::{Pods, by_clock},
};

/// Port of a pod on which it serves its evidence.
const ADMIN_PORT: u16 = 9464;
/// Who writes decisions, as `kubectl get --show-managed-fields` tells. Flux takes over what field managers wrote whose
/// names begin with `kubectl`.
const FIELD_MANAGER: &str = "slipway-plugin";

/// Why the cluster gave no answer.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The kubeconfig cannot be read.
    #[error("failed to read the kubeconfig {path}")]
    NoKubeconfig {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("failed to use the kubeconfig")]
    Kubeconfig(#[source] KubeconfigError),
    /// The client cannot be set up.
    #[error("failed to set up a client")]
    Client(#[source] Box<kube::Error>),
    /// There is no such AgentDeployment.
    #[error(
        "there is no AgentDeployment {name} in namespace {namespace}: `kubectl get agd --all-namespaces` lists them"
    )]
    Absent {
        /// Its name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// Nothing is known of a store.
    #[error(
        "namespace {namespace} has no record of an artifact store: the operator writes one once an AgentDeployment is \
         applied there"
    )]
    NoStore {
        /// The namespace.
        namespace: String,
    },
    /// A server refused.
    #[error("failed to {action}: HTTP {code}: {said}")]
    Refused {
        /// What was tried.
        action: String,
        /// The HTTP status.
        code: u16,
        /// What it said.
        said: String,
    },
    /// No server answered.
    #[error("failed to {action}")]
    Unreachable {
        /// What was tried.
        action: String,
        /// What stood in the way.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server's address and this path make no valid request.
    #[error("failed to build a request for {path}")]
    Request {
        /// The path.
        path: String,
        /// What is wrong with it.
        #[source]
        source: http::Error,
    },
    /// A pod says of its runs what cannot be, or in a later form.
    #[error("failed to use the evidence of pod {pod}")]
    Evidence {
        /// The pod.
        pod: String,
        /// What is wrong with it.
        #[source]
        source: Implausible,
    },
    /// What came back is not what it should be.
    #[error("failed to read the answer {text:?}")]
    Answer {
        /// The answer.
        text: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
}

/// What a watch tells.
pub type Told<K> = watcher::Result<watcher::Event<K>>;

/// Which cluster, and where in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The kubeconfig; absent means kubectl's own rules.
    pub kubeconfig: Option<PathBuf>,
    /// The context; absent means the current one.
    pub context: Option<String>,
    /// The namespace; absent means the context's.
    pub namespace: Option<String>,
}

impl Place {
    /// The flags that lead kubectl there.
    pub fn flags(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let flags = [("--kubeconfig", &kubeconfig), ("--context", &self.context), ("--namespace", &self.namespace)];
        let written = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]));
        written.flatten().collect()
    }
}

/// One namespace of a cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    /// As kubectl is to be told.
    place: Place,
}

/// A request through the API server's proxy.
struct Call {
    method: &'static str,
    /// Below the namespace: `services/NAME:PORT/proxy/...`.
    target: String,
    body: Vec<u8>,
}

impl Cluster {
    /// Connects.
    ///
    /// # Errors
    /// When there is no kubeconfig, or it cannot be used.
    pub async fn connect(place: Place) -> Result<Self, ClusterError> {
        let kubeconfig = match &place.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: place.context.clone(), ..Default::default() };
        let config = match kubeconfig {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        };
        let config = config.map_err(unusable)?;
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|source| ClusterError::Client(Box::new(source)))?;
        let place = Place { namespace: Some(namespace.clone()), ..place };
        Ok(Self { client, namespace, place })
    }

    /// A namespace behind a client.
    pub fn behind(client: Client, namespace: &str) -> Self {
        let place = Place { namespace: Some(namespace.to_owned()), ..Place::default() };
        Self { client, namespace: namespace.to_owned(), place }
    }

    /// An AgentDeployment.
    ///
    /// # Errors
    /// When there is none of that name, or the API server refuses.
    pub async fn get(&self, name: &str) -> Result<AgentDeployment, ClusterError> {
        let api: Api<AgentDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(name).await.map_err(refused(format!("read AgentDeployment {name}")))?;
        found.ok_or_else(|| ClusterError::Absent { name: name.to_owned(), namespace: self.namespace.clone() })
    }

    /// Changes an AgentDeployment by a merge patch, if it is still as it was read.
    ///
    /// # Errors
    /// When the API server refuses; also when somebody else has changed it meanwhile.
    pub async fn patch(&self, object: &AgentDeployment, patch: &Value) -> Result<(), ClusterError> {
        let name = object.name_any();
        let api: Api<AgentDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut patch = patch.clone();
        patch["metadata"]["resourceVersion"] = json!(object.resource_version());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let patched = api.patch(&name, &params, &Patch::Merge(&patch)).await;
        patched.map(drop).map_err(refused(format!("change AgentDeployment {name}")))
    }

    /// The events of an AgentDeployment: of this one, not of an earlier one of its name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn events(&self, object: &AgentDeployment) -> Result<Vec<Event>, ClusterError> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = api.list(&ListParams::default().fields(&about(object))).await;
        Ok(list.map_err(refused("list events".to_owned()))?.items)
    }

    /// Watches an AgentDeployment, and what has its name.
    pub fn watch_agent(&self, name: &str) -> impl Stream<Item = Told<AgentDeployment>> + Send + use<> {
        let api: Api<AgentDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        watcher(api, watcher::Config::default().fields(&format!("metadata.name={name}"))).default_backoff()
    }

    /// Watches the pods of an AgentDeployment: those of its revisions and of its Jobs.
    pub fn watch_pods(&self, name: &str) -> impl Stream<Item = Told<Pod>> + Send + use<> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        watcher(api, watcher::Config::default().labels(&of_agent(name))).default_backoff()
    }

    /// Watches the events of an AgentDeployment.
    pub fn watch_events(&self, object: &AgentDeployment) -> impl Stream<Item = Told<Event>> + Send + use<> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        watcher(api, watcher::Config::default().fields(&about(object))).default_backoff()
    }

    /// The pods of an AgentDeployment: those of its revisions and of its Jobs.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn pods(&self, name: &str) -> Result<Vec<Pod>, ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = api.list(&ListParams::default().labels(&of_agent(name))).await;
        Ok(list.map_err(refused("list pods".to_owned()))?.items)
    }

    /// The campaign that the status of an AgentDeployment names; it may have been deleted since.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn profile(&self, object: &AgentDeployment) -> Result<Option<Profile>, ClusterError> {
        let Some(name) = object.status.as_ref().and_then(|status| status.profile.as_ref()) else { return Ok(None) };
        let api: Api<Profile> = Api::namespaced(self.client.clone(), &self.namespace);
        api.get_opt(name).await.map_err(refused(format!("read Profile {name}")))
    }

    /// The engines that the status of an AgentDeployment names, as far as they are there.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn engines(&self, object: &AgentDeployment) -> Result<Vec<Engine>, ClusterError> {
        let api: Api<Engine> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut found = Vec::new();
        for choice in object.status.iter().flat_map(|status| &status.engines) {
            found.extend(api.get_opt(&choice.name).await.map_err(refused(format!("read Engine {}", choice.name)))?);
        }
        Ok(found)
    }

    /// What the operator knows of the artifact store.
    ///
    /// # Errors
    /// When the API server refuses, there is no record yet, or it is of a later version.
    pub async fn store(&self) -> Result<StoreRecord, ClusterError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(store::NAME).await.map_err(refused(format!("read ConfigMap {}", store::NAME)))?;
        let text = found.and_then(|object| object.data?.remove(store::KEY));
        let text = text.ok_or_else(|| ClusterError::NoStore { namespace: self.namespace.clone() })?;
        serde_json::from_str(&text).map_err(|source| ClusterError::Answer { text, source })
    }

    /// What the serving pods counted in the last hour.
    ///
    /// # Errors
    /// When the API server refuses, a pod does not answer, or what it says cannot be.
    pub async fn evidence(&self, name: &str) -> Result<Vec<Evidence>, ClusterError> {
        let mut evidence = Vec::new();
        for pod in self.serving_pods(name).await? {
            let target = format!("pods/{pod}:{ADMIN_PORT}/proxy{EVIDENCE_PATH}?after=0");
            let action = format!("read the evidence of pod {pod}");
            let counted = self.proxied::<Evidence>(action, Call { method: "GET", target, body: Vec::new() }).await?;
            counted.check().map_err(|source| ClusterError::Evidence { pod, source })?;
            evidence.push(counted);
        }
        Ok(evidence)
    }

    /// What the serving pods remember of runs, without texts, by a clock in microseconds of Unix time.
    ///
    /// # Errors
    /// When the API server refuses, or a pod does not answer.
    pub async fn recordings(&self, name: &str, clock: fn() -> u64) -> Result<Pods, ClusterError> {
        let mut pods = Pods::default();
        for pod in self.serving_pods(name).await? {
            let target = format!("pods/{pod}:{ADMIN_PORT}/proxy{RECORDING_PATH}");
            let action = format!("read what pod {pod} remembers");
            let call = Call { method: "GET", target, body: Vec::new() };
            match self.proxied::<Recording>(action, call).await {
                // A pod has the name by which the API server knows it, whatever it says.
                Ok(recording) => pods.recordings.push(by_clock(Recording { pod, ..recording }, clock())),
                Err(ClusterError::Refused { code: 404, .. }) => {
                    let is_there = self.serving_pods(name).await?.contains(&pod);
                    let of_its_kind = if is_there { &mut pods.older } else { &mut pods.gone };
                    of_its_kind.push(pod);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pods)
    }

    /// Which cluster it is, and where in it.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The names of the pods that serve an agent.
    async fn serving_pods(&self, name: &str) -> Result<Vec<String>, ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("{}={name},{}", labels::AGENT_DEPLOYMENT, labels::REVISION);
        let pods = api.list(&ListParams::default().labels(&selector)).await.map_err(refused("list pods".to_owned()))?;
        Ok(pods.items.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect())
    }

    /// Asks an agent, through the API server's proxy to its Service. A run that failed is an answer too.
    ///
    /// # Errors
    /// When there is no such agent, the API server refuses, or the agent does not answer.
    pub async fn ask(&self, name: &str, question: &str) -> Result<Run, ClusterError> {
        self.get(name).await?;
        let target = format!("services/{name}:80/proxy/v1/runs");
        let body = json!({ "input": question }).to_string().into_bytes();
        self.proxied(format!("call /v1/runs of {name}"), Call { method: "POST", target, body }).await
    }

    async fn proxied<T: DeserializeOwned>(&self, action: String, call: Call) -> Result<T, ClusterError> {
        let Call { method, target, body } = call;
        let path = format!("/api/v1/namespaces/{}/{target}", self.namespace);
        let request = http::Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body))
            .map_err(|source| ClusterError::Request { path, source })?;
        // kube's own reading of errors takes any JSON object for an empty Status, and what the agent said would be
        // lost.
        let response = self.client.send(request).await.map_err(refused(action.clone()))?;
        let code = response.status();
        let body = response.into_body().collect_bytes().await.map_err(refused(action.clone()))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if !code.is_success() && is_refusal(&text) {
            return Err(ClusterError::Refused { action, code: code.as_u16(), said: said(&text) });
        }
        serde_json::from_str(&text).map_err(|source| ClusterError::Answer { text, source })
    }
}

/// Whether the body of an unsuccessful answer is an error of a server; the record of a failed run is not.
fn is_refusal(body: &str) -> bool {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    parsed.is_none_or(|json| json.get("steps").is_none())
}

/// The selector of pods of an AgentDeployment.
fn of_agent(name: &str) -> String {
    format!("{}={name}", labels::AGENT_DEPLOYMENT)
}

/// The selector of events about an object: not about an earlier one of its name.
fn about(object: &AgentDeployment) -> String {
    format!("involvedObject.uid={}", object.uid().unwrap_or_default())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn unusable(error: KubeconfigError) -> ClusterError {
    match error {
        KubeconfigError::ReadConfig(source, path) => ClusterError::NoKubeconfig { path, source },
        other => ClusterError::Kubeconfig(other),
    }
}

/// What a refusal, or silence, becomes after an action.
pub fn refused(action: String) -> impl FnOnce(kube::Error) -> ClusterError {
    |source| match source {
        kube::Error::Api(status) => ClusterError::Refused { action, code: status.code, said: said(&status.message) },
        other => ClusterError::Unreachable { action, source: Box::new(other) },
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::failure::chain;

    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named_once_with_its_reason() {
        let place = Place { kubeconfig: Some(PathBuf::from("/nowhere/kubeconfig")), ..Place::default() };
        let message = Cluster::connect(place).await.err().map(|error| chain(&error));
        let expected = "failed to read the kubeconfig /nowhere/kubeconfig: No such file or directory (os error 2)";
        assert_eq!(message.as_deref(), Some(expected));
    }

    #[test]
    fn the_record_of_a_run_that_failed_is_no_refusal() {
        let run = r#"{"status":"failed","error":{"message":"more than 8 steps"},"steps":[]}"#;
        let bodies = [run, r#"{"kind":"Status","status":"Failure"}"#, r#"{"error":{"message":"x"}}"#, "not found"];
        assert_eq!(bodies.map(is_refusal), [false, true, true, true]);
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_own_words() {
        let status = Status::failure("agentdeployments is forbidden: not you", "Forbidden").with_code(403);
        let error = refused("read AgentDeployment x".to_owned())(kube::Error::Api(Box::new(status)));
        let expected = "failed to read AgentDeployment x: HTTP 403: agentdeployments is forbidden: not you";
        assert_eq!(chain(&error), expected);
    }
}
