//! Engines whose own server takes Triton's place.

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::agent_deployment::Precision;

use super::{
    no_build::{SGLANG, TRTLLM_SERVE, h100, sidecars_server, told},
    tensorrt_llm::serving_container,
};

#[test]
fn sglangs_server_takes_tritons_place() {
    let cluster = h100(SGLANG).resolved().fetched();
    assert_eq!(
        told(&cluster),
        json!({
            "host": "127.0.0.1", "port": 8000, "served-model-name": "agent", "sampling-defaults": "openai", "dtype": "bfloat16",
            "kv-cache-dtype": "auto", "tp-size": 1, "pp-size": 1, "context-length": 8192, "max-running-requests": 64,
            "max-prefill-tokens": 8192, "chunked-prefill-size": 8192, "mem-fraction-static": 0.85, "disable-radix-cache": true,
        })
    );
    let cluster = cluster.with_engine_built(Precision::BF16);
    let server = serving_container(&cluster, "triton");
    assert_eq!(server.image.as_deref(), Some("example.com/sglang:0.5.9"));
    let command = "python3 -m sglang.launch_server --model-path /slipway/engine/checkpoint --config \
                   /slipway/engine/server/config.yaml";
    assert_eq!(server.command.unwrap_or_default().join(" "), command);
    assert_eq!(
        sidecars_server(&cluster),
        json!({"endpoint": "http://127.0.0.1:8000", "modelName": "agent", "dialect": "SgLang"})
    );
}

#[test]
fn trtllm_serve_takes_tritons_place() {
    let cluster = h100(TRTLLM_SERVE).resolved().fetched();
    assert_eq!(
        told(&cluster),
        json!({
            "guided_decoding_backend": "xgrammar", "dtype": "bfloat16", "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1, "max_seq_len": 8192, "max_batch_size": 64, "max_num_tokens": 8192,
            "enable_chunked_prefill": true,
            "kv_cache_config": {"enable_block_reuse": false, "free_gpu_memory_fraction": 0.9},
        })
    );
    let cluster = cluster.with_engine_built(Precision::BF16);
    let server = serving_container(&cluster, "triton");
    assert_eq!(server.image.as_deref(), Some("example.com/trtllm:1.2.1"));
    let command = "trtllm-serve serve /slipway/engine/checkpoint --backend pytorch --host 127.0.0.1 --port 8000 \
                   --extra_llm_api_options /slipway/engine/server/config.yaml";
    assert_eq!(server.command.unwrap_or_default().join(" "), command);
    let reports = server.env.into_iter().flatten().find(|variable| variable.name == "TRTLLM_NO_USAGE_STATS");
    assert_eq!(reports.and_then(|variable| variable.value).as_deref(), Some("1"));
    assert_eq!(
        sidecars_server(&cluster),
        json!({"endpoint": "http://127.0.0.1:8000", "modelName": "agent", "dialect": "TrtLlm"})
    );
}
