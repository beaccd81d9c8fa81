//! SGLang's own server. Pure.
//!
//! `sglang.launch_server` reads `server/config.yaml`, its options in their long form
//! (<https://docs.sglang.io/advanced_features/server_arguments.html>). What an option means: `ServerArgs` of
//! sgl-project/sglang, python/sglang/srt/server_args.py at 001067f. How the file is read:
//! python/sglang/srt/server_args_config_parser.py at 03bd2f1, where a switch that is true is written without a value,
//! and one that is false is left out.
//!
//! Which GPU computes which format: <https://docs.sglang.io/advanced_features/quantization.html>, which knows methods
//! and no architectures. The kernels decide: Marlin for weights of 4 and 8 bits needs SM80, FP8 SM89 and NVFP4 SM100.
//! gpt-oss in MXFP4 is documented for Hopper and Blackwell (docs/basic_usage/gpt_oss.md).

use serde_json::{Map, Value, json};

use crate::check::layers;
use crate::formats::{KvCachePrecision, Precision};
use crate::memory::{Estimate, estimate};
use crate::no_build::{
    ArgumentError, Backend, OWN_SERVER_FILE, OWN_SERVER_HOST, OWN_SERVER_PORT, Oldest, OwnServer, Releases, Request,
    Room, Serving, Weights, iteration, object,
};

/// SGLang's own server.
pub static BACKEND: Backend = Backend {
    name: "SGLang",
    block: "sglang",
    product: "SGLang",
    tool: "sglang",
    releases: Releases {
        example: "0.5.9",
        oldest: OLDEST,
        image: |version| Some(format!("lmsysorg/sglang:v{version}")),
        carried: Vec::new,
    },
    serves_plain: &[Precision::Fp16, Precision::Bf16, Precision::Fp8],
    runs,
    methods: &[],
    pipeline: layers,
    own_refusals: |asked, unbuilt| iteration(asked, unbuilt).into_iter().collect(),
    estimate: |_, _, shape, layout| estimate(shape, layout),
    room,
    arguments,
    arguments_file: OWN_SERVER_FILE,
    // Otherwise the question for health waits for a token, behind every long prompt. The sidecar generates one before
    // it is ready.
    environment: &[("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "false")],
    serving: Serving::Own(OwnServer {
        ordered: |engine| vec!["--own-server=SGLang".to_owned(), format!("--engine={engine}")],
        program: "python3",
        module: Some("sglang"),
        command,
    }),
};

/// Before it, a switch in a file was taken for an option with a value (sgl-project/sglang issue 16256). 0.5.5 was the
/// first to count the tokens of every event (pull request 12241).
const OLDEST: Oldest =
    Oldest { numbers: [0, 5, 8], name: "0.5.8", does: "that takes every option from a file", remedy: "0.5.8 or later" };

/// Arguments of the server that belong to the Job.
const RESERVED: [&str; 16] = [
    "admin_api_key",
    "api_key",
    "config",
    "dist_init_addr",
    "dp_size",
    "grpc_mode",
    "host",
    "model_path",
    "nccl_port",
    "nnodes",
    "node_rank",
    "port",
    "served_model_name",
    "ssl_certfile",
    "ssl_keyfile",
    "tokenizer_path",
];

/// The one switch among the typed arguments.
const SWITCH: &str = "disable_radix_cache";

/// Whether weights of a precision are computed with on GPUs of an architecture.
fn runs(weights: &Weights<'_>) -> bool {
    let sm = weights.sm;
    match weights.precision {
        Precision::Fp16 => sm >= 75,
        Precision::Bf16 | Precision::Int4Awq | Precision::Int4WeightOnly | Precision::Int8WeightOnly => sm >= 80,
        Precision::Fp8 => sm >= 89,
        Precision::Mxfp4 => sm >= 90,
        Precision::Nvfp4 => sm >= 100,
        Precision::Int8SmoothQuant => (80..=90).contains(&sm),
        Precision::W4A8Awq => false,
    }
}

/// The share is of all memory but the runtime's, for weights and KV cache; activations have the rest.
fn room(sizes: &Estimate, share: f64, memory: f64) -> Room {
    let of_pool = (sizes.weights + sizes.kv_of_one_sequence) / share.max(f64::EPSILON);
    let of_rest = sizes.activations / (1.0 - share).max(f64::EPSILON);
    let words = "with engine.sglang.memFractionStatic as it is, a GPU has";
    Room { needed: sizes.runtime + of_pool.max(of_rest), available: memory, words }
}

/// The command that serves an artifact in a folder.
fn command(artifact: &str, checkpoint: &str) -> Vec<String> {
    [
        "python3",
        "-m",
        "sglang.launch_server",
        "--model-path",
        &format!("{artifact}/{checkpoint}"),
        "--config",
        &format!("{artifact}/{OWN_SERVER_FILE}"),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The options of the server.
fn arguments(request: &Request) -> Result<Map<String, Value>, ArgumentError> {
    let typed = typed(request);
    request.merged(typed, &RESERVED).map(|arguments| options(arguments, &request.model))
}

/// The fields of `ServerArgs` that fields of ours stand for.
fn typed(request: &Request) -> Map<String, Value> {
    let tokens = request.max_num_tokens;
    let mut arguments = object(json!({
        "dtype": request.dtype_word(),
        "kv_cache_dtype": if request.kv_cache == KvCachePrecision::Fp8 { "fp8_e4m3" } else { "auto" },
        "tp_size": request.parallelism.tensor,
        "pp_size": request.parallelism.pipeline,
        "context_length": request.max_seq_len,
        "max_running_requests": request.max_batch_size,
        "max_prefill_tokens": tokens,
        "chunked_prefill_size": if request.chunked_prefill { i64::from(tokens) } else { -1 },
        "mem_fraction_static": request.share(),
        SWITCH: !request.prefix_caching,
        // Otherwise the server takes sampling parameters from the checkpoint.
        "sampling_defaults": "openai",
    }));
    if request.is_quantized_at_load {
        arguments.insert("quantization".to_owned(), "fp8".into());
    }
    arguments
}

fn options(arguments: Map<String, Value>, model: &str) -> Map<String, Value> {
    let own = [("host", json!(OWN_SERVER_HOST)), ("port", json!(OWN_SERVER_PORT)), ("served-model-name", json!(model))];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    // A switch is written where it is on: that is how every version reads it.
    let is_off = |name: &str, value: &Value| name == SWITCH && *value == Value::Bool(false);
    let of_engine = arguments.into_iter().filter(|(name, value)| !is_off(name, value)).map(|(name, value)| {
        let value = match value {
            Value::Object(_) => Value::String(value.to_string()),
            value => value,
        };
        (name.replace('_', "-"), value)
    });
    own.chain(of_engine).collect()
}

#[cfg(test)]
mod tests;
