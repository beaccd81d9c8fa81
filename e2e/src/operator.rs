//! The operator as its administrators see it: its metrics, its memory, its writes, and its exchange for another
//! version. Reads the environment; reads and writes IO.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    agents::path,
    cluster,
    namespace::{Outcome, ScenarioError},
};

/// Names the helm that installed the charts.
pub const HELM: &str = "SLIPWAY_E2E_HELM";
/// Names the audit log of the API server.
pub const AUDIT_LOG: &str = "SLIPWAY_E2E_AUDIT_LOG";

const NAMESPACE: &str = "slipway-system";
/// Deployment, container, program and lease.
const NAME: &str = "slipway-operator";
const SELECTOR: &str = "app.kubernetes.io/name=slipway-operator";
/// The operator's name in the audit log.
const USER: &str = "system:serviceaccount:slipway-system:slipway-operator";
/// Where the audit log names the pod whose token was shown.
const OF_POD: &str = "authentication.kubernetes.io/pod-name";
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The operator of the cluster.
pub struct Operator {
    client: Client,
}

/// A write as the API server's audit log has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// The verb: create, update, patch, delete.
    pub verb: String,
    /// What was written.
    #[serde(default)]
    pub object_ref: Option<Written>,
    /// When the API server received it.
    pub request_received_timestamp: MicroTime,
    #[serde(default)]
    response_status: Answer,
    user: User,
}

impl Write {
    /// Whether the API server did what it was asked for.
    pub fn is_committed(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// Whether an object exists since: a server-side apply may create one, too.
    pub fn is_creation(&self) -> bool {
        self.response_status.code == 201
    }

    /// When the API server received it, in milliseconds of the Unix epoch.
    pub fn received_unix_millis(&self) -> i64 {
        self.request_received_timestamp.0.as_millisecond()
    }

    /// The pod that asked for it.
    pub fn pod(&self) -> &str {
        self.user.extra.get(OF_POD).and_then(|names| names.first()).map_or("", String::as_str)
    }

    /// Whether it renews, claims or gives back the leader's lease.
    pub fn is_of_lease(&self) -> bool {
        self.object_ref.as_ref().is_some_and(|object| object.resource == "leases" && object.name == NAME)
    }
}

/// The object of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Written {
    /// The kind, as in `pods`.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `status`, or nothing.
    pub subresource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct User {
    username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
}

/// A place in the audit log.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

/// Who leads, as the lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The pod.
    pub holder: String,
    /// How often another pod has become the holder.
    pub transitions: i32,
}

impl Operator {
    /// Finds the operator.
    ///
    /// # Errors
    /// When there is no cluster.
    pub async fn find() -> Outcome<Self> {
        Ok(Self { client: cluster::client().await.map_err(ScenarioError::Cluster)? })
    }

    /// The pod that leads; waits while one version makes room for the other.
    ///
    /// # Errors
    /// When none leads within `limit`.
    pub async fn leader(&self, image_tag: &str, limit: Duration) -> Outcome<String> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let mut seen = Vec::new();
            for pod in self.pods().await? {
                let name = pod.name_any();
                let metrics = self.metrics(&name).await.unwrap_or_default();
                let image = pod.spec.iter().flat_map(|spec| &spec.containers).find_map(|c| c.image.clone());
                let image = image.unwrap_or_default();
                if image.ends_with(image_tag) && metrics.get("slipway_operator_leading") == Some(&1) {
                    return Ok(name);
                }
                seen.push(format!("{name} of {image}"));
            }
            if tokio::time::Instant::now() > deadline {
                let what = format!("an operator of {image_tag} that leads");
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last: seen.join(", ") });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until a pod of the operator has reconciled so many more objects of a kind; gives the number.
    ///
    /// # Errors
    /// When it does not within `limit`.
    pub async fn wait_for_reconciliations(&self, pod: &str, kind: &str, more: u64, limit: Duration) -> Outcome<u64> {
        let key = format!("slipway_operator_reconciliations_total{{kind=\"{kind}\",outcome=\"success\"}}");
        let count = async || Ok::<_, ScenarioError>(self.metrics(pod).await?.get(&key).copied().unwrap_or_default());
        let before = count().await?;
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let now = count().await?;
            if now >= before + more {
                return Ok(now - before);
            }
            if tokio::time::Instant::now() > deadline {
                let (what, last) = (format!("{more} reconciliations of {kind}"), (now - before).to_string());
                return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Bytes that a pod's container holds, as the kubelet counts them: working set, and resident memory without file
    /// pages.
    ///
    /// # Errors
    /// When the kubelet does not answer.
    pub async fn memory(&self, pod: &str) -> Outcome<(u64, u64)> {
        let node = self.pods().await?.into_iter().find(|p| p.name_any() == pod).and_then(|p| p.spec?.node_name);
        let path = format!("/api/v1/nodes/{}/proxy/stats/summary", node.unwrap_or_default());
        let text = self.get(&path).await?;
        let summary: Value = serde_json::from_str(&text).map_err(|source| ScenarioError::Answer { text, source })?;
        let pods = summary["pods"].as_array().into_iter().flatten();
        let memory = pods.filter(|p| p["podRef"]["name"] == pod).map(|p| p["containers"][0]["memory"].clone()).next();
        let bytes = |key: &str| memory.as_ref().and_then(|memory| memory[key].as_u64()).unwrap_or_default();
        Ok((bytes("workingSetBytes"), bytes("rssBytes")))
    }

    /// Exchanges the operator, as an administrator does.
    ///
    /// # Errors
    /// When helm refuses, in its own words.
    pub fn upgrade(&self, image_tag: &str) -> Outcome<()> {
        self.configure(&format!("image.tag={image_tag}"))
    }

    /// Sets a value of the operator's chart, as an administrator does.
    ///
    /// # Errors
    /// When helm refuses, in its own words.
    pub fn configure(&self, setting: &str) -> Outcome<()> {
        let release = ["slipway", "--namespace", NAMESPACE, "--reuse-values", "--wait", "--timeout", "2m"];
        helm_upgrade("../charts/slipway", &[&release[..], &["--set", setting]].concat())
    }

    /// Exchanges the CRDs for those of this checkout, as an administrator does before the operator.
    ///
    /// # Errors
    /// When helm refuses, in its own words.
    pub fn upgrade_definitions(&self) -> Outcome<()> {
        helm_upgrade("../charts/slipway-crds", &["slipway-crds"])
    }

    /// The end of the audit log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn mark(&self) -> Outcome<Mark> {
        let path = audit_log();
        let length = fs::metadata(&path).map(|metadata| metadata.len());
        length.map(Mark).map_err(|source| ScenarioError::Read { path, source })
    }

    /// What the operator has written since.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn writes_since(&self, Mark(start): Mark) -> Outcome<Vec<Write>> {
        let path = audit_log();
        let log = read_from(&path, start).map_err(|source| ScenarioError::Read { path, source })?;
        // The last line may be half written.
        let writes = log.lines().filter_map(|line| serde_json::from_str::<Write>(line).ok());
        Ok(writes.filter(|write| write.user.username == USER).collect())
    }

    /// Who leads, as the lease says.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn claim(&self) -> Outcome<Claim> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let lease = api.get(NAME).await.map_err(|source| refused("get the leader's lease", source))?;
        let spec = lease.spec.unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or_default();
        Ok(Claim { holder: spec.holder_identity.unwrap_or_default(), transitions })
    }

    /// How often the process of each pod of the operator has ended and was started again.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn restarts(&self) -> Outcome<BTreeMap<String, i32>> {
        let restarts_of = |pod: &Pod| {
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            statuses.map(|container| container.restart_count).sum()
        };
        Ok(self.pods().await?.iter().map(|pod| (pod.name_any(), restarts_of(pod))).collect())
    }

    /// What a pod of the operator has logged since its process was started last.
    ///
    /// # Errors
    /// When the kubelet has no log.
    pub async fn log(&self, pod: &str) -> Outcome<String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let log = api.logs(pod, &LogParams::default()).await;
        log.map_err(|source| refused(&format!("read the log of {pod}"), source))
    }

    async fn pods(&self) -> Outcome<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let list = api.list(&ListParams::default().labels(SELECTOR)).await;
        let pods = list.map_err(|source| refused("list the operator's pods", source))?.items;
        Ok(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    /// Whole numbers of the metrics, by name with labels.
    async fn metrics(&self, pod: &str) -> Outcome<BTreeMap<String, u64>> {
        let text = self.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8081/proxy/metrics")).await?;
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }

    async fn get(&self, path: &str) -> Outcome<String> {
        let request = axum::http::Request::get(path)
            .body(Vec::new())
            .map_err(|source| ScenarioError::Request { path: path.to_owned(), source })?;
        self.client.request_text(request).await.map_err(|source| refused(&format!("GET {path}"), source))
    }
}

fn helm_upgrade(chart: &str, arguments: &[&str]) -> Outcome<()> {
    let (program, kubeconfig) = (env::var_os(HELM).unwrap_or_default(), env::var_os(cluster::KUBECONFIG));
    let mut helm = Command::new(program);
    helm.arg("--kubeconfig").arg(kubeconfig.unwrap_or_default()).arg("upgrade").args(arguments).arg(path(chart));
    let failure = match helm.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Err(ScenarioError::Refused { what: format!("helm upgrade {}", arguments.join(" ")), failure })
}

fn refused(action: &str, source: kube::Error) -> ScenarioError {
    ScenarioError::Kubernetes { action: action.to_owned(), source: Box::new(source) }
}

fn audit_log() -> PathBuf {
    PathBuf::from(env::var_os(AUDIT_LOG).unwrap_or_default())
}

fn read_from(path: &Path, start: u64) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
