//! How much room the cluster's node has left. Reads IO; what is said about it is pure.

use k8s_openapi::{
    api::core::v1::{Container, Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{Api, api::ListParams};

use crate::{
    cluster,
    namespace::{Namespace, Outcome, ScenarioError},
};

/// Removes what earlier scenarios left, and waits until it has gone: their pods would give up room later.
///
/// # Errors
/// When kubectl refuses, in its own words, or when something is still there after two minutes.
pub fn remove_other_scenarios(namespace: &Namespace) -> Result<(), String> {
    let others = format!("metadata.name!={}", namespace.name());
    let arguments = ["delete", "namespaces", "--selector", "e2e.slipway.dev/scenario", "--field-selector", &others];
    let output = cluster::kubectl(&[&arguments[..], &["--timeout", "120s"]].concat()).map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Thousandths of a core that no pod has asked for, on all nodes together.
///
/// # Errors
/// When the API server refuses.
pub async fn free_millicores(namespace: &Namespace) -> Outcome<u64> {
    let refused =
        |source| ScenarioError::Kubernetes { action: "look at the node".to_owned(), source: Box::new(source) };
    let nodes: Api<Node> = Api::all(namespace.client());
    let nodes = nodes.list(&ListParams::default()).await.map_err(refused)?.items;
    let pods: Api<Pod> = Api::all(namespace.client());
    let pods = pods.list(&ListParams::default()).await.map_err(refused)?.items;
    let there = nodes.iter().filter_map(|node| node.status.as_ref()?.allocatable.as_ref()?.get("cpu")).map(millicores);
    Ok(there.sum::<u64>().saturating_sub(pods.iter().map(asked).sum()))
}

/// What a pod has asked for, all its containers together: a little too much where some run before others.
fn asked(pod: &Pod) -> u64 {
    let has_ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(has_ended, Some("Succeeded" | "Failed")) {
        return 0;
    }
    let Some(spec) = &pod.spec else { return 0 };
    let of = |container: &Container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        requests.and_then(|requests| requests.get("cpu")).map_or(0, millicores)
    };
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(of).sum()
}

/// `500m` and `2`, the ways in which a node and our manifests write them.
fn millicores(cpu: &Quantity) -> u64 {
    let Quantity(text) = cpu;
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(0),
        None => text.parse().unwrap_or(0) * 1_000,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_runs_has_asked_for_what_its_containers_name() {
        let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let spec = json!({"containers": [container("1"), {"name": "d"}], "initContainers": [container("250m")]});
        let pod =
            |phase: &str| serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).expect("a pod");
        assert_eq!((asked(&pod("Running")), asked(&pod("Succeeded"))), (1_250, 0));
    }
}
