//! Asks the serving pods what they counted. Reads IO.

use std::{collections::BTreeMap, error::Error, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use slipway_crds::labels;
use slipway_operator_core::{agent_deployment::world::PodEvidence, jobs::view};
use slipway_vocabulary::evidence::{Evidence, Implausible, PATH};
use thiserror::Error;
use tracing::{debug, warn};

use crate::bounded_body::{self, BodyError};

/// Port of the agent runtime's administration.
pub(super) const ADMIN_PORT: u16 = 9464;
/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pods asked at once.
const CONCURRENCY: usize = 8;
/// Bytes of an answer: twice what a busy pod reports of an hour.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why nothing is known of what a pod counted.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// No answer, or none of success.
    #[error("failed to ask for the evidence")]
    Ask(#[source] reqwest::Error),
    /// The answer breaks off, or is longer than any evidence.
    #[error("failed to receive the evidence")]
    Receive(#[source] BodyError),
    /// The answer is not evidence.
    #[error("failed to read the evidence")]
    Read(#[source] serde_json::Error),
    /// No pod can have counted this.
    #[error("refused the evidence")]
    Refuse(#[source] Implausible),
}

/// The evidence of the last hour, by revision, of the pods that run. Pods without an address, and those that are not
/// ready and do not answer, have nothing to say yet.
pub async fn read(http: &reqwest::Client, pods: &[Pod]) -> BTreeMap<String, Vec<PodEvidence>> {
    let asked: Vec<Asked> = pods.iter().filter_map(Asked::of).collect();
    let mut answers: Vec<(String, PodEvidence)> = stream::iter(asked)
        .map(|Asked { revision, pod, node, address, is_ready, is_leaving }| async move {
            let answer = ask(http, &format!("http://{}:{ADMIN_PORT}{PATH}?after=0", host(&address))).await;
            let evidence = answer.inspect_err(|error| log_failure(&pod, error)).ok();
            (evidence.is_some() || is_ready).then_some((revision, PodEvidence { pod, evidence, is_leaving, node }))
        })
        .buffer_unordered(CONCURRENCY)
        .filter_map(|answer| async move { answer })
        .collect()
        .await;
    answers.sort_by(|(_, a), (_, b)| a.pod.cmp(&b.pod));
    let mut by_revision: BTreeMap<String, Vec<PodEvidence>> = BTreeMap::new();
    for (revision, answer) in answers {
        by_revision.entry(revision).or_default().push(answer);
    }
    by_revision
}

/// A pod that is asked.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    revision: String,
    pod: String,
    node: Option<String>,
    address: String,
    is_ready: bool,
    is_leaving: bool,
}

impl Asked {
    /// None for a pod that has no address yet.
    fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        Some(Self {
            revision: pod.labels().get(labels::REVISION)?.clone(),
            pod: pod.name_any(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            address: status.pod_ip.clone()?,
            is_ready: status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True"),
            is_leaving: pod.metadata.deletion_timestamp.is_some() || view::is_disrupted(pod),
        })
    }
}

/// An address as a URL has it: one of IPv6 stands in brackets.
pub(super) fn host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

async fn ask(http: &reqwest::Client, url: &str) -> Result<Evidence, EvidenceError> {
    let answer = http.get(url).timeout(PATIENCE).send().await.and_then(reqwest::Response::error_for_status);
    let body = bounded_body::read(answer.map_err(EvidenceError::Ask)?, MAX_BYTES).await;
    let evidence: Evidence =
        serde_json::from_slice(&body.map_err(EvidenceError::Receive)?).map_err(EvidenceError::Read)?;
    evidence.check().map_err(EvidenceError::Refuse)?;
    Ok(evidence)
}

/// A pod that starts or ends has nothing to say; one that says nonsense is worth a look.
fn log_failure(pod: &str, error: &EvidenceError) {
    match error {
        EvidenceError::Ask(_) | EvidenceError::Receive(BodyError::Read(_)) => {
            debug!(pod, error = error as &dyn Error, "a pod shows no evidence");
        }
        EvidenceError::Receive(BodyError::TooLong { .. }) | EvidenceError::Read(_) | EvidenceError::Refuse(_) => {
            warn!(
                pod,
                error = error as &dyn Error,
                "a pod reports implausible evidence: it counts as one that does not answer"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn asked(deleted: Option<&str>, conditions: &Value) -> Option<Asked> {
        let metadata =
            json!({"name": "support-a-0", "labels": {"slipway.dev/revision": "a"}, "deletionTimestamp": deleted});
        let status = json!({"podIP": "10.0.0.7", "conditions": conditions});
        let pod = json!({"metadata": metadata, "spec": {"containers": [], "nodeName": "gpu-1"}, "status": status});
        Asked::of(&serde_json::from_value(pod).expect("a pod"))
    }

    /// The end of such a pod does not count as harm by its revision.
    #[test]
    fn a_pod_that_is_deleted_drained_or_evicted_is_leaving() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let expected = |is_ready, is_leaving| {
            let (revision, pod, address) = ("a".to_owned(), "support-a-0".to_owned(), "10.0.0.7".to_owned());
            let node = Some("gpu-1".to_owned());
            Some(Asked { revision, pod, node, address, is_ready, is_leaving })
        };
        assert_eq!(asked(None, &ready), expected(true, false));
        assert_eq!(asked(Some("2026-01-01T12:00:00Z"), &json!([])), expected(false, true));
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
        assert_eq!(asked(None, &disrupted), expected(false, true));
    }
}
