//! What vLLM said that it takes on GPUs, held against the estimate.

use rstest::rstest;
use slipway_vocabulary::serving::NoBuildBackend;

use super::*;
use crate::check::Checkpoint;
use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::memory::GIB;
use crate::no_build::Features;

/// A row of what `e2e/gpu/sizes.py` wrote down. Rows of which a table is left have no tokens of the KV cache.
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
    let llama = Shape {
        layers,
        heads: 32,
        kv_heads: 8,
        head_size: 128,
        hidden: 4096,
        intermediate: 14_336,
        vocabulary: 128_256,
        max_positions: 131_072,
        ..Shape::PLAIN
    };
    match name {
        "llama-8b" => llama,
        "qwen-7b" => Shape { heads: 28, kv_heads: 4, hidden: 3584, intermediate: 18_944, vocabulary: 152_064, ..llama },
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

fn layout(precision: Precision, tensor: u32) -> Layout {
    Layout {
        precision,
        is_as_stored: false,
        kv_cache: KvCachePrecision::Auto,
        parallelism: Parallelism { tensor, pipeline: 1 },
        max_batch_size: 64,
        max_num_tokens: 8192,
        max_seq_len: 8192,
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
        let eager = if self.graphs { &[][..] } else { &[EAGER] };
        unbuilt(eager).estimate(&shape(&self.shape, self.layers), &layout)
    }
}

fn off(estimated: f64, measured: f64) -> f64 {
    (estimated / measured - 1.0).abs()
}

#[rstest]
#[case::h100(include_str!("../../../tests/data/vllm_memory_h100.jsonl"), 7)]
#[case::h200(include_str!("../../../tests/data/vllm_memory_h200.jsonl"), 11)]
fn estimates_are_within_a_tenth_of_what_vllm_takes(#[case] recorded: &str, #[case] rows: usize) {
    let measured: Vec<Measured> =
        recorded.lines().map(|line| serde_json::from_str(line).expect("a row of the record")).collect();
    assert_eq!(measured.len(), rows);
    for row in &measured {
        let estimated = row.estimated();
        let left = row.total_bytes * row.gpu_memory_utilization - estimated.fixed();
        let name = format!("{} {} {} {}", row.gpu, row.shape, row.precision, row.max_num_batched_tokens);
        assert!(off(estimated.weights / GIB, row.weights_gib) < 0.015, "{name}: {}", estimated.weights / GIB);
        assert!(off(left / GIB, row.kv_cache_gib) < 0.03, "{name}: {}", left / GIB);
        let taken = estimated.activations / GIB;
        assert!(off(taken, row.activations_gib) < 0.08, "{name}: {taken} of {}", row.activations_gib);
        if let Some(tokens) = row.kv_cache_tokens {
            assert!(off(estimated.kv_per_token, row.kv_cache_gib * GIB / tokens) < 0.001, "{name}");
        }
    }
}

#[test]
fn gpus_that_share_a_model_each_hold_a_part_of_what_compiling_it_takes() {
    let activations = |tensor| {
        let few = Layout { max_num_tokens: 2048, ..layout(Precision::Bf16, tensor) };
        unbuilt(&[]).estimate(&shape("llama-8b", 32), &few).activations / GIB
    };
    let embedding = 2.0 * 128_256.0 * 4096.0 / GIB;
    assert!(off(activations(1) - activations(2), embedding / 2.0) < 1e-9);
}
