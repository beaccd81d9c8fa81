//! What vLLM takes of a GPU's memory, where that differs from what every engine takes. Pure.
//!
//! vLLM measures its *activations*: the most that torch holds beside the weights in one iteration of
//! `max_num_batched_tokens` (vllm-project/vllm, vllm/v1/worker/gpu_worker.py: `determine_available_memory`). They are
//! taken to be one of two, whichever is more:
//!
//! - the tensors of a layer, with its queries, keys and values until the layer has ended;
//! - where torch compiles the model: a second embedding, of which each GPU makes its part, with the residual stream and
//!   its normed copy at 16 bits.
//!
//! It is a fit. The log of 0.25.0 on an H100 and on H200s agrees within 8 %, for four dense shapes on one GPU
//! (`tests/data/vllm_memory_*.jsonl`). The fit was made for two of them. What in torch makes the second embedding has
//! not been looked up.
//!
//! Its *weights* are those of the model, with one table where the output layer is tied to the embedding, and the table
//! of rotary positions (vllm/model_executor/layers/rotary_embedding/base.py: `cos_sin_cache`).

use serde_json::{Value, json};

use super::release;
use crate::memory::{Estimate, Layout, Shape, Widths, activations, estimate as of_any, widths};
use crate::no_build::{Unbuilt, value_of};

/// Where a further argument says how the model is compiled: 0 and `NONE` are not at all (vllm-project/vllm,
/// vllm/config/compilation.py: `CompilationMode`; `level` before 0.12).
const COMPILATION: [&str; 2] = ["compilation_config.mode", "compilation_config.level"];

/// Estimates what a layout takes of its fullest GPU.
pub(super) fn estimate(unbuilt: &Unbuilt, version: &str, shape: &Shape, layout: &Layout) -> Estimate {
    let Widths { projections, answered, mlp } = widths(shape, layout);
    let of_layer = activations(shape, layout, projections + mlp.max(answered));
    let is_compiled = release::compiles(version) && compiles(&unbuilt.extra);
    let activations = if is_compiled { of_layer.max(of_embedding(shape, layout)) } else { of_layer };
    let of_any = of_any(shape, layout);
    let weights = of_any.weights + of_positions(shape) - of_tied_output(shape, layout);
    let sizes = Estimate { weights, activations, ..of_any };
    unbuilt.features.on_top(sizes, (layout.max_batch_size, shape.vocabulary))
}

/// Bytes of the table of rotary positions, in 16 bits.
fn of_positions(shape: &Shape) -> f64 {
    2.0 * f64::from(shape.max_positions) * f64::from(shape.head_size)
}

/// Bytes of an output layer that other engines keep apart from its embedding. Groups of a pipeline keep one each.
fn of_tied_output(shape: &Shape, layout: &Layout) -> f64 {
    let ranks = f64::from(layout.parallelism.tensor.max(1));
    let is_shared = shape.is_tied && layout.parallelism.pipeline <= 1;
    if is_shared { 2.0 * f64::from(shape.vocabulary) * f64::from(shape.hidden) / ranks } else { 0.0 }
}

/// Whether further arguments leave the compilation as it is by default.
fn compiles(extra: &[String]) -> bool {
    let is_off = |value: Value| value == json!(0) || value == json!("NONE");
    let is_eager = value_of(extra, "enforce_eager") == Some(json!(true));
    !is_eager && !COMPILATION.iter().filter_map(|name| value_of(extra, name)).any(is_off)
}

/// Bytes that the embedding's part of a compiled model holds.
fn of_embedding(shape: &Shape, layout: &Layout) -> f64 {
    let (hidden, ranks) = (f64::from(shape.hidden), f64::from(layout.parallelism.tensor.max(1)));
    2.0 * f64::from(shape.vocabulary) * hidden / ranks + 4.0 * f64::from(layout.max_num_tokens) * hidden
}

#[cfg(test)]
mod tests;
