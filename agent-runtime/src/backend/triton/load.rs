//! What Triton and the engine in it say of their load, for those who pick a pod by it. IO.
//!
//! Triton's own: <https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md>. Of
//! TensorRT-LLM: <https://github.com/triton-inference-server/tensorrtllm_backend>, "Triton Metrics". Its vLLM backend
//! passes on figures of vLLM.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use reqwest::{Client, Url, redirect};

use crate::backend::{
    EngineLoad,
    load::{Names, Said, Series, text_of},
};

/// Triton's port of metrics, which the operator leaves as it is.
const PORT: u16 = 8002;
const PATH: &str = "/metrics";

/// A request waits for its model in Triton first, and then in the engine's own queue.
const NAMES: Names = Names {
    waiting: &[
        Series::all("nv_inference_pending_request_count"),
        Series::of("nv_trt_llm_request_metrics", "request_type=\"waiting\""),
        Series::all("vllm:num_requests_waiting"),
    ],
    kv_cache: &[
        Series::of("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type=\"fraction\""),
        Series::all("vllm:kv_cache_usage_perc"),
        Series::all("vllm:gpu_cache_usage_perc"),
    ],
};

/// Where Triton's metrics are.
#[derive(Clone, Debug)]
pub(super) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Nothing where there is no client, or no such address.
    at: Option<(Client, Url)>,
    said: Said,
}

impl Metrics {
    /// Of the Triton whose gRPC API is there; nothing is sent yet.
    pub(super) fn beside(endpoint: &str) -> Self {
        let client = Client::builder().tls_certs_only([]).no_proxy().http1_only().redirect(redirect::Policy::none());
        Self(Arc::new(Inner { at: client.build().ok().zip(address(endpoint)), said: Said::default() }))
    }

    /// What it says; nothing of what it does not.
    pub(super) fn load(&self) -> BoxFuture<'_, EngineLoad> {
        self.0.said.or_ask(&NAMES, self.text()).boxed()
    }

    async fn text(&self) -> Option<String> {
        let (client, url) = self.0.at.as_ref()?;
        text_of(client.get(url.clone()).send().await.ok()?).await
    }
}

fn address(endpoint: &str) -> Option<Url> {
    let mut url: Url = endpoint.parse().ok()?;
    url.set_port(Some(PORT)).ok()?;
    url.set_path(PATH);
    Some(url)
}
