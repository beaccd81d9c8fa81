//! The same for backends without a build: the checkpoint is served as it is. Pure.
//!
//! Which GPU computes which format: for TensorRT-LLM's PyTorch flow NVIDIA/TensorRT-LLM docs/source/features/quantization.md at
//! 09d4c79; for vLLM <https://docs.vllm.ai/en/v0.14.0/features/quantization/> (Blackwell is not in its table: formats that compute
//! in 16 bits are taken to run there, INT8 activations are not).

use crate::check::{Asked, Problem, Refusal, heads, layers, memory, positions, sizes, splits};
use crate::gpu::Gpu;
use crate::memory::Estimate;
use crate::no_build::Backend;
use crate::options::Parallelism;
use crate::recipe::{KvCachePrecision, Precision};

/// What of a spec decides beyond [`Asked`].
#[derive(Debug, Clone, PartialEq)]
pub struct Unbuilt {
    /// The backend.
    pub backend: Backend,
    /// How the checkpoint's weights are stored.
    pub checkpoint: Checkpoint,
    /// Whether long prompts are read in pieces.
    pub chunked_prefill: bool,
    /// The share of memory that the backend is given, from 0 to 1; see [`Backend::memory_option`].
    pub memory_share: f64,
}

/// How weights are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpoint {
    /// As numbers of 16 or 32 bits.
    Plain,
    /// Quantized in a format of the API.
    Quantized(Precision),
    /// Quantized by a method that has no name here.
    Unknown(String),
}

impl Checkpoint {
    /// Reads the word that resolve found: a precision of the API, or a method's own name.
    #[must_use]
    pub fn of_word(word: Option<&str>) -> Self {
        let Some(word) = word else { return Self::Plain };
        let known = Precision::ALL.into_iter().find(|precision| precision.name() == word);
        known.map_or_else(|| Self::Unknown(word.to_owned()), Self::Quantized)
    }
}

/// Finds every reason against what is asked for, each with its field; empty when all can be tried.
///
/// A version has been found by then, as its image has been resolved.
#[must_use]
pub fn check_no_build(asked: &Asked, of: &Unbuilt) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if let Checkpoint::Unknown(method) = &of.checkpoint {
        refusals.push(Refusal::new("model.uri", Problem::Method { method: method.clone() }));
    }
    let precisions = || asked.precisions.iter().enumerate();
    refusals.extend(precisions().filter_map(|(index, precision)| format(asked, of, index, *precision)));
    refusals.extend(asked.kv_caches.iter().enumerate().filter_map(|(index, cache)| kv_cache(asked, of, index, *cache)));
    refusals.extend(asked.tensor.iter().enumerate().filter_map(|(index, tensor)| heads(asked, index, *tensor)));
    refusals.extend(asked.pipeline.iter().enumerate().filter_map(|(index, groups)| layers(asked, index, *groups)));
    refusals.extend(positions(asked, &of.backend.field("maxSeqLen")));
    refusals.extend(iteration(asked, of));
    // Sizes of layouts that cannot exist mean nothing.
    if refusals.is_empty() {
        refusals.extend(precisions().filter_map(|(index, precision)| fits(asked, of, index, *precision)));
    }
    refusals
}

/// Whether weights of a precision are computed with on a GPU.
fn runs(backend: Backend, precision: Precision, gpu: Gpu) -> bool {
    let sm = gpu.sm;
    use Backend::{PyTorch, Vllm, VllmOpenAi};
    match (backend, precision) {
        (Vllm | VllmOpenAi, Precision::Fp16) => sm >= 70,
        (PyTorch, Precision::Fp16) => sm >= 75,
        (_, Precision::Bf16) => sm >= 80,
        (_, Precision::Fp8) => sm >= 89,
        (_, Precision::Nvfp4) => sm >= 100,
        (Vllm | VllmOpenAi, Precision::Int4Awq | Precision::Int4WeightOnly | Precision::Int8WeightOnly) => sm >= 75,
        (Vllm | VllmOpenAi, Precision::Int8SmoothQuant) => (75..=90).contains(&sm),
        (Vllm | VllmOpenAi, Precision::W4A8Awq) => false,
        (PyTorch, Precision::Int4Awq | Precision::Int4WeightOnly) => (80..=90).contains(&sm),
        (PyTorch, Precision::W4A8Awq) => (89..=90).contains(&sm),
        (PyTorch, Precision::Int8WeightOnly | Precision::Int8SmoothQuant) => false,
    }
}

/// What of a checkpoint runs, or what would if it were quantized otherwise.
fn all_that_run(of: &Unbuilt, gpu: Gpu) -> String {
    let backend = of.backend;
    let is_served = |other: &Precision| of.checkpoint != Checkpoint::Plain || backend.serves_plain(*other);
    let run = Precision::ALL.into_iter().filter(|other| is_served(other) && runs(backend, *other, gpu));
    let run: Vec<_> = run.map(Precision::name).collect();
    if run.is_empty() { format!("nothing of {}", backend.name()) } else { run.join(", ") }
}

fn format(asked: &Asked, of: &Unbuilt, index: usize, precision: Precision) -> Option<Refusal> {
    let backend = of.backend.name();
    let problem = match &of.checkpoint {
        Checkpoint::Quantized(found) if *found != precision => Problem::Quantized { found: found.name(), backend },
        Checkpoint::Plain if !of.backend.serves_plain(precision) => {
            Problem::Unquantized { precision: precision.name(), backend, others: of.backend.plain_precisions() }
        }
        _ if !runs(of.backend, precision, asked.gpu) => Problem::Precision {
            precision: precision.name(),
            gpu: asked.gpu.name,
            sm: asked.gpu.sm,
            others: all_that_run(of, asked.gpu),
        },
        Checkpoint::Plain | Checkpoint::Quantized(_) | Checkpoint::Unknown(_) => return None,
    };
    Some(Refusal::new(format!("search.precision[{index}]"), problem))
}

fn kv_cache(asked: &Asked, of: &Unbuilt, index: usize, cache: KvCachePrecision) -> Option<Refusal> {
    let problem = match cache {
        KvCachePrecision::Int8 => Problem::Int8KvCache { backend: of.backend.name() },
        KvCachePrecision::Fp8 if asked.gpu.sm < 89 => {
            Problem::KvCache { name: "FP8", gpu: asked.gpu.name, sm: asked.gpu.sm }
        }
        KvCachePrecision::Auto | KvCachePrecision::Fp8 => return None,
    };
    Some(Refusal::new(format!("search.kvCachePrecision[{index}]"), problem))
}

fn iteration(asked: &Asked, of: &Unbuilt) -> Option<Refusal> {
    let (tokens, length) = (asked.max_num_tokens, asked.max_seq_len);
    (!of.chunked_prefill && tokens < length)
        .then(|| Refusal::new("search.maxNumTokens", Problem::Iteration { tokens, length }))
}

/// The least bytes of one GPU with which one sequence is served, and the bytes that it may take.
fn room(asked: &Asked, of: &Unbuilt, sizes: &Estimate) -> (f64, f64) {
    match of.backend {
        // The share is of the whole memory, for everything.
        Backend::Vllm | Backend::VllmOpenAi => (sizes.least_with(1.0), memory(asked) * of.memory_share),
        // The share is of what is left, for the KV cache alone.
        Backend::PyTorch => (sizes.least_with(of.memory_share), memory(asked)),
    }
}

fn fits(asked: &Asked, of: &Unbuilt, index: usize, precision: Precision) -> Option<Refusal> {
    let layouts = asked.tensor.iter().flat_map(|tensor| asked.pipeline.iter().map(move |groups| (*tensor, *groups)));
    let estimates = layouts.flat_map(|(tensor, pipeline)| {
        let split = Parallelism { tensor, pipeline };
        asked.kv_caches.iter().map(move |cache| sizes(asked, precision, *cache, split))
    });
    let needed = |sizes: &Estimate| room(asked, of, sizes).0;
    let smallest = estimates.min_by(|a, b| needed(a).total_cmp(&needed(b)))?;
    let (needed, available) = room(asked, of, &smallest);
    (needed > available).then(|| {
        let problem = Problem::Memory {
            precision: precision.name(),
            sizes: smallest,
            needed,
            room: of.backend.room(),
            available,
            remedy: remedy(asked, of, precision),
        };
        Refusal::new(format!("search.precision[{index}]"), problem)
    })
}

/// What would fit: more GPUs, for nothing here makes a checkpoint smaller.
fn remedy(asked: &Asked, of: &Unbuilt, precision: Precision) -> String {
    let fits = |tensor: &u32| {
        let split = Parallelism { tensor: *tensor, pipeline: 1 };
        let (needed, available) = room(asked, of, &sizes(asked, precision, KvCachePrecision::Auto, split));
        needed <= available
    };
    let mut possible = (1..=asked.gpus_per_node).filter(|tensor| splits(&asked.shape, *tensor));
    match possible.find(fits) {
        Some(tensor) => format!("search.tensorParallel {tensor} fits"),
        None => "choose GPUs with more memory, a shorter maxSeqLen, or a checkpoint of fewer bits".to_owned(),
    }
}

#[cfg(test)]
mod tests;
