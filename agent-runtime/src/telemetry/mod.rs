//! What is counted: evidence for the operator and metrics for Prometheus. Imports none of the layers it measures.

mod engine_load;
mod gpu_metrics;
mod gpus;
mod load;
mod metrics;
mod recorder;
mod spans;
mod tenants;
mod values;

pub use engine_load::EngineFigures;
pub use gpus::{Gpus, GpusError};
pub use metrics::{Metrics, MetricsIdentity, ModelCallMetrics, RefusalReason, ToolCallMetrics};
pub use recorder::{Completion, Delivery, Identity, Recorder, Session, TaskJudgement, UnitId};
pub use spans::{DropReason, SpanMetrics};
pub use values::{Progress, RunValues, Waiting};
