//! What TensorRT-LLM's tools cannot build, or a GPU cannot run, with the field and the remedy. Pure.
//!
//! Which architecture computes which format: NVIDIA/TensorRT-LLM docs/source/features/quantization.md at 09d4c79 and
//! docs/source/reference/support-matrix.md at 03dad62. NVFP4 engines exist for Llama and Mixtral only
//! (docs/source/legacy/reference/precision.md).

use super::version::{self, VersionError, find};
use crate::check::{Asked, Problem, Refusal, heads, layers, memory, positions, sizes, splits};
use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::gpu::Gpu;

/// Finds every reason against the request, each with its field; empty when all can be tried.
#[must_use]
pub fn check(asked: &Asked) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    refusals.extend(release(asked));
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

fn release(asked: &Asked) -> Option<Refusal> {
    let error: VersionError = find(&asked.version).err()?;
    Some(Refusal::new(version::FIELD, Problem::Version(error)))
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
