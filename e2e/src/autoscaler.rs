//! A HorizontalPodAutoscaler of the agent, as it stands in Git. What fails ends the scenario. Reads and writes IO.

#![allow(clippy::unwrap_used, reason = "a scenario ends where it cannot go on")]

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;

use crate::{
    agents::READY_LIMIT,
    namespace::Namespace,
    rollouts::{AGENT, Bench},
};

/// By the CPU time of pods, as `kubectl top` shows it, and so many pods at least: one that nobody asks stays below, one
/// that users ask is above.
#[must_use]
pub fn autoscaler(least: i32) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": AGENT},
        "spec": {
            "scaleTargetRef": {"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "name": AGENT},
            "minReplicas": least,
            "maxReplicas": 2,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "60m"}},
            }],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
        },
    })
}

/// Waits until the spec has so many pods, and all of them are ready.
///
/// # Panics
/// When that does not come true in time.
pub async fn wait_for_pods(bench: &Bench, wanted: i32) {
    let has = |agent: &AgentDeployment| {
        let ready = agent.status.as_ref().and_then(|status| status.ready_pods);
        let seen = (agent.spec.serving.replicas, ready);
        if seen == (wanted, Some(wanted)) { Ok(()) } else { Err(format!("{seen:?} pods are wanted and ready")) }
    };
    bench.namespace.wait(AGENT, &format!("{wanted} pods"), READY_LIMIT, has).await.unwrap();
}

/// Waits until the autoscaler scales by what it measures.
///
/// # Panics
/// When it does not in time.
pub async fn wait_until_it_measures(namespace: &Namespace) {
    let measures = |scaler: &HorizontalPodAutoscaler| {
        let conditions = scaler.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let is_active = conditions.iter().any(|of| of.type_ == "ScalingActive" && of.status == "True");
        if is_active { Ok(()) } else { Err(format!("{conditions:?}")) }
    };
    namespace.wait(AGENT, "an autoscaler that measures", READY_LIMIT, measures).await.unwrap();
}
