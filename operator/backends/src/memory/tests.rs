//! Published sizes, and what must hold for every shape.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

/// meta-llama/Llama-3.1-8B-Instruct.
pub fn llama_8b() -> Shape {
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
        ..Shape::PLAIN
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

/// Qwen/Qwen3-30B-A3B: config.json has `num_experts` and `moe_intermediate_size` (huggingface/transformers,
/// src/transformers/models/qwen3_moe/configuration_qwen3_moe.py).
fn qwen3_30b_a3b() -> Shape {
    Shape {
        layers: 48,
        heads: 32,
        kv_heads: 4,
        head_size: 128,
        hidden: 2048,
        intermediate: 768,
        experts: 128,
        experts_per_token: 8,
        vocabulary: 151_936,
        max_positions: 40_960,
        ..Shape::PLAIN
    }
}

/// deepseek-ai/DeepSeek-V3: config.json has `n_routed_experts`, `n_shared_experts`, `first_k_dense_replace` and
/// `kv_lora_rank` (huggingface/transformers, src/transformers/models/deepseek_v3/configuration_deepseek_v3.py).
fn deepseek_v3() -> Shape {
    Shape {
        layers: 61,
        heads: 128,
        kv_heads: 128,
        head_size: 56,
        hidden: 7168,
        intermediate: 2048,
        experts: 256,
        experts_per_token: 8,
        vocabulary: 129_280,
        max_positions: 163_840,
        dense_layers: 3,
        dense_intermediate: 18_432,
        shared_intermediate: 2048,
        latent: 576,
        ..Shape::PLAIN
    }
}

pub fn layout(precision: Precision, tensor: u32) -> Layout {
    Layout {
        precision,
        is_as_stored: false,
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
#[case(qwen3_30b_a3b(), 30.53e9)]
#[case(deepseek_v3(), 671.9e9)]
fn parameters_are_those_that_the_models_are_named_for(#[case] shape: Shape, #[case] published: f64) {
    let ratio = parameters(&shape) / published;
    assert!((ratio - 1.0).abs() < 0.002, "{ratio}");
}

#[rstest]
#[case::dense(llama_8b(), 8.03e9)]
#[case::three_billion_of_thirty(qwen3_30b_a3b(), 3.3e9)]
#[case::thirteen_of_forty_seven(mixtral(), 12.9e9)]
fn a_token_of_a_mixture_is_computed_by_the_experts_that_it_visits(#[case] shape: Shape, #[case] published: f64) {
    let ratio = active_parameters(&shape) / published;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
}

#[test]
fn counted_parameters_are_taken_for_those_of_the_shape() {
    assert_eq!(all_parameters(&Shape { parameters: 8_000, ..llama_8b() }), 8_000.0);
    assert_eq!(all_parameters(&llama_8b()), parameters(&llama_8b()));
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
    for shape in [llama_8b(), llama_70b(), mixtral(), qwen3_30b_a3b(), deepseek_v3()] {
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

#[test]
fn a_mixture_holds_all_its_experts() {
    let weights = |shape, precision| estimate(&shape, &layout(precision, 1)).weights / GIB;
    let qwen = weights(qwen3_30b_a3b(), Precision::Bf16);
    assert!((56.8..57.0).contains(&qwen), "{qwen}");
    let deepseek = weights(deepseek_v3(), Precision::Fp8);
    assert!((625.0..630.0).contains(&deepseek), "{deepseek}");
}

#[test]
fn latent_attention_keeps_one_vector_of_a_token_on_every_gpu() {
    // 61 layers of 576 numbers of 16 bits (DeepSeek-V3 technical report, section 4.2: latent 512 and rotary part 64).
    let kv = |tensor| estimate(&deepseek_v3(), &layout(Precision::Fp8, tensor)).kv_per_token;
    assert_eq!([kv(1), kv(8)], [61.0 * 576.0 * 2.0; 2]);
}

#[test]
fn layers_of_a_pipeline_are_the_heaviest_that_one_stage_can_have() {
    let weights = |pipeline| {
        let split = Parallelism { tensor: 1, pipeline };
        estimate(&deepseek_v3(), &Layout { parallelism: split, ..layout(Precision::Fp8, 1) }).weights
    };
    // 31 of 58 layers of experts: more than half of the whole, of which the three light layers are a part.
    assert!(weights(2) > weights(1) / 2.0 && weights(2) < weights(1) * 0.54);
}

#[test]
fn counted_weights_are_exact_whatever_the_shape_says() {
    // A text model of 8.03 billion parameters with an encoder of pictures of another billion.
    let counted = Shape { parameters: 9_030_000_000, stored_bytes: 18_060_000_000, ..llama_8b() };
    let all = |shape, is_as_stored| estimate(&shape, &Layout { is_as_stored, ..layout(Precision::Bf16, 1) }).weights;
    for is_as_stored in [false, true] {
        assert!((all(counted, is_as_stored) / 18.06e9 - 1.0).abs() < 1e-9);
    }
    // In four bits the linear layers shrink, the embeddings do not; a checkpoint in four bits has its own bytes.
    let made = estimate(&counted, &layout(Precision::Int4WeightOnly, 1)).weights;
    let embeddings = 2.0 * 128_256.0 * 4096.0;
    assert!((made / ((9.03e9 - embeddings) / 2.0 + 2.0 * embeddings) - 1.0).abs() < 1e-9);
    let stored = Shape { stored_bytes: 6_000_000_000, parameters: 0, ..llama_8b() };
    let as_stored = Layout { is_as_stored: true, ..layout(Precision::Int4Awq, 1) };
    assert!((estimate(&stored, &as_stored).weights / 6e9 - 1.0).abs() < 1e-9);
}
