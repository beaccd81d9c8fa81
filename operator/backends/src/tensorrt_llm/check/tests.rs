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

const LLAMA_70B: Shape = Shape { layers: 80, heads: 64, hidden: 8192, intermediate: 28672, ..LLAMA_8B };

fn on(label: &str) -> Asked {
    Asked {
        version: "1.0.0".into(),
        architecture: "LlamaForCausalLM".into(),
        shape: LLAMA_8B,
        gpu: by_label(label).unwrap(),
        gpu_memory_mib: None,
        gpus_per_node: 8,
        precisions: vec![Precision::Bf16],
        kv_caches: vec![KvCachePrecision::Auto],
        tensor: vec![1],
        pipeline: vec![1],
        max_seq_len: 8192,
        max_batch_size: 16,
        most_batch_size: 16,
        max_num_tokens: 8192,
        has_calibration: true,
    }
}

fn plain() -> Built {
    Built { checkpoint: Checkpoint::Plain, gpus: None }
}

fn of(asked: &Asked, built: &Built) -> Vec<String> {
    check(asked, built).iter().map(ToString::to_string).collect()
}

fn messages(asked: &Asked) -> Vec<String> {
    of(asked, &plain())
}

fn by(method: &str, precision: Precision) -> Built {
    Built { checkpoint: Checkpoint::By { method: method.into(), precision }, gpus: None }
}

#[rstest]
#[case("0.16.0", "NVIDIA-H100-80GB-HBM3", Precision::Fp8)]
#[case("0.15.0", "NVIDIA-A100-SXM4-80GB", Precision::Int8WeightOnly)]
#[case("1.2.1", "NVIDIA-B200", Precision::Nvfp4)]
#[case("1.0.0", "NVIDIA-L40S", Precision::W4A8Awq)]
fn what_the_labs_do_is_admitted(#[case] version: &str, #[case] label: &str, #[case] precision: Precision) {
    let asked = Asked { version: version.into(), precisions: vec![precision], ..on(label) };
    assert_eq!(messages(&asked), Vec::<String>::new());
}

#[test]
fn a_precision_that_the_gpu_lacks_is_named_by_its_place_in_the_list() {
    let precisions = vec![Precision::Bf16, Precision::Fp8, Precision::Nvfp4];
    let asked = Asked { precisions, ..on("NVIDIA-A100-SXM4-80GB") };
    let others = "it runs FP16, BF16, INT8WeightOnly, INT8SmoothQuant, INT4WeightOnly, INT4AWQ";
    assert_eq!(
        messages(&asked),
        [
            format!("search.precision[1]: FP8 engines do not run on a100-sxm (SM80); {others}"),
            format!("search.precision[2]: NVFP4 engines do not run on a100-sxm (SM80); {others}"),
        ]
    );
}

#[rstest]
#[case(
    Asked { version: "1.3.0".into(), ..on("h100") },
    "engine.tensorRTLLM.version: 1.3.0 no longer builds engines (the tools were removed in 1.3); use 1.2.1 or earlier, or backend TensorRTLLMPyTorch or VLLM, which serve without a build"
)]
#[case(
    Asked { architecture: "Gemma3ForCausalLM".into(), ..on("h100") },
    "model.uri: checkpoints of Gemma3ForCausalLM cannot be converted, only those of LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, PhiForCausalLM, Phi3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, NemotronForCausalLM; use backend TensorRTLLMPyTorch or VLLM, which convert nothing, or Custom"
)]
#[case(
    Asked { kv_caches: vec![KvCachePrecision::Fp8], ..on("NVIDIA-A10G") },
    "search.kvCachePrecision[0]: a KV cache of FP8 does not run on a10g (SM86); FP8 needs SM89 or later, INT8 SM80 to SM90; use Auto"
)]
#[case(
    Asked { tensor: vec![1, 3], ..on("h100") },
    "search.tensorParallel[1]: 32 attention heads, 8 KV heads and an MLP of 14336 do not split over 3 GPUs; possible: 1, 2, 4, 8"
)]
#[case(
    Asked { tensor: vec![16], ..on("h100") },
    "search.tensorParallel[0]: 16 GPUs are more than the 8 of a node; use search.pipelineParallel or fewer"
)]
#[case(
    Asked { pipeline: vec![5], ..on("h100") },
    "search.pipelineParallel[0]: 32 layers do not split into 5 equal groups; use a divisor of 32"
)]
#[case(
    Asked { max_seq_len: 200_000, ..on("h100") },
    "engine.tensorRTLLM.maxSeqLen: 200000 tokens are not within the model's 1 to 131072 positions; use 131072 or less"
)]
#[case(
    Asked { precisions: vec![Precision::Fp8], has_calibration: false, ..on("h100") },
    "engine.tensorRTLLM.calibration: FP8 needs calibration texts: name a data set (upstream downloads its default, and Jobs have no egress)"
)]
#[case(
    Asked { precisions: vec![Precision::Nvfp4], version: "0.16.0".into(), ..on("b200") },
    "search.precision[0]: NVFP4 needs engine.tensorRTLLM.version 0.17.0 or later, not 0.16.0"
)]
#[case(
    Asked { precisions: vec![Precision::Nvfp4], architecture: "MistralForCausalLM".into(), ..on("b200") },
    "search.precision[0]: NVFP4 engines exist for Llama and Mixtral, not for MistralForCausalLM; use FP8"
)]
fn a_refusal_says_field_and_remedy(#[case] asked: Asked, #[case] message: &str) {
    assert_eq!(messages(&asked), [message]);
}

#[test]
fn what_does_not_fit_says_what_would() {
    let asked = Asked { shape: LLAMA_70B, ..on("NVIDIA-H100-80GB-HBM3") };
    let [message] = &messages(&asked)[..] else { panic!("one refusal") };
    assert!(message.starts_with("search.precision[0]: BF16 needs 13"), "{message}");
    assert!(message.ends_with("and a GPU has 79.6; search.tensorParallel 2 fits"), "{message}");
}

#[test]
fn a_remedy_that_is_followed_is_admitted() {
    for label in ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L40S"] {
        let asked = Asked { shape: LLAMA_70B, ..on(label) };
        let message = messages(&asked).concat();
        let tensor = message.rsplit("tensorParallel ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(messages(&Asked { tensor: vec![tensor], ..asked }), Vec::<String>::new(), "{label}");
    }
}

#[test]
fn the_memory_that_the_node_reports_counts_over_the_data_sheets() {
    let asked = Asked { gpu_memory_mib: Some(8192), gpus_per_node: 1, ..on("NVIDIA-L4") };
    let message = messages(&asked).concat();
    assert!(message.contains("and a GPU has 8.0; "), "{message}");
    assert!(message.contains("search.precision ") || message.contains("no precision of a l4 fits"), "{message}");
}

#[rstest]
#[case::qwen("Qwen2ForCausalLM", Precision::Fp8)]
#[case("Qwen2ForCausalLM", Precision::Int8SmoothQuant)]
#[case::phi("Phi3ForCausalLM", Precision::Fp8)]
#[case::nemotron("NemotronForCausalLM", Precision::Int4Awq)]
#[case::gemma("Gemma2ForCausalLM", Precision::Bf16)]
#[case::mixtral("MixtralForCausalLM", Precision::Int8WeightOnly)]
fn a_family_is_built_in_what_its_tools_make(#[case] architecture: &str, #[case] precision: Precision) {
    let asked = Asked { architecture: architecture.into(), precisions: vec![precision], ..on("h100") };
    assert_eq!(messages(&asked), Vec::<String>::new());
}

#[rstest]
#[case(
    Asked { architecture: "MixtralForCausalLM".into(), precisions: vec![Precision::Int8SmoothQuant], ..on("h100") },
    "search.precision[0]: TensorRT-LLM's tools make no INT8SmoothQuant of MixtralForCausalLM, only FP16, BF16, FP8, INT8WeightOnly, INT4WeightOnly, NVFP4; use one of these"
)]
#[case(
    Asked { architecture: "MixtralForCausalLM".into(), precisions: vec![Precision::Int4Awq], ..on("h100") },
    "search.precision[0]: TensorRT-LLM's tools make no INT4AWQ of MixtralForCausalLM, only FP16, BF16, FP8, INT8WeightOnly, INT4WeightOnly, NVFP4; use one of these"
)]
#[case(
    Asked { architecture: "Gemma2ForCausalLM".into(), pipeline: vec![1, 2], ..on("h100") },
    "search.pipelineParallel[1]: Gemma2ForCausalLM is not converted for pipelines; use 1, and search.tensorParallel for more GPUs"
)]
#[case(
    Asked { architecture: "Phi3ForCausalLM".into(), tensor: vec![2], ..on("h100") },
    "search.tensorParallel[0]: Phi3ForCausalLM is not converted for several GPUs a layer; use 1"
)]
fn what_a_familys_tools_lack_is_refused(#[case] asked: Asked, #[case] message: &str) {
    assert_eq!(messages(&asked), [message]);
}

#[rstest]
#[case::awq(by("awq", Precision::Int4Awq), Precision::Int4Awq)]
#[case::gptq(by("gptq", Precision::Int4WeightOnly), Precision::Int4WeightOnly)]
fn a_quantized_checkpoint_is_converted_as_what_it_is(#[case] built: Built, #[case] precision: Precision) {
    let asked = Asked { precisions: vec![precision], has_calibration: false, ..on("h100") };
    assert_eq!(of(&asked, &built), Vec::<String>::new());
}

#[rstest]
#[case::under_another_name(
    "1.0.0",
    by("awq", Precision::Int4Awq),
    "search.precision[0]: the checkpoint is quantized as INT4AWQ, and TensorRT-LLM's converter keeps that whatever is asked for; use INT4AWQ alone, or a checkpoint that is not quantized"
)]
#[case::before_the_script_that_was_read(
    "0.18.2",
    by("awq", Precision::Int4Awq),
    "model.uri: the checkpoint is quantized as INT4AWQ, and TensorRT-LLM converts only AWQ and GPTQ, from 0.19.0 on; use one of these, one that is not quantized, or backend TensorRTLLMPyTorch or VLLM"
)]
#[case::of_model_optimizer(
    "1.0.0",
    by("modelopt", Precision::Fp8),
    "model.uri: the checkpoint is quantized as FP8, and TensorRT-LLM converts only AWQ and GPTQ, from 0.19.0 on; use one of these, one that is not quantized, or backend TensorRTLLMPyTorch or VLLM"
)]
#[case::eight_bits_of_llama(
    "1.0.0",
    by("gptq", Precision::Int8WeightOnly),
    "model.uri: the checkpoint is quantized as INT8WeightOnly, and TensorRT-LLM converts only AWQ and GPTQ, from 0.19.0 on; use one of these, one that is not quantized, or backend TensorRTLLMPyTorch or VLLM"
)]
fn a_quantized_checkpoint_is_named_rightly(#[case] version: &str, #[case] built: Built, #[case] message: &str) {
    let asked = Asked { version: version.into(), precisions: vec![Precision::Fp16], ..on("h100") };
    assert_eq!(of(&asked, &built), [message]);
}

#[test]
fn calibration_needs_the_model_in_16_bits_beside_its_quantized_copy() {
    // "about 140GB [...] about 70GB [...] more than 210GB [...] So you need a node with at least 4 H100".
    let asked = Asked { shape: LLAMA_70B, precisions: vec![Precision::Fp8], tensor: vec![2], ..on("h100") };
    let with = |gpus| of(&asked, &Built { gpus: Some(gpus), ..plain() });
    assert_eq!(
        with(2),
        [
            "search.precision[0]: FP8 is made of the whole model on the build's GPUs: about 197 GiB for its weights and their quantized \
             copy, beside activations, and 2 GPUs have 159; set nvidia.com/gpu in serving.tritonResources to 4 or more"
        ]
    );
    assert_eq!(with(4), Vec::<String>::new());
    let alone = Asked { gpus_per_node: 2, ..asked };
    let message = of(&alone, &Built { gpus: Some(2), ..plain() }).concat();
    assert!(
        message.ends_with("; choose GPUs with more memory, or a checkpoint that is quantized already"),
        "{message}"
    );
}
