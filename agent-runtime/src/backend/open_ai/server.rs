//! What differs between servers of OpenAI's API. Pure.

use super::OpenAiServer;
use crate::backend::BackendError;

impl OpenAiServer {
    pub(super) fn not_ready(self) -> BackendError {
        let what = match self {
            Self::Vllm => "vLLM's server",
            Self::SgLang => "SGLang's server",
            Self::TrtLlm => "TensorRT-LLM's server",
            Self::Completions | Self::Chat => "the upstream",
        };
        BackendError::NotReady { what: what.into() }
    }

    /// Where it generates.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Vllm | Self::SgLang | Self::TrtLlm | Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }

    /// Whether nothing is known of it but the API.
    pub(super) fn is_of_any_make(self) -> bool {
        match self {
            Self::Vllm | Self::SgLang | Self::TrtLlm => false,
            Self::Completions | Self::Chat => true,
        }
    }

    /// Whether it counts a prompt's tokens where it is asked to (`/tokenize`). TensorRT-LLM's lowers the limit on
    /// tokens by itself, and refuses no more than a prompt that does not fit.
    pub(super) fn counts_prompts(self) -> bool {
        match self {
            Self::Vllm | Self::SgLang => true,
            Self::TrtLlm | Self::Completions | Self::Chat => false,
        }
    }
}
