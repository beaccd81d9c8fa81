//! Families of models, and what TensorRT-LLM's tools make of each. Pure.
//!
//! NVIDIA/TensorRT-LLM, examples/models/core (examples/ before 0.19):
//!
//! - llama/convert_checkpoint.py at 368f8f2; mixtral/README.md at 10c1d59, which names weight-only quantization, FP8
//!   and NVFP4, and AWQ of checkpoints that are quantized already;
//! - qwen/convert_checkpoint.py at 0df9aaf, qwen/README.md at 000a01d, "Support Matrix";
//! - phi/convert_checkpoint.py at 10c1d59, which asserts one pipeline stage, and phi/README.md at 2bf8c59: Phi-3 in FP8
//!   and INT8 SmoothQuant, split over GPUs in its small and MoE variants only;
//! - gemma/convert_checkpoint.py at 310decb, which knows no pipelines;
//! - nemotron/README.md at 5717e5e, which converts with gpt/convert_checkpoint.py at 7edbccc.

pub use slipway_vocabulary::serving::ModelFamily;

use super::version::Release;
use crate::formats::Precision;

/// Architectures of each family, as config.json names them.
const ARCHITECTURES: [(&str, ModelFamily); 9] = [
    ("LlamaForCausalLM", ModelFamily::Llama),
    ("MistralForCausalLM", ModelFamily::Llama),
    (MIXTRAL, ModelFamily::Llama),
    ("Qwen2ForCausalLM", ModelFamily::Qwen2),
    ("PhiForCausalLM", ModelFamily::Phi),
    ("Phi3ForCausalLM", ModelFamily::Phi3),
    ("GemmaForCausalLM", ModelFamily::Gemma),
    ("Gemma2ForCausalLM", ModelFamily::Gemma),
    ("NemotronForCausalLM", ModelFamily::Nemotron),
];

const MIXTRAL: &str = "MixtralForCausalLM";

/// The family of an architecture, if its checkpoints are converted.
#[must_use]
pub fn of(architecture: &str) -> Option<ModelFamily> {
    ARCHITECTURES.iter().find(|(known, _)| *known == architecture).map(|(_, family)| *family)
}

/// Every architecture that is converted, as an error lists them.
#[must_use]
pub fn architectures() -> String {
    ARCHITECTURES.map(|(known, _)| known).join(", ")
}

/// Precisions that the tools make of an architecture's checkpoint that is not quantized.
#[must_use]
pub fn precisions(family: ModelFamily, architecture: &str) -> &'static [Precision] {
    use Precision as P;
    const LLAMA: &[Precision] = &[
        P::Fp16,
        P::Bf16,
        P::Fp8,
        P::Int8WeightOnly,
        P::Int8SmoothQuant,
        P::Int4WeightOnly,
        P::Int4Awq,
        P::W4A8Awq,
        P::Nvfp4,
    ];
    match family {
        ModelFamily::Llama if architecture == MIXTRAL => {
            &[P::Fp16, P::Bf16, P::Fp8, P::Int8WeightOnly, P::Int4WeightOnly, P::Nvfp4]
        }
        ModelFamily::Llama => LLAMA,
        ModelFamily::Qwen2 => {
            &[P::Fp16, P::Bf16, P::Fp8, P::Int8WeightOnly, P::Int8SmoothQuant, P::Int4WeightOnly, P::Int4Awq]
        }
        ModelFamily::Phi => &[P::Fp16, P::Bf16, P::Int8WeightOnly, P::Int4WeightOnly],
        ModelFamily::Phi3 => &[P::Fp16, P::Bf16, P::Fp8, P::Int8WeightOnly, P::Int8SmoothQuant, P::Int4WeightOnly],
        ModelFamily::Gemma => &[P::Fp16, P::Bf16],
        ModelFamily::Nemotron => &[P::Fp16, P::Bf16, P::Fp8, P::Int4Awq],
    }
}

/// Whether the layers can be split into groups.
#[must_use]
pub const fn has_pipelines(family: ModelFamily) -> bool {
    match family {
        ModelFamily::Llama | ModelFamily::Qwen2 | ModelFamily::Nemotron => true,
        ModelFamily::Phi | ModelFamily::Phi3 | ModelFamily::Gemma => false,
    }
}

/// Whether a layer can be split over GPUs.
#[must_use]
pub const fn splits_layers(family: ModelFamily) -> bool {
    match family {
        ModelFamily::Llama | ModelFamily::Qwen2 | ModelFamily::Phi | ModelFamily::Gemma | ModelFamily::Nemotron => true,
        ModelFamily::Phi3 => false,
    }
}

/// Whether the script of the family quantizes by SmoothQuant, and KV caches to INT8; quantize.py does for the others.
#[must_use]
pub const fn converts_int8(family: ModelFamily) -> bool {
    match family {
        ModelFamily::Llama | ModelFamily::Qwen2 => true,
        ModelFamily::Phi | ModelFamily::Phi3 | ModelFamily::Gemma | ModelFamily::Nemotron => false,
    }
}

/// The folder of the family's script below the image's examples.
#[must_use]
pub fn folder(family: ModelFamily, release: &Release) -> String {
    let name = match family {
        ModelFamily::Llama => "llama",
        ModelFamily::Qwen2 => "qwen",
        ModelFamily::Phi | ModelFamily::Phi3 => "phi",
        ModelFamily::Gemma => "gemma",
        ModelFamily::Nemotron => "gpt",
    };
    if release.version.is_at_least(0, 19) { format!("models/core/{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;
    use crate::tensorrt_llm::version::find;

    #[rstest]
    #[case("Qwen2ForCausalLM", "0.18.2", "qwen")]
    #[case("Qwen2ForCausalLM", "1.0.0", "models/core/qwen")]
    #[case("Phi3ForCausalLM", "1.0.0", "models/core/phi")]
    #[case("NemotronForCausalLM", "1.0.0", "models/core/gpt")]
    #[case("MixtralForCausalLM", "0.16.0", "llama")]
    fn a_family_has_its_script(#[case] architecture: &str, #[case] version: &str, #[case] expected: &str) {
        assert_eq!(folder(of(architecture).unwrap(), &find(version).unwrap()), expected);
    }

    #[test]
    fn a_family_without_a_script_is_none() {
        assert_eq!(["Qwen3ForCausalLM", "Gemma3ForCausalLM", "DeepseekV3ForCausalLM"].map(of), [None; 3]);
    }
}
