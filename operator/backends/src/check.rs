//! What cannot work is refused before GPU time is spent, with the field and the remedy. Pure.
//!
//! Which architecture computes which format: NVIDIA/TensorRT-LLM docs/source/features/quantization.md at 09d4c79 and
//! docs/source/reference/support-matrix.md at 03dad62. NVFP4 engines exist for Llama and Mixtral only
//! (docs/source/legacy/reference/precision.md).

use thiserror::Error;

use crate::gpu::Gpu;
use crate::memory::{Estimate, GIB, Layout, Shape, estimate};
use crate::options::Parallelism;
use crate::recipe::{KvCachePrecision, Precision};
use crate::version::{VersionError, find};

mod no_build;
mod refusal;

pub use no_build::{Checkpoint, Unbuilt, check_no_build};
pub use refusal::{Problem, Refusal};

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
    /// `search.maxNumTokens`, its smallest.
    pub max_num_tokens: u32,
    /// Whether `engine.tensorRTLLM.calibration` is set; without a build there is none.
    pub has_calibration: bool,
}

/// Finds every reason against what is asked for, each with its field; empty when all can be tried.
#[must_use]
pub fn check(asked: &Asked) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    refusals.extend(version(asked));
    refusals.extend(architecture(asked));
    refusals
        .extend(asked.precisions.iter().enumerate().flat_map(|(index, precision)| formats(asked, index, *precision)));
    refusals.extend(asked.kv_caches.iter().enumerate().filter_map(|(index, cache)| kv_format(asked, index, *cache)));
    refusals.extend(asked.tensor.iter().enumerate().filter_map(|(index, tensor)| heads(asked, index, *tensor)));
    refusals.extend(asked.pipeline.iter().enumerate().filter_map(|(index, groups)| layers(asked, index, *groups)));
    refusals.extend(positions(asked, "engine.tensorRTLLM.maxSeqLen"));
    // Sizes of layouts that cannot exist mean nothing.
    if refusals.is_empty() {
        refusals.extend(
            asked.precisions.iter().enumerate().filter_map(|(index, precision)| fits(asked, index, *precision)),
        );
    }
    refusals
}

fn version(asked: &Asked) -> Option<Refusal> {
    let error: VersionError = find(&asked.version).err()?;
    Some(Refusal::new(crate::version::FIELD, Problem::Version(error)))
}

/// Architectures whose checkpoints Llama's script converts.
const LLAMA_LIKE: [&str; 3] = ["LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"];

fn architecture(asked: &Asked) -> Option<Refusal> {
    let is_known = LLAMA_LIKE.contains(&asked.architecture.as_str());
    (!is_known).then(|| {
        let architecture = asked.architecture.clone();
        Refusal::new("model.uri", Problem::Architecture { architecture, known: LLAMA_LIKE.join(", ") })
    })
}

/// Streaming multiprocessor versions on which engines of a precision run.
fn architectures(precision: Precision) -> &'static [u32] {
    match precision {
        Precision::Fp16 => &[75, 80, 86, 89, 90, 100, 103, 120],
        Precision::Bf16 => &[80, 86, 89, 90, 100, 103, 120],
        Precision::Fp8 => &[89, 90, 100, 103, 120],
        Precision::Int8WeightOnly | Precision::Int4WeightOnly | Precision::Int8SmoothQuant | Precision::Int4Awq => {
            &[80, 86, 89, 90]
        }
        Precision::W4A8Awq => &[89, 90],
        Precision::Nvfp4 => &[100, 103, 120],
    }
}

fn formats(asked: &Asked, index: usize, precision: Precision) -> Vec<Refusal> {
    let field = format!("search.precision[{index}]");
    let mut refusals = Vec::new();
    if !runs(precision, asked.gpu) {
        let others = Precision::ALL.into_iter().filter(|other| runs(*other, asked.gpu));
        let problem = Problem::Precision {
            precision: precision.name(),
            gpu: asked.gpu.name,
            sm: asked.gpu.sm,
            others: others.map(Precision::name).collect::<Vec<_>>().join(", "),
        };
        refusals.push(Refusal::new(&field, problem));
    }
    let is_mistral = asked.architecture == "MistralForCausalLM";
    if precision == Precision::Nvfp4 && is_mistral {
        refusals.push(Refusal::new(&field, Problem::Nvfp4Model { architecture: asked.architecture.clone() }));
    }
    if precision == Precision::Nvfp4 && find(&asked.version).is_ok_and(|found| !found.version.is_at_least(0, 17)) {
        refusals.push(Refusal::new(&field, Problem::Nvfp4Version { version: asked.version.clone() }));
    }
    if precision.needs_calibration() && !asked.has_calibration {
        refusals
            .push(Refusal::new("engine.tensorRTLLM.calibration", Problem::Calibration { precision: precision.name() }));
    }
    refusals
}

fn runs(precision: Precision, gpu: Gpu) -> bool {
    architectures(precision).contains(&gpu.sm)
}

fn kv_format(asked: &Asked, index: usize, cache: KvCachePrecision) -> Option<Refusal> {
    let is_calibrated = cache == KvCachePrecision::Auto || asked.has_calibration;
    if !is_calibrated {
        let problem = Problem::Calibration { precision: "a quantized KV cache" };
        return Some(Refusal::new("engine.tensorRTLLM.calibration", problem));
    }
    let (name, runs) = match cache {
        KvCachePrecision::Auto => return None,
        KvCachePrecision::Fp8 => ("FP8", asked.gpu.sm >= 89),
        KvCachePrecision::Int8 => ("INT8", (80..=90).contains(&asked.gpu.sm)),
    };
    (!runs).then(|| {
        let problem = Problem::KvCache { name, gpu: asked.gpu.name, sm: asked.gpu.sm };
        Refusal::new(format!("search.kvCachePrecision[{index}]"), problem)
    })
}

fn splits(shape: &Shape, tensor: u32) -> bool {
    // KV heads are split where there are enough of them and copied where there are not: either must divide the other.
    tensor > 0
        && shape.heads.is_multiple_of(tensor)
        && (shape.kv_heads.is_multiple_of(tensor) || tensor.is_multiple_of(shape.kv_heads.max(1)))
        && shape.intermediate.is_multiple_of(tensor)
}

fn heads(asked: &Asked, index: usize, tensor: u32) -> Option<Refusal> {
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

fn layers(asked: &Asked, index: usize, groups: u32) -> Option<Refusal> {
    let layers = asked.shape.layers;
    let divides = groups > 0 && layers.is_multiple_of(groups);
    (!divides).then(|| Refusal::new(format!("search.pipelineParallel[{index}]"), Problem::Layers { layers, groups }))
}

fn positions(asked: &Asked, field: &str) -> Option<Refusal> {
    let Asked { max_seq_len: asked_for, shape: Shape { max_positions, .. }, .. } = *asked;
    let problem = Problem::Positions { asked: asked_for, most: max_positions };
    (asked_for > max_positions || asked_for == 0).then(|| Refusal::new(field, problem))
}

/// Bytes of one GPU.
fn memory(asked: &Asked) -> f64 {
    asked.gpu_memory_mib.map_or(asked.gpu.memory_gib * GIB, |mib| f64::from(mib) * 1_048_576.0)
}

fn sizes(asked: &Asked, precision: Precision, kv_cache: KvCachePrecision, parallelism: Parallelism) -> Estimate {
    let layout = Layout {
        precision,
        kv_cache,
        parallelism,
        max_batch_size: asked.max_batch_size,
        max_num_tokens: asked.max_num_tokens,
        max_seq_len: asked.max_seq_len,
    };
    estimate(&asked.shape, &layout)
}

/// Refuses a precision that fits with none of the splits and KV caches asked for.
fn fits(asked: &Asked, index: usize, precision: Precision) -> Option<Refusal> {
    let splits = asked
        .tensor
        .iter()
        .flat_map(|tensor| asked.pipeline.iter().map(|pipeline| Parallelism { tensor: *tensor, pipeline: *pipeline }));
    let all = splits.flat_map(|split| asked.kv_caches.iter().map(move |cache| sizes(asked, precision, *cache, split)));
    let smallest = all.min_by(|a, b| a.least().total_cmp(&b.least()))?;
    (smallest.least() > memory(asked)).then(|| {
        let problem = Problem::Memory {
            precision: precision.name(),
            sizes: smallest,
            needed: smallest.least(),
            room: "a GPU has",
            available: memory(asked),
            remedy: remedy(asked, precision),
        };
        Refusal::new(format!("search.precision[{index}]"), problem)
    })
}

/// What would fit: more GPUs first, as they change no answer, then a smaller precision.
fn remedy(asked: &Asked, precision: Precision) -> String {
    let fits = |precision, tensor| {
        let split = Parallelism { tensor, pipeline: 1 };
        sizes(asked, precision, KvCachePrecision::Auto, split).least() <= memory(asked)
    };
    let mut tensor = (1..=asked.gpus_per_node).filter(|tensor| splits(&asked.shape, *tensor));
    if let Some(tensor) = tensor.find(|tensor| fits(precision, *tensor)) {
        return format!("search.tensorParallel {tensor} fits");
    }
    let runs = Precision::ALL.into_iter().filter(|other| runs(*other, asked.gpu));
    let most = (1..=asked.gpus_per_node).rev().find(|tensor| splits(&asked.shape, *tensor)).unwrap_or(1);
    match runs.into_iter().find(|other| fits(*other, most)) {
        Some(other) => format!("search.precision {} with search.tensorParallel {most} fits", other.name()),
        None => format!("no precision of a {} fits on {most} GPUs: choose GPUs with more memory", asked.gpu.name),
    }
}

#[cfg(test)]
mod tests;
