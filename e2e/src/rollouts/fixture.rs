//! An agent behind the gateway, whose revisions differ in how their engines behave. Reads and writes IO.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, agent_deployment::RolloutStatus};

use crate::{
    agents::{READY_LIMIT, namespace_with_servers},
    cluster,
    load::pod::{Load, LoadPlan},
    namespace::{Namespace, Outcome, ScenarioError},
};

/// Name of the agent in every scenario.
pub const AGENT: &str = "waiter";

/// Longest time from a changed manifest to the end of its rollout: a build, a pod, two steps, on a machine of two
/// cores.
pub const ROLLOUT_LIMIT: Duration = Duration::from_secs(600);

/// Requests a second of a scenario's client.
const RATE: u32 = 50;

/// Options of the engine, beyond those that all revisions have.
pub type Options<'a> = &'a [(&'a str, &'a str)];

/// A namespace with an agent that serves.
pub struct Bench {
    /// Its namespace.
    pub namespace: Namespace,
    /// What is applied next; a scenario edits it as a user does.
    pub manifest: Value,
    /// Hash of the plan that served first.
    pub stable: String,
}

impl Bench {
    /// Applies the agent in a namespace of its own and waits until it serves through the gateway's route.
    ///
    /// # Errors
    /// When the agent does not come to serve.
    pub async fn start(name: &str) -> Outcome<Self> {
        Self::start_in(namespace_with_servers(name).await?, |_| ()).await
    }

    /// The same in a namespace with the servers that agents need, with a manifest that is edited before it is applied.
    ///
    /// # Errors
    /// When the agent does not come to serve.
    pub async fn start_in(namespace: Namespace, edit: impl FnOnce(&mut Value)) -> Outcome<Self> {
        let mut manifest: Value = serde_norway::from_str(include_str!("../../manifests/rollout/agent.yaml"))
            .map_err(ScenarioError::Manifest)?;
        manifest["spec"]["rollout"]["traffic"]["gatewayAPI"]["hostnames"] = json!([host(namespace.name())]);
        edit(&mut manifest);
        let agent = namespace.apply(&manifest).await?;
        let served = namespace.wait_until_served(&agent, READY_LIMIT).await?;
        let stable = rollout_of(&served).stable.unwrap_or_default();
        Ok(Self { namespace, manifest, stable })
    }

    /// The manifest with an engine that behaves otherwise.
    pub fn with(&self, options: Options<'_>) -> Value {
        let mut changed = self.manifest.clone();
        for (key, value) in options {
            changed["spec"]["engine"]["custom"]["options"][key] = json!(value);
        }
        changed
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn apply(&self, manifest: &Value) -> Outcome<AgentDeployment> {
        self.namespace.apply(manifest).await
    }

    /// Starts clients that come through the gateway.
    ///
    /// # Errors
    /// When their pod does not start.
    pub async fn start_load(&self) -> Outcome<Load<'_>> {
        self.start_load_of(RATE).await
    }

    /// The same with so many requests a second.
    ///
    /// # Errors
    /// When their pod does not start.
    pub async fn start_load_of(&self, rate: u32) -> Outcome<Load<'_>> {
        let plan = LoadPlan {
            agent: AGENT.to_owned(),
            url: "http://agents.gateway".to_owned(),
            host: Some(host(self.namespace.name())),
            keeps_connections: true,
            rate,
        };
        self.namespace.start_load(&plan).await
    }

    /// Waits until the status of the rollout is as it should be, and gives it.
    ///
    /// # Errors
    /// When that does not come true in time.
    pub async fn wait_for(&self, what: &str, is_so: impl Fn(&RolloutStatus) -> bool) -> Outcome<RolloutStatus> {
        self.namespace
            .wait(AGENT, what, ROLLOUT_LIMIT, |agent: &AgentDeployment| {
                let rollout = rollout_of(agent);
                if is_so(&rollout) { Ok(rollout) } else { Err(format!("{rollout:?}")) }
            })
            .await
    }

    /// Waits until the plan of a new revision is known, which is when its engine was built, and gives its hash.
    ///
    /// # Errors
    /// When there is no canary in time.
    pub async fn wait_for_canary(&self) -> Outcome<String> {
        let rollout = self.wait_for("a canary", |rollout| rollout.canary.is_some()).await?;
        Ok(rollout.canary.unwrap_or_default())
    }

    /// Waits until a plan was rolled back and has no pods on trial any more.
    ///
    /// # Errors
    /// When that does not come true in time, or the plan takes over.
    pub async fn wait_for_rejection(&self, plan: &str) -> Outcome<RolloutStatus> {
        let end = self.wait_for_end(plan).await?;
        if end.stable.as_deref() == Some(plan) { Err(otherwise("the rejection", plan, &end)) } else { Ok(end) }
    }

    /// Waits until a plan has taken over.
    ///
    /// # Errors
    /// When that does not come true in time, or the plan is rolled back.
    pub async fn wait_for_promotion(&self, plan: &str) -> Outcome<RolloutStatus> {
        let end = self.wait_for_end(plan).await?;
        if end.stable.as_deref() == Some(plan) { Ok(end) } else { Err(otherwise("the promotion", plan, &end)) }
    }

    async fn wait_for_end(&self, plan: &str) -> Outcome<RolloutStatus> {
        let is_over = |rollout: &RolloutStatus| {
            let has_taken_over = rollout.stable.as_deref() == Some(plan);
            let is_rejected = rollout.rejected.iter().any(|rejected| rejected.plan == plan);
            rollout.canary.is_none() && (has_taken_over || is_rejected)
        };
        self.wait_for(&format!("the end of the rollout of {plan}"), is_over).await
    }

    /// UIDs of the pods of a revision.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn pod_uids(&self, revision: &str) -> Outcome<BTreeMap<String, String>> {
        let pods = self.namespace.pods(&format!("{}={revision}", slipway_crds::labels::REVISION)).await?;
        let named = pods.into_iter().map(|pod| (pod.metadata.name, pod.metadata.uid));
        Ok(named.map(|(name, uid)| (name.unwrap_or_default(), uid.unwrap_or_default())).collect())
    }
}

/// Ends the operator's pods at once, as a failing node does. Their Deployment starts new ones.
///
/// # Errors
/// What kubectl said.
pub fn kill_operator() -> Result<(), String> {
    let selector = "app.kubernetes.io/name=slipway-operator";
    let kill =
        ["--namespace", "slipway-system", "delete", "pod", "--selector", selector, "--grace-period=0", "--force"];
    let output = cluster::kubectl(&kill).map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The rollout's part of an agent's status.
pub fn rollout_of(agent: &AgentDeployment) -> RolloutStatus {
    agent.status.as_ref().and_then(|status| status.rollout.clone()).unwrap_or_default()
}

/// What came instead, with what the status says about it.
fn otherwise(what: &str, plan: &str, rollout: &RolloutStatus) -> ScenarioError {
    ScenarioError::TimedOut { what: format!("{what} of {plan}"), seconds: 0, last: format!("{:?}", rollout.rejected) }
}

/// Scenarios share the gateway; each has a host of its own.
pub fn host(namespace: &str) -> String {
    format!("{namespace}.example")
}
