//! The backends of `init`: which of the API's, in which version, in which words. Pure.

use clap::ValueEnum;
use slipway_backends::{no_build, tensorrt_llm::version};
use slipway_crds::v1alpha1::agent_deployment::{Backend, NoBuildBackend};

/// vLLM's version where none is named: the one that has run on a GPU.
const VLLM: &str = "0.25.0";
/// SGLang's version where none is named.
const SGLANG: &str = "0.5.9";

/// Backends, by their names in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InitBackend {
    /// vLLM with its own server; nothing is built.
    #[value(name = "VLLM")]
    Vllm,
    /// SGLang with its own server; nothing is built.
    #[value(name = "SGLang")]
    Sglang,
    /// TensorRT-LLM's tools build engines, and Triton serves them.
    #[value(name = "TensorRTLLM")]
    TensorRtLlm,
    /// TensorRT-LLM's PyTorch flow behind Triton; nothing is built.
    #[value(name = "TensorRTLLMPyTorch")]
    TensorRtLlmPyTorch,
    /// Your own container writes a Triton model repository.
    #[value(name = "Custom")]
    Custom,
}

impl InitBackend {
    /// The backend of the API.
    pub const fn backend(self) -> Backend {
        match self {
            Self::Vllm => Backend::VLLM,
            Self::Sglang => Backend::SGLang,
            Self::TensorRtLlm => Backend::TensorRTLLM,
            Self::TensorRtLlmPyTorch => Backend::TensorRTLLMPyTorch,
            Self::Custom => Backend::Custom,
        }
    }

    /// The backend without a build; none where engines are built.
    pub const fn no_build(self) -> Option<NoBuildBackend> {
        match self {
            Self::Vllm => Some(NoBuildBackend::VLLMOpenAI),
            Self::Sglang => Some(NoBuildBackend::SGLang),
            Self::TensorRtLlmPyTorch => Some(NoBuildBackend::TensorRTLLMPyTorch),
            Self::TensorRtLlm | Self::Custom => None,
        }
    }

    /// A version that this release knows.
    pub fn version(self) -> String {
        let newest = || version::RELEASES.last().map(|release| release.version.to_string());
        match self {
            Self::Vllm => VLLM.to_owned(),
            Self::Sglang => SGLANG.to_owned(),
            Self::TensorRtLlm => newest().unwrap_or_default(),
            Self::TensorRtLlmPyTorch => {
                let releases = &no_build::of(NoBuildBackend::TensorRTLLMPyTorch).releases;
                (releases.carried)().pop().unwrap_or_else(|| releases.example.to_owned())
            }
            Self::Custom => String::new(),
        }
    }

    /// What it does, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM's own server serves the checkpoint as it is.",
            Self::Sglang => "SGLang's own server serves the checkpoint as it is.",
            Self::TensorRtLlm => "TensorRT-LLM's tools build engines on the GPU, and Triton serves them.",
            Self::TensorRtLlmPyTorch => "TensorRT-LLM's PyTorch flow serves the checkpoint as it is.",
            Self::Custom => "Your builder writes a Triton model repository for each precision.",
        }
    }

    /// The name of its block.
    pub fn block(self) -> &'static str {
        let path = self.backend().block();
        path.rsplit('.').next().unwrap_or(path)
    }
}
