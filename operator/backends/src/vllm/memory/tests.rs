//! What vLLM said that it takes on GPUs, held against the estimate.

use rstest::rstest;
use slipway_vocabulary::serving::NoBuildBackend;

use super::*;
use crate::check::Checkpoint;
use crate::formats::Precision;
use crate::memory::GIB;
use crate::memory::tests::{layout, llama_8b};
use crate::no_build::Features;

/// A row of what `e2e/gpu/sizes.py` printed. Rows that are left in a table of the documentation alone have no tokens of
/// the KV cache. Nor have those of Mistral's shape, whose window of attention vLLM counts in.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    gpu: String,
    shape: String,
    layers: u32,
    precision: String,
    graphs: bool,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    max_model_len: u32,
    gpu_memory_utilization: f64,
    total_bytes: f64,
    weights_gib: f64,
    activations_gib: f64,
    kv_cache_gib: f64,
    kv_cache_tokens: Option<f64>,
}

/// The shapes of `e2e/gpu/shapes`.
fn shape(name: &str, layers: u32) -> Shape {
    let llama = Shape { layers, ..llama_8b() };
    match name {
        "llama-8b" => llama,
        "qwen-7b" => Shape {
            heads: 28,
            kv_heads: 4,
            hidden: 3584,
            intermediate: 18_944,
            vocabulary: 152_064,
            max_positions: 32_768,
            ..llama
        },
        "llama-3b" => Shape { heads: 24, hidden: 3072, intermediate: 8192, is_tied: true, ..llama },
        "mistral-7b" => Shape { vocabulary: 32_768, max_positions: 32_768, ..llama },
        other => panic!("no shape {other}"),
    }
}

fn unbuilt(extra: &[&str]) -> Unbuilt {
    Unbuilt {
        backend: NoBuildBackend::VLLM,
        checkpoint: Checkpoint::Plain,
        chunked_prefill: true,
        memory_share: 0.9,
        features: Features::default(),
        extra: extra.iter().map(|argument| (*argument).to_owned()).collect(),
        host_memory: None,
    }
}

impl Measured {
    fn estimated(&self) -> Estimate {
        let precision = if self.precision == "fp8" { Precision::Fp8 } else { Precision::Bf16 };
        let layout = Layout {
            max_batch_size: self.max_num_seqs,
            max_num_tokens: self.max_num_batched_tokens,
            max_seq_len: self.max_model_len,
            ..layout(precision, 1)
        };
        let extra = if self.graphs { &[][..] } else { &["enforce_eager=true"] };
        unbuilt(extra).estimate("0.25.0", &shape(&self.shape, self.layers), &layout)
    }
}

fn off(estimated: f64, measured: f64) -> f64 {
    (estimated / measured - 1.0).abs()
}

#[rstest]
#[case::h100(include_str!("../../../tests/data/vllm_memory_h100.jsonl"), 7)]
#[case::h200(include_str!("../../../tests/data/vllm_memory_h200.jsonl"), 24)]
fn activations_are_within_eight_percent_of_what_vllm_takes_and_weights_within_one_or_72_mib_in_fp8(
    #[case] recorded: &str,
    #[case] rows: usize,
) {
    let measured: Vec<Measured> =
        recorded.lines().map(|line| serde_json::from_str(line).expect("a row of the record")).collect();
    assert_eq!(measured.len(), rows);
    for row in &measured {
        let estimated = row.estimated();
        let left = row.total_bytes * row.gpu_memory_utilization - estimated.fixed();
        let name = format!("{} {} {} {}", row.gpu, row.shape, row.precision, row.max_num_batched_tokens);
        // Making FP8 while it loads leaves vLLM a little beside the weights, whatever their size.
        let beside: f64 = if row.precision == "fp8" { 0.07 } else { 0.0 };
        let weights = estimated.weights / GIB;
        let bound = beside.max(0.012 * row.weights_gib);
        assert!((weights - row.weights_gib).abs() < bound, "{name}: {weights}");
        assert!(off(left / GIB, row.kv_cache_gib) < 0.03, "{name}: {}", left / GIB);
        let taken = estimated.activations / GIB;
        assert!(off(taken, row.activations_gib) < 0.08, "{name}: {taken} of {}", row.activations_gib);
        if let Some(tokens) = row.kv_cache_tokens {
            assert!(off(estimated.kv_per_token, row.kv_cache_gib * GIB / tokens) < 0.001, "{name}");
        }
    }
}

/// Activations of a shape at 2,048 tokens, in GiB.
fn taken(extra: &[&str], version: &str, shape: &Shape, tensor: u32) -> f64 {
    let few = Layout { max_num_tokens: 2048, ..layout(Precision::Bf16, tensor) };
    unbuilt(extra).estimate(version, shape, &few).activations / GIB
}

#[test]
fn gpus_that_share_a_model_are_taken_to_hold_a_part_each_of_what_compiling_it_takes() {
    let [one, two] = [1, 2].map(|tensor| taken(&[], "0.25.0", &llama_8b(), tensor));
    assert!(off(one - two, 128_256.0 * 4096.0 / GIB) < 1e-9);
}

#[rstest]
#[case::eager(&["enforce_eager=true"], "0.25.0")]
#[case::eager_with_a_space(&["enforce_eager= true"], "0.25.0")]
#[case::no_compilation(&["compilation_config.mode=0"], "0.25.0")]
#[case::no_compilation_by_its_name(&["compilation_config.mode=NONE"], "0.25.0")]
#[case::no_compilation_of_earlier_versions(&["compilation_config.level=0"], "0.11.0")]
#[case::before_v1(&[], "0.7.3")]
fn a_model_that_is_not_compiled_takes_its_layers_alone(#[case] extra: &[&str], #[case] version: &str) {
    let of_layers = taken(extra, version, &llama_8b(), 1);
    assert!(of_layers < 0.3 && taken(&["enforce_eager=false"], "0.25.0", &llama_8b(), 1) > 1.0, "{of_layers}");
}

#[test]
fn an_attention_that_is_wider_than_the_mlp_counts_once() {
    let wide = Shape { heads: 128, kv_heads: 128, intermediate: 512, ..llama_8b() };
    let (queries, hidden) = (128.0 * 128.0, 4096.0);
    let expected = 2.0 * 2048.0 * (2.0 * hidden + 4.0 * queries) + 4.0 * 8.0 * 128_256.0;
    assert!(off(taken(&["enforce_eager=true"], "0.25.0", &wide, 1), expected / GIB) < 1e-9);
}
