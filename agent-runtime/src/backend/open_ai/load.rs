//! What an engine's own server says of its load, for those who pick a pod by it. IO.
//!
//! vLLM: <https://docs.vllm.ai/en/stable/usage/metrics.html>. SGLang, where it is started with `--enable-metrics`:
//! <https://docs.sglang.io/references/production_metrics.html>.

use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::sync::Mutex;

use crate::backend::EngineLoad;

use super::{Answer, Inner, OpenAiServer};

/// How long what was said counts: pickers ask every pod many times a second, and anybody may ask.
const HOLDS: Duration = Duration::from_millis(100);
/// How long the server may take. A picker takes an old figure for worse than none.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Most bytes of the metrics that are read.
const METRICS_BYTES: usize = 4 * 1024 * 1024;

/// What was said last, and when. Who asks meanwhile waits for the same answer.
pub(super) type Said = Mutex<Option<(Instant, EngineLoad)>>;

/// Names of the requests that wait, and of the share of the KV cache that is in use.
struct Names {
    waiting: &'static str,
    kv_cache: &'static [&'static str],
}

impl OpenAiServer {
    fn load_names(self) -> Option<Names> {
        match self {
            // The second name is that of releases before 0.10.
            Self::Vllm => Some(Names {
                waiting: "vllm:num_requests_waiting",
                kv_cache: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
            }),
            Self::SgLang => Some(Names { waiting: "sglang:num_queue_reqs", kv_cache: &["sglang:token_usage"] }),
            // Its `/metrics` is a list of steps, each given once (tensorrt_llm/serve/openai_server.py of
            // NVIDIA/TensorRT-LLM at 0005772, `get_iteration_stats`).
            Self::TrtLlm | Self::Completions | Self::Chat => None,
        }
    }
}

impl Inner {
    /// The load of a server in the same pod; nothing of what it does not say.
    pub(super) async fn load(&self) -> EngineLoad {
        let Some(names) = self.server.load_names().filter(|_| !self.link.is_elsewhere()) else {
            return EngineLoad::default();
        };
        let mut said = self.said.lock().await;
        if let Some((at, load)) = *said
            && at.elapsed() < HOLDS
        {
            return load;
        }
        let load = match tokio::time::timeout(TIMEOUT, self.metrics()).await {
            Ok(Some(text)) => read(&names, &text),
            Ok(None) | Err(_) => EngineLoad::default(),
        };
        *said = Some((Instant::now(), load));
        load
    }

    async fn metrics(&self) -> Option<String> {
        let (request, _) = self.link.request(Method::GET, self.url("/metrics")).await.ok()?;
        let response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let body = Answer::Far(response).body(METRICS_BYTES).await.ok()?;
        Some(String::from_utf8_lossy(&body).into_owned())
    }
}

/// Reads the load. A server with several engines has a series of each: their queues add up, and the fullest cache
/// counts.
fn read(names: &Names, text: &str) -> EngineLoad {
    let of = |name: &str| text.lines().filter_map(|line| sample(line, name)).collect::<Vec<f64>>();
    let waiting = of(names.waiting);
    let kv_cache = names.kv_cache.iter().map(|name| of(name)).find(|values| !values.is_empty()).unwrap_or_default();
    EngineLoad {
        waiting: (!waiting.is_empty()).then(|| waiting.iter().sum()),
        kv_cache: kv_cache.into_iter().reduce(f64::max),
    }
}

/// The value of a line of this metric.
fn sample(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.strip_prefix('{') {
        Some(labels) => labels.rsplit_once('}')?.1,
        None => rest.strip_prefix(' ')?,
    };
    let value: f64 = value.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some(value)
}
