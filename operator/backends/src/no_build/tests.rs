//! The files as the engines read them.

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_vocabulary::serving::Server;

use super::*;

fn request(backend: NoBuildBackend, version: &str) -> Request {
    Request {
        backend,
        version: version.into(),
        model: "agent".into(),
        checkpoint: "/slipway/engine/checkpoint".into(),
        precision: Precision::Bf16,
        is_quantized_at_load: false,
        dtype: None,
        kv_cache: KvCachePrecision::Auto,
        parallelism: Parallelism { tensor: 2, pipeline: 1 },
        max_seq_len: 8192,
        max_batch_size: 64,
        max_num_tokens: 4096,
        memory_ppm: 900_000,
        prefix_caching: true,
        chunked_prefill: true,
        features: Features::default(),
        extra: Vec::new(),
    }
}

#[test]
fn vllm_is_told_everything_that_a_field_says() {
    let expected = r#"{
  "dtype": "bfloat16",
  "enable_chunked_prefill": true,
  "enable_prefix_caching": true,
  "gpu_memory_utilization": 0.9,
  "kv_cache_dtype": "auto",
  "max_model_len": 8192,
  "max_num_batched_tokens": 4096,
  "max_num_seqs": 64,
  "model": "/slipway/engine/checkpoint",
  "pipeline_parallel_size": 1,
  "tensor_parallel_size": 2
}
"#;
    assert_eq!(arguments(&request(NoBuildBackend::VLLM, "0.11.0")).unwrap(), expected);
}

#[test]
fn vllms_own_server_is_told_the_same_by_its_options() {
    let asked = Request {
        prefix_caching: false,
        is_quantized_at_load: true,
        precision: Precision::Fp8,
        extra: vec!["compilation_config.level=3".into(), "enforce_eager=false".into(), "async_scheduling=true".into()],
        ..request(NoBuildBackend::VLLMOpenAI, "0.11.0")
    };
    let expected = r#"{
  "async-scheduling": true,
  "compilation-config": "{\"level\":3}",
  "dtype": "auto",
  "enable-chunked-prefill": true,
  "generation-config": "vllm",
  "gpu-memory-utilization": 0.9,
  "host": "127.0.0.1",
  "kv-cache-dtype": "auto",
  "max-model-len": 8192,
  "max-num-batched-tokens": 4096,
  "max-num-seqs": 64,
  "no-enable-prefix-caching": true,
  "no-enforce-eager": true,
  "pipeline-parallel-size": 1,
  "port": 8000,
  "quantization": "fp8",
  "served-model-name": "agent",
  "tensor-parallel-size": 2
}
"#;
    assert_eq!(arguments(&asked).unwrap(), expected);
    let server = of(NoBuildBackend::VLLMOpenAI).own_server().unwrap();
    assert_eq!(
        (server.command)("/slipway/engine", "checkpoint").join(" "),
        "vllm serve /slipway/engine/checkpoint --config /slipway/engine/server/config.yaml"
    );
}

#[test]
fn features_of_vllm_are_told_to_both_of_its_servers_in_their_own_form() {
    let features = Features {
        speculation: Some(Speculation { tokens: 4, min_match: 2, max_match: 4 }),
        offload_gib: Some(8),
        structured: Some(Structured { grammar: Grammar::Guidance, is_compact: false }),
        lora: None,
    };
    let own = Request { features, ..request(NoBuildBackend::VLLMOpenAI, "0.25.0") };
    assert_eq!(
        ["speculative-config", "kv-offloading-size", "kv-offloading-backend", "structured-outputs-config"]
            .map(|name| told(&own, name).unwrap().to_string()),
        [
            r#""{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"prompt_lookup_max\":4,\"prompt_lookup_min\":2}""#,
            "8",
            r#""native""#,
            r#""{\"backend\":\"guidance\"}""#,
        ]
    );
    let behind_triton = Request { backend: NoBuildBackend::VLLM, ..own };
    assert_eq!(told(&behind_triton, "structured_outputs_config"), Some(serde_json::json!({"backend": "guidance"})));
    let contradicted = Request { extra: vec!["speculative_config.method=eagle".into()], ..behind_triton };
    assert_eq!(
        arguments(&contradicted).unwrap_err().to_string(),
        "engine.vllm.extraArgs[0]: speculative_config.method=eagle contradicts speculative_config.method=\"ngram\": change the \
         field or the element that sets it, and remove this one"
    );
}

#[rstest]
#[case(1, 8)]
#[case(16, 16)]
#[case(300, 512)]
fn an_adapter_answers_by_the_name_of_the_model(#[case] rank: u32, #[case] max_rank: u32) {
    let features = Features { lora: Some(Lora { folder: "adapters/sql".into(), rank }), ..Features::default() };
    let request = Request { features, ..request(NoBuildBackend::VLLMOpenAI, "0.25.0") };
    let options = ["served-model-name", "enable-lora", "max-loras", "max-lora-rank", "lora-modules"];
    assert_eq!(
        options.map(|name| told(&request, name).unwrap()),
        [
            json!("agent-base"),
            json!(true),
            json!(1),
            json!(max_rank),
            json!([r#"{"name":"agent","path":"/slipway/engine/checkpoint/adapters/sql"}"#]),
        ]
    );
    let contradicted = Request { extra: vec!["max_loras=4".into()], ..request };
    assert_eq!(
        arguments(&contradicted).unwrap_err().to_string(),
        "engine.vllm.extraArgs[0]: max_loras=4 contradicts max_loras=1: change the field or the element that sets it, and \
         remove this one"
    );
}

#[rstest]
#[case(
    "generation_config=auto",
    "generation_config=auto contradicts generation_config=\"vllm\": change the field or the element that \
     sets it, and remove this one"
)]
#[case("served_model_name=other", "served_model_name belongs to the Job: remove it")]
fn what_vllms_own_server_is_told_by_the_job_is_not_for_users(#[case] extra: &str, #[case] message: &str) {
    let asked = Request { extra: vec![extra.into()], ..request(NoBuildBackend::VLLMOpenAI, "0.11.0") };
    assert_eq!(arguments(&asked).unwrap_err().to_string(), format!("engine.vllm.extraArgs[0]: {message}"));
}

#[test]
fn tensorrt_llm_is_told_everything_that_a_field_says() {
    let asked = Request {
        kv_cache: KvCachePrecision::Fp8,
        memory_ppm: 850_000,
        prefix_caching: false,
        extra: vec!["cuda_graph_config.enable_padding=true".into()],
        ..request(NoBuildBackend::TensorRTLLMPyTorch, "1.2.1")
    };
    let expected = r#"{
  "backend": "pytorch",
  "cuda_graph_config": {
    "enable_padding": true
  },
  "dtype": "bfloat16",
  "enable_chunked_prefill": true,
  "kv_cache_config": {
    "dtype": "fp8",
    "enable_block_reuse": false,
    "free_gpu_memory_fraction": 0.85
  },
  "max_batch_size": 64,
  "max_num_tokens": 4096,
  "max_seq_len": 8192,
  "model": "/slipway/engine/checkpoint",
  "pipeline_parallel_size": 1,
  "tensor_parallel_size": 2,
  "triton_config": {
    "decoupled": true,
    "max_batch_size": 0
  }
}
"#;
    assert_eq!(arguments(&asked).unwrap(), expected);
}

fn told(request: &Request, name: &str) -> Option<Value> {
    let text = arguments(request).unwrap();
    serde_json::from_str::<Value>(&text).unwrap().get(name).cloned()
}

#[rstest]
#[case(Precision::Fp16, Some(Dtype::Bfloat16), "float16")]
#[case(Precision::Int4Awq, Some(Dtype::Float16), "float16")]
#[case(Precision::Fp8, None, "auto")]
fn sixteen_bits_are_their_own_data_type_and_others_keep_the_checkpoints(
    #[case] precision: Precision,
    #[case] dtype: Option<Dtype>,
    #[case] expected: &str,
) {
    let asked = Request { precision, dtype, ..request(NoBuildBackend::VLLM, "0.11.0") };
    assert_eq!(told(&asked, "dtype"), Some(expected.into()));
}

#[test]
fn only_weights_that_are_not_in_fp8_yet_are_quantized_while_they_are_loaded() {
    let stored = Request { precision: Precision::Fp8, ..request(NoBuildBackend::VLLM, "0.11.0") };
    assert_eq!(told(&stored, "quantization"), None);
    let made = Request { is_quantized_at_load: true, ..stored };
    assert_eq!(told(&made, "quantization"), Some("fp8".into()));
}

#[test]
fn early_versions_of_vllm_are_told_to_log_no_prompts() {
    assert_eq!(told(&request(NoBuildBackend::VLLM, "0.9.2"), "disable_log_requests"), Some(true.into()));
    assert_eq!(told(&request(NoBuildBackend::VLLM, "0.11.0"), "disable_log_requests"), None);
}

#[test]
fn an_argument_against_a_field_is_refused() {
    let asked = Request { extra: vec!["max_num_seqs=8".into()], ..request(NoBuildBackend::VLLM, "0.11.0") };
    assert_eq!(
        arguments(&asked).unwrap_err().to_string(),
        "engine.vllm.extraArgs[0]: max_num_seqs=8 contradicts max_num_seqs=64: change the field or the element that sets it, and \
         remove this one"
    );
}

#[test]
fn the_table_and_the_vocabulary_agree_on_what_takes_requests() {
    for backend in NoBuildBackend::ALL {
        assert_eq!(of(backend).own_server().is_some(), backend.server() == Server::Own, "{}", backend.as_str());
    }
}
