//! Wire types between the operator and its Jobs: task files, termination messages, manifests, progress rows.
//!
//! The operator writes a task file and reads a termination message; the worker does the reverse. Both directions are
//! JSON in camelCase. Unknown fields are refused in a task: a worker older than its operator must not ignore an order.
//! They are ignored in a message: an operator older than a worker can still read what it knows.

mod digest;
mod manifest;
mod message;
mod model_uri;
mod no_build;
mod objective;
pub mod paths;
mod profile;
mod quality;
mod row;
mod sweep;
mod task;
mod tensorrt_llm;

pub use slipway_vocabulary::{
    FailureClass, GpuFigure, GpuLimit, LatencyMetric, LatencyObjective, MeasurementVerdict, Percentile,
    recording::{RecordedCall, RunLengths, TraceLine},
};

pub use crate::{
    digest::{Digest, InvalidDigest},
    manifest::{CHUNK_BYTES, InvalidManifest, MANIFEST_FORMAT_VERSION, Manifest, ManifestFile},
    message::{
        BuildResult, EncodeError, FetchResult, MESSAGE_FORMAT_VERSION, MaterializeResult, Message, ModelShape, Outcome,
        ParseError, ProfileResult, ResolveResult, message_budget,
    },
    model_uri::{Compression, ModelUri, UriError},
    no_build::{Adapter, NoBuild},
    profile::{
        AgentRunSettings, Arm, Campaign, Cell, Costs, DataFile, Driver, Expected, MOST_WALKED, MeasureSettings,
        OptimizeFor, OtherEngine, ProfileTask, Runs, ServeConfig, Spread, SyntheticRuns, Workload,
    },
    quality::{QualityMetric, QualityPrompt, QualityResult, QualitySample, ReferenceScores},
    row::{
        Gpu, Judged, Latency, MAX_NOT_MEASURED, MAX_NOT_MEASURED_REASON_BYTES, MAX_ROW_BYTES, ModelAnalyzerRow,
        NotMeasured, Phase, ProfileEnd, Progress, Row, RowTooLarge, RuledOutBy, WhyNotMeasured, has_too_many_errors,
        unknown_figure,
    },
    sweep::{SweepResult, SweepTask},
    task::{
        BuildTask, BuilderReport, CustomBuild, EngineRef, FetchTask, QualityTask, ResolveTask, ShapeNeed, Task,
        TaskError,
    },
    tensorrt_llm::{TensorRtLlmBuild, ToolStep},
};
pub use slipway_vocabulary::serving::{EngineEntry, NoBuildBackend};
