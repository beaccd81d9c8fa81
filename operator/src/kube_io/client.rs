//! The connection to the API server.

use std::time::Duration;

use hyper_util::{
    client::legacy::{Client as Connections, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use thiserror::Error;
use tower::{BoxError, ServiceBuilder};

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
    /// The configuration names a proxy.
    #[error("failed to set up a client for the cluster: its configuration names a proxy, and the operator uses none")]
    Proxy,
}

/// Longest time that one request may take, its answer included; watches last longer.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of an answer that a connection reads at once. A connection keeps room for as many while nothing comes, and a
/// burst leaves dozens of them: with the library's 0.4 MiB these were most of the operator's memory.
const READ_AT_ONCE: usize = 32 * 1024;
/// How long a connection that nobody needs is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Connects.
///
/// # Errors
/// When no configuration is found, or it cannot be used.
pub async fn connect() -> Result<Client, ClientError> {
    client(Config::infer().await.map_err(ClientError::Configure)?)
}

/// Nothing is repeated: that would hide an outage below the reconciler for minutes, and repeat creations whose answer
/// was lost. The controller retries what fails here.
fn client(config: Config) -> Result<Client, ClientError> {
    if config.proxy_url.is_some() {
        return Err(ClientError::Proxy);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = config.rustls_https_connector_with_connector(connector).map_err(ClientError::Build)?;
    let connections: Connections<_, Body> = Connections::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http1_max_buf_size(READ_AT_ONCE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer(REQUEST_DEADLINE))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(ClientError::Build)?)
        .layer(config.extra_headers_layer().map_err(ClientError::Build)?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use axum::{Json, Router, routing::get};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_answer_of_many_times_what_is_read_at_once_is_whole() {
        let text = "x".repeat(100 * READ_AT_ONCE + 1);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": text}});
        let path = "/api/v1/namespaces/team/configmaps/a";
        let server = Router::new().route(path, get(move || std::future::ready(Json(object))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(listener, server).await });
        let maps: Api<ConfigMap> = Api::namespaced(client(Config::new(url)).unwrap(), "team");
        for _ in 0..2 {
            let data = maps.get("a").await.unwrap().data.unwrap_or_default();
            assert_eq!(data.get("k").map(String::len), Some(text.len()));
        }
    }

    #[tokio::test]
    async fn a_proxy_is_not_passed_by_in_silence() {
        let mut config = Config::new("https://cluster.example".parse().unwrap());
        config.proxy_url = Some("http://proxy.example".parse().unwrap());
        assert!(matches!(client(config), Err(ClientError::Proxy)));
    }
}
