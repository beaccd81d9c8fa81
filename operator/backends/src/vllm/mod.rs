//! vLLM, behind Triton and with its own server. Pure.
//!
//! Triton's vLLM backend reads `<version>/model.json`, the arguments of vLLM's `AsyncEngineArgs`
//! (<https://github.com/triton-inference-server/vllm_backend/blob/r25.01/README.md>). vLLM's own server gets the same
//! as options: see [`own_server`].
//!
//! Which GPU computes which format: <https://docs.vllm.ai/en/v0.14.0/features/quantization/>. Blackwell is not in its
//! table: formats that compute in 16 bits are taken to run there, INT8 activations are not.

mod own_server;
mod release;

use serde_json::{Map, Value, json};

use crate::formats::{KvCachePrecision, Precision};
use crate::memory::Estimate;
use crate::no_build::{Backend, OWN_SERVER_FILE, OwnServer, Releases, Request, Room, Serving, object};

const EXAMPLE: &str = "0.11.0";
const PLAIN: &[Precision] = &[Precision::Fp16, Precision::Bf16, Precision::Fp8];
const ENVIRONMENT: &[(&str, &str)] = &[("VLLM_NO_USAGE_STATS", "1")];

/// Triton's vLLM backend.
pub static BEHIND_TRITON: Backend = Backend {
    name: "VLLM",
    block: "vllm",
    product: "vLLM",
    tool: "vllm",
    releases: Releases {
        example: EXAMPLE,
        oldest: release::BEHIND_TRITON,
        image: release::triton_image,
        carried: release::carried,
    },
    serves_plain: PLAIN,
    runs,
    room,
    arguments: |request| request.merged(typed(request), &[]),
    arguments_file: "1/model.json",
    environment: ENVIRONMENT,
    serving: Serving::TritonBackend { folder: "vllm", configuration },
};

/// vLLM's own server.
pub static OWN_SERVER: Backend = Backend {
    name: "VLLM",
    block: "vllm",
    product: "vLLM",
    tool: "vllm",
    releases: Releases {
        example: EXAMPLE,
        oldest: release::OWN_SERVER,
        image: |version| Some(format!("vllm/vllm-openai:v{version}")),
        carried: Vec::new,
    },
    serves_plain: PLAIN,
    runs,
    room,
    arguments: own_server::arguments,
    arguments_file: OWN_SERVER_FILE,
    environment: ENVIRONMENT,
    serving: Serving::Own(OwnServer {
        ordered: |engine| vec![format!("--vllm-engine={engine}")],
        program: "vllm",
        module: None,
        command: own_server::command,
    }),
};

/// Whether weights of a precision are computed with on GPUs of an architecture.
fn runs(precision: Precision, sm: u32) -> bool {
    match precision {
        Precision::Fp16 => sm >= 70,
        Precision::Bf16 => sm >= 80,
        Precision::Fp8 => sm >= 89,
        Precision::Nvfp4 => sm >= 100,
        Precision::Int4Awq | Precision::Int4WeightOnly | Precision::Int8WeightOnly => sm >= 75,
        Precision::Int8SmoothQuant => (75..=90).contains(&sm),
        Precision::W4A8Awq => false,
    }
}

/// The share is of all memory, for everything.
fn room(sizes: &Estimate, share: f64, memory: f64) -> Room {
    let words = "engine.vllm.gpuMemoryUtilization leaves it";
    Room { needed: sizes.least_with(1.0), available: memory * share, words }
}

/// The arguments of `AsyncEngineArgs` that fields stand for.
fn typed(request: &Request) -> Map<String, Value> {
    let mut arguments = object(json!({
        "model": request.checkpoint,
        "dtype": request.dtype_word(),
        "kv_cache_dtype": if request.kv_cache == KvCachePrecision::Fp8 { "fp8" } else { "auto" },
        "tensor_parallel_size": request.parallelism.tensor,
        "pipeline_parallel_size": request.parallelism.pipeline,
        "max_model_len": request.max_seq_len,
        "max_num_seqs": request.max_batch_size,
        "max_num_batched_tokens": request.max_num_tokens,
        "gpu_memory_utilization": request.share(),
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

/// `config.pbtxt` of a model that Triton's vLLM backend serves. Inputs and outputs are the backend's own, which it
/// adds.
fn configuration(model: &str) -> String {
    format!(
        "name: \"{model}\"\nbackend: \"vllm\"\nmax_batch_size: 0\nmodel_transaction_policy {{\n  decoupled: true\n}}\n\
         instance_group {{\n  count: 1\n  kind: KIND_MODEL\n}}\n"
    )
}
