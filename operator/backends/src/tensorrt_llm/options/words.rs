//! The words that upstream's options take, and what several tools share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Implements `Display` with the word that a tool reads.
macro_rules! words {
    ($type:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

/// Data type of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PluginDtype {
    /// As the checkpoint says.
    Auto,
    /// `float16`.
    Float16,
    /// `bfloat16`.
    Bfloat16,
    /// `float32`.
    Float32,
    /// Without the plugin.
    Disable,
}
words!(PluginDtype {
    Auto => "auto", Float16 => "float16", Bfloat16 => "bfloat16", Float32 => "float32", Disable => "disable",
});

/// Data type of the GEMM plugin, which has more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GemmPlugin {
    /// As the checkpoint says.
    Auto,
    /// `float16`.
    Float16,
    /// `bfloat16`.
    Bfloat16,
    /// `float32`.
    Float32,
    /// `fp8`.
    Fp8,
    /// `nvfp4`, from 0.21.
    Nvfp4,
    /// TensorRT's own kernels.
    Disable,
}
words!(GemmPlugin {
    Auto => "auto", Float16 => "float16", Bfloat16 => "bfloat16", Float32 => "float32", Fp8 => "fp8",
    Nvfp4 => "nvfp4", Disable => "disable",
});

/// `enable` or `disable`: upstream's switches are words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Toggle {
    /// `enable`.
    Enable,
    /// `disable`.
    Disable,
}
words!(Toggle { Enable => "enable", Disable => "disable" });

/// How the KV cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvCacheType {
    /// In blocks, for batching in flight.
    Paged,
    /// In one piece per sequence.
    Continuous,
    /// None: encoders.
    Disabled,
}
words!(KvCacheType { Paged => "paged", Continuous => "continuous", Disabled => "disabled" });

/// Drafting schemes that an engine can be built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeculativeMode {
    /// Another model drafts.
    DraftTokensExternal,
    /// Lookahead decoding.
    Lookahead,
    /// Medusa heads.
    Medusa,
    /// ReDrafter.
    ExplicitDraftTokens,
    /// EAGLE.
    Eagle,
}
words!(SpeculativeMode {
    DraftTokensExternal => "draft_tokens_external", Lookahead => "lookahead_decoding", Medusa => "medusa",
    ExplicitDraftTokens => "explicit_draft_tokens", Eagle => "eagle",
});

/// What `quantize.py` makes of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuantFormat {
    /// As they are; for a quantized KV cache alone.
    FullPrecision,
    /// FP8 weights and activations.
    Fp8,
    /// FP4 of Blackwell, from 0.17.
    Nvfp4,
    /// SmoothQuant.
    Int8SmoothQuant,
    /// INT4 AWQ weights.
    Int4Awq,
    /// INT4 AWQ weights, FP8 activations.
    W4A8Awq,
    /// INT8 weights.
    Int8WeightOnly,
    /// INT4 weights.
    Int4WeightOnly,
}
words!(QuantFormat {
    FullPrecision => "full_prec", Fp8 => "fp8", Nvfp4 => "nvfp4", Int8SmoothQuant => "int8_sq", Int4Awq => "int4_awq",
    W4A8Awq => "w4a8_awq", Int8WeightOnly => "int8_wo", Int4WeightOnly => "int4_wo",
});

/// Quantized KV caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuantKvCache {
    /// `int8`.
    Int8,
    /// `fp8`.
    Fp8,
}
words!(QuantKvCache { Int8 => "int8", Fp8 => "fp8" });

/// Texts that quantization is calibrated with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// A local folder, or a name on the hub, which needs egress.
    pub dataset: String,
    /// Samples used.
    pub samples: u32,
    /// Tokens of a sample at most.
    pub max_tokens: u32,
}
