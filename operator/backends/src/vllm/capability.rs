//! On which GPUs vLLM computes with which weights. Pure.
//!
//! Sources are vllm-project/vllm, vllm/model_executor/layers/quantization: `get_min_capability` of each method.
//!
//! - FP8 (fp8.py at 0071b24: 80): below SM89 its weights are widened by Marlin's kernel. That runs on SM75 since 0.14
//!   (pull request 29901). Model Optimizer's FP8 needed SM89, and 80 since 0.28 (pull request 56660).
//! - NVFP4: Marlin's kernel since 0.9 (pull request 18312), on SM75 since 0.24 (pull request 45375).
//! - MXFP4 (mxfp4.py): SM90, and 80 by Marlin's kernel since 0.11.
//! - bitsandbytes 70, torchao 75, quark by what its weights are.
//! - Wheels and images of CUDA 13 leave out Volta: since 0.20 (pull request 39878). NVIDIA's Triton images never
//!   carried it with a version that is served here.
//!
//! Blackwell is not in the documentation's table: formats that compute in 16 bits are taken to run there, INT8
//! activations are not.

use crate::check::Checkpoint;
use crate::formats::Precision;
use crate::no_build::{Weights, numbers};

/// Methods with files of their own that vLLM reads.
pub const METHODS: &[&str] = &["bitsandbytes", "quark", "torchao"];

/// Behind Triton, in NVIDIA's images.
pub fn behind_triton(weights: &Weights<'_>) -> bool {
    weights.sm >= least(weights, 75)
}

/// With vLLM's own server.
pub fn own_server(weights: &Weights<'_>) -> bool {
    weights.sm >= least(weights, if since(weights, [0, 20, 0]) { 75 } else { 70 })
}

fn since(weights: &Weights<'_>, version: [u16; 3]) -> bool {
    numbers(weights.version).is_some_and(|numbers| numbers >= version)
}

fn is_int8_on_blackwell(weights: &Weights<'_>) -> bool {
    weights.precision == Precision::Int8SmoothQuant && weights.sm > 90
}

/// The least architecture, where `any` is the least that the build runs on.
fn least(weights: &Weights<'_>, any: u32) -> u32 {
    /// Beyond every architecture.
    const NONE: u32 = u32::MAX;
    let marlin = || if since(weights, [0, 14, 0]) { 75 } else { 80 };
    match weights.precision {
        Precision::Fp16 => any,
        Precision::Bf16 => 80,
        Precision::Fp8 => match weights.checkpoint {
            Checkpoint::By { method, .. } if method == "modelopt" => model_optimizer_fp8(weights),
            // A model that an earlier release resolved: nobody knows who quantized it.
            Checkpoint::Quantized(_) => model_optimizer_fp8(weights),
            Checkpoint::Plain | Checkpoint::By { .. } | Checkpoint::Unknown(_) => marlin(),
        },
        Precision::Nvfp4 if since(weights, [0, 24, 0]) => 75,
        Precision::Nvfp4 if since(weights, [0, 9, 0]) => 80,
        Precision::Nvfp4 => 100,
        Precision::Mxfp4 if since(weights, [0, 11, 0]) => 80,
        Precision::Mxfp4 if since(weights, [0, 10, 1]) => 90,
        Precision::Mxfp4 => NONE,
        Precision::Int4Awq | Precision::Int4WeightOnly | Precision::Int8WeightOnly
            if weights.checkpoint.own_layout() == Some("bitsandbytes") =>
        {
            any
        }
        Precision::Int4Awq | Precision::Int4WeightOnly | Precision::Int8WeightOnly => 75,
        Precision::Int8SmoothQuant if is_int8_on_blackwell(weights) => NONE,
        Precision::Int8SmoothQuant => 75,
        Precision::W4A8Awq => NONE,
    }
}

fn model_optimizer_fp8(weights: &Weights<'_>) -> u32 {
    if since(weights, [0, 28, 0]) { 80 } else { 89 }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn by(method: &str, precision: Precision) -> Checkpoint {
        Checkpoint::By { method: method.into(), precision }
    }

    /// The least architecture of NVIDIA's that runs it, by vLLM's own server.
    fn first(version: &str, precision: Precision, checkpoint: &Checkpoint) -> Option<u32> {
        let all = [70, 75, 80, 86, 89, 90, 100, 103, 120, 121];
        all.into_iter().find(|sm| own_server(&Weights { precision, checkpoint, version, sm: *sm }))
    }

    #[rstest]
    #[case::marlin_widens("0.11.0", Precision::Fp8, Checkpoint::Plain, Some(80))]
    #[case::marlin_on_turing("0.14.0", Precision::Fp8, by("fp8", Precision::Fp8), Some(75))]
    #[case::model_optimizer("0.14.0", Precision::Fp8, by("modelopt", Precision::Fp8), Some(89))]
    #[case("0.28.1", Precision::Fp8, by("modelopt", Precision::Fp8), Some(80))]
    #[case::nobody_knows_who("0.14.0", Precision::Fp8, Checkpoint::Quantized(Precision::Fp8), Some(89))]
    #[case("0.8.5", Precision::Nvfp4, by("modelopt", Precision::Nvfp4), Some(100))]
    #[case("0.11.0", Precision::Nvfp4, by("modelopt", Precision::Nvfp4), Some(80))]
    #[case("0.25.0", Precision::Nvfp4, by("modelopt", Precision::Nvfp4), Some(75))]
    #[case::before_gpt_oss("0.10.0", Precision::Mxfp4, by("mxfp4", Precision::Mxfp4), None)]
    #[case("0.10.2", Precision::Mxfp4, by("mxfp4", Precision::Mxfp4), Some(90))]
    #[case("0.11.0", Precision::Mxfp4, by("mxfp4", Precision::Mxfp4), Some(80))]
    #[case("0.11.0", Precision::Int4WeightOnly, by("bitsandbytes", Precision::Int4WeightOnly), Some(70))]
    #[case("0.11.0", Precision::Int4WeightOnly, by("gptq", Precision::Int4WeightOnly), Some(75))]
    #[case("0.19.0", Precision::Fp16, Checkpoint::Plain, Some(70))]
    #[case::without_volta("0.25.0", Precision::Fp16, Checkpoint::Plain, Some(75))]
    #[case("0.11.0", Precision::W4A8Awq, by("modelopt", Precision::W4A8Awq), None)]
    fn the_first_architecture_is_that_of_upstreams_method(
        #[case] version: &str,
        #[case] precision: Precision,
        #[case] checkpoint: Checkpoint,
        #[case] sm: Option<u32>,
    ) {
        assert_eq!(first(version, precision, &checkpoint), sm);
    }

    #[test]
    fn int8_activations_end_with_hopper_and_volta_with_nvidias_images() {
        let smooth = |sm| {
            let checkpoint = &Checkpoint::Quantized(Precision::Int8SmoothQuant);
            own_server(&Weights { precision: Precision::Int8SmoothQuant, checkpoint, version: "0.11.0", sm })
        };
        assert_eq!([75, 90, 100].map(smooth), [true, true, false]);
        let plain = |sm| {
            behind_triton(&Weights { precision: Precision::Fp16, checkpoint: &Checkpoint::Plain, version: "0.7.0", sm })
        };
        assert_eq!([70, 75].map(plain), [false, true]);
    }
}
