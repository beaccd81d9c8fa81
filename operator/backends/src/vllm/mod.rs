//! vLLM, behind Triton and with its own server. Pure.
//!
//! Triton's vLLM backend reads `<version>/model.json`, the arguments of vLLM's `AsyncEngineArgs`
//! (<https://github.com/triton-inference-server/vllm_backend/blob/r25.01/README.md>). vLLM's own server gets the same
//! as options: see [`own_server`].
//!
//! Which GPU computes which format, in [`capability`]: <https://docs.vllm.ai/en/v0.14.0/features/quantization/> and the
//! sources named there.

mod capability;
pub mod features;
mod memory;
mod own_server;
mod release;

use serde_json::{Map, Value, json};

use crate::check::{Asked, Checkpoint, Problem, Refusal, memory, sizes, tokens, uneven_layers};
use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::memory::Estimate;
use crate::no_build::{
    Backend, OWN_SERVER_FILE, OwnServer, Releases, Request, Room, Serving, Unbuilt, iteration, object,
};

const EXAMPLE: &str = "0.25.0";
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
    runs: capability::behind_triton,
    methods: capability::METHODS,
    pipeline: uneven_layers,
    own_refusals,
    estimate: memory::estimate,
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
    runs: capability::own_server,
    methods: capability::METHODS,
    pipeline: uneven_layers,
    own_refusals,
    estimate: memory::estimate,
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

/// What vLLM's `SchedulerConfig` refuses (vllm-project/vllm, vllm/config/scheduler.py: `max_num_batched_tokens` below
/// `max_num_seqs`, or below `max_model_len` without chunks), and what it ignores.
///
/// Layers need not divide: `get_pp_indices` (vllm/distributed/utils.py) deals out what remains.
fn own_refusals(asked: &Asked, unbuilt: &Unbuilt) -> Vec<Refusal> {
    let is_ignored = release::always_reads_in_pieces(&asked.version);
    let unheard = || Problem::AlwaysChunked { version: asked.version.clone(), since: release::CHUNKS_BY_CHOICE };
    let chunks = match (unbuilt.chunked_prefill, is_ignored) {
        (false, true) => Some(Refusal::new("engine.vllm.chunkedPrefill", unheard())),
        (false, false) => iteration(asked, unbuilt),
        (true, _) => None,
    };
    let features = features::refusals(asked, &unbuilt.features, unbuilt.host_memory);
    chunks.into_iter().chain(tokens(asked, "vLLM")).chain(loading(asked, unbuilt)).chain(features).collect()
}

/// Weights that do not fit before they are quantized. vLLM loads them in their original precision first, so the whole
/// model must fit (vllm-project/vllm, docs/features/quantization/fp8.md).
fn loading(asked: &Asked, unbuilt: &Unbuilt) -> Option<Refusal> {
    let index = asked.precisions.iter().position(|precision| *precision == Precision::Fp8)?;
    if unbuilt.checkpoint != Checkpoint::Plain || !release::loads_whole_before_quantizing(&asked.version) {
        return None;
    }
    let splits = asked.tensor.iter().flat_map(|tensor| asked.pipeline.iter().map(move |groups| (*tensor, *groups)));
    let loaded = splits.map(|(tensor, pipeline)| {
        let split = Parallelism { tensor, pipeline };
        let sizes = sizes(asked, &unbuilt.checkpoint, (Precision::Bf16, KvCachePrecision::Auto), split);
        sizes.weights + sizes.runtime
    });
    let (needed, available) = (loaded.min_by(f64::total_cmp)?, memory(asked));
    (needed > available).then(|| {
        let problem = Problem::LoadMemory { precision: Precision::Fp8.name(), needed, available };
        Refusal::new(format!("search.precision[{index}]"), problem)
    })
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
    features::add(&request.features, &mut arguments);
    arguments
}

/// `config.pbtxt` of a model that Triton's vLLM backend serves. Inputs and outputs are the backend's own, which it
/// adds.
///
/// `REPORT_CUSTOM_METRICS` shows vLLM's metrics among Triton's, which leaves them out otherwise
/// (triton-inference-server/vllm_backend, README.md at 8de0c14, "Triton Metrics"; src/model.py:185). Versions that may
/// have engines already go without: their artifacts stay as they are.
fn configuration(model: &str, version: &str) -> String {
    let metrics = match release::reports_metrics(version) {
        true => "parameters {\n  key: \"REPORT_CUSTOM_METRICS\"\n  value {\n    string_value: \"true\"\n  }\n}\n",
        false => "",
    };
    format!(
        "name: \"{model}\"\nbackend: \"vllm\"\nmax_batch_size: 0\nmodel_transaction_policy {{\n  decoupled: true\n}}\n\
         instance_group {{\n  count: 1\n  kind: KIND_MODEL\n}}\n{metrics}"
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_new_version_shows_its_metrics_and_an_old_one_keeps_its_artifact() {
        let old = "name: \"agent\"\nbackend: \"vllm\"\nmax_batch_size: 0\nmodel_transaction_policy {\n  decoupled: true\n}\n\
                   instance_group {\n  count: 1\n  kind: KIND_MODEL\n}\n";
        assert_eq!(configuration("agent", "0.27.1"), old);
        let added = "parameters {\n  key: \"REPORT_CUSTOM_METRICS\"\n  value {\n    string_value: \"true\"\n  }\n}\n";
        assert_eq!(configuration("agent", "0.28.0"), format!("{old}{added}"));
    }
}
