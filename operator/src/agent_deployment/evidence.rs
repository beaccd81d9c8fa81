//! Asks the serving pods what they counted. Reads IO.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use slipway_crds::labels;
use slipway_operator_core::agent_deployment::world::PodEvidence;
use slipway_vocabulary::evidence::{Evidence, PATH};
use tracing::debug;

/// Port of the agent runtime's administration.
const ADMIN_PORT: u16 = 9464;
/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pods asked at once.
const CONCURRENCY: usize = 8;

/// The evidence of the last hour, by revision, of the pods that run. Pods without an address, and those that are not ready and do
/// not answer, have nothing to say yet.
pub async fn read(http: &reqwest::Client, pods: &[Pod]) -> BTreeMap<String, Vec<PodEvidence>> {
    let asked: Vec<(String, String, String, bool)> = pods.iter().filter_map(address).collect();
    let mut answers: Vec<(String, PodEvidence)> = stream::iter(asked)
        .map(|(revision, pod, address, is_ready)| async move {
            // An address of IPv6 stands in brackets.
            let host = if address.contains(':') { format!("[{address}]") } else { address };
            let answer = ask(http, &format!("http://{host}:{ADMIN_PORT}{PATH}?after=0")).await;
            let evidence = answer.inspect_err(|error| debug!(pod, %error, "a pod shows no evidence")).ok();
            (evidence.is_some() || is_ready).then_some((revision, PodEvidence { pod, evidence }))
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

/// Revision, name and address of a pod, and whether it is ready.
fn address(pod: &Pod) -> Option<(String, String, String, bool)> {
    let status = pod.status.as_ref()?;
    let revision = pod.labels().get(labels::REVISION)?.clone();
    let is_ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    Some((revision, pod.name_any(), status.pod_ip.clone()?, is_ready))
}

async fn ask(http: &reqwest::Client, url: &str) -> Result<Evidence, reqwest::Error> {
    http.get(url).timeout(PATIENCE).send().await?.error_for_status()?.json().await
}
