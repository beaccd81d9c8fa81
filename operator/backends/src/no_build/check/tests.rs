//! Each refusal is read as a person reads it.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;
use crate::gpu::by_label;
use crate::memory::Shape;

const LLAMA_8B: Shape = Shape {
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
};

fn on(label: &str, precision: Precision) -> Asked {
    Asked {
        version: "1.2.1".into(),
        // Nothing is converted: any will do.
        architecture: "Qwen3ForCausalLM".into(),
        shape: LLAMA_8B,
        gpu: by_label(label).unwrap(),
        gpu_memory_mib: None,
        gpus_per_node: 8,
        precisions: vec![precision],
        kv_caches: vec![KvCachePrecision::Auto],
        tensor: vec![1],
        pipeline: vec![1],
        max_seq_len: 8192,
        max_batch_size: 16,
        max_num_tokens: 8192,
        has_calibration: false,
    }
}

fn unbuilt(backend: NoBuildBackend, checkpoint: Checkpoint) -> Unbuilt {
    Unbuilt { backend, checkpoint, chunked_prefill: true, memory_share: 0.9 }
}

fn messages(asked: &Asked, of: &Unbuilt) -> Vec<String> {
    check_no_build(asked, of).iter().map(ToString::to_string).collect()
}

#[rstest]
#[case(NoBuildBackend::VLLM, "NVIDIA-L40S", Precision::Bf16, Checkpoint::Plain)]
#[case::quantized_at_load(NoBuildBackend::VLLM, "NVIDIA-H100-80GB-HBM3", Precision::Fp8, Checkpoint::Plain)]
#[case(NoBuildBackend::VLLM, "Tesla-T4", Precision::Int4Awq, Checkpoint::Quantized(Precision::Int4Awq))]
#[case(NoBuildBackend::TensorRTLLMPyTorch, "NVIDIA-A100-SXM4-80GB", Precision::Fp16, Checkpoint::Plain)]
#[case(NoBuildBackend::TensorRTLLMPyTorch, "NVIDIA-B200", Precision::Nvfp4, Checkpoint::Quantized(Precision::Nvfp4))]
fn what_is_served_is_admitted(
    #[case] backend: NoBuildBackend,
    #[case] label: &str,
    #[case] precision: Precision,
    #[case] checkpoint: Checkpoint,
) {
    let asked = Asked { max_seq_len: 4096, ..on(label, precision) };
    assert_eq!(messages(&asked, &unbuilt(backend, checkpoint)), Vec::<String>::new());
}

#[rstest]
#[case::the_checkpoint_has_another_format(
    NoBuildBackend::VLLM,
    "NVIDIA-H100-80GB-HBM3",
    Precision::Bf16,
    Checkpoint::Quantized(Precision::Fp8),
    "search.precision[0]: the checkpoint is quantized as FP8, and VLLM does not requantize it; use FP8 alone, or a \
     checkpoint that is not quantized"
)]
#[case::nothing_quantizes(
    NoBuildBackend::TensorRTLLMPyTorch,
    "NVIDIA-H100-80GB-HBM3",
    Precision::Fp8,
    Checkpoint::Plain,
    "search.precision[0]: TensorRTLLMPyTorch does not quantize, and the checkpoint is not in FP8; use FP16 or BF16, or a checkpoint in FP8"
)]
#[case::a_method_without_a_name(
    NoBuildBackend::VLLM, "NVIDIA-H100-80GB-HBM3", Precision::Bf16, Checkpoint::Unknown("bitsandbytes".into()),
    "model.uri: the checkpoint is quantized by \"bitsandbytes\", whose memory and GPU requirements are unknown; use a \
     checkpoint in FP8, AWQ, GPTQ, compressed-tensors or ModelOpt's formats, or backend Custom"
)]
#[case::the_gpu_lacks_it(
    NoBuildBackend::VLLM,
    "NVIDIA-A100-SXM4-80GB",
    Precision::Fp8,
    Checkpoint::Plain,
    "search.precision[0]: FP8 engines do not run on a100 (SM80); it runs FP16, BF16"
)]
#[case::the_flow_lacks_it(
    NoBuildBackend::TensorRTLLMPyTorch,
    "NVIDIA-L40S",
    Precision::Int8WeightOnly,
    Checkpoint::Quantized(Precision::Int8WeightOnly),
    "search.precision[0]: INT8WeightOnly engines do not run on l40s (SM89); it runs FP16, BF16, FP8, INT4WeightOnly, INT4AWQ, W4A8AWQ"
)]
#[case::the_gpu_lacks_all(
    NoBuildBackend::TensorRTLLMPyTorch,
    "Tesla-V100-SXM2-32GB",
    Precision::Fp16,
    Checkpoint::Plain,
    "search.precision[0]: FP16 engines do not run on v100 (SM70); it runs nothing of TensorRTLLMPyTorch"
)]
fn a_format_that_is_not_served_says_what_is(
    #[case] backend: NoBuildBackend,
    #[case] label: &str,
    #[case] precision: Precision,
    #[case] checkpoint: Checkpoint,
    #[case] message: &str,
) {
    assert_eq!(messages(&on(label, precision), &unbuilt(backend, checkpoint)), [message]);
}

#[test]
fn every_field_that_cannot_work_is_named_at_once() {
    let asked = Asked {
        kv_caches: vec![KvCachePrecision::Int8, KvCachePrecision::Fp8],
        tensor: vec![3],
        pipeline: vec![5],
        max_seq_len: 200_000,
        ..on("NVIDIA-A100-SXM4-80GB", Precision::Bf16)
    };
    let of = Unbuilt { chunked_prefill: false, ..unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain) };
    assert_eq!(
        messages(&asked, &of),
        [
            "search.kvCachePrecision[0]: VLLM has no KV cache in INT8; use Auto or FP8",
            "search.kvCachePrecision[1]: a KV cache of FP8 does not run on a100 (SM80); FP8 needs SM89 or later, INT8 SM80 to SM90; \
             use Auto",
            "search.tensorParallel[0]: 32 attention heads, 8 KV heads and an MLP of 14336 do not split over 3 GPUs; possible: 1, 2, 4, 8",
            "search.pipelineParallel[0]: 32 layers do not split into 5 equal groups; use a divisor of 32",
            "engine.vllm.maxSeqLen: 200000 tokens are not within the model's 1 to 131072 positions; use 131072 or less",
            "search.maxNumTokens: without chunkedPrefill one iteration reads a whole prompt: 8192 tokens are fewer than maxSeqLen 200000; use 200000 or more, or chunkedPrefill",
        ]
    );
}

#[test]
fn what_does_not_fit_names_the_room_and_what_would() {
    let asked = on("NVIDIA-A10G", Precision::Bf16);
    let vllm = Unbuilt { memory_share: 0.5, ..unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain) };
    assert_eq!(
        messages(&asked, &vllm),
        [
            "search.precision[0]: BF16 needs 18.1 GiB on each GPU for weights (15.0), activations (0.7), runtime (1.5) and one sequence \
             (1.0), and engine.vllm.gpuMemoryUtilization leaves it 12.0; search.tensorParallel 2 fits"
        ]
    );
    let alone = Asked { gpus_per_node: 1, gpu: by_label("Tesla-T4").unwrap(), ..on("Tesla-T4", Precision::Fp16) };
    assert_eq!(
        messages(&alone, &unbuilt(NoBuildBackend::TensorRTLLMPyTorch, Checkpoint::Plain)),
        [
            "search.precision[0]: FP16 needs 18.2 GiB on each GPU for weights (15.0), activations (0.7), runtime (1.5) and one sequence \
             (1.0), and a GPU has 16.0; choose GPUs with more memory, a shorter maxSeqLen, or a checkpoint of fewer bits"
        ]
    );
}

#[rstest]
#[case(None, Checkpoint::Plain)]
#[case(Some("FP8"), Checkpoint::Quantized(Precision::Fp8))]
#[case(Some("bitsandbytes"), Checkpoint::Unknown("bitsandbytes".into()))]
fn what_resolve_found_is_read(#[case] word: Option<&str>, #[case] expected: Checkpoint) {
    assert_eq!(Checkpoint::of_word(word), expected);
}
