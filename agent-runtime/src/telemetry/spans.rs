//! Metrics of the spans that are handed to a receiver of traces.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Why spans never reached the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Too many waited.
    QueueFull,
    /// The receiver could not be reached, or refused them.
    Failed,
    /// The receiver took others of the same batch.
    Rejected,
}

impl DropReason {
    const ALL: [Self; 3] = [Self::QueueFull, Self::Failed, Self::Rejected];

    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Counts spans.
#[derive(Clone, Debug)]
pub struct SpanMetrics {
    exported: Counter,
    dropped: Family<ReasonLabel, Counter>,
}

impl SpanMetrics {
    /// Registers every metric. Reasons start at zero, so that rates exist from the first scrape.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self { exported: Counter::default(), dropped: Family::default() };
        let (exported, dropped) = (metrics.exported.clone(), metrics.dropped.clone());
        registry.register("slipway_trace_spans_exported", "Spans that the receiver of traces took", exported);
        registry.register("slipway_trace_spans_dropped", "Spans that never reached the receiver of traces", dropped);
        for reason in DropReason::ALL {
            drop(metrics.dropped.get_or_create(&ReasonLabel { reason: reason.as_str() }));
        }
        metrics
    }

    /// Counts spans that the receiver took.
    pub fn exported(&self, spans: u64) {
        self.exported.inc_by(spans);
    }

    /// Counts spans that it did not get.
    pub fn dropped(&self, reason: DropReason, spans: u64) {
        self.dropped.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc_by(spans);
    }
}
