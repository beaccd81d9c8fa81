//! Backends without a build: Triton serves the checkpoint itself, by what a generated file tells the engine. Pure.
//!
//! - *vLLM*: Triton's vLLM backend reads `<version>/model.json`, the arguments of vLLM's `AsyncEngineArgs`
//!   (<https://github.com/triton-inference-server/vllm_backend/blob/r25.01/README.md>).
//! - *PyTorch*: TensorRT-LLM's `llmapi` model reads `<version>/model.yaml`, the arguments of `tensorrt_llm.LLM` and, in
//!   `triton_config`, those of Triton's configuration
//!   (<https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm>). It is in the images beside the
//!   templates of engines, and the only one that 1.3 keeps.
//!
//! - *vLLM's own server*: `vllm serve` reads `server/config.yaml`, its options in their long form
//!   (<https://docs.vllm.ai/en/stable/configuration/serve_args.html>); they are made of what the vLLM backend is told.
//!
//! All files are written as JSON, which is YAML too. Options whose defaults differ among versions are always written.

mod extra;
mod open_ai;
mod release;

use serde_json::{Map, Value, json};

pub use self::extra::ArgumentError;
pub use self::open_ai::{PORT as OPEN_AI_PORT, command as open_ai_command, health_command as open_ai_health_command};
pub use self::release::{ReleaseError, image};
use crate::options::{Dtype, Parallelism};
use crate::recipe::{KvCachePrecision, Precision};

/// A backend without a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Triton's vLLM backend.
    Vllm,
    /// vLLM's own server, without Triton.
    VllmOpenAi,
    /// TensorRT-LLM's PyTorch flow, as the `llmapi` model.
    PyTorch,
}

impl Backend {
    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm | Self::VllmOpenAi => "VLLM",
            Self::PyTorch => "TensorRTLLMPyTorch",
        }
    }

    /// The path of a field of its block in an `AgentDeployment`'s spec.
    #[must_use]
    pub fn field(self, name: &str) -> String {
        let block = match self {
            Self::Vllm | Self::VllmOpenAi => "vllm",
            Self::PyTorch => "tensorRTLLMPyTorch",
        };
        format!("engine.{block}.{name}")
    }

    /// The file that holds the arguments, below the model's folder; that of vLLM's own server, which has no such folder, below the
    /// artifact's.
    #[must_use]
    pub const fn arguments_file(self) -> &'static str {
        match self {
            Self::Vllm => "1/model.json",
            Self::VllmOpenAi => open_ai::FILE,
            Self::PyTorch => "1/model.yaml",
        }
    }

    /// Precisions in which it serves a checkpoint that is not quantized, in words.
    #[must_use]
    pub const fn plain_precisions(self) -> &'static str {
        match self {
            Self::Vllm | Self::VllmOpenAi => "FP16, BF16 or FP8",
            Self::PyTorch => "FP16 or BF16",
        }
    }

    /// Whether it serves a checkpoint that is not quantized in this precision. vLLM makes FP8 weights while it loads.
    #[must_use]
    pub const fn serves_plain(self, precision: Precision) -> bool {
        match precision {
            Precision::Fp16 | Precision::Bf16 => true,
            Precision::Fp8 => matches!(self, Self::Vllm | Self::VllmOpenAi),
            _ => false,
        }
    }

    /// Whose memory is available, in a sentence.
    pub(crate) const fn room(self) -> &'static str {
        match self {
            Self::Vllm | Self::VllmOpenAi => "engine.vllm.gpuMemoryUtilization leaves it",
            Self::PyTorch => "a GPU has",
        }
    }
}

/// What an engine is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The backend.
    pub backend: Backend,
    /// Its version.
    pub version: String,
    /// The name by which vLLM's own server is asked for the model; Triton's is that of its folder.
    pub model: String,
    /// Folder of the checkpoint where it is served.
    pub checkpoint: String,
    /// Weights and activations.
    pub precision: Precision,
    /// Whether the weights get this precision only while they are loaded.
    pub is_quantized_at_load: bool,
    /// Data type of what is not quantized; absent means the checkpoint's.
    pub dtype: Option<Dtype>,
    /// KV cache.
    pub kv_cache: KvCachePrecision,
    /// How it is split.
    pub parallelism: Parallelism,
    /// Tokens of the longest sequence.
    pub max_seq_len: u32,
    /// Sequences in flight.
    pub max_batch_size: u32,
    /// Tokens of an iteration.
    pub max_num_tokens: u32,
    /// The share of memory, in parts per million: of all for everything with vLLM, of what is left for the KV cache with PyTorch.
    pub memory_ppm: u32,
    /// Whether prompts with the same beginning share the KV cache.
    pub prefix_caching: bool,
    /// Whether long prompts are read in pieces.
    pub chunked_prefill: bool,
    /// Arguments beyond the typed ones: `name=value`.
    pub extra: Vec<String>,
}

/// The text of the arguments file.
///
/// # Errors
/// An extra argument is none, belongs to the Job, or contradicts a field.
pub fn arguments(request: &Request) -> Result<String, ArgumentError> {
    let field = request.backend.field("extraArgs");
    let all = match request.backend {
        Backend::Vllm => extra::merge(vllm(request), &request.extra, &field, &[])?,
        Backend::PyTorch => extra::merge(py_torch(request), &request.extra, &field, &[])?,
        Backend::VllmOpenAi => {
            let typed = open_ai::with_defaults(vllm(request));
            open_ai::options(extra::merge(typed, &request.extra, &field, &open_ai::RESERVED)?, &request.model)
        }
    };
    Ok(format!("{:#}\n", Value::Object(all)))
}

fn dtype(request: &Request) -> &'static str {
    match (request.precision, request.dtype) {
        (Precision::Fp16, _) | (_, Some(Dtype::Float16)) => "float16",
        (Precision::Bf16, _) | (_, Some(Dtype::Bfloat16)) => "bfloat16",
        (_, Some(Dtype::Float32)) => "float32",
        (_, None) => "auto",
    }
}

fn share(request: &Request) -> f64 {
    f64::from(request.memory_ppm) / 1e6
}

fn vllm(request: &Request) -> Map<String, Value> {
    let mut arguments = object(json!({
        "model": request.checkpoint,
        "dtype": dtype(request),
        "kv_cache_dtype": if request.kv_cache == KvCachePrecision::Fp8 { "fp8" } else { "auto" },
        "tensor_parallel_size": request.parallelism.tensor,
        "pipeline_parallel_size": request.parallelism.pipeline,
        "max_model_len": request.max_seq_len,
        "max_num_seqs": request.max_batch_size,
        "max_num_batched_tokens": request.max_num_tokens,
        "gpu_memory_utilization": share(request),
        "enable_prefix_caching": request.prefix_caching,
        "enable_chunked_prefill": request.chunked_prefill,
    }));
    if request.is_quantized_at_load {
        arguments.insert("quantization".to_owned(), "fp8".into());
    }
    // Earlier versions write every prompt to the log unless told otherwise; later ones do not know the argument.
    if release::logs_requests(&request.version) {
        arguments.insert("disable_log_requests".to_owned(), true.into());
    }
    arguments
}

fn py_torch(request: &Request) -> Map<String, Value> {
    let mut kv_cache = object(json!({
        "enable_block_reuse": request.prefix_caching,
        "free_gpu_memory_fraction": share(request),
    }));
    if request.kv_cache == KvCachePrecision::Fp8 {
        kv_cache.insert("dtype".to_owned(), "fp8".into());
    }
    object(json!({
        "model": request.checkpoint,
        "backend": "pytorch",
        "dtype": dtype(request),
        "tensor_parallel_size": request.parallelism.tensor,
        "pipeline_parallel_size": request.parallelism.pipeline,
        "max_seq_len": request.max_seq_len,
        "max_batch_size": request.max_batch_size,
        "max_num_tokens": request.max_num_tokens,
        "enable_chunked_prefill": request.chunked_prefill,
        "kv_cache_config": kv_cache,
        // The model batches by itself, and a stream is more than one response.
        "triton_config": {"max_batch_size": 0, "decoupled": true},
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// `config.pbtxt` of a model that Triton's vLLM backend serves. Inputs and outputs are the backend's own, which it adds.
#[must_use]
pub fn vllm_configuration(model: &str) -> String {
    format!(
        "name: \"{model}\"\nbackend: \"vllm\"\nmax_batch_size: 0\nmodel_transaction_policy {{\n  decoupled: true\n}}\n\
         instance_group {{\n  count: 1\n  kind: KIND_MODEL\n}}\n"
    )
}

#[cfg(test)]
mod tests;
