//! Limits on tokens that go beyond the context, which are lowered to what it leaves. IO.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Inner, READY_TIMEOUT, Taken};
use crate::backend::{BackendError, EngineFault, Generation, overflow};

/// Most bytes that are read of a prompt's tokens.
const TOKENS_BYTES: usize = 16 * 1024 * 1024;

/// A prompt's tokens, and how many the context holds: what vLLM's `/tokenize` answers.
#[derive(Deserialize)]
struct Tokenized {
    count: u32,
    max_model_len: u32,
}

impl Inner {
    /// Asks for a generation; where its tokens do not fit the context after the prompt, once more for as many as do.
    pub(super) async fn ask(&self, generation: Generation) -> Result<Taken, BackendError> {
        let asked = self.link.repeat(|| self.post(&generation)).await;
        let Err(BackendError::Engine { message, fault: EngineFault::ContextLength }) = &asked else { return asked };
        let Some(max_tokens) = self.room(&generation, message).await else { return asked };
        let generation = Generation { max_tokens, ..generation };
        self.link.repeat(|| self.post(&generation)).await
    }

    /// How many tokens the context leaves to an answer that was refused: counted by the server where it does, and
    /// otherwise in the numbers of its words. Nothing where none are left, or nobody says.
    async fn room(&self, generation: &Generation, refusal: &str) -> Option<u32> {
        let room = match self.count(generation).await {
            Some(Tokenized { count, max_model_len }) => {
                let sent = generation.tokens.as_ref();
                let count = sent.map_or(count, |tokens| u32::try_from(tokens.len()).unwrap_or(u32::MAX));
                max_model_len.saturating_sub(count).min(generation.max_tokens)
            }
            None => overflow::room(refusal).filter(|room| *room < generation.max_tokens)?,
        };
        (room > 0).then_some(room)
    }

    /// Counts a prompt's tokens; nothing where the server does not say. Asked only after a refusal, so that no run
    /// waits for it.
    async fn count(&self, generation: &Generation) -> Option<Tokenized> {
        if !self.server.counts_prompts() {
            return None;
        }
        let (request, _) = self.link.request(Method::POST, self.url("/tokenize")).await.ok()?;
        let mut question = json!({ "model": self.model, "prompt": generation.prompt });
        if generation.wants_special_tokens() {
            question["add_special_tokens"] = json!(false);
        }
        let request = request.timeout(READY_TIMEOUT).json(&question);
        let response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let answer = Answer::Far(response).body(TOKENS_BYTES).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }
}
