//! TensorRT-LLM's PyTorch flow, behind Triton and with its own server. Pure.
//!
//! Triton's `llmapi` model reads `<version>/model.yaml`: the arguments of `tensorrt_llm.LLM` and, in `triton_config`,
//! those of Triton's configuration
//! (<https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm>). It is in the
//! images beside the templates of engines, and the only one that 1.3 keeps. TensorRT-LLM's own server gets the same but
//! for what concerns Triton: see [`own_server`].
//!
//! Which GPU computes which format: NVIDIA/TensorRT-LLM docs/source/features/quantization.md at 09d4c79.

mod own_server;

use serde_json::{Map, Value, json};

use crate::check::layers;
use crate::formats::{KvCachePrecision, Precision};
use crate::memory::{Estimate, estimate};
use crate::no_build::{
    Backend, OWN_SERVER_FILE, Oldest, OwnServer, Releases, Request, Room, Serving, Weights, iteration, numbers, object,
};
use crate::tensorrt_llm::version::{RELEASES, Release};

const EXAMPLE: &str = "1.2.1";
const PLAIN: &[Precision] = &[Precision::Fp16, Precision::Bf16];

/// As Triton's `llmapi` model.
pub static BEHIND_TRITON: Backend = Backend {
    name: "TensorRTLLMPyTorch",
    block: "tensorRTLLMPyTorch",
    product: "TensorRT-LLM",
    tool: "tensorrt_llm",
    releases: Releases { example: EXAMPLE, oldest: OLDEST, image, carried },
    serves_plain: PLAIN,
    runs,
    methods: &[],
    pipeline: layers,
    own_refusals: |asked, unbuilt| iteration(asked, unbuilt).into_iter().collect(),
    estimate: |_, _, shape, layout| estimate(shape, layout),
    room,
    arguments: |request| request.merged(typed(request), &[]),
    arguments_file: "1/model.yaml",
    environment: &[],
    serving: Serving::TritonModel,
};

/// With TensorRT-LLM's own server.
pub static OWN_SERVER: Backend = Backend {
    name: "TensorRTLLMPyTorch",
    block: "tensorRTLLMPyTorch",
    product: "TensorRT-LLM",
    tool: "tensorrt_llm",
    releases: Releases {
        example: EXAMPLE,
        oldest: own_server::OLDEST,
        image: |version| Some(format!("nvcr.io/nvidia/tensorrt-llm/release:{version}")),
        carried: Vec::new,
    },
    serves_plain: PLAIN,
    runs,
    methods: &[],
    pipeline: layers,
    own_refusals: |asked, unbuilt| iteration(asked, unbuilt).into_iter().collect(),
    estimate: |_, _, shape, layout| estimate(shape, layout),
    room,
    arguments: own_server::arguments,
    arguments_file: OWN_SERVER_FILE,
    // Versions after 1.2 report their use otherwise (tensorrt_llm/usage; `TRTLLM_NO_USAGE_STATS`).
    environment: &[("TRTLLM_NO_USAGE_STATS", "1")],
    serving: Serving::Own(OwnServer {
        ordered: |engine| vec!["--own-server=TensorRTLLMPyTorchOpenAI".to_owned(), format!("--engine={engine}")],
        program: "trtllm-serve",
        module: None,
        command: own_server::command,
    }),
};

/// Before it, the `llmapi` model was not stable.
const OLDEST: Oldest = Oldest {
    numbers: [1, 0, 0],
    name: "1.0",
    does: "that is served without a build here",
    remedy: "1.0.0 or later, or backend TensorRTLLM, which builds engines from 0.15 on",
};

/// Releases with the model, oldest first.
fn releases() -> impl DoubleEndedIterator<Item = &'static Release> {
    RELEASES.iter().filter(|release| release.version.is_at_least(1, 0))
}

fn image(version: &str) -> Option<String> {
    releases().rev().find(|release| release.version.to_string() == version).map(Release::image)
}

fn carried() -> Vec<String> {
    let mut versions: Vec<String> = releases().map(|release| release.version.to_string()).collect();
    versions.dedup();
    versions
}

/// Whether weights of a precision are computed with on GPUs of an architecture.
fn runs(weights: &Weights<'_>) -> bool {
    let sm = weights.sm;
    match weights.precision {
        Precision::Fp16 => sm >= 75,
        Precision::Bf16 => sm >= 80,
        Precision::Fp8 => sm >= 89,
        // gpt-oss, since 1.1 (docs/source/blogs/tech_blog/blog9_Deploying_GPT_OSS_on_TRTLLM.md: H200 and Blackwell).
        Precision::Mxfp4 => sm >= 90 && numbers(weights.version).is_some_and(|numbers| numbers >= [1, 1, 0]),
        Precision::Nvfp4 => sm >= 100,
        Precision::Int4Awq | Precision::Int4WeightOnly => (80..=90).contains(&sm),
        Precision::W4A8Awq => (89..=90).contains(&sm),
        Precision::Int8WeightOnly | Precision::Int8SmoothQuant => false,
    }
}

/// The share is of what is left after loading, for the KV cache alone.
fn room(sizes: &Estimate, share: f64, memory: f64) -> Room {
    Room { needed: sizes.least_with(share), available: memory, words: "a GPU has" }
}

/// The arguments of `tensorrt_llm.LLM` that fields stand for.
fn typed(request: &Request) -> Map<String, Value> {
    let mut kv_cache = object(json!({
        "enable_block_reuse": request.prefix_caching,
        "free_gpu_memory_fraction": request.share(),
    }));
    if request.kv_cache == KvCachePrecision::Fp8 {
        kv_cache.insert("dtype".to_owned(), "fp8".into());
    }
    object(json!({
        "model": request.checkpoint,
        "backend": "pytorch",
        "dtype": request.dtype_word(),
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
