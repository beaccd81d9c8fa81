//! What scenarios of GitOps tools share: their programs, an agent as it is in Git, and commands beside it. What fails
//! ends the scenario. Reads the environment; reads and writes IO.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a scenario ends where it cannot go on")]

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    path::Path,
    process::{Child, Command, Output},
    time::{Duration, Instant},
};

use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;

use crate::{
    agents::READY_LIMIT,
    cluster,
    namespace::Namespace,
    rollouts::{AGENT, host},
};

/// Time between two looks at a tool.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Programs on this machine, which end with the scenario.
#[derive(Debug, Default)]
pub struct Programs {
    running: Vec<Child>,
}

impl Drop for Programs {
    fn drop(&mut self) {
        for program in &mut self.running {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl Programs {
    /// Starts one. What it prints is kept in the folder, in `NAME.log`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&mut self, command: &mut Command, name: &str, folder: &Path) {
        let log = File::create(folder.join(format!("{name}.log"))).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
        self.running.push(child.unwrap_or_else(|error| panic!("failed to start {name}: {error}")));
    }
}

/// Runs kubectl, which must succeed.
///
/// # Panics
/// When it does not.
pub fn kubectl(arguments: &[&str]) -> Output {
    let output = cluster::kubectl(arguments).unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Applies an object of the tool's.
///
/// # Panics
/// When the API server refuses it.
pub fn apply(name: &str, object: &Value) {
    let file = env::temp_dir().join(format!("{name}.gitops.json"));
    fs::write(&file, object.to_string()).unwrap();
    kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]);
    fs::remove_file(file).unwrap();
}

/// The manifest of an agent whose rollouts are short, as it is in Git: without replicas, which /scale sets.
///
/// # Panics
/// Never: the manifest is a part of this crate.
#[must_use]
pub fn manifest(namespace: &str) -> Value {
    let mut manifest: Value = serde_norway::from_str(include_str!("../manifests/rollout/agent.yaml")).unwrap();
    manifest["spec"]["rollout"]["traffic"]["gatewayAPI"]["hostnames"] = json!([host(namespace)]);
    manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    manifest
}

/// An agent as it is now.
///
/// # Panics
/// When there is none.
pub async fn agent(namespace: &Namespace, name: &str) -> AgentDeployment {
    namespace.api::<AgentDeployment>().get(name).await.unwrap()
}

/// Names of all Jobs.
///
/// # Panics
/// When they cannot be listed.
pub async fn jobs(namespace: &Namespace) -> BTreeSet<String> {
    let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    jobs.items.iter().map(ResourceExt::name_any).collect()
}

/// Gives a command as a person does.
///
/// # Panics
/// When the plugin refuses it.
pub fn slipway(namespace: &Namespace, decision: &str, agent: &str) {
    let output = cluster::slipway(&["--namespace", namespace.name(), decision, agent]).unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

/// Scales the agent, and waits until so many pods are ready.
///
/// # Panics
/// When they are not in time.
pub async fn scale_to(namespace: &Namespace, pods: i32) {
    let replicas = format!("--replicas={pods}");
    kubectl(&["--namespace", namespace.name(), "scale", "agentdeployment", AGENT, &replicas]);
    let has_them = |agent: &AgentDeployment| {
        let ready = agent.status.as_ref().and_then(|status| status.ready_pods);
        if ready == Some(pods) { Ok(()) } else { Err(format!("{ready:?} pods are ready")) }
    };
    namespace.wait(AGENT, &format!("{pods} pods"), READY_LIMIT, has_them).await.unwrap();
}

/// Looks every second until a tool is as it should be. `look` gives what it found, or what it saw instead.
///
/// # Panics
/// When that does not come true within `limit`, with what was seen last.
pub async fn eventually<T>(what: &str, limit: Duration, look: impl AsyncFn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(last) => assert!(Instant::now() < deadline, "waited {limit:?} for {what}: {last}"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
