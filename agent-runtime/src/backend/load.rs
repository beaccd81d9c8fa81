//! What an engine says of its load, read from its metrics.
//!
//! The names are those that endpoint pickers read too
//! (<https://github.com/kubernetes-sigs/gateway-api-inference-extension>, the mapping by engine).

use std::{
    future::Future,
    time::{Duration, Instant},
};

use reqwest::Response;
use tokio::sync::Mutex;

use super::EngineLoad;

/// How long what was said counts: pickers ask every pod many times a second, and anybody may ask.
const HOLDS: Duration = Duration::from_millis(100);
/// How long an engine may take. A picker takes an old figure for worse than none.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Most bytes of the metrics that are read.
const METRICS_BYTES: usize = 4 * 1024 * 1024;

/// What was said last, and when. Who asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub(super) struct Said(Mutex<Option<(Instant, EngineLoad)>>);

/// The series of a metric, or those of them with one label.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// A label as it is written: `name="value"`.
    pub(super) label: Option<&'static str>,
}

/// Where metrics say how many requests wait, and which share of the KV cache is in use.
pub(super) struct Names {
    /// Queues that a request waits in one after the other. All that are there add up.
    pub(super) waiting: &'static [Series],
    /// Names of one figure. The first that is there counts.
    pub(super) kv_cache: &'static [Series],
}

impl Said {
    /// The load by these names in what `metrics` gives; nothing of what that does not say.
    pub(super) async fn or_ask(&self, names: &Names, metrics: impl Future<Output = Option<String>>) -> EngineLoad {
        let mut said = self.0.lock().await;
        if let Some((at, load)) = *said
            && at.elapsed() < HOLDS
        {
            return load;
        }
        let load = match tokio::time::timeout(TIMEOUT, metrics).await {
            Ok(Some(text)) => read(names, &text),
            Ok(None) | Err(_) => EngineLoad::default(),
        };
        *said = Some((Instant::now(), load));
        load
    }
}

impl Series {
    /// All series of this name.
    pub(super) const fn all(name: &'static str) -> Self {
        Self { name, label: None }
    }

    /// Those of this name with a label.
    pub(super) const fn of(name: &'static str, label: &'static str) -> Self {
        Self { name, label: Some(label) }
    }

    /// The values that a text has of it.
    fn values(&self, text: &str) -> Vec<f64> {
        text.lines().filter_map(|line| self.value(line)).collect()
    }

    fn value(&self, line: &str) -> Option<f64> {
        let rest = line.strip_prefix(self.name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let value: f64 = value.split_whitespace().next()?.parse().ok()?;
        let is_meant = self.label.is_none_or(|label| labels.contains(label));
        (is_meant && value.is_finite()).then_some(value)
    }
}

/// The text of an answer with metrics, as far as it is read; nothing of a refusal, or of one that breaks off.
pub(super) async fn text_of(mut answer: Response) -> Option<String> {
    if !answer.status().is_success() {
        return None;
    }
    let mut text = Vec::new();
    while text.len() < METRICS_BYTES
        && let Some(part) = answer.chunk().await.ok()?
    {
        text.extend_from_slice(&part[..part.len().min(METRICS_BYTES - text.len())]);
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Reads the load. A server with several engines has a series of each: their queues add up, and the fullest cache
/// counts.
fn read(names: &Names, text: &str) -> EngineLoad {
    let waiting: Vec<f64> = names.waiting.iter().flat_map(|series| series.values(text)).collect();
    let kv_cache = names.kv_cache.iter().map(|series| series.values(text)).find(|values| !values.is_empty());
    EngineLoad {
        waiting: (!waiting.is_empty()).then(|| waiting.iter().sum()),
        kv_cache: kv_cache.into_iter().flatten().reduce(f64::max),
    }
}
