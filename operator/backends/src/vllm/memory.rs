//! What vLLM takes of a GPU's memory, where that differs from what every engine takes. Pure.
//!
//! vLLM measures its *activations*: the most that torch holds beside the weights in one iteration of
//! `max_num_batched_tokens` (vllm-project/vllm, vllm/v1/worker/gpu_worker.py: `determine_available_memory`). Its log of
//! 0.25.0 on an H100 and on H200s agrees with the larger of two within 8 %, for two shapes of other vocabularies
//! (`tests/data/vllm_memory_*.jsonl`):
//!
//! - the tensors of a layer as [`memory::estimate`](crate::memory::estimate) counts them, and beside them its queries,
//!   keys and values, which last until the layer has ended;
//! - where torch compiles the model: a second embedding, with the residual stream and its normed copy at 16 bits. What
//!   in torch makes it has not been looked up. Each GPU makes that of its part.

use crate::memory::{Estimate, Layout, Shape, estimate as of_any};
use crate::no_build::Unbuilt;

/// The argument without which torch compiles the model.
const EAGER: &str = "enforce_eager=true";

/// Estimates what a layout takes of its fullest GPU.
pub(super) fn estimate(shape: &Shape, layout: &Layout, unbuilt: &Unbuilt) -> Estimate {
    let sizes = of_any(shape, layout);
    let is_compiled = !unbuilt.extra.iter().any(|argument| argument.trim() == EAGER);
    let of_layer = sizes.activations + projections(shape, layout);
    let activations = if is_compiled { of_layer.max(compiled(shape, layout)) } else { of_layer };
    unbuilt.features.on_top(Estimate { activations, ..sizes }, (layout.max_batch_size, shape.vocabulary))
}

fn tensor_ranks(layout: &Layout) -> f64 {
    f64::from(layout.parallelism.tensor.max(1))
}

/// Bytes of a layer's queries, keys and values.
fn projections(shape: &Shape, layout: &Layout) -> f64 {
    let ranks = tensor_ranks(layout);
    let heads = f64::from(shape.heads) + 2.0 * f64::from(shape.kv_heads).max(ranks);
    2.0 * f64::from(layout.max_num_tokens) * heads * f64::from(shape.head_size) / ranks
}

/// Bytes that the embedding's part of a compiled model holds.
fn compiled(shape: &Shape, layout: &Layout) -> f64 {
    let hidden = f64::from(shape.hidden);
    2.0 * f64::from(shape.vocabulary) * hidden / tensor_ranks(layout) + 4.0 * f64::from(layout.max_num_tokens) * hidden
}

#[cfg(test)]
mod tests;
