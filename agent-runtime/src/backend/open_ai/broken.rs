//! Answers that break off before they begin. IO.
//!
//! TensorRT-LLM's server sends the head of a stream before its engine has taken the request. What the engine refuses
//! then, such as a prompt beyond the context, closes the connection without a word (`completion_generator` and
//! `generator_wrapper`, tensorrt_llm/serve/openai_server.py of NVIDIA/TensorRT-LLM at 0005772). An answer as one is
//! refused in words.

use hyper::body::Bytes;

use super::{Answer, Inner, OpenAiServer};
use crate::backend::{BackendError, Generation};

impl OpenAiServer {
    /// Whether a stream may break off where an answer as one is refused.
    pub(super) fn breaks_off(self) -> bool {
        match self {
            Self::TrtLlm => true,
            Self::Vllm | Self::SgLang | Self::Completions | Self::Chat => false,
        }
    }
}

impl Inner {
    /// The next part of an answer. `unanswered` is what was asked, until the answer has begun.
    pub(super) async fn next(
        &self,
        answer: &mut Answer,
        unanswered: &mut Option<Generation>,
    ) -> Result<Option<Bytes>, BackendError> {
        match (answer.chunk().await, unanswered.take()) {
            (Ok(bytes), _) => Ok(bytes),
            (Err(source), None) => Err(self.unreachable(source)),
            (Err(source), Some(generation)) => {
                Err(self.why(generation).await.unwrap_or_else(|| self.unreachable(source)))
            }
        }
    }

    /// Why the engine takes no such request; nothing where it takes the like.
    async fn why(&self, generation: Generation) -> Option<BackendError> {
        let asked = Generation { wants_whole: true, max_tokens: 1, ..generation };
        self.ask(asked).await.err().filter(|error| matches!(error, BackendError::Engine { .. }))
    }
}
