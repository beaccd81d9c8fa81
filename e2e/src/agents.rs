//! The agent of the demo, as scenarios deploy and question it.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::namespace::{Namespace, Outcome, ScenarioError};

/// Longest time from a manifest to a pod that serves, on a machine of two cores.
pub const READY_LIMIT: Duration = Duration::from_secs(240);

/// A file of this crate.
pub fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// The manifest of the agent that scenarios start from: nothing of it is measured.
///
/// # Errors
/// When the manifest is no valid YAML.
pub fn demo_agent() -> Outcome<Value> {
    serde_norway::from_str(include_str!("../manifests/agent.yaml")).map_err(ScenarioError::Manifest)
}

/// A namespace with the servers that the demo's agent needs.
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

/// A question from the held-out half of the model's corpus, with what must come of it.
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

/// A seed that no run before has had: entity and numbers are drawn anew in every run.
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
