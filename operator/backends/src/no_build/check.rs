//! What cannot work where a checkpoint is served as it is, with the field and the remedy. Pure.

use slipway_vocabulary::serving::NoBuildBackend;

use super::{Features, Room, Weights, of};
use crate::check::{Asked, Checkpoint, Problem, Refusal, heads, layout, memory, positions, splits};
use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::memory::{Estimate, Layout, Shape};

/// What of a spec decides beyond [`Asked`].
#[derive(Debug, Clone, PartialEq)]
pub struct Unbuilt {
    /// The backend.
    pub backend: NoBuildBackend,
    /// How the checkpoint's weights are stored.
    pub checkpoint: Checkpoint,
    /// Whether long prompts are read in pieces.
    pub chunked_prefill: bool,
    /// The share of memory that the backend is given, from 0 to 1. [`Backend::room`](super::Backend) defines the whole.
    pub memory_share: f64,
    /// Features of vLLM; other backends have none.
    pub features: Features,
    /// Further arguments, as `name=value`.
    pub extra: Vec<String>,
    /// Bytes of host memory that the server's container may use; absent where it has no limit.
    pub host_memory: Option<u64>,
}

impl Unbuilt {
    /// Estimates what an engine of a version and a layout takes of its fullest GPU, its features included.
    #[must_use]
    pub fn estimate(&self, version: &str, shape: &Shape, layout: &Layout) -> Estimate {
        (of(self.backend).estimate)(self, version, shape, layout)
    }
}

/// Finds every reason against what is asked for, each with its field; empty when all can be tried.
///
/// A version has been found by then, as its image has been resolved.
#[must_use]
pub fn check_no_build(asked: &Asked, unbuilt: &Unbuilt) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let backend = of(unbuilt.backend);
    refusals.extend(files(unbuilt));
    let precisions = || asked.precisions.iter().enumerate();
    refusals.extend(precisions().filter_map(|(index, precision)| format(asked, unbuilt, index, *precision)));
    refusals.extend(
        asked.kv_caches.iter().enumerate().filter_map(|(index, cache)| kv_cache(asked, unbuilt, index, *cache)),
    );
    refusals.extend(asked.tensor.iter().enumerate().filter_map(|(index, tensor)| heads(asked, index, *tensor)));
    refusals.extend(
        asked.pipeline.iter().enumerate().filter_map(|(index, groups)| (backend.pipeline)(asked, index, *groups)),
    );
    refusals.extend(positions(asked, &backend.field("maxSeqLen")));
    refusals.extend((backend.own_refusals)(asked, unbuilt));
    // Sizes of layouts that cannot exist mean nothing.
    if refusals.is_empty() {
        refusals.extend(precisions().filter_map(|(index, precision)| fits(asked, unbuilt, index, *precision)));
    }
    refusals
}

/// Why a checkpoint's files cannot be read.
fn files(unbuilt: &Unbuilt) -> Option<Refusal> {
    let backend = of(unbuilt.backend);
    let problem = match (&unbuilt.checkpoint, unbuilt.checkpoint.own_layout()) {
        (Checkpoint::Unknown(method), _) => Problem::Method { method: method.clone() },
        (_, Some(method)) if !backend.methods.contains(&method) => Problem::Files {
            method: method.to_owned(),
            backend: backend.name,
            remedy: "backend VLLM, or a checkpoint in FP8, AWQ, GPTQ, compressed-tensors or ModelOpt's formats",
        },
        _ => return None,
    };
    Some(Refusal::new("model.uri", problem))
}

fn runs(asked: &Asked, unbuilt: &Unbuilt, precision: Precision) -> bool {
    let Asked { version, gpu, .. } = asked;
    (of(unbuilt.backend).runs)(&Weights { precision, checkpoint: &unbuilt.checkpoint, version, sm: gpu.sm })
}

/// What of a checkpoint runs, or what would if it were quantized otherwise.
fn all_that_run(asked: &Asked, unbuilt: &Unbuilt) -> String {
    let backend = of(unbuilt.backend);
    let is_served = |other: &Precision| unbuilt.checkpoint != Checkpoint::Plain || backend.serves_plain.contains(other);
    let run = Precision::ALL.into_iter().filter(|other| is_served(other) && runs(asked, unbuilt, *other));
    let run: Vec<_> = run.map(Precision::name).collect();
    if run.is_empty() { format!("nothing of {}", backend.name) } else { run.join(", ") }
}

/// Names of precisions, as in `FP16, BF16 or FP8`.
fn either(precisions: &[Precision]) -> String {
    let names: Vec<_> = precisions.iter().map(|precision| precision.name()).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}

fn format(asked: &Asked, unbuilt: &Unbuilt, index: usize, precision: Precision) -> Option<Refusal> {
    let backend = of(unbuilt.backend);
    let problem = match &unbuilt.checkpoint {
        Checkpoint::Quantized(found) | Checkpoint::By { precision: found, .. } if *found != precision => {
            Problem::Quantized { found: found.name(), backend: backend.name }
        }
        Checkpoint::Plain if !backend.serves_plain.contains(&precision) => Problem::Unquantized {
            precision: precision.name(),
            backend: backend.name,
            others: either(backend.serves_plain),
        },
        _ if !runs(asked, unbuilt, precision) => Problem::Precision {
            precision: precision.name(),
            gpu: asked.gpu.name,
            sm: asked.gpu.sm,
            others: all_that_run(asked, unbuilt),
        },
        Checkpoint::Plain | Checkpoint::Quantized(_) | Checkpoint::By { .. } | Checkpoint::Unknown(_) => return None,
    };
    Some(Refusal::new(format!("search.precision[{index}]"), problem))
}

fn kv_cache(asked: &Asked, unbuilt: &Unbuilt, index: usize, cache: KvCachePrecision) -> Option<Refusal> {
    let problem = match cache {
        KvCachePrecision::Int8 => Problem::Int8KvCache { backend: of(unbuilt.backend).name },
        KvCachePrecision::Fp8 if asked.gpu.sm < 89 => {
            Problem::KvCache { name: "FP8", gpu: asked.gpu.name, sm: asked.gpu.sm }
        }
        KvCachePrecision::Auto | KvCachePrecision::Fp8 => return None,
    };
    Some(Refusal::new(format!("search.kvCachePrecision[{index}]"), problem))
}

/// Fewer tokens of an iteration than a prompt that is read at once.
pub fn iteration(asked: &Asked, unbuilt: &Unbuilt) -> Option<Refusal> {
    let (tokens, length) = (asked.max_num_tokens, asked.max_seq_len);
    (!unbuilt.chunked_prefill && tokens < length)
        .then(|| Refusal::new("search.maxNumTokens", Problem::Iteration { tokens, length }))
}

fn room(asked: &Asked, unbuilt: &Unbuilt, sizes: &Estimate) -> Room {
    (of(unbuilt.backend).room)(sizes, unbuilt.memory_share, memory(asked))
}

fn sizes_of(asked: &Asked, unbuilt: &Unbuilt, formats: (Precision, KvCachePrecision), split: Parallelism) -> Estimate {
    unbuilt.estimate(&asked.version, &asked.shape, &layout(asked, &unbuilt.checkpoint, formats, split))
}

fn fits(asked: &Asked, unbuilt: &Unbuilt, index: usize, precision: Precision) -> Option<Refusal> {
    let layouts = asked.tensor.iter().flat_map(|tensor| asked.pipeline.iter().map(move |groups| (*tensor, *groups)));
    let estimates = layouts.flat_map(|(tensor, pipeline)| {
        let split = Parallelism { tensor, pipeline };
        asked.kv_caches.iter().map(move |cache| sizes_of(asked, unbuilt, (precision, *cache), split))
    });
    let needed = |sizes: &Estimate| room(asked, unbuilt, sizes).needed;
    let smallest = estimates.min_by(|a, b| needed(a).total_cmp(&needed(b)))?;
    let Room { needed, available, words } = room(asked, unbuilt, &smallest);
    (needed > available).then(|| {
        let problem = Problem::Memory {
            precision: precision.name(),
            sizes: smallest,
            needed,
            room: words,
            available,
            remedy: remedy(asked, unbuilt, precision),
        };
        Refusal::new(format!("search.precision[{index}]"), problem)
    })
}

/// What would fit: more GPUs, because nothing here makes a checkpoint smaller.
fn remedy(asked: &Asked, unbuilt: &Unbuilt, precision: Precision) -> String {
    let fits = |tensor: &u32| {
        let split = Parallelism { tensor: *tensor, pipeline: 1 };
        let sizes = sizes_of(asked, unbuilt, (precision, KvCachePrecision::Auto), split);
        let room = room(asked, unbuilt, &sizes);
        room.needed <= room.available
    };
    let mut possible = (1..=asked.gpus_per_node).filter(|tensor| splits(&asked.shape, *tensor));
    match possible.find(fits) {
        Some(tensor) => format!("search.tensorParallel {tensor} fits"),
        None => "choose GPUs with more memory, a shorter maxSeqLen, or a checkpoint of fewer bits".to_owned(),
    }
}

#[cfg(test)]
mod tests;
