//! The agent of the scenarios, how they deploy and question it, and what they measure it with.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::namespace::{Namespace, Outcome, ScenarioError};

/// Longest time from a manifest to a pod that serves, on a machine of two cores.
pub const READY_LIMIT: Duration = Duration::from_secs(240);

/// Name of the ConfigMap with prompts, recorded runs and samples, as the manifests of the demo have it.
const WORKLOAD: &str = "demo-workload";

/// A file of this crate.
pub fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// The manifest of an agent `facts-agent` that looks facts up, served without measuring.
///
/// # Errors
/// When the manifest is not valid YAML.
pub fn facts_agent() -> Outcome<Value> {
    serde_norway::from_str(include_str!("../manifests/agent.yaml")).map_err(ScenarioError::Manifest)
}

/// A source of a workload or a data set: a key of the ConfigMap that [`Namespace::give_workload`] makes.
pub fn workload_source(key: &str) -> Value {
    json!({"configMap": {"name": WORKLOAD, "key": key}})
}

/// A namespace with the servers that the agent needs.
///
/// # Errors
/// When the cluster refuses, or the servers do not come up.
pub async fn namespace_with_servers(name: &str) -> Outcome<Namespace> {
    let namespace = Namespace::create(name).await?;
    let manifest = path("manifests/demo/servers.yaml");
    namespace.kubectl_apply(&manifest.to_string_lossy()).map_err(|last| ScenarioError::TimedOut {
        what: "kubectl apply of the servers".to_owned(),
        seconds: 0,
        last,
    })?;
    for server in ["models", "facts"] {
        namespace.wait_until_available(server, Duration::from_secs(60)).await?;
    }
    Ok(namespace)
}

/// A question from the held-out half of the model's corpus, with the expected outcome.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Question {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The question.
    pub question: String,
    /// What the agent must look up.
    pub lookups: Vec<Lookup>,
    /// The answer.
    pub answer: String,
}

/// A fact that a question asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Lookup {
    /// What it is about.
    pub entity: String,
    /// What of it.
    pub property: String,
    /// The value.
    pub value: String,
}

/// A seed that no run before has had: entity and numbers are drawn again in every run.
pub fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Draws a question.
///
/// # Errors
/// When the generator, which needs python3, does not answer.
pub fn draw_question(seed: u64) -> Outcome<Question> {
    let generator = path("model/questions.py");
    let output = Command::new("python3").arg(generator).arg("--seed").arg(seed.to_string()).output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    serde_json::from_str(&text).map_err(|source| ScenarioError::Answer { text, source })
}

/// An object of a kind that is known at compile time.
pub(crate) fn parsed<K: DeserializeOwned>(object: Value) -> Outcome<K> {
    serde_json::from_value(object.clone()).map_err(|source| ScenarioError::Answer { text: object.to_string(), source })
}

impl Namespace {
    /// Makes the facts of a question known, and forgets earlier calls.
    ///
    /// # Errors
    /// When the server of facts does not answer.
    pub async fn teach(&self, question: &Question) -> Outcome<()> {
        for Lookup { entity, property, value } in &question.lookups {
            let value: i64 = value.parse().unwrap_or_default();
            let path = format!("/facts/{entity}/{property}");
            self.request("PUT", "facts", &path, Some(&json!({ "value": value }))).await?;
        }
        self.request("DELETE", "facts", "/calls", None).await?;
        Ok(())
    }

    /// Puts the demo's prompts, recorded runs and samples into a ConfigMap.
    ///
    /// # Errors
    /// When a file cannot be read, or the API server refuses.
    pub async fn give_workload(&self) -> Outcome<()> {
        let mut data = json!({});
        for key in ["prompts.jsonl", "trace.jsonl", "quality.jsonl"] {
            let path = path("manifests/demo/workload").join(key);
            let text = fs::read_to_string(&path).map_err(|source| ScenarioError::Read { path, source })?;
            data[key] = json!(text);
        }
        let metadata = json!({"name": WORKLOAD});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.create_object::<ConfigMap>(&parsed(object)?).await?;
        Ok(())
    }

    /// Starts a second place for models, `mirror`: what a ConfigMap holds is its model of the same name.
    ///
    /// # Errors
    /// When the cluster refuses, or the server does not come up.
    pub async fn add_mirror(&self, config_map: &str) -> Outcome<()> {
        let labels = json!({"app": "mirror"});
        let pod = json!({
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "models", "image": "slipway.dev/slipway-e2e:dev", "imagePullPolicy": "IfNotPresent",
                "args": ["models", "--root", "/mirror"],
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "model", "mountPath": format!("/mirror/{config_map}")}],
            }],
            "volumes": [{"name": "model", "configMap": {"name": config_map}}],
        });
        self.create_object::<Deployment>(&parsed(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "mirror"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        }))?)
        .await?;
        self.create_object::<Service>(&parsed(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "mirror"},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        }))?)
        .await?;
        self.wait_until_available("mirror", Duration::from_secs(60)).await
    }

    /// Asks an agent and gives the whole run.
    ///
    /// # Errors
    /// When the agent does not answer.
    pub async fn ask(&self, agent: &str, question: &str) -> Outcome<Value> {
        self.request("POST", agent, "/v1/runs", Some(&json!({ "input": question }))).await
    }

    /// The calls that the server of facts has seen, sorted.
    ///
    /// # Errors
    /// When the server of facts does not answer.
    pub async fn calls(&self) -> Outcome<Vec<(String, String)>> {
        let calls = self.request("GET", "facts", "/calls", None).await?;
        let text = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
        let mut calls: Vec<_> =
            calls.as_array().into_iter().flatten().map(|call| (text(call, "entity"), text(call, "property"))).collect();
        calls.sort();
        Ok(calls)
    }
}
