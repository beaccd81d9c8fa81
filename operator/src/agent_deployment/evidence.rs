//! Asks the serving pods what they counted. Reads IO.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use slipway_evidence::{Evidence, PATH};
use tracing::debug;

/// Port of the agent runtime's administration.
const ADMIN_PORT: u16 = 9464;
/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pods asked at once.
const CONCURRENCY: usize = 8;

/// The evidence of the last hour of the pods that answer.
pub async fn read(http: &reqwest::Client, pods: &[Pod]) -> Vec<Evidence> {
    let addresses: Vec<(String, String)> =
        pods.iter().filter_map(|pod| Some((pod.name_any(), pod.status.as_ref()?.pod_ip.clone()?))).collect();
    stream::iter(addresses)
        .map(|(name, address)| async move {
            // An address of IPv6 stands in brackets.
            let host = if address.contains(':') { format!("[{address}]") } else { address };
            let answer = ask(http, &format!("http://{host}:{ADMIN_PORT}{PATH}?after=0")).await;
            answer.inspect_err(|error| debug!(pod = name, %error, "a pod shows no evidence")).ok()
        })
        .buffer_unordered(CONCURRENCY)
        .filter_map(|answer| async move { answer })
        .collect()
        .await
}

async fn ask(http: &reqwest::Client, url: &str) -> Result<Evidence, reqwest::Error> {
    http.get(url).timeout(PATIENCE).send().await?.error_for_status()?.json().await
}
