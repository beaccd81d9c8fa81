//! The connection to the API server.

use std::time::Duration;

use kube::{Client, Config, client::ClientBuilder};
use thiserror::Error;

use super::deadline::DeadlineLayer;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Neither a kubeconfig nor a service account was found.
    #[error("failed to find out which cluster to talk to: set KUBECONFIG or run in a pod with a service account")]
    Configure(#[source] kube::config::InferConfigError),
    /// The configuration cannot be used.
    #[error("failed to set up a client for the cluster")]
    Build(#[source] kube::Error),
}

/// Longest time that one request may take, its answer included; watches last longer.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Connects.
///
/// The library's own repetition is off: it would hide an outage below the reconciler for minutes, and repeat creations
/// whose answer was lost. Its controller retries what fails here.
///
/// # Errors
/// When no configuration is found, or it cannot be used.
pub async fn connect() -> Result<Client, ClientError> {
    let mut config = Config::infer().await.map_err(ClientError::Configure)?;
    config.default_retry = false;
    config.write_timeout = Some(REQUEST_DEADLINE);
    let builder = ClientBuilder::try_from(config).map_err(ClientError::Build)?;
    Ok(builder.with_layer(&DeadlineLayer(REQUEST_DEADLINE)).build())
}
