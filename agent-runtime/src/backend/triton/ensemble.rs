//! The entries of TensorRT-LLM's own repository that take text: `ensemble` and `tensorrt_llm_bls`. Pure.
//!
//! Their tensors have a batch dimension. In: `text_input`, `max_tokens`, `stream` and `stop_words`. Out: `text_output`,
//! which is the new text, decoded by itself
//! (<https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/all_models/inflight_batcher_llm/ensemble/config.pbtxt>).
//!
//! No output says why the answer is over, and none counts tokens. The engine streams every step, so that each response
//! is a token, and the end of the stream at the limit is the limit. The engine ends at stop words by their tokens,
//! which it leaves in the text, and text may hold a word in other tokens: it is cut here.

use super::{
    END_TIMEOUT, Read,
    tensor::{integers, on, read_text, texts_of_batch},
};
use crate::backend::{
    BackendError, FinishReason, Generation, Piece,
    inference::{ModelInferRequest, ModelInferResponse},
    tokens::{Passed, StopWords},
};

/// Reads the responses of one generation.
pub struct Reader {
    stop_words: StopWords,
    max_tokens: u32,
    output_tokens: u32,
}

/// The request of a generation, and what reads its responses.
pub fn begin(model: &str, generation: Generation) -> (ModelInferRequest, Reader) {
    // How tokens are chosen is added for the inputs that the model has.
    let Generation { id, prompt, max_tokens, stop_words, form: _, sampling: _, .. } = generation.without_begin();
    let limit = i32::try_from(max_tokens).unwrap_or(i32::MAX);
    let mut inputs = vec![
        texts_of_batch("text_input", vec![prompt]),
        integers("max_tokens", &[1, 1], vec![limit]),
        on("stream", &[1, 1]),
    ];
    let words: Vec<String> = stop_words.iter().filter(|word| !word.is_empty()).cloned().collect();
    if !words.is_empty() {
        inputs.push(texts_of_batch("stop_words", words));
    }
    let request = ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs };
    (request, Reader { stop_words: StopWords::new(stop_words), max_tokens, output_tokens: 0 })
}

impl Reader {
    /// Reads one response.
    pub fn read(&mut self, response: &ModelInferResponse) -> Result<Read, BackendError> {
        let new = read_text(response, "text_output")?;
        self.output_tokens = self.output_tokens.saturating_add(1).min(self.max_tokens);
        Ok(match self.stop_words.push(&new) {
            // An engine that was told the words ends by itself, but for words in other tokens. A reset is the last
            // resort: under load it has cost BLS its process (Triton 2.51).
            Passed::Stopped(text) => Read::Last(self.piece(text, Some(FinishReason::Stop)), END_TIMEOUT),
            Passed::Text(text) => Read::More(self.piece(text, None)),
        })
    }

    /// The engine has ended the stream.
    pub fn end(&mut self) -> Read {
        let finish = if self.output_tokens < self.max_tokens { FinishReason::Stop } else { FinishReason::Length };
        let text = self.stop_words.rest();
        Read::Last(self.piece(text, Some(finish)), END_TIMEOUT)
    }

    fn piece(&self, text: String, finish: Option<FinishReason>) -> Piece {
        Piece { text, output_tokens: self.output_tokens, finish, ..Piece::default() }
    }
}
