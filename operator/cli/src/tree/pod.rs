//! A pod as `kubectl get pods` shows it. Pure.

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use serde::Serialize;

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Whether it is ready for requests.
    pub is_ready: bool,
    /// Ready containers, sidecars included.
    pub ready_containers: usize,
    /// All containers, sidecars included.
    pub containers: usize,
    /// Its phase, or what keeps it from running.
    pub status: String,
    /// Restarts of its containers.
    pub restarts: i32,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

impl PodView {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let nothing = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&nothing);
        let containers = status.container_statuses.as_deref().unwrap_or_default();
        let sidecars: Vec<&ContainerStatus> = init(status).iter().filter(|of| is_sidecar(pod, &of.name)).collect();
        let all = || containers.iter().chain(sidecars.iter().copied());
        let declared = pod.spec.as_ref().map_or(0, |spec| {
            spec.containers.len() + spec.init_containers.iter().flatten().filter(|of| is_sidecar(pod, &of.name)).count()
        });
        let is_ready = |of: &&ContainerStatus| of.ready;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        Self {
            name: pod.name_any(),
            is_ready: conditions.iter().any(|of| of.type_ == "Ready" && of.status == "True"),
            ready_containers: all().filter(is_ready).count(),
            containers: declared.max(all().count()),
            status: words(pod, status),
            restarts: all().map(|of| of.restart_count).sum(),
            started_at: pod.metadata.creation_timestamp.clone(),
        }
    }
}

fn init(status: &PodStatus) -> &[ContainerStatus] {
    status.init_container_statuses.as_deref().unwrap_or_default()
}

/// Whether an init container keeps running beside the others.
fn is_sidecar(pod: &Pod, name: &str) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    containers.into_iter().any(|of| of.name == name && of.restart_policy.as_deref() == Some("Always"))
}

/// `Running`, `Init:0/2`, `ImagePullBackOff`, `Unschedulable`, `Terminating` and the like.
fn words(pod: &Pod, status: &PodStatus) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".to_owned();
    }
    let phase = status.reason.as_ref().or(status.phase.as_ref()).cloned().unwrap_or_else(|| "Unknown".to_owned());
    let conditions = status.conditions.iter().flatten();
    let is_unschedulable = |of: &str| of == "Unschedulable";
    if conditions.into_iter().any(|of| of.status == "False" && of.reason.as_deref().is_some_and(is_unschedulable)) {
        return "Unschedulable".to_owned();
    }
    if let Some(initializing) = initializing(pod, status) {
        return initializing;
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let stopped = containers.iter().filter_map(|of| of.state.as_ref()).find_map(reason);
    match (stopped, phase.as_str()) {
        (Some(reason), "Pending" | "Running" | "Failed") => reason,
        (_, _) => phase,
    }
}

/// Which of the containers that run before the others is not done.
fn initializing(pod: &Pod, status: &PodStatus) -> Option<String> {
    let all: Vec<&ContainerStatus> = init(status).iter().filter(|of| !is_sidecar(pod, &of.name)).collect();
    let is_done = |of: &&&ContainerStatus| {
        let terminated = of.state.as_ref().and_then(|state| state.terminated.as_ref());
        terminated.is_some_and(|end| end.exit_code == 0)
    };
    let done = all.iter().filter(is_done).count();
    let next = all.iter().find(|of| !is_done(of))?;
    let why = next.state.as_ref().and_then(reason).filter(|why| why != "PodInitializing");
    Some(why.map_or_else(|| format!("Init:{done}/{}", all.len()), |why| format!("Init:{why}")))
}

/// Why a container does not run.
fn reason(state: &ContainerState) -> Option<String> {
    let waiting = state.waiting.as_ref().and_then(|of| of.reason.clone());
    waiting.or_else(|| state.terminated.as_ref().map(|of| of.reason.clone().unwrap_or_else(|| "Error".to_owned())))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// A pod as the operator makes it: a container that ends, a sidecar, and the agent.
    fn pod(metadata: &Value, status: &Value) -> PodView {
        let mut pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T12:00:00Z"},
            "spec": {
                "initContainers": [{"name": "materialize"}, {"name": "triton", "restartPolicy": "Always"}],
                "containers": [{"name": "agent"}],
            },
            "status": status,
        });
        if let Some(members) = metadata.as_object() {
            members.iter().for_each(|(name, value)| pod["metadata"][name] = value.clone());
        }
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    fn container(name: &str, ready: bool, state: &Value) -> Value {
        json!({"name": name, "ready": ready, "restartCount": 1, "image": "i", "imageID": "i", "state": state})
    }

    fn shown(of: &PodView) -> String {
        format!("{}/{} {} {}", of.ready_containers, of.containers, of.status, of.restarts)
    }

    #[rstest]
    #[case::not_placed(
        json!({"phase": "Pending", "conditions":
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
        "0/2 Unschedulable 0"
    )]
    #[case::materializing(
        json!({"phase": "Pending", "initContainerStatuses": [
            container("materialize", false, &json!({"running": {}})),
            container("triton", false, &json!({"waiting": {"reason": "PodInitializing"}}))]}),
        "0/2 Init:0/1 1"
    )]
    #[case::failing_to_materialize(
        json!({"phase": "Pending", "initContainerStatuses": [
            container("materialize", false, &json!({"waiting": {"reason": "CrashLoopBackOff"}}))]}),
        "0/2 Init:CrashLoopBackOff 0"
    )]
    #[case::running(
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [
                container("materialize", true, &json!({"terminated": {"exitCode": 0}})),
                container("triton", true, &json!({"running": {}}))],
            "containerStatuses": [container("agent", true, &json!({"running": {}}))]}),
        "2/2 Running 2"
    )]
    #[case::crashing(
        json!({"phase": "Running",
            "containerStatuses": [container("agent", false, &json!({"waiting": {"reason": "CrashLoopBackOff"}}))]}),
        "0/2 CrashLoopBackOff 1"
    )]
    #[case::evicted(json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0")]
    fn a_pod_is_shown_as_kubectl_shows_it(#[case] status: Value, #[case] expected: &str) {
        assert_eq!(shown(&pod(&json!({}), &status)), expected);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T12:05:00Z"});
        assert_eq!(pod(&deleted, &json!({"phase": "Running"})).status, "Terminating");
    }
}
