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
    ..Shape::PLAIN
};

fn on(label: &str, precision: Precision) -> Asked {
    Asked {
        // Of TensorRT-LLM, and of a vLLM that does what it is told.
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
        most_batch_size: 16,
        max_num_tokens: 8192,
        has_calibration: false,
    }
}

fn unbuilt(backend: NoBuildBackend, checkpoint: Checkpoint) -> Unbuilt {
    Unbuilt {
        backend,
        checkpoint,
        chunked_prefill: true,
        memory_share: 0.9,
        features: Features::default(),
        extra: Vec::new(),
        host_memory: None,
    }
}

fn by(method: &str, precision: Precision) -> Checkpoint {
    Checkpoint::By { method: method.into(), precision }
}

fn messages(asked: &Asked, of: &Unbuilt) -> Vec<String> {
    check_no_build(asked, of).iter().map(ToString::to_string).collect()
}

#[rstest]
#[case(NoBuildBackend::VLLM, "NVIDIA-L40S", Precision::Bf16, Checkpoint::Plain)]
#[case::quantized_at_load(NoBuildBackend::VLLM, "NVIDIA-H100-80GB-HBM3", Precision::Fp8, Checkpoint::Plain)]
#[case::widened_by_marlin(NoBuildBackend::VLLM, "NVIDIA-A100-SXM4-80GB", Precision::Fp8, Checkpoint::Plain)]
#[case(NoBuildBackend::VLLM, "Tesla-T4", Precision::Int4Awq, Checkpoint::Quantized(Precision::Int4Awq))]
#[case::gpt_oss(NoBuildBackend::VLLM, "NVIDIA-L40S", Precision::Mxfp4, by("mxfp4", Precision::Mxfp4))]
#[case(NoBuildBackend::TensorRTLLMPyTorch, "NVIDIA-B200", Precision::Mxfp4, by("mxfp4", Precision::Mxfp4))]
#[case(NoBuildBackend::VLLM, "NVIDIA-L4", Precision::Int4WeightOnly, by("bitsandbytes", Precision::Int4WeightOnly))]
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
    NoBuildBackend::VLLM, "NVIDIA-H100-80GB-HBM3", Precision::Bf16, Checkpoint::Unknown("aqlm".into()),
    "model.uri: the checkpoint is quantized by \"aqlm\", whose memory and GPU requirements are unknown; use a checkpoint in FP8, \
     AWQ, GPTQ, compressed-tensors or ModelOpt's formats, or backend Custom"
)]
#[case::a_method_that_the_backend_does_not_read(
    NoBuildBackend::TensorRTLLMPyTorch,
    "NVIDIA-H100-80GB-HBM3",
    Precision::Int4WeightOnly,
    by("bitsandbytes", Precision::Int4WeightOnly),
    "model.uri: the checkpoint is quantized by bitsandbytes, whose files TensorRTLLMPyTorch does not read; use backend VLLM, or a \
     checkpoint in FP8, AWQ, GPTQ, compressed-tensors or ModelOpt's formats"
)]
#[case::the_gpu_lacks_it(
    NoBuildBackend::SGLang,
    "NVIDIA-A100-SXM4-80GB",
    Precision::Fp8,
    Checkpoint::Plain,
    "search.precision[0]: FP8 engines do not run on a100-sxm (SM80); it runs FP16, BF16"
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
    "search.precision[0]: FP16 engines do not run on v100-32g (SM70); it runs nothing of TensorRTLLMPyTorch"
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
    let of = Unbuilt { chunked_prefill: false, ..unbuilt(NoBuildBackend::SGLang, Checkpoint::Plain) };
    assert_eq!(
        messages(&asked, &of),
        [
            "search.kvCachePrecision[0]: SGLang has no KV cache in INT8; use Auto or FP8",
            "search.kvCachePrecision[1]: a KV cache of FP8 does not run on a100-sxm (SM80); FP8 needs SM89 or later, INT8 SM80 to SM90; \
             use Auto",
            "search.tensorParallel[0]: 32 attention heads, 8 KV heads and an MLP of 14336 do not split over 3 GPUs; possible: 1, 2, 4, 8",
            "search.pipelineParallel[0]: 32 layers do not split into 5 equal groups; use a divisor of 32",
            "engine.sglang.maxSeqLen: 200000 tokens are not within the model's 1 to 131072 positions; use 131072 or less",
            "search.maxNumTokens: without chunkedPrefill one iteration reads a whole prompt: 8192 tokens are fewer than maxSeqLen \
             200000; use 200000 or more, or chunkedPrefill",
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
            "search.precision[0]: BF16 needs 18.6 GiB on each GPU for weights (15.0), activations (1.1), runtime (1.5) and one sequence \
             (1.0), and engine.vllm.gpuMemoryUtilization leaves it 11.2; search.tensorParallel 2 fits"
        ]
    );
    let alone = Asked { gpus_per_node: 1, gpu: by_label("Tesla-T4").unwrap(), ..on("Tesla-T4", Precision::Fp16) };
    assert_eq!(
        messages(&alone, &unbuilt(NoBuildBackend::TensorRTLLMPyTorch, Checkpoint::Plain)),
        [
            "search.precision[0]: FP16 needs 18.4 GiB on each GPU for weights (15.0), activations (0.8), runtime (1.5) and one sequence \
             (1.0), and a GPU has 15.0; choose GPUs with more memory, a shorter maxSeqLen, or a checkpoint of fewer bits"
        ]
    );
}

#[rstest]
#[case(None, None, Checkpoint::Plain)]
#[case(Some("FP8"), None, Checkpoint::Quantized(Precision::Fp8))]
#[case(Some("FP8"), Some("modelopt"), by("modelopt", Precision::Fp8))]
#[case(Some("aqlm"), None, Checkpoint::Unknown("aqlm".into()))]
fn what_resolve_found_is_read(#[case] word: Option<&str>, #[case] method: Option<&str>, #[case] expected: Checkpoint) {
    assert_eq!(Checkpoint::of_word(word, method), expected);
}

#[test]
fn vllm_deals_out_layers_that_do_not_divide() {
    let asked = Asked { pipeline: vec![5, 33], ..on("NVIDIA-H100-80GB-HBM3", Precision::Bf16) };
    assert_eq!(
        messages(&asked, &unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain)),
        ["search.pipelineParallel[1]: 32 layers do not fill 33 groups; use 1 to 32"]
    );
}

#[rstest]
#[case("0.11.0", false, &[
    "engine.vllm.chunkedPrefill: vLLM 0.11.0 reads long prompts in pieces whatever it is told: remove chunkedPrefill, or use a \
     version from 0.12.0 on",
])]
#[case("0.13.0", false, &[
    "search.maxNumTokens: without chunkedPrefill one iteration reads a whole prompt: 4096 tokens are fewer than maxSeqLen 8192; \
     use 8192 or more, or chunkedPrefill",
])]
#[case("0.13.0", true, &[])]
fn pieces_are_a_choice_where_vllm_lets_one_choose(
    #[case] version: &str,
    #[case] chunked_prefill: bool,
    #[case] expected: &[&str],
) {
    let asked = Asked { version: version.into(), max_num_tokens: 4096, ..on("NVIDIA-H100-80GB-HBM3", Precision::Bf16) };
    let of = Unbuilt { chunked_prefill, ..unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain) };
    assert_eq!(messages(&asked, &of), expected);
}

#[test]
fn every_sequence_has_a_token_in_an_iteration_of_vllms() {
    let asked = Asked { most_batch_size: 256, max_num_tokens: 128, ..on("NVIDIA-H100-80GB-HBM3", Precision::Bf16) };
    assert_eq!(
        messages(&asked, &unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain)),
        [
            "search.maxNumTokens: 128 tokens of an iteration are fewer than the 256 sequences of search.maxBatchSize, each of which \
             adds one, and vLLM refuses that; use 256 or more, or smaller batches"
        ]
    );
}

#[test]
fn what_is_quantized_while_it_is_loaded_must_fit_before() {
    let asked = |version: &str| Asked {
        version: version.into(),
        max_seq_len: 2048,
        max_num_tokens: 2048,
        ..on("Tesla-T4", Precision::Fp8)
    };
    let vllm = unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain);
    assert_eq!(messages(&asked("0.14.0"), &vllm), Vec::<String>::new());
    // Marlin's kernel runs on Turing since 0.14, so that an A10 says it for earlier versions.
    let shape = Shape { layers: 64, ..LLAMA_8B };
    let a10 = Asked { shape, gpu: by_label("NVIDIA-A10").unwrap(), ..asked("0.11.0") };
    assert_eq!(
        messages(&a10, &vllm),
        [
            "search.precision[0]: FP8 is made while the model loads, whose weights in 16 bits take 29.5 GiB of each GPU before, \
             which has 22.5; use more GPUs, or a checkpoint in FP8"
        ]
    );
}

#[test]
fn a_mixture_that_does_not_fit_is_refused() {
    // Qwen/Qwen3-30B-A3B in 16 bits.
    let shape = Shape {
        layers: 48,
        kv_heads: 4,
        hidden: 2048,
        intermediate: 768,
        experts: 128,
        experts_per_token: 8,
        vocabulary: 151_936,
        max_positions: 40_960,
        ..LLAMA_8B
    };
    let message = messages(
        &Asked { shape, ..on("NVIDIA-L40S", Precision::Bf16) },
        &unbuilt(NoBuildBackend::VLLM, Checkpoint::Plain),
    );
    let [message] = &message[..] else { panic!("one refusal") };
    assert!(message.contains("weights (56.9)") && message.ends_with("search.tensorParallel 2 fits"), "{message}");
}
