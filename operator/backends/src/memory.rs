//! What an engine takes of a GPU's memory. Pure.
//!
//! Per GPU, of a decoder-only transformer with gated MLPs, with *tp* GPUs a layer and *pp* groups of layers:
//!
//! - *weights* = layers/pp (q + o + (k + v) copies + MLP) x bits/8 / tp + embeddings at 16 bits; KV heads are copied
//!   where there are fewer than tp. A group that is first holds the input embedding whole (upstream splits it only with
//!   `--use_parallel_embedding`), one that is last 1/tp of the output layer. The MLP of a mixture is all its experts,
//!   for each may be next. Where the checkpoint's own parameters or bytes are counted, the layers together have exactly
//!   these.
//! - *KV cache* = tokens x 2 x layers/pp x max(kv heads, tp)/tp x head size x bits/8. Sources: Kwon et al.,
//!   PagedAttention, SOSP 2023, section 3; README of upstream's Llama, "Long context length". Latent attention keeps
//!   one vector of each token and layer, and every GPU the whole of it (DeepSeek-AI, DeepSeek-V2, 2024, section 2.1;
//!   vllm-project/vllm, vllm/v1/kv_cache_interface.py: `MLAAttentionSpec`).
//! - *activations* are fixed at build and grow with `max_num_tokens` (NVIDIA/TensorRT-LLM,
//!   docs/source/reference/memory.md). Upstream gives no formula. Taken are the widest live tensors of one layer at 16
//!   bits, plus FP32 logits of every sequence. They are the residual stream and its normed copy, and the larger of two:
//!   QKV with what attention answers, or the MLP's gate and up with their product.
//! - *runtime*: CUDA context, communicator and libraries, taken as [`RUNTIME_BYTES`].
//!
//! vLLM 0.25.0 says as much of four shapes, on an H100 and on H200s. Weights are within 1.1 %, and within 4.1 % where
//! FP8 is made while loading. The KV cache is 1 to 3 % low, for the runtime is taken above what one GPU shows. vLLM's
//! activations have a formula of their own (`vllm/memory.rs`). TensorRT-LLM's engines have confirmed nothing of it.

use serde::{Deserialize, Serialize};

use crate::formats::{KvCachePrecision, Parallelism, Precision};

/// A GiB in bytes.
pub const GIB: f64 = 1_073_741_824.0;

/// Bytes that CUDA's context, communicator and libraries are taken to hold on each GPU.
pub const RUNTIME_BYTES: f64 = 1.5 * GIB;

/// Share of the memory left after loading that the KV cache takes by Triton's default.
pub const KV_SHARE: f64 = 0.9;

/// What a checkpoint's `config.json` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// Transformer layers.
    pub layers: u32,
    /// Attention heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Size of a head.
    pub head_size: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of an expert's or the only MLP.
    pub intermediate: u32,
    /// Experts of a layer; 1 without a mixture.
    pub experts: u32,
    /// Experts that a token visits.
    pub experts_per_token: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// Whether the output layer is the embedding.
    pub is_tied: bool,
    /// Longest sequence that the positions allow.
    pub max_positions: u32,
    /// First layers that have one MLP in place of experts.
    pub dense_layers: u32,
    /// Width of these layers' MLP.
    pub dense_intermediate: u32,
    /// Width of the experts that every token visits, together.
    pub shared_intermediate: u32,
    /// Numbers that latent attention keeps of a token in a layer; 0 without.
    pub latent: u32,
    /// Parameters that are loaded, counted in the checkpoint; 0 if they are not counted, or quantized.
    pub parameters: u64,
    /// Bytes of these in the checkpoint; 0 if they are not counted.
    pub stored_bytes: u64,
}

impl Shape {
    /// Nothing of what only some models have: one MLP a layer, heads of keys and values, weights that nobody counted.
    pub const PLAIN: Self = Self {
        layers: 0,
        heads: 0,
        kv_heads: 0,
        head_size: 0,
        hidden: 0,
        intermediate: 0,
        experts: 1,
        experts_per_token: 1,
        vocabulary: 0,
        is_tied: false,
        max_positions: 0,
        dense_layers: 0,
        dense_intermediate: 0,
        shared_intermediate: 0,
        latent: 0,
        parameters: 0,
        stored_bytes: 0,
    };
}

/// How an engine is laid out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Weights and activations.
    pub precision: Precision,
    /// Whether the weights are loaded as the checkpoint has them.
    pub is_as_stored: bool,
    /// KV cache.
    pub kv_cache: KvCachePrecision,
    /// How it is split.
    pub parallelism: Parallelism,
    /// Sequences in flight.
    pub max_batch_size: u32,
    /// Tokens of an iteration.
    pub max_num_tokens: u32,
    /// Prompt and answer of one sequence together.
    pub max_seq_len: u32,
}

/// Bytes on the fullest GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Weights.
    pub weights: f64,
    /// Activations.
    pub activations: f64,
    /// CUDA, communicator, libraries.
    pub runtime: f64,
    /// KV cache of one token of one sequence.
    pub kv_per_token: f64,
    /// KV cache of one sequence of full length.
    pub kv_of_one_sequence: f64,
}

impl Estimate {
    /// What is held before the first request.
    #[must_use]
    pub fn fixed(&self) -> f64 {
        self.weights + self.activations + self.runtime
    }

    /// The least memory with which one sequence of full length can be served.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.least_with(KV_SHARE)
    }

    /// The same where the KV cache takes another share of what is left.
    #[must_use]
    pub fn least_with(&self, kv_share: f64) -> f64 {
        self.fixed() + self.kv_of_one_sequence / kv_share
    }

    /// Sequences of full length that the KV cache holds in a memory of so many bytes.
    #[must_use]
    pub fn sequences(&self, memory: f64) -> u64 {
        let cache = (memory - self.fixed()).max(0.0) * KV_SHARE;
        // Truncation is the meaning: whole sequences.
        (cache / self.kv_of_one_sequence.max(1.0)).min(1e9) as u64
    }
}

fn attention_weights(shape: &Shape, tensor: f64) -> f64 {
    let (hidden, size) = (f64::from(shape.hidden), f64::from(shape.head_size));
    let copied_kv_heads = f64::from(shape.kv_heads).max(tensor);
    2.0 * hidden * size * (f64::from(shape.heads) + copied_kv_heads)
}

/// Weights of the MLPs of so many layers, the heaviest ones: layers of experts before those with one MLP.
fn mlp_weights(shape: &Shape, layers: u32) -> f64 {
    let hidden = f64::from(shape.hidden);
    let of_experts = layers.min(shape.layers.saturating_sub(shape.dense_layers));
    let experts =
        f64::from(shape.intermediate) * f64::from(shape.experts.max(1)) + f64::from(shape.shared_intermediate);
    let dense = f64::from(layers - of_experts) * f64::from(shape.dense_intermediate);
    3.0 * hidden * (f64::from(of_experts) * experts + dense)
}

fn embedding_weights(shape: &Shape) -> f64 {
    let copies = if shape.is_tied { 1.0 } else { 2.0 };
    copies * f64::from(shape.vocabulary) * f64::from(shape.hidden)
}

/// Number of parameters by the shape, norms and routers left out (below a thousandth).
#[must_use]
pub fn parameters(shape: &Shape) -> f64 {
    linear_weights(shape, shape.layers, 1.0) + embedding_weights(shape)
}

/// Number of parameters: those counted in the checkpoint, or by the shape.
#[must_use]
pub fn all_parameters(shape: &Shape) -> f64 {
    if shape.parameters > 0 { shape.parameters as f64 } else { parameters(shape) }
}

/// Number of parameters that compute a token, by the shape: of the experts, those that it visits.
#[must_use]
pub fn active_parameters(shape: &Shape) -> f64 {
    parameters(&Shape { experts: shape.experts_per_token.clamp(1, shape.experts.max(1)), ..*shape })
}

fn linear_weights(shape: &Shape, layers: u32, tensor: f64) -> f64 {
    f64::from(layers) * attention_weights(shape, tensor) + mlp_weights(shape, layers)
}

/// Bytes of all layers, as far as they are counted.
fn counted(shape: &Shape, layout: &Layout) -> Option<f64> {
    let embeddings = embedding_weights(shape);
    // Embeddings are of 16 bits in quantized checkpoints too.
    let stored = || (shape.stored_bytes as f64 - 2.0 * embeddings).max(0.0);
    let made = || (shape.parameters as f64 - embeddings).max(0.0) * layout.precision.weight_bits() / 8.0;
    match (layout.is_as_stored && shape.stored_bytes > 0, shape.parameters > 0) {
        (true, _) => Some(stored()),
        (false, true) => Some(made()),
        (false, false) => None,
    }
}

/// Bytes of the layers on the fullest GPU.
fn layer_bytes(shape: &Shape, layout: &Layout, layers: u32, tensor: f64) -> f64 {
    let by_shape = |layers, tensor| linear_weights(shape, layers, tensor) * layout.precision.weight_bits() / 8.0;
    let whole = by_shape(shape.layers, 1.0);
    let correction = counted(shape, layout).map_or(1.0, |counted| if whole > 0.0 { counted / whole } else { 1.0 });
    by_shape(layers, tensor) / tensor * correction
}

/// Numbers that a layer has of one token on one GPU, beside the residual stream and its normed copy.
pub(crate) struct Widths {
    /// Queries, keys and values.
    pub projections: f64,
    /// What attention answers.
    pub answered: f64,
    /// The MLP's gate and up with their product.
    pub mlp: f64,
}

/// The tensors of a layer.
pub(crate) fn widths(shape: &Shape, layout: &Layout) -> Widths {
    let tensor = f64::from(layout.parallelism.tensor.max(1));
    let answered = f64::from(shape.heads) * f64::from(shape.head_size) / tensor;
    let visited = f64::from(shape.intermediate) * f64::from(shape.experts_per_token.max(1));
    Widths {
        projections: answered + 2.0 * kv_width(shape, tensor) / tensor,
        answered,
        mlp: 3.0 * (visited + f64::from(shape.shared_intermediate)) / tensor,
    }
}

/// Keys, or values, of all GPUs together: heads are copied where there are fewer than GPUs.
fn kv_width(shape: &Shape, tensor: f64) -> f64 {
    f64::from(shape.kv_heads).max(tensor) * f64::from(shape.head_size)
}

/// Bytes of activations where a layer's tensors are so wide.
pub(crate) fn activations(shape: &Shape, layout: &Layout, widest: f64) -> f64 {
    let logits = 4.0 * f64::from(layout.max_batch_size) * f64::from(shape.vocabulary);
    2.0 * f64::from(layout.max_num_tokens) * (2.0 * f64::from(shape.hidden) + widest) + logits
}

/// Estimates what a layout takes of its fullest GPU.
#[must_use]
pub fn estimate(shape: &Shape, layout: &Layout) -> Estimate {
    let tensor = f64::from(layout.parallelism.tensor.max(1));
    let pipeline = layout.parallelism.pipeline.max(1);
    let layers = shape.layers.div_ceil(pipeline);
    let embedding = 2.0 * f64::from(shape.vocabulary) * f64::from(shape.hidden);
    // The engine keeps a tied output layer apart, because it is split and the embedding is not.
    let embeddings = if pipeline == 1 { embedding + embedding / tensor } else { embedding };
    let Widths { projections, answered, mlp } = widths(shape, layout);
    let kept = if shape.latent > 0 { f64::from(shape.latent) } else { 2.0 * kv_width(shape, tensor) / tensor };
    let kv_per_token = f64::from(layers) * kept * layout.kv_cache.bits() / 8.0;
    Estimate {
        weights: layer_bytes(shape, layout, layers, tensor) + embeddings,
        activations: activations(shape, layout, mlp.max(projections + answered)),
        runtime: RUNTIME_BYTES,
        kv_per_token,
        kv_of_one_sequence: kv_per_token * f64::from(layout.max_seq_len),
    }
}

#[cfg(test)]
pub(crate) mod tests;
