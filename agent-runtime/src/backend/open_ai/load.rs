//! What an engine's own server says of its load, for those who pick a pod by it. IO.
//!
//! vLLM: <https://docs.vllm.ai/en/stable/usage/metrics.html>. SGLang, where it is started with `--enable-metrics`:
//! <https://docs.sglang.io/references/production_metrics.html>.

use reqwest::Method;

use crate::backend::{
    EngineLoad,
    load::{Names, Series, text_of},
};

use super::{Inner, OpenAiServer};

/// The second name of the cache is that of releases before 0.10.
const VLLM: Names = Names {
    waiting: &[Series::all("vllm:num_requests_waiting")],
    kv_cache: &[Series::all("vllm:kv_cache_usage_perc"), Series::all("vllm:gpu_cache_usage_perc")],
};
const SGLANG: Names =
    Names { waiting: &[Series::all("sglang:num_queue_reqs")], kv_cache: &[Series::all("sglang:token_usage")] };

impl OpenAiServer {
    fn load_names(self) -> Option<&'static Names> {
        match self {
            Self::Vllm => Some(&VLLM),
            Self::SgLang => Some(&SGLANG),
            // Its `/metrics` is a list of steps, each given once (tensorrt_llm/serve/openai_server.py of
            // NVIDIA/TensorRT-LLM at 0005772, `get_iteration_stats`).
            Self::TrtLlm | Self::Completions | Self::Chat => None,
        }
    }
}

impl Inner {
    /// The load of a server in the same pod; nothing of what it does not say.
    pub(super) async fn load(&self) -> EngineLoad {
        match self.server.load_names().filter(|_| !self.link.is_elsewhere()) {
            Some(names) => self.said.or_ask(names, self.metrics()).await,
            None => EngineLoad::default(),
        }
    }

    async fn metrics(&self) -> Option<String> {
        let (request, _) = self.link.request(Method::GET, self.url("/metrics")).await.ok()?;
        text_of(request.send().await.ok()?).await
    }
}
