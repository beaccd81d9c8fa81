//! What an engine says of its own load, as metrics for those who pick a pod. Pure.

use std::sync::atomic::AtomicU64;

use prometheus_client::{encoding::text, metrics::gauge::Gauge, registry::Registry};

/// What an engine says; nothing of what it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineFigures {
    /// Requests that wait in its queue.
    pub waiting: Option<f64>,
    /// The share of its KV cache that is in use.
    pub kv_cache: Option<f64>,
}

impl EngineFigures {
    /// The OpenMetrics text of a registry, and of what is known here. A figure that is not known has no series: 0 would
    /// attract every request.
    pub(super) fn encode_behind(self, load: &Registry) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::default();
        let figures = [
            ("slipway_engine_requests_waiting", "Requests in the engine's own queue", self.waiting),
            ("slipway_engine_kv_cache_usage_ratio", "Share of the engine's KV cache that is in use", self.kv_cache),
        ];
        for (name, help, value) in figures.into_iter().filter_map(|(name, help, value)| Some((name, help, value?))) {
            let gauge: Gauge<f64, AtomicU64> = Gauge::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        }
        let mut text = String::new();
        text::encode_registry(&mut text, load)?;
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}
