//! Engines of TensorRT-LLM: options of its tools beyond the axes of the search.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slipway_vocabulary::serving::EngineEntry;

use super::model::{Backend, EngineConfiguration};
use crate::v1alpha1::shared::ConfigMapKeyReference;

/// Builds with TensorRT-LLM's own tools, in the image that serves. They convert or quantize a checkpoint,
/// `trtllm-build` builds the engine, and Triton's TensorRT-LLM backend serves it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmEngine {
    /// Version of TensorRT-LLM, from 0.15 to 1.2. Later ones build no engines. Absent means the one in
    /// `status.defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 20), regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+(\.post[0-9]+)?)?$"))]
    pub version: Option<String>,
    /// Image that builds and serves, such as a mirror or a derived image. Absent means NVIDIA's Triton image of that
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Texts that calibrate FP8, SmoothQuant, AWQ, NVFP4 and INT8 KV caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<EngineCalibration>,
    /// Maximum tokens of a sequence, prompt and answer together. Absent means the checkpoint's positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: Option<i32>,
    /// Options of the tools.
    #[serde(flatten)]
    pub options: TensorRtLlmSettings,
}

/// The block of TensorRT-LLM's tools with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorRtLlmBlock<'a> {
    /// The version.
    pub version: &'a str,
    /// The whole block.
    pub block: &'a TensorRtLlmEngine,
}

impl<'a> TensorRtLlmBlock<'a> {
    /// Gives the block where `engine.backend` is TensorRTLLM; `None` with another backend, or where the block or its
    /// version is missing. [`EngineConfiguration::completed`] has both.
    pub fn of(engine: &'a EngineConfiguration) -> Option<Self> {
        let block = engine.tensorrt_llm.as_ref().filter(|_| engine.backend == Backend::TensorRTLLM)?;
        Some(Self { version: block.version.as_deref()?, block })
    }
}

/// Calibration texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineCalibration {
    /// Key of a ConfigMap with one JSON object per line, each with its text in the member `text`.
    pub config_map: ConfigMapKeyReference,
    /// Number of texts to use.
    #[serde(default = "default_samples")]
    #[schemars(range(min = 1, max = 100_000))]
    pub samples: i32,
    /// Maximum number of tokens of a text.
    #[serde(default = "default_samples")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tokens: i32,
}

/// Options of the tools, as part of an engine's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmOptions {
    /// Maximum tokens of a sequence, prompt and answer together.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: i32,
    /// The others, as the spec has them.
    #[serde(flatten)]
    pub settings: TensorRtLlmSettings,
}

/// Options of the tools whose defaults need no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmSettings {
    /// Model of the image's serving repository that receives requests. Absent means Engine: the sidecar converts text
    /// to tokens and back. Ensemble and BLS use the image's own models for that, which decode each piece of text by
    /// itself and know one end token. Driver ModelAnalyzer does not measure Ensemble, and BLS allows at most 128
    /// sequences.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine")]
    pub entry: EngineEntry,
    /// Data type of what is not quantized. Absent means the checkpoint's. FP16 and BF16 engines have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<EngineDtype>,
    /// Maximum tokens of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_input_len: Option<i32>,
    /// Tokens per block of the KV cache.
    #[serde(default = "default_tokens_per_block")]
    #[schemars(range(min = 8, max = 256))]
    pub tokens_per_block: i32,
    /// Attention over prompts reads the KV cache in blocks. `kvCacheReuse` and `chunkedContext` require it.
    #[serde(default = "yes", rename = "pagedContextFMHA")]
    pub paged_context_fmha: bool,
    /// Prompts with the same beginning share blocks of the KV cache.
    #[serde(default = "yes")]
    pub kv_cache_reuse: bool,
    /// Long prompts are processed in chunks between the steps of running answers.
    #[serde(default = "yes")]
    pub chunked_context: bool,
    /// Kernels for matrix multiplications. Absent means Auto, and TensorRT's own for NVFP4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_plugin: Option<EngineGemmPlugin>,
    /// Kernels for several batch sizes: faster, but up to twice the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_profiles: Option<bool>,
    /// Fuses sums over GPUs with the operations that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_fusion: Option<bool>,
    /// Fuses the gate and up projections.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "fusedMLP")]
    pub fused_mlp: Option<bool>,
    /// Arguments that no field covers. An argument that a field sets is refused.
    #[serde(default, skip_serializing_if = "EngineExtraArgs::is_empty")]
    pub extra_args: EngineExtraArgs,
}

impl Default for TensorRtLlmSettings {
    fn default() -> Self {
        Self {
            entry: EngineEntry::default(),
            dtype: None,
            max_input_len: None,
            tokens_per_block: default_tokens_per_block(),
            paged_context_fmha: yes(),
            kv_cache_reuse: yes(),
            chunked_context: yes(),
            gemm_plugin: None,
            multiple_profiles: None,
            reduce_fusion: None,
            fused_mlp: None,
            extra_args: EngineExtraArgs::default(),
        }
    }
}

/// Extra arguments for each tool: `--name=value`, or `--name` for a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineExtraArgs {
    /// Arguments of `convert_checkpoint.py`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub convert: Vec<String>,
    /// Arguments of `quantize.py`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub quantize: Vec<String>,
    /// Arguments of `trtllm-build`.
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

/// Data type of what is not quantized. Absent means the checkpoint's. FP16 and BF16 engines have their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineDtype {
    /// 16-bit floating point.
    Float16,
    /// 16-bit floating point with the exponent of FP32.
    Bfloat16,
}

/// Kernels for matrix multiplications. Absent means Auto, and TensorRT's own for NVFP4.
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

/// Numeric formats of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum KvCachePrecision {
    /// 16 bits, like the activations.
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
