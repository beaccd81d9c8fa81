//! Published sizes, and what must hold for every shape.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

/// meta-llama/Llama-3.1-8B-Instruct.
fn llama_8b() -> Shape {
    Shape {
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_size: 128,
        hidden: 4096,
        intermediate: 14336,
        experts: 1,
        experts_per_token: 1,
        vocabulary: 128_256,
        is_tied: false,
        max_positions: 131_072,
    }
}

/// meta-llama/Llama-2-70b-hf.
fn llama_70b() -> Shape {
    Shape { layers: 80, heads: 64, hidden: 8192, intermediate: 28672, vocabulary: 32000, ..llama_8b() }
}

/// mistralai/Mixtral-8x7B-v0.1.
fn mixtral() -> Shape {
    Shape { experts: 8, experts_per_token: 2, vocabulary: 32000, ..llama_8b() }
}

fn layout(precision: Precision, tensor: u32) -> Layout {
    Layout {
        precision,
        kv_cache: KvCachePrecision::Auto,
        parallelism: Parallelism { tensor, pipeline: 1 },
        max_batch_size: 8,
        max_num_tokens: 8192,
        max_seq_len: 8192,
    }
}

#[rstest]
#[case(llama_8b(), 8.03e9)]
#[case(llama_70b(), 68.98e9)]
#[case(mixtral(), 46.7e9)]
fn parameters_are_those_that_the_models_are_named_for(#[case] shape: Shape, #[case] published: f64) {
    let ratio = parameters(&shape) / published;
    assert!((ratio - 1.0).abs() < 0.002, "{ratio}");
}

#[test]
fn the_kv_cache_is_that_of_upstreams_readme() {
    // "32K tokens * 1 bytes * 80 layers * 2048 KV hidden dimension = 5GB per 32K tokens", over all GPUs.
    let fp8 = Layout { kv_cache: KvCachePrecision::Fp8, max_seq_len: 32768, ..layout(Precision::Fp16, 1) };
    assert_eq!(estimate(&llama_70b(), &fp8).kv_of_one_sequence, 32768.0 * 80.0 * 2048.0);
}

#[test]
fn the_checkpoint_of_the_lab_is_fifteen_gib() {
    let weights = estimate(&llama_8b(), &layout(Precision::Fp16, 1)).weights / GIB;
    assert!((14.9..15.1).contains(&weights), "{weights}");
}

#[test]
fn finer_splits_and_coarser_numbers_never_take_more() {
    for shape in [llama_8b(), llama_70b(), mixtral()] {
        for pair in [1, 2, 4, 8].windows(2) {
            let [wide, narrow] = [pair[0], pair[1]].map(|tensor| estimate(&shape, &layout(Precision::Fp16, tensor)));
            assert!(narrow.weights < wide.weights && narrow.kv_per_token <= wide.kv_per_token);
        }
        let weights = |precision| estimate(&shape, &layout(precision, 1)).weights;
        for pair in [Precision::Fp16, Precision::Fp8, Precision::Nvfp4, Precision::Int4Awq].windows(2) {
            assert!(weights(pair[1]) < weights(pair[0]));
        }
    }
}

#[test]
fn kv_heads_are_copied_where_there_are_fewer_than_gpus() {
    let [eight, sixteen] = [8, 16].map(|tensor| estimate(&llama_70b(), &layout(Precision::Fp16, tensor)).kv_per_token);
    assert_eq!(eight, sixteen);
}

#[test]
fn what_fits_is_counted_in_whole_sequences() {
    let sizes = estimate(&llama_8b(), &layout(Precision::Fp16, 1));
    assert_eq!(sizes.kv_of_one_sequence, GIB);
    // A kilobyte either side: the quotient of floats is not exact.
    assert_eq!(sizes.sequences(sizes.least() + 1e3), 1);
    assert_eq!(sizes.sequences(sizes.least() - 1e3), 0);
    assert_eq!(sizes.sequences(sizes.fixed() + 10.0 * GIB), 9);
}
