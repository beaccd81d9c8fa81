//! Engines of TensorRT-LLM: what its tools are told beyond the axes of the search.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::shared::ConfigMapKeyReference;

/// Builds with TensorRT-LLM's own tools, in the image that serves: a checkpoint is converted or quantized, `trtllm-build` makes
/// the engine, and Triton's TensorRT-LLM backend serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmEngine {
    /// Version of TensorRT-LLM, from 0.15 to 1.2: later ones build no engines.
    #[schemars(length(min = 3, max = 20), regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+(\.post[0-9]+)?)?$"))]
    pub version: String,
    /// Image that builds and serves; absent means NVIDIA's Triton image of that version. For a mirror or a derived image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Texts with which FP8, SmoothQuant, AWQ, NVFP4 and INT8 KV caches are calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<EngineCalibration>,
    /// What the tools are told.
    #[serde(flatten)]
    pub options: TensorRtLlmOptions,
}

/// Calibration texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineCalibration {
    /// Key of a ConfigMap with one JSON object a line, each with its text in the member `text`.
    pub config_map: ConfigMapKeyReference,
    /// Texts used.
    #[serde(default = "default_samples")]
    #[schemars(range(min = 1, max = 100_000))]
    pub samples: i32,
    /// Tokens of a text, at most.
    #[serde(default = "default_samples")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tokens: i32,
}

/// Options of the tools; part of an engine's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmOptions {
    /// Which model of the image's serving repository is asked. Absent means Engine, for which the sidecar turns text into tokens and
    /// back. Ensemble and BLS use the image's own models for that, which decode each piece of text by itself and know one end token.
    /// Driver ModelAnalyzer does not measure Ensemble, and BLS takes 128 sequences at most.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine")]
    pub entry: EngineEntry,
    /// Data type of what is not quantized; absent means the checkpoint's, and FP16 and BF16 engines have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<EngineDtype>,
    /// Tokens of the longest sequence, prompt and answer together.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: i32,
    /// Tokens of the longest prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_input_len: Option<i32>,
    /// Tokens of a block of the KV cache.
    #[serde(default = "default_tokens_per_block")]
    #[schemars(range(min = 8, max = 256))]
    pub tokens_per_block: i32,
    /// Attention over prompts reads the KV cache in blocks; `kvCacheReuse` and `chunkedContext` need it.
    #[serde(default = "yes", rename = "pagedContextFMHA")]
    pub paged_context_fmha: bool,
    /// Prompts with the same beginning share blocks of the KV cache.
    #[serde(default = "yes")]
    pub kv_cache_reuse: bool,
    /// Long prompts are read in pieces between the steps of running answers.
    #[serde(default = "yes")]
    pub chunked_context: bool,
    /// Kernels of matrix multiplications; absent means Auto, and TensorRT's own for NVFP4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_plugin: Option<EngineGemmPlugin>,
    /// Kernels for several sizes of batches: faster, and up to twice the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_profiles: Option<bool>,
    /// Sums over GPUs are fused with what follows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_fusion: Option<bool>,
    /// Gate and up projections are fused.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "fusedMLP")]
    pub fused_mlp: Option<bool>,
    /// Arguments that no field stands for. What a field sets cannot be set here.
    #[serde(default, skip_serializing_if = "EngineExtraArgs::is_empty")]
    pub extra_args: EngineExtraArgs,
}

/// Arguments beyond the typed ones, per tool: `--name=value`, or `--name` for a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineExtraArgs {
    /// Of `convert_checkpoint.py`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub convert: Vec<String>,
    /// Of `quantize.py`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub quantize: Vec<String>,
    /// Of `trtllm-build`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub build: Vec<String>,
}

impl EngineExtraArgs {
    /// Whether no tool gets any.
    pub fn is_empty(&self) -> bool {
        self.convert.is_empty() && self.quantize.is_empty() && self.build.is_empty()
    }
}

/// Data types of what is not quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineDtype {
    /// 16-bit floating point.
    Float16,
    /// 16-bit floating point with the exponent of FP32.
    Bfloat16,
}

/// Kernels of matrix multiplications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineGemmPlugin {
    /// The plugin in the checkpoint's data type.
    Auto,
    /// The plugin in FP16.
    Float16,
    /// The plugin in BF16.
    Bfloat16,
    /// The plugin in FP8, for small batches.
    FP8,
    /// TensorRT's own kernels.
    Disable,
}

/// What of upstream's serving repository is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineEntry {
    /// The engine itself: the sidecar turns text into tokens and back.
    #[default]
    Engine,
    /// Triton's ensemble of tokenizer, engine and detokenizer.
    Ensemble,
    /// The same in Python, by Triton's business logic scripting.
    BLS,
}

impl EngineEntry {
    /// Whether it is the default, which is left out wherever it is written.
    pub fn is_engine(&self) -> bool {
        *self == Self::Engine
    }
}

/// Numeric formats of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum KvCachePrecision {
    /// As activations: 16 bits.
    Auto,
    /// FP8.
    FP8,
    /// 8-bit integers.
    INT8,
}

impl KvCachePrecision {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::FP8 => "FP8",
            Self::INT8 => "INT8",
        }
    }
}

fn default_samples() -> i32 {
    512
}

fn default_tokens_per_block() -> i32 {
    32
}

fn yes() -> bool {
    true
}
