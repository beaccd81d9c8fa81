//! The words that several programs of Slipway exchange, each declared once.
//!
//! [`evidence`] is what pods count and judges read. A [`LatencyObjective`] bounds a [`Percentile`] of a
//! [`LatencyMetric`], and a [`GpuLimit`] a [`GpuFigure`]. A [`MeasurementVerdict`] says whether they are met. A
//! [`RolloutVerdict`] is the judge's on a canary. [`failure`] is how failures are reported, and [`serving`] what serves
//! an engine; a [`ProfilingDriver`] measures it. [`gpu`] is the one table of GPU products. [`preflight`] is what a pod
//! checks of its GPUs, and [`telemetry`] what they do while it serves. [`recording`] is what a pod remembers of runs,
//! and [`ToolCallDialect`] how a model writes its tool calls.
//!
//! The crate depends on serde alone: operator, sidecar, worker and analysis link it. Of these, only the operator
//! depends on the API's own crate. The feature `schema` adds the schemas that CRDs are generated from: there, the doc
//! comments of [`FailureClass`] and of the other words of the API are its descriptions.

mod driver;
pub mod evidence;
pub mod failure;
pub mod gpu;
mod gpu_limit;
mod latency;
mod measurement;
mod percentile;
pub mod preflight;
pub mod recording;
mod rollout;
pub mod serving;
pub mod telemetry;
mod tool_calls;

pub use driver::{ProfilingDriver, ThroughputUnit};
pub use failure::FailureClass;
pub use gpu_limit::{GpuFigure, GpuLimit, MissedSide};
pub use latency::{LatencyMetric, LatencyObjective};
pub use measurement::MeasurementVerdict;
pub use percentile::Percentile;
pub use rollout::{OnInconclusive, RolloutVerdict};
pub use tool_calls::ToolCallDialect;
