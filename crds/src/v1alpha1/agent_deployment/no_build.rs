//! Engines without a build: the checkpoint as it is, with a generated file that configures the backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slipway_vocabulary::serving::NoBuildBackend;

use super::{
    model::{Backend, EngineConfiguration},
    tensorrt_llm::EngineDtype,
    vllm_features::VllmFeatures,
};
use crate::values::Percent;

/// What takes requests for an engine that has two servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineServer {
    /// Triton.
    #[default]
    Triton,
    /// The engine's own server, with OpenAI's protocol.
    OpenAI,
}

impl EngineServer {
    /// Whether it is Triton.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The block of a backend without a build, whichever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoBuildBlock<'a> {
    /// What serves.
    pub backend: NoBuildBackend,
    /// Its version.
    pub version: &'a str,
    /// The image, if it is named.
    pub image: Option<&'a str>,
    /// The share of memory that the engine gets.
    pub memory: &'a Percent,
    /// The length of a sequence, if it is named.
    pub max_seq_len: Option<i32>,
    /// Its features, where it is vLLM.
    pub features: Option<&'a VllmFeatures>,
    /// Its further options.
    pub options: &'a NoBuildSettings,
}

impl<'a> NoBuildBlock<'a> {
    /// Gives the block of `engine.backend`; `None` with a backend that builds, or where the block or its version is
    /// missing. [`EngineConfiguration::completed`] has both.
    pub fn of(engine: &'a EngineConfiguration) -> Option<Self> {
        match engine.backend {
            Backend::Custom | Backend::TensorRTLLM => None,
            Backend::TensorRTLLMPyTorch => {
                let block = engine.tensorrt_llm_py_torch.as_ref()?;
                Some(Self {
                    backend: py_torch(block.server),
                    version: block.version.as_deref()?,
                    image: block.image.as_deref(),
                    memory: &block.kv_cache_free_gpu_memory,
                    max_seq_len: block.max_seq_len,
                    features: None,
                    options: &block.options,
                })
            }
            Backend::SGLang => {
                let block = engine.sglang.as_ref()?;
                Some(Self {
                    backend: NoBuildBackend::SGLang,
                    version: block.version.as_deref()?,
                    image: block.image.as_deref(),
                    memory: &block.mem_fraction_static,
                    max_seq_len: block.max_seq_len,
                    features: None,
                    options: &block.options,
                })
            }
            Backend::VLLM => {
                let block = engine.vllm.as_ref()?;
                Some(Self {
                    backend: vllm(block.server),
                    version: block.version.as_deref()?,
                    image: block.image.as_deref(),
                    memory: &block.gpu_memory_utilization,
                    max_seq_len: block.max_seq_len,
                    features: Some(&block.features),
                    options: &block.options,
                })
            }
        }
    }
}

/// Gives how an Engine names a backend without a build: by its `backend` and `noBuild.server`.
pub const fn backend_and_server(backend: NoBuildBackend) -> (Backend, EngineServer) {
    match backend {
        NoBuildBackend::TensorRTLLMPyTorch => (Backend::TensorRTLLMPyTorch, EngineServer::Triton),
        NoBuildBackend::TensorRTLLMPyTorchOpenAI => (Backend::TensorRTLLMPyTorch, EngineServer::OpenAI),
        NoBuildBackend::VLLM => (Backend::VLLM, EngineServer::Triton),
        NoBuildBackend::VLLMOpenAI => (Backend::VLLM, EngineServer::OpenAI),
        NoBuildBackend::SGLang => (Backend::SGLang, EngineServer::Triton),
    }
}

/// Gives the backend that [`backend_and_server`] named so; `None` with a backend that builds.
pub(in crate::v1alpha1) const fn no_build_backend(backend: Backend, server: EngineServer) -> Option<NoBuildBackend> {
    match backend {
        Backend::Custom | Backend::TensorRTLLM => None,
        Backend::TensorRTLLMPyTorch => Some(py_torch(server)),
        Backend::SGLang => Some(NoBuildBackend::SGLang),
        Backend::VLLM => Some(vllm(server)),
    }
}

const fn py_torch(server: EngineServer) -> NoBuildBackend {
    match server {
        EngineServer::Triton => NoBuildBackend::TensorRTLLMPyTorch,
        EngineServer::OpenAI => NoBuildBackend::TensorRTLLMPyTorchOpenAI,
    }
}

const fn vllm(server: EngineServer) -> NoBuildBackend {
    match server {
        EngineServer::Triton => NoBuildBackend::VLLM,
        EngineServer::OpenAI => NoBuildBackend::VLLMOpenAI,
    }
}

/// Serves with vLLM, behind Triton's vLLM backend or with its own server. Nothing is built: the checkpoint is served
/// as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VllmEngine {
    /// Version of vLLM: 0.6.3 or later behind Triton, as NVIDIA's images carry them, and 0.9.0 or later with its own
    /// server. Absent means the one in `status.defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 20), regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+){0,2}(rc[0-9]+|\.post[0-9]+)?$"))]
    pub version: Option<String>,
    /// Serving image. Absent means NVIDIA's Triton image of that version, or vLLM's own image for its own server.
    /// With your own image, any version that the server allows works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// What takes requests: Triton's vLLM backend by default, or vLLM's own server. Only driver AgentRun measures the
    /// latter.
    #[serde(default, skip_serializing_if = "EngineServer::is_default")]
    pub server: EngineServer,
    /// Share of a GPU's memory that vLLM uses, for weights, activations and KV cache.
    #[serde(default = "most_of_it")]
    pub gpu_memory_utilization: Percent,
    /// Maximum tokens of a sequence, prompt and answer together. Absent means the checkpoint's positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: Option<i32>,
    /// Features of vLLM.
    #[serde(flatten)]
    pub features: VllmFeatures,
    /// Options of vLLM.
    #[serde(flatten)]
    pub options: NoBuildSettings,
}

impl Default for VllmEngine {
    fn default() -> Self {
        Self {
            version: None,
            image: None,
            server: EngineServer::default(),
            gpu_memory_utilization: most_of_it(),
            max_seq_len: None,
            features: VllmFeatures::default(),
            options: NoBuildSettings::default(),
        }
    }
}

/// Serves with SGLang's own server. Nothing is built: the checkpoint is served as it is. Only driver AgentRun measures
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SglangEngine {
    /// Version of SGLang, 0.5.8 or later. Absent means the one in `status.defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 5, max = 20), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+|\.post[0-9]+)?$"))]
    pub version: Option<String>,
    /// Serving image. Absent means SGLang's own image of that version. With your own image, any version from 0.5.8 on
    /// works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Share of a GPU's memory that SGLang uses for weights and KV cache. Activations have the rest.
    #[serde(default = "static_part")]
    pub mem_fraction_static: Percent,
    /// Maximum tokens of a sequence, prompt and answer together. Absent means the checkpoint's positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: Option<i32>,
    /// Options of SGLang.
    #[serde(flatten)]
    pub options: NoBuildSettings,
}

impl Default for SglangEngine {
    fn default() -> Self {
        Self {
            version: None,
            image: None,
            mem_fraction_static: static_part(),
            max_seq_len: None,
            options: NoBuildSettings::default(),
        }
    }
}

/// Serves with TensorRT-LLM's PyTorch flow, as Triton's `llmapi` model or with TensorRT-LLM's own server. Nothing is
/// built: the checkpoint is served as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmPyTorchEngine {
    /// Version of TensorRT-LLM: 1.0 or later behind Triton, and 1.2 or later with its own server. Absent means the one
    /// in `status.defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 20), regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+)?(rc[0-9]+|\.post[0-9]+)?$"))]
    pub version: Option<String>,
    /// Serving image. Absent means NVIDIA's Triton image of that version, or NVIDIA's image of TensorRT-LLM for its own
    /// server. With your own image, any version that the server allows works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// What takes requests: Triton by default, or TensorRT-LLM's own server, `trtllm-serve`. Only driver AgentRun
    /// measures the latter.
    #[serde(default, skip_serializing_if = "EngineServer::is_default")]
    pub server: EngineServer,
    /// Share of the memory left after loading that the KV cache uses.
    #[serde(default = "most_of_it")]
    pub kv_cache_free_gpu_memory: Percent,
    /// Maximum tokens of a sequence, prompt and answer together. Absent means the checkpoint's positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: Option<i32>,
    /// Options of TensorRT-LLM.
    #[serde(flatten)]
    pub options: NoBuildSettings,
}

impl Default for TensorRtLlmPyTorchEngine {
    fn default() -> Self {
        Self {
            version: None,
            image: None,
            server: EngineServer::default(),
            kv_cache_free_gpu_memory: most_of_it(),
            max_seq_len: None,
            options: NoBuildSettings::default(),
        }
    }
}

/// Options of an engine without a build, as part of its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoBuildOptions {
    /// Maximum tokens of a sequence, prompt and answer together.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_seq_len: i32,
    /// The others, as the spec has them.
    #[serde(flatten)]
    pub settings: NoBuildSettings,
}

/// Options of backends without a build whose defaults need no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoBuildSettings {
    /// Data type of what is not quantized. Absent means the checkpoint's. FP16 and BF16 engines have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<EngineDtype>,
    /// Prompts with the same beginning share the KV cache.
    #[serde(default = "yes")]
    pub prefix_caching: bool,
    /// Long prompts are processed in chunks between the steps of running answers.
    #[serde(default = "yes")]
    pub chunked_prefill: bool,
    /// Arguments that no field covers, as `name=value`: of vLLM's `AsyncEngineArgs`, or of `vllm serve` where that is
    /// the server; of SGLang's `ServerArgs`; or of `tensorrt_llm.LLM`, with dots for nested ones. An argument that a
    /// field sets is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 3, max = 256)))]
    pub extra_args: Vec<String>,
}

impl Default for NoBuildSettings {
    fn default() -> Self {
        Self { dtype: None, prefix_caching: yes(), chunked_prefill: yes(), extra_args: Vec::new() }
    }
}

fn most_of_it() -> Percent {
    "90%".parse().expect("a percentage")
}

fn static_part() -> Percent {
    "85%".parse().expect("a percentage")
}

fn yes() -> bool {
    true
}
