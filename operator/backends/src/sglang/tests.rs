//! The file as the server reads it, and what does not fit.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::serving::NoBuildBackend;

use super::*;
use crate::formats::Parallelism;
use crate::no_build::{arguments as written, image};

fn request() -> Request {
    Request {
        backend: NoBuildBackend::SGLang,
        version: "0.5.9".into(),
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
        memory_ppm: 850_000,
        prefix_caching: true,
        chunked_prefill: true,
        features: Default::default(),
        extra: Vec::new(),
    }
}

#[test]
fn the_server_is_told_everything_that_a_field_says() {
    let asked =
        Request { extra: vec!["attention_backend=flashinfer".into(), "enable_metrics=true".into()], ..request() };
    let expected = r#"{
  "attention-backend": "flashinfer",
  "chunked-prefill-size": 4096,
  "context-length": 8192,
  "dtype": "bfloat16",
  "enable-metrics": true,
  "host": "127.0.0.1",
  "kv-cache-dtype": "auto",
  "max-prefill-tokens": 4096,
  "max-running-requests": 64,
  "mem-fraction-static": 0.85,
  "port": 8000,
  "pp-size": 1,
  "sampling-defaults": "openai",
  "served-model-name": "agent",
  "tp-size": 2
}
"#;
    assert_eq!(written(&asked).unwrap(), expected);
    assert_eq!(
        command("/slipway/engine", "checkpoint").join(" "),
        "python3 -m sglang.launch_server --model-path /slipway/engine/checkpoint --config /slipway/engine/server/config.yaml"
    );
}

#[test]
fn what_is_turned_off_has_a_word_of_its_own() {
    let asked = Request {
        prefix_caching: false,
        chunked_prefill: false,
        kv_cache: KvCachePrecision::Fp8,
        precision: Precision::Fp8,
        is_quantized_at_load: true,
        ..request()
    };
    let told: Value = serde_json::from_str(&written(&asked).unwrap()).unwrap();
    let names = ["disable-radix-cache", "chunked-prefill-size", "kv-cache-dtype", "quantization", "dtype"];
    assert_eq!(
        names.map(|name| told[name].clone()),
        [json!(true), json!(-1), json!("fp8_e4m3"), json!("fp8"), json!("auto")]
    );
}

#[rstest]
#[case("served_model_name=other", "served_model_name belongs to the Job: remove it")]
#[case("trust_remote_code=true", "trust_remote_code belongs to the Job: remove it")]
#[case(
    "max_running_requests=8",
    "max_running_requests=8 contradicts max_running_requests=64: change the field or the element that sets it, and remove \
     this one"
)]
fn what_a_field_or_the_job_says_is_not_for_users(#[case] extra: &str, #[case] message: &str) {
    let asked = Request { extra: vec![extra.into()], ..request() };
    assert_eq!(written(&asked).unwrap_err().to_string(), format!("engine.sglang.extraArgs[0]: {message}"));
}

#[rstest]
#[case("0.5.8", None, "lmsysorg/sglang:v0.5.8")]
#[case("0.5.20", Some("mirror/sglang:1"), "mirror/sglang:1")]
#[case(
    "0.5.7",
    None,
    "engine.sglang.version: 0.5.7 is older than 0.5.8, the first version that takes every option from a file; use 0.5.8 or later"
)]
fn a_version_has_an_image_or_says_what_to_use(
    #[case] version: &str,
    #[case] named: Option<&str>,
    #[case] expected: &str,
) {
    let found = image(NoBuildBackend::SGLang, version, named).unwrap_or_else(|error| error.to_string());
    assert_eq!(found, expected);
}

/// Of 80 bytes without the runtime's 10, weights and cache take their share and activations the rest.
#[rstest]
#[case::the_pool_binds(0.8, 10.0 + 60.0 / 0.8)]
#[case::activations_bind(0.95, 10.0 + 7.0 / (1.0 - 0.95))]
fn memory_is_bound_by_the_pool_or_by_what_is_left_beside_it(#[case] share: f64, #[case] needed: f64) {
    let sizes =
        Estimate { weights: 50.0, activations: 7.0, runtime: 10.0, kv_per_token: 1.0, kv_of_one_sequence: 10.0 };
    let found = room(&sizes, share, 80.0);
    assert_eq!((found.needed, found.available), (needed, 80.0));
}
