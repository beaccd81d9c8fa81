//! Asks the program beside the engine what the pod's GPUs do. IO.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Client, redirect};
use slipway_vocabulary::telemetry::{PATH, Telemetry};

/// How long it may take to answer: it is in the same pod, and who waits for the evidence waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of an answer: several times an hour of windows of eight GPUs.
const MAX_BYTES: usize = 4 << 20;

/// Why nothing is known of the GPUs.
#[derive(Debug, thiserror::Error)]
pub enum GpusError {
    /// The request failed, or its status is an error.
    #[error("the GPU watch beside the engine did not answer")]
    Ask(#[source] reqwest::Error),
    /// The answer is longer than any can be.
    #[error("its answer is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// The answer is something else.
    #[error("its answer cannot be read")]
    Read(#[source] serde_json::Error),
}

/// Who is asked.
#[derive(Clone, Debug)]
pub struct Gpus {
    client: Client,
    url: String,
}

impl Gpus {
    /// Prepares to ask at an endpoint, such as `http://127.0.0.1:9465`; nothing is sent yet.
    ///
    /// # Errors
    /// When there is no client.
    pub fn new(endpoint: &str) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .tls_certs_only([])
            .no_proxy()
            .http1_only()
            .redirect(redirect::Policy::none())
            .timeout(PATIENCE)
            .build()?;
        Ok(Self { client, url: format!("{}{PATH}", endpoint.trim_end_matches('/')) })
    }

    /// What they did in the windows after one.
    ///
    /// # Errors
    /// [`GpusError`].
    pub async fn ask(&self, after: Option<u64>) -> Result<Telemetry, GpusError> {
        let query = after.map(|after| format!("?after={after}")).unwrap_or_default();
        let answer = self.client.get(format!("{}{query}", self.url)).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status).map_err(GpusError::Ask)?;
        let mut parts = answer.bytes_stream();
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part.map_err(GpusError::Ask)?);
            if body.len() > MAX_BYTES {
                return Err(GpusError::TooLong);
            }
        }
        serde_json::from_slice(&body).map_err(GpusError::Read)
    }
}
