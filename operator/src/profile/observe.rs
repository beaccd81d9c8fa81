//! Asks the pods of a campaign how far they are. Reads IO.
//!
//! A pod that does not answer tells nothing: its rows are asked for again at the next look, and its last message
//! repeats them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use slipway_crds::labels;
use slipway_worker_contract::{Progress, paths};
use thiserror::Error;
use tracing::debug;

use crate::bounded_body::{self, BodyError};

/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer: 300 rows of 512 bytes, and what was not measured.
const MAX_BYTES: usize = 512 * 1024;

/// Why a pod's progress is not known.
#[derive(Debug, Error)]
pub enum ProgressError {
    /// No answer, or none of success.
    #[error("failed to ask for the progress")]
    Ask(#[source] reqwest::Error),
    /// The answer breaks off, or is longer than any progress.
    #[error("failed to receive the progress")]
    Receive(#[source] BodyError),
    /// The answer is not progress.
    #[error("failed to read the progress")]
    Read(#[source] serde_json::Error),
}

/// What the running pods say, by name of their Job.
pub async fn progress(http: &reqwest::Client, pods: &[Pod]) -> BTreeMap<String, Progress> {
    let mut found = BTreeMap::new();
    for (job, address) in running(pods) {
        match ask(http, &address).await {
            Ok(progress) => {
                found.insert(job, progress);
            }
            Err(error) => debug!(job, error = &error as &dyn std::error::Error, "a pod shows no progress"),
        }
    }
    found
}

/// Tells a Job that all of its rows are recorded, so that it need not wait any longer.
pub async fn acknowledge(http: &reqwest::Client, pods: &[Pod], job: &str) {
    for (_, address) in running(pods).into_iter().filter(|(name, _)| name == job) {
        let url = format!("http://{address}{}", paths::PROGRESS_ACKNOWLEDGE_PATH);
        if let Err(error) = http.post(url).timeout(PATIENCE).send().await.and_then(reqwest::Response::error_for_status)
        {
            debug!(
                job,
                error = &error as &dyn std::error::Error,
                "the recorded rows could not be acknowledged to a pod"
            );
        }
    }
}

/// Running pods: name of the Job, and host with port.
fn running(pods: &[Pod]) -> Vec<(String, String)> {
    pods.iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(|pod| {
            let status = pod.status.as_ref()?;
            let ip = status.pod_ip.as_ref().filter(|_| status.phase.as_deref() == Some("Running"))?;
            let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
            Some((pod.labels().get(labels::JOB)?.clone(), format!("{host}:{}", paths::PROGRESS_PORT)))
        })
        .collect()
}

async fn ask(http: &reqwest::Client, address: &str) -> Result<Progress, ProgressError> {
    let url = format!("http://{address}{}", paths::PROGRESS_PATH);
    let answer = http.get(url).timeout(PATIENCE).send().await.and_then(reqwest::Response::error_for_status);
    let answer = answer.map_err(ProgressError::Ask)?;
    let body = bounded_body::read(answer, MAX_BYTES).await.map_err(ProgressError::Receive)?;
    serde_json::from_slice(&body).map_err(ProgressError::Read)
}
