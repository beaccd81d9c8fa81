//! The cluster: reads AgentDeployments, events and evidence, asks agents. Reads and writes IO.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_evidence::{Evidence, PATH as EVIDENCE_PATH};
use thiserror::Error;

use crate::{conversation::Run, measured::Measurements};

/// Port of a pod on which it serves its evidence.
const ADMIN_PORT: u16 = 9464;

/// Why the cluster gave no answer.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The kubeconfig cannot be used.
    #[error("failed to read the kubeconfig")]
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
    /// The API server refused.
    #[error("failed to {action}")]
    Refused {
        /// What was tried.
        action: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A path is no path.
    #[error("failed to make a request of {path}")]
    Request {
        /// The path.
        path: String,
        /// What is wrong with it.
        #[source]
        source: http::Error,
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

/// One namespace of a cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
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
        let options = KubeConfigOptions { context: place.context, ..Default::default() };
        let config = match kubeconfig {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        };
        let config = config.map_err(ClusterError::Kubeconfig)?;
        let namespace = place.namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|source| ClusterError::Client(Box::new(source)))?;
        Ok(Self { client, namespace })
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

    /// The events of an AgentDeployment: of this one, not of an earlier one of its name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn events(&self, object: &AgentDeployment) -> Result<Vec<Event>, ClusterError> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("involvedObject.uid={}", object.uid().unwrap_or_default());
        let list = api.list(&ListParams::default().fields(&selector)).await;
        Ok(list.map_err(refused("list events".to_owned()))?.items)
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

    /// What the serving pods counted in the last hour.
    ///
    /// # Errors
    /// When the API server refuses, or a pod does not answer.
    pub async fn measurements(&self, name: &str) -> Result<Measurements, ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("{}={name},{}", labels::AGENT_DEPLOYMENT, labels::REVISION);
        let pods = api.list(&ListParams::default().labels(&selector)).await.map_err(refused("list pods".to_owned()))?;
        let mut evidence = Vec::new();
        for pod in pods.items.iter().filter(|pod| is_ready(pod)) {
            let target = format!("pods/{}:{ADMIN_PORT}/proxy{EVIDENCE_PATH}?after=0", pod.name_any());
            evidence.push(self.proxied::<Evidence>("GET", &target, Vec::new()).await?);
        }
        Ok(Measurements::of(&evidence))
    }

    /// Asks an agent, through the API server's proxy to its Service. A run that failed is an answer too.
    ///
    /// # Errors
    /// When the API server refuses, or the agent does not answer.
    pub async fn ask(&self, name: &str, question: &str) -> Result<Run, ClusterError> {
        let target = format!("services/{name}:80/proxy/v1/runs");
        self.proxied("POST", &target, json!({ "input": question }).to_string().into_bytes()).await
    }

    async fn proxied<T: DeserializeOwned>(&self, method: &str, target: &str, body: Vec<u8>) -> Result<T, ClusterError> {
        let path = format!("/api/v1/namespaces/{}/{target}", self.namespace);
        let request = http::Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", "application/json")
            .body(body)
            .map_err(|source| ClusterError::Request { path: path.clone(), source })?;
        let text = self.client.request_text(request).await.map_err(refused(format!("{method} {path}")))?;
        serde_json::from_str(&text).map_err(|source| ClusterError::Answer { text, source })
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn refused(action: String) -> impl FnOnce(kube::Error) -> ClusterError {
    |source| ClusterError::Refused { action, source: Box::new(source) }
}
