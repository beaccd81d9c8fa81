//! Where the model comes from, and what its engines are built with.

use std::collections::BTreeMap;

use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slipway_vocabulary::serving::ServedBy;

use super::{
    defaults::VersionedBackend,
    no_build::{EngineServer, SglangEngine, TensorRtLlmPyTorchEngine, VllmEngine},
    tensorrt_llm::{KvCachePrecision, TensorRtLlmEngine},
    upstream::Upstream,
};
use crate::v1alpha1::shared::{self, LocalObjectReference};

/// Model that the agent runs on: a checkpoint that engines serve, or one that another server has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.uri) != has(self.upstream)")
        .message("a model is in one place: set exactly one of model.uri and model.upstream"),
    validation = Rule::new("!has(self.upstream) || !has(self.secretRef)")
        .message("model.secretRef is for the checkpoint of model.uri: remove it, or use upstream.headersFrom for a key")
        .field_path(".secretRef")
)]
pub struct ModelSource {
    /// Location of the checkpoint: `hf://organization/name@revision`, `pvc://claim/path`, `https://host/folder/` with a
    /// `manifest.json`, or `https://host/model.tar` (also `.tar.gz` and `.tgz`). `http://` works too. It is resolved
    /// once, and `status.model` shows its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^(hf|pvc|https?)://[^\s]+$"))]
    pub uri: Option<String>,
    /// Secret whose key `token` grants access to the source. Only pods of this namespace read it; the operator never
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
    /// A server that has the model, in place of `uri`. The pods have no engine and no GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
}

/// The rule of an engine that an image comes with the version of what is in it: arguments differ among versions.
fn names_the_version_of_an_image(block: &str) -> Rule {
    let message = format!("engine.{block}.image is an image of your own: add the version that it contains");
    Rule::new(format!("!has(self.{block}) || !has(self.{block}.image) || has(self.{block}.version)"))
        .message(message.as_str())
        .field_path(format!(".{block}.version"))
}

/// How engines are built and served: the backend, and the block of that name in lowercase. Only Custom requires its
/// block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.backend != 'Custom' || has(self.custom)")
        .message("engine.custom is required when engine.backend is Custom").field_path(".custom"),
    validation = Rule::new("self.backend == 'Custom' || !has(self.custom)")
        .message("engine.custom has no effect with another backend: remove it").field_path(".custom"),
    validation = Rule::new("self.backend == 'TensorRTLLM' || !has(self.tensorRTLLM)")
        .message("engine.tensorRTLLM has no effect with another backend: remove it").field_path(".tensorRTLLM"),
    validation = Rule::new("self.backend == 'TensorRTLLMPyTorch' || !has(self.tensorRTLLMPyTorch)")
        .message("engine.tensorRTLLMPyTorch has no effect with another backend: remove it")
        .field_path(".tensorRTLLMPyTorch"),
    validation = Rule::new("self.backend == 'VLLM' || !has(self.vllm)")
        .message("engine.vllm has no effect with another backend: remove it").field_path(".vllm"),
    validation = Rule::new("self.backend == 'SGLang' || !has(self.sglang)")
        .message("engine.sglang has no effect with another backend: remove it").field_path(".sglang"),
    validation = Rule::new("!has(self.vllm) || !has(self.vllm.lora) || (has(self.vllm.server) && self.vllm.server == 'OpenAI')")
        .message("vLLM serves an adapter by its own server alone: add server: OpenAI to engine.vllm, or remove lora")
        .field_path(".vllm.lora"),
    validation = names_the_version_of_an_image("tensorRTLLM"),
    validation = names_the_version_of_an_image("tensorRTLLMPyTorch"),
    validation = names_the_version_of_an_image("vllm"),
    validation = names_the_version_of_an_image("sglang")
)]
pub struct EngineConfiguration {
    /// Backend that builds and serves the model.
    pub backend: Backend,
    /// Your own container that writes a Triton model repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomEngine>,
    /// TensorRT-LLM's own tools.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tensorRTLLM")]
    pub tensorrt_llm: Option<TensorRtLlmEngine>,
    /// TensorRT-LLM's PyTorch flow, without a build.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tensorRTLLMPyTorch")]
    pub tensorrt_llm_py_torch: Option<TensorRtLlmPyTorchEngine>,
    /// vLLM, without a build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vllm: Option<VllmEngine>,
    /// SGLang, without a build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sglang: Option<SglangEngine>,
}

impl EngineConfiguration {
    /// The same with the block of its backend, and a version in it. Custom has no version, and its block no default.
    #[must_use]
    pub fn completed(&self, version: impl FnOnce(VersionedBackend) -> String) -> Self {
        let mut engine = self.clone();
        let Some(of) = VersionedBackend::of(self) else { return engine };
        let place = match engine.backend {
            Backend::Custom => return engine,
            Backend::TensorRTLLM => &mut engine.tensorrt_llm.get_or_insert_default().version,
            Backend::TensorRTLLMPyTorch => &mut engine.tensorrt_llm_py_torch.get_or_insert_default().version,
            Backend::VLLM => &mut engine.vllm.get_or_insert_default().version,
            Backend::SGLang => &mut engine.sglang.get_or_insert_default().version,
        };
        place.get_or_insert_with(|| version(of));
        engine
    }

    /// What will serve: one process, where their number is not known yet.
    pub fn served_by(&self) -> ServedBy {
        let entry = self.tensorrt_llm.as_ref().map(|block| block.options.entry).unwrap_or_default();
        match VersionedBackend::of(self) {
            None => ServedBy::Custom,
            Some(VersionedBackend::TensorRtLlm) => ServedBy::TensorRtLlm { ranks: 1, entry },
            Some(VersionedBackend::NoBuild(backend)) => ServedBy::NoBuild(backend),
        }
    }

    /// What takes requests; Triton where there is no choice.
    pub fn server(&self) -> EngineServer {
        let chosen = match self.backend {
            Backend::Custom | Backend::TensorRTLLM | Backend::SGLang => None,
            Backend::TensorRTLLMPyTorch => self.tensorrt_llm_py_torch.as_ref().map(|block| block.server),
            Backend::VLLM => self.vllm.as_ref().map(|block| block.server),
        };
        chosen.unwrap_or_default()
    }

    /// The version that it names.
    pub fn version(&self) -> Option<&str> {
        match self.backend {
            Backend::Custom => None,
            Backend::TensorRTLLM => self.tensorrt_llm.as_ref()?.version.as_deref(),
            Backend::TensorRTLLMPyTorch => self.tensorrt_llm_py_torch.as_ref()?.version.as_deref(),
            Backend::VLLM => self.vllm.as_ref()?.version.as_deref(),
            Backend::SGLang => self.sglang.as_ref()?.version.as_deref(),
        }
    }

    /// The length of a sequence that it names.
    pub fn max_seq_len(&self) -> Option<i32> {
        match self.backend {
            Backend::Custom => None,
            Backend::TensorRTLLM => self.tensorrt_llm.as_ref()?.max_seq_len,
            Backend::TensorRTLLMPyTorch => self.tensorrt_llm_py_torch.as_ref()?.max_seq_len,
            Backend::VLLM => self.vllm.as_ref()?.max_seq_len,
            Backend::SGLang => self.sglang.as_ref()?.max_seq_len,
        }
    }
}

/// Backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Backend {
    /// Your own container writes the Triton model repository.
    Custom,
    /// TensorRT-LLM's tools build the engine, and Triton's TensorRT-LLM backend serves it.
    TensorRTLLM,
    /// TensorRT-LLM's PyTorch flow serves the checkpoint as it is, behind Triton or with its own server.
    TensorRTLLMPyTorch,
    /// vLLM serves the checkpoint as it is, behind Triton's vLLM backend or with its own server.
    VLLM,
    /// SGLang serves the checkpoint as it is, with its own server.
    SGLang,
}

/// How a backend comes to its engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// The user's builder writes them.
    Custom,
    /// TensorRT-LLM's tools build them.
    Tools,
    /// Nothing is built.
    Nothing,
}

impl Backend {
    /// How it comes to its engines.
    pub const fn build(self) -> Build {
        match self {
            Self::Custom => Build::Custom,
            Self::TensorRTLLM => Build::Tools,
            Self::TensorRTLLMPyTorch | Self::VLLM | Self::SGLang => Build::Nothing,
        }
    }

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Custom => "Custom",
            Self::TensorRTLLM => "TensorRTLLM",
            Self::TensorRTLLMPyTorch => "TensorRTLLMPyTorch",
            Self::VLLM => "VLLM",
            Self::SGLang => "SGLang",
        }
    }

    /// Path of its block.
    pub const fn block(self) -> &'static str {
        match self {
            Self::Custom => "spec.engine.custom",
            Self::TensorRTLLM => "spec.engine.tensorRTLLM",
            Self::TensorRTLLMPyTorch => "spec.engine.tensorRTLLMPyTorch",
            Self::VLLM => "spec.engine.vllm",
            Self::SGLang => "spec.engine.sglang",
        }
    }
}

/// Builds with your own container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomEngine {
    /// Builder image. It reads the checkpoint at `/slipway/checkpoint` and the options at `/slipway/task/build.json`,
    /// and writes the model repository below `/slipway/output`.
    #[schemars(length(min = 1, max = 512))]
    pub builder_image: String,
    /// Image with tritonserver that serves what the builder wrote.
    #[schemars(length(min = 1, max = 512))]
    pub triton_image: String,
    /// Options that are passed to the builder unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub options: BTreeMap<String, String>,
    /// Variants of the model. One engine is built for each variant and precision. Absent means the checkpoint as it
    /// is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Vec<EngineVariant>,
}

/// A variant of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineVariant {
    /// Name of the variant in status and events.
    #[schemars(length(min = 1, max = 20), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Folder of the checkpoint that holds this variant. Absent means the checkpoint's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    pub folder: Option<String>,
    /// Options of this variant, which override those of `engine.custom.options`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub options: BTreeMap<String, String>,
}

/// Numeric format of an engine's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Precision {
    /// 32-bit floating point.
    FP32,
    /// 16-bit floating point.
    FP16,
    /// 16-bit floating point with the exponent of FP32.
    BF16,
    /// 8-bit integers.
    INT8,
    /// 8-bit floating point, for weights and activations.
    FP8,
    /// 8-bit weights; activations keep the data type.
    INT8WeightOnly,
    /// 4-bit weights; activations keep the data type.
    INT4WeightOnly,
    /// 8-bit integers for weights and activations, with SmoothQuant.
    INT8SmoothQuant,
    /// 4-bit weights in groups, with AWQ.
    INT4AWQ,
    /// 4-bit weights in groups with AWQ, FP8 activations.
    W4A8AWQ,
    /// 4-bit floating point of Blackwell GPUs.
    NVFP4,
    /// 4-bit floating point in groups of 32, as gpt-oss is stored.
    MXFP4,
}

impl Precision {
    /// All of them, most exact first.
    pub const ALL: [Self; 12] = [
        Self::FP32,
        Self::FP16,
        Self::BF16,
        Self::INT8,
        Self::FP8,
        Self::INT8WeightOnly,
        Self::INT4WeightOnly,
        Self::INT8SmoothQuant,
        Self::INT4AWQ,
        Self::W4A8AWQ,
        Self::NVFP4,
        Self::MXFP4,
    ];

    /// Bits of a weight.
    pub const fn weight_bits(self) -> u32 {
        match self {
            Self::FP32 => 32,
            Self::FP16 | Self::BF16 => 16,
            Self::INT8 | Self::FP8 | Self::INT8WeightOnly | Self::INT8SmoothQuant => 8,
            Self::INT4WeightOnly | Self::INT4AWQ | Self::W4A8AWQ | Self::NVFP4 | Self::MXFP4 => 4,
        }
    }

    /// The one of a name in the API.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|precision| precision.as_str() == name)
    }

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FP32 => "FP32",
            Self::FP16 => "FP16",
            Self::BF16 => "BF16",
            Self::INT8 => "INT8",
            Self::FP8 => "FP8",
            Self::INT8WeightOnly => "INT8WeightOnly",
            Self::INT4WeightOnly => "INT4WeightOnly",
            Self::INT8SmoothQuant => "INT8SmoothQuant",
            Self::INT4AWQ => "INT4AWQ",
            Self::W4A8AWQ => "W4A8AWQ",
            Self::NVFP4 => "NVFP4",
            Self::MXFP4 => "MXFP4",
        }
    }
}

/// Configurations to choose from. Every axis is optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchSpace {
    /// Numeric formats to build engines for, most exact first. Absent means the checkpoint's own, and FP32 with
    /// Custom. Backends without a build convert nothing: of a quantized checkpoint they serve its own format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub precision: Vec<Precision>,
    /// Numeric formats of the KV cache to build engines for. Absent means Auto. Not allowed with Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub kv_cache_precision: Vec<KvCachePrecision>,
    /// Numbers of GPUs to split each layer over. Absent means 1. Not allowed with Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(range(min = 1, max = 8)), extend("x-kubernetes-list-type" = "set"))]
    pub tensor_parallel: Vec<i32>,
    /// Numbers of pipeline stages, each on its own GPUs. Absent means 1. Not allowed with Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(range(min = 1, max = 8)), extend("x-kubernetes-list-type" = "set"))]
    pub pipeline_parallel: Vec<i32>,
    /// Maximum numbers of sequences that the engine runs together. Absent means 64. Not allowed with Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(range(min = 1, max = 4096)), extend("x-kubernetes-list-type" = "set"))]
    pub max_batch_size: Vec<i32>,
    /// Maximum numbers of tokens of all sequences in one iteration. Absent means 8192. Not allowed with Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(range(min = 1, max = 1_000_000)), extend("x-kubernetes-list-type" = "set"))]
    pub max_num_tokens: Vec<i32>,
    /// GPU models to choose among, by the node label `nvidia.com/gpu.product`, the preferred one first. Each has
    /// engines of its own. Absent means the one of `hardware.nodeSelector`. Requires `profiling`. Not allowed with
    /// Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 2, max = 4),
        inner(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub gpu_products: Vec<String>,
    /// Levels to measure: how many are in flight at once on one replica, requests with driver ModelAnalyzer and runs
    /// with AgentRun. A sidecar admits as many runs as the chosen level, or the largest if nothing is measured, and
    /// answers 429 beyond.
    #[serde(default = "default_concurrency")]
    #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 1024)), extend("x-kubernetes-list-type" = "set"))]
    pub concurrency: Vec<i32>,
    /// Numbers of model instances in one Triton, each with its own weights. Absent means as the repository has it.
    /// More than one value requires `profiling`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub instances: Vec<i32>,
    /// How long requests wait at most to begin together (`max_queue_delay_microseconds` of Triton's dynamic batcher).
    /// Absent means as the repository has it. More than one value requires `profiling`. Only with TensorRTLLM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        inner(range(min = 0, max = 10_000_000)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub queue_delay_microseconds: Vec<i32>,
    /// Parameters of the model's configuration that need no new build, each with the values to choose from. With
    /// TensorRTLLM they are those that `tensorrt_llm` reads when it is loaded, such as
    /// kv_cache_free_gpu_mem_fraction. Not allowed with backends without a build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub parameters: Vec<ServeParameter>,
}

/// A parameter of the model's configuration (`parameters` of config.pbtxt), with the values to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServeParameter {
    /// Key of the parameter.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z][A-Za-z0-9_.-]*$"))]
    pub name: String,
    /// Values to choose from.
    #[schemars(
        length(min = 1, max = 8),
        inner(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub values: Vec<String>,
}

impl SearchSpace {
    /// Sequences that an engine runs together where `maxBatchSize` is absent: beyond it the KV cache is what limits.
    pub const MAX_BATCH_SIZE: i32 = 64;
    /// Tokens of an iteration where `maxNumTokens` is absent: upstream's default.
    pub const MAX_NUM_TOKENS: i32 = 8192;
}

impl Default for SearchSpace {
    fn default() -> Self {
        Self {
            precision: Vec::new(),
            kv_cache_precision: Vec::new(),
            tensor_parallel: Vec::new(),
            pipeline_parallel: Vec::new(),
            max_batch_size: Vec::new(),
            max_num_tokens: Vec::new(),
            gpu_products: Vec::new(),
            concurrency: default_concurrency(),
            instances: Vec::new(),
            queue_delay_microseconds: Vec::new(),
            parameters: Vec::new(),
        }
    }
}

fn default_concurrency() -> Vec<i32> {
    vec![1, 4, 8]
}
