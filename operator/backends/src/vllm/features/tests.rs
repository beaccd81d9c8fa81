//! Arguments as vLLM reads them, and refusals as a person reads them.

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::formats::{KvCachePrecision, Precision};
use crate::gpu::by_label;
use crate::memory::Shape;

const GUESSES: Speculation = Speculation { tokens: 4, min_match: 2, max_match: 4 };
const COMPACT: Structured = Structured { grammar: Grammar::XGrammar, is_compact: true };

fn all() -> Features {
    Features { speculation: Some(GUESSES), offload_gib: Some(8), structured: Some(COMPACT), lora: None }
}

fn of(version: &str) -> Asked {
    Asked {
        version: version.into(),
        architecture: "LlamaForCausalLM".into(),
        shape: Shape::PLAIN,
        gpu: by_label("NVIDIA-H200").unwrap(),
        gpu_memory_mib: None,
        gpus_per_node: 8,
        precisions: vec![Precision::Bf16],
        kv_caches: vec![KvCachePrecision::Auto],
        tensor: vec![1],
        pipeline: vec![1],
        max_seq_len: 4096,
        max_batch_size: 16,
        most_batch_size: 16,
        max_num_tokens: 8192,
        has_calibration: false,
    }
}

fn messages(version: &str, features: Features, host_memory: Option<u64>) -> Vec<String> {
    refusals(&of(version), &features, host_memory).iter().map(ToString::to_string).collect()
}

#[test]
fn features_are_arguments_of_the_engine_and_none_is_told_where_none_is_named() {
    let mut arguments = Map::new();
    add(&Features::default(), &mut arguments);
    assert_eq!(arguments, Map::new());
    add(&all(), &mut arguments);
    assert_eq!(
        Value::Object(arguments),
        json!({
            "speculative_config":
                {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4},
            "kv_offloading_size": 8,
            "kv_offloading_backend": "native",
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": true},
        })
    );
}

#[test]
fn what_works_is_admitted_with_room_beside_the_offloaded_cache() {
    assert_eq!(messages("0.25.0", all(), None), Vec::<String>::new());
    assert_eq!(messages("0.25.0", all(), Some(16 << 30)), Vec::<String>::new());
}

#[test]
fn each_feature_that_a_version_does_not_know_names_the_first_that_does() {
    assert_eq!(
        messages("0.8.4", all(), None),
        [
            "engine.vllm.ngramSpeculation: vLLM 0.8.4 does not know it: use a version from 0.9.0 on, or remove it",
            "engine.vllm.kvOffload: vLLM 0.8.4 does not know it: use a version from 0.14.0 on, or remove it",
            "engine.vllm.structuredOutputs: vLLM 0.8.4 does not know it: use a version from 0.11.0 on, or remove it",
        ]
    );
    let offload = Features { offload_gib: Some(8), ..Features::default() };
    assert_eq!(messages("0.13.0", offload.clone(), None).len(), 1);
    assert_eq!(messages("0.15.1", offload, None).len(), 0);
    let lora = Features { lora: Some(Lora { folder: "adapter".into(), rank: 8 }), ..Features::default() };
    assert_eq!(
        messages("0.10.1", lora, None),
        ["engine.vllm.lora: vLLM 0.10.1 does not know it: use a version from 0.11.0 on, or remove it"]
    );
}

#[rstest]
#[case::matches(
    Features { speculation: Some(Speculation { min_match: 5, ..GUESSES }), ..Features::default() },
    "engine.vllm.ngramSpeculation.minMatch: 5 tokens that must match exceed the 4 that are looked for; use at most maxMatch, or \
     raise maxMatch"
)]
#[case::spaces(
    Features { structured: Some(Structured { grammar: Grammar::Outlines, ..COMPACT }), ..Features::default() },
    "engine.vllm.structuredOutputs.compact: only XGrammar and Guidance fix the spaces of JSON; use one of them, or remove compact"
)]
#[case::memory(
    Features { offload_gib: Some(8), ..Features::default() },
    "engine.vllm.kvOffload.hostMemoryGib: 8 GiB of KV cache leave nothing of the 8.0 GiB in \
     serving.tritonResources.limits.memory; raise that limit, or use less: vLLM takes memory beside it"
)]
fn what_cannot_work_names_its_field_and_the_remedy(#[case] features: Features, #[case] message: &str) {
    assert_eq!(messages("0.25.0", features, Some(8 << 30)), [message]);
}

#[test]
fn guesses_take_the_logits_that_vllm_was_seen_to_take_for_them() {
    let none = Estimate { weights: 0.0, activations: 0.0, runtime: 0.0, kv_per_token: 0.0, kv_of_one_sequence: 0.0 };
    let taken = all().on_top(none, (256, 128_256)).activations / GIB;
    // 39.59 GiB of KV cache without guesses, 39.12 GiB with four of them: one H200, vLLM 0.25.0.
    let seen = 39.59 - 39.12;
    assert!((taken / seen - 1.0).abs() < 0.05, "{taken} GiB of {seen} GiB");
    assert_eq!(Features { speculation: None, ..all() }.on_top(none, (256, 128_256)), none);
}
