//! Hard filters: what cannot run is left out before GPU time is spent. Pure.
//!
//! Memory per GPU of a decoder-only model: weights = parameters bits / 8 / (tp pp), and per token of every sequence a key
//! and a value per layer and KV head: 2 layers kv_heads head_size kv_bits / 8 / (tp pp), KV heads being copied where
//! there are fewer than tp (Kwon et al., "Efficient Memory Management for Large Language Model Serving with
//! PagedAttention", SOSP 2023, 3). Activations and runtime are taken as [`RUNTIME_GIB`] and a twentieth of the weights.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::gpu::GpuFigures;

/// GiB that the runtime, its graphs and activations take on a GPU, beside a twentieth of the weights.
pub const RUNTIME_GIB: f64 = 1.5;
const GIB: f64 = 1_073_741_824.0;

/// What the checkpoint's configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelShape {
    /// Number of parameters.
    pub parameters: f64,
    /// Transformer layers.
    pub layers: u32,
    /// Attention heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Size of a head.
    pub head_size: u32,
}

/// How an engine would be laid out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    /// GPUs a layer is split over.
    pub tensor_parallel: u32,
    /// Groups the layers are split into.
    pub pipeline_parallel: u32,
    /// Precision of the weights, by name.
    pub precision: String,
    /// Bits of a weight.
    pub weight_bits: f64,
    /// Bits of a cached key or value element.
    pub kv_bits: f64,
    /// Longest sequence in tokens.
    pub sequence_tokens: u64,
    /// Share of the memory left by the weights that the KV cache may take.
    pub kv_share: f64,
}

/// Why a layout cannot run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Error)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Refusal {
    /// The heads do not divide evenly.
    #[error("{heads} attention heads and {kv_heads} KV heads do not split over {tensor_parallel} GPUs")]
    Heads {
        /// Attention heads.
        heads: u32,
        /// Key-value heads.
        kv_heads: u32,
        /// GPUs a layer is split over.
        tensor_parallel: u32,
    },
    /// The layers do not divide evenly.
    #[error("{layers} layers do not split into {pipeline_parallel} groups")]
    Layers {
        /// Layers.
        layers: u32,
        /// Groups.
        pipeline_parallel: u32,
    },
    /// The product's tensor cores do not run the precision.
    #[error("{gpu} does not run {precision}")]
    Precision {
        /// The product.
        gpu: String,
        /// The precision.
        precision: String,
    },
    /// The weights and one sequence do not fit.
    #[error(
        "needs {needed_gib:.1} GiB a GPU for weights, runtime and one sequence, and the GPU has {available_gib:.1} GiB"
    )]
    Memory {
        /// GiB needed on each GPU.
        needed_gib: f64,
        /// GiB of the GPU.
        available_gib: f64,
    },
}

/// Checks a layout and returns how many sequences of full length its KV cache holds, at least one.
///
/// # Errors
/// [`Refusal`], the first of divisibility, precision and memory that stands in the way.
pub fn admit(model: &ModelShape, layout: &Layout, gpu: &GpuFigures) -> Result<u64, Refusal> {
    let (tp, pp) = (layout.tensor_parallel.max(1), layout.pipeline_parallel.max(1));
    // KV heads are split when there are enough of them, else copied: either must divide the other.
    let kv_splits = model.kv_heads > 0 && (model.kv_heads.is_multiple_of(tp) || tp.is_multiple_of(model.kv_heads));
    if !model.heads.is_multiple_of(tp) || !kv_splits {
        return Err(Refusal::Heads { heads: model.heads, kv_heads: model.kv_heads, tensor_parallel: tp });
    }
    if !model.layers.is_multiple_of(pp) {
        return Err(Refusal::Layers { layers: model.layers, pipeline_parallel: pp });
    }
    if !gpu.runs(&layout.precision) {
        return Err(Refusal::Precision { gpu: gpu.name.to_owned(), precision: layout.precision.clone() });
    }
    let gpus = f64::from(tp * pp);
    let weights = model.parameters * layout.weight_bits / 8.0 / gpus / GIB;
    let kv_heads = f64::from(model.kv_heads.max(tp)) / f64::from(tp);
    let per_token =
        2.0 * f64::from(model.layers) / f64::from(pp) * kv_heads * f64::from(model.head_size) * layout.kv_bits / 8.0;
    let sequence = per_token * layout.sequence_tokens as f64 / GIB;
    let fixed = weights * 1.05 + RUNTIME_GIB;
    let cache = (gpu.memory_gib - fixed).max(0.0) * layout.kv_share.clamp(0.0, 1.0);
    if cache < sequence || fixed > gpu.memory_gib {
        return Err(Refusal::Memory { needed_gib: fixed + sequence, available_gib: gpu.memory_gib });
    }
    // Truncation is the meaning: whole sequences.
    Ok((cache / sequence.max(f64::MIN_POSITIVE)).min(1e9) as u64)
}
