//! The backends of `init`: which of the API's, in which version, in which words. Pure.
//!
//! Those without a build come from the table of backends, so that a new one is here by itself.

use std::sync::LazyLock;

use clap::{ValueEnum, builder::PossibleValue};
use slipway_backends::{no_build, tensorrt_llm::version};
use slipway_crds::v1alpha1::agent_deployment::{Backend, backend_and_server};
use slipway_vocabulary::serving::NoBuildBackend;

/// What serves the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitBackend {
    /// A backend that serves the checkpoint as it is.
    NoBuild(NoBuildBackend),
    /// TensorRT-LLM's tools build engines, and Triton serves them.
    TensorRtLlm,
    /// Your own container writes a Triton model repository.
    Custom,
}

/// All, by name. Where one engine has two servers, it is the engine's own, for which no Triton is needed.
static ALL: LazyLock<Vec<InitBackend>> = LazyLock::new(|| {
    let has_own = |backend: NoBuildBackend| no_build::of(backend).own_server().is_some();
    let name = |backend: NoBuildBackend| no_build::of(backend).name;
    let all = NoBuildBackend::ALL;
    let preferred = move |one: &NoBuildBackend| {
        has_own(*one) || !all.iter().any(|other| name(*other) == name(*one) && has_own(*other))
    };
    let without_build = all.into_iter().filter(preferred).map(InitBackend::NoBuild);
    without_build.chain([InitBackend::TensorRtLlm, InitBackend::Custom]).collect()
});

impl ValueEnum for InitBackend {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.backend().as_str()))
    }
}

impl InitBackend {
    /// The backend of the API.
    pub const fn backend(self) -> Backend {
        match self {
            Self::NoBuild(backend) => backend_and_server(backend).0,
            Self::TensorRtLlm => Backend::TensorRTLLM,
            Self::Custom => Backend::Custom,
        }
    }

    /// The backend without a build; none where engines are built.
    pub const fn no_build(self) -> Option<NoBuildBackend> {
        match self {
            Self::NoBuild(backend) => Some(backend),
            Self::TensorRtLlm | Self::Custom => None,
        }
    }

    /// A version that this release knows; empty where there is none to know.
    pub fn version(self) -> String {
        match self {
            Self::NoBuild(backend) => no_build::default_version(backend),
            Self::TensorRtLlm => version::default().to_string(),
            Self::Custom => String::new(),
        }
    }

    /// What it does, in words.
    pub fn words(self) -> String {
        match self {
            Self::NoBuild(backend) => {
                let known = no_build::of(backend);
                let server = if known.own_server().is_some() { "'s own server" } else { "" };
                format!("{}{server} serves the checkpoint as it is.", known.product)
            }
            Self::TensorRtLlm => "TensorRT-LLM's tools build engines on the GPU, and Triton serves them.".to_owned(),
            Self::Custom => "Your builder writes a Triton model repository for each precision.".to_owned(),
        }
    }

    /// The name of its block.
    pub fn block(self) -> &'static str {
        let path = self.backend().block();
        path.rsplit('.').next().unwrap_or(path)
    }
}
