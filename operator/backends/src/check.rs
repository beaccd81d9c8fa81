//! What cannot work is refused before GPU time is spent, with the field and the remedy: what all backends share. Pure.

use thiserror::Error;

use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::gpu::Gpu;
use crate::memory::{Estimate, GIB, Layout, Shape, estimate};
use crate::tensorrt_llm::version::VersionError;

mod checkpoint;
mod refusal;

pub use checkpoint::Checkpoint;
pub use refusal::{Problem, Refusal};

/// Assumed GPUs of a node without a count: NVIDIA's largest boards with one NVLink domain.
pub const GPUS_PER_NODE: u32 = 8;

/// Engines that a status holds.
pub const MOST_ENGINES: usize = 16;

/// What a spec asks for, with what resolve found.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The engine's `version`.
    pub version: String,
    /// The checkpoint's `architectures[0]`.
    pub architecture: String,
    /// The checkpoint's shape.
    pub shape: Shape,
    /// The GPU's figures.
    pub gpu: Gpu,
    /// Memory by the label `nvidia.com/gpu.memory` in MiB; without it the table's.
    pub gpu_memory_mib: Option<u32>,
    /// GPUs of one node.
    pub gpus_per_node: u32,
    /// `search.precision`.
    pub precisions: Vec<Precision>,
    /// `search.kvCachePrecision`.
    pub kv_caches: Vec<KvCachePrecision>,
    /// `search.tensorParallel`.
    pub tensor: Vec<u32>,
    /// `search.pipelineParallel`.
    pub pipeline: Vec<u32>,
    /// The engine's `maxSeqLen`.
    pub max_seq_len: u32,
    /// `search.maxBatchSize`, its smallest.
    pub max_batch_size: u32,
    /// `search.maxBatchSize`, its largest.
    pub most_batch_size: u32,
    /// `search.maxNumTokens`, its smallest.
    pub max_num_tokens: u32,
    /// Whether `engine.tensorRTLLM.calibration` is set; without a build there is none.
    pub has_calibration: bool,
}

pub(crate) fn splits(shape: &Shape, tensor: u32) -> bool {
    // KV heads are split where there are enough of them and copied where there are not: either must divide the other.
    tensor > 0
        && shape.heads.is_multiple_of(tensor)
        && (shape.kv_heads.is_multiple_of(tensor) || tensor.is_multiple_of(shape.kv_heads.max(1)))
        && shape.intermediate.is_multiple_of(tensor)
}

pub(crate) fn heads(asked: &Asked, index: usize, tensor: u32) -> Option<Refusal> {
    let field = format!("search.tensorParallel[{index}]");
    if tensor > asked.gpus_per_node {
        return Some(Refusal::new(field, Problem::Node { tensor, gpus: asked.gpus_per_node }));
    }
    let possible = (1..=asked.gpus_per_node).filter(|other| splits(&asked.shape, *other));
    (!splits(&asked.shape, tensor)).then(|| {
        let possible = possible.map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
        let Shape { heads, kv_heads, intermediate, .. } = asked.shape;
        Refusal::new(field, Problem::Heads { heads, kv_heads, intermediate, tensor, possible })
    })
}

pub(crate) fn layers(asked: &Asked, index: usize, groups: u32) -> Option<Refusal> {
    let layers = asked.shape.layers;
    let divides = groups > 0 && layers.is_multiple_of(groups);
    (!divides).then(|| Refusal::new(format!("search.pipelineParallel[{index}]"), Problem::Layers { layers, groups }))
}

/// Groups that need not be equal, but of which each has a layer.
pub(crate) fn uneven_layers(asked: &Asked, index: usize, groups: u32) -> Option<Refusal> {
    let layers = asked.shape.layers;
    let is_possible = (1..=layers).contains(&groups);
    (!is_possible)
        .then(|| Refusal::new(format!("search.pipelineParallel[{index}]"), Problem::TooManyGroups { layers, groups }))
}

/// Fewer tokens of an iteration than sequences, each of which has one in it.
pub(crate) fn tokens(asked: &Asked, product: &'static str) -> Option<Refusal> {
    let (tokens, sequences) = (asked.max_num_tokens, asked.most_batch_size);
    (tokens < sequences).then(|| Refusal::new("search.maxNumTokens", Problem::FewTokens { tokens, sequences, product }))
}

pub(crate) fn positions(asked: &Asked, field: &str) -> Option<Refusal> {
    let Asked { max_seq_len: asked_for, shape: Shape { max_positions, .. }, .. } = *asked;
    if max_positions == 0 {
        return Some(Refusal::new(field, Problem::NoPositions { asked: asked_for }));
    }
    let problem = Problem::Positions { asked: asked_for, most: max_positions };
    (asked_for > max_positions || asked_for == 0).then(|| Refusal::new(field, problem))
}

/// Bytes of one GPU.
#[must_use]
pub fn memory(asked: &Asked) -> f64 {
    asked.gpu_memory_mib.map_or(asked.gpu.memory_gib * GIB, |mib| f64::from(mib) * 1_048_576.0)
}

pub(crate) fn sizes(
    asked: &Asked,
    checkpoint: &Checkpoint,
    formats: (Precision, KvCachePrecision),
    parallelism: Parallelism,
) -> Estimate {
    estimate(&asked.shape, &layout(asked, checkpoint, formats, parallelism))
}

/// The smallest layout of those that are asked for.
pub(crate) fn layout(
    asked: &Asked,
    checkpoint: &Checkpoint,
    (precision, kv_cache): (Precision, KvCachePrecision),
    parallelism: Parallelism,
) -> Layout {
    Layout {
        precision,
        is_as_stored: checkpoint.precision() == Some(precision),
        kv_cache,
        parallelism,
        max_batch_size: asked.max_batch_size,
        max_num_tokens: asked.max_num_tokens,
        max_seq_len: asked.max_seq_len,
    }
}
