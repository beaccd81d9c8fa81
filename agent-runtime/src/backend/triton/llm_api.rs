//! The entry of TensorRT-LLM's `llmapi` model. Pure.
//!
//! Its tensors have no batch dimension. In: `text_input`, `streaming`, `sampling_param_*`, `return_finish_reason`. Out:
//! `text_output`, which is all text so far, and `finish_reason`, which is Python's `None` until the end
//! (<https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi/tensorrt_llm>).
//!
//! Stop words are not sent: the model hands them to the tokenizer as bytes, which take none. Text is cut here, and a
//! stream that is reset ends the generation at the engine. No output counts tokens; each response is one, because the
//! engine streams every step.

use super::{
    END_TIMEOUT, Read, STOP_TIMEOUT,
    tensor::{integers, on, protocol, read_text, texts},
    vllm::finish_reason,
};
use crate::backend::{
    BackendError, FinishReason, Generation, Piece,
    inference::{ModelInferRequest, ModelInferResponse},
    tokens::{Passed, StopWords},
};

/// Reads the responses of one generation.
pub struct Reader {
    text: String,
    stop_words: StopWords,
    max_tokens: u32,
    output_tokens: u32,
}

/// The request of a generation, and what reads its responses. Unless tokens are drawn, the likeliest is asked for.
pub fn begin(model: &str, generation: Generation, draws: bool) -> (ModelInferRequest, Reader) {
    // How tokens are drawn is added for the inputs that the model has.
    let Generation { id, prompt, max_tokens, stop_words, form: _, sampling: _, .. } = generation.without_begin();
    let limit = i32::try_from(max_tokens).unwrap_or(i32::MAX);
    let mut inputs = vec![
        texts("text_input", vec![prompt]),
        on("streaming", &[1]),
        integers("sampling_param_max_tokens", &[1], vec![limit]),
    ];
    if !draws {
        // As the other entries do unasked.
        inputs.push(integers("sampling_param_top_k", &[1], vec![1]));
    }
    inputs.extend([on("sampling_param_exclude_input_from_output", &[1]), on("return_finish_reason", &[1])]);
    let request = ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs };
    let stop_words = StopWords::new(stop_words);
    (request, Reader { text: String::new(), stop_words, max_tokens, output_tokens: 0 })
}

impl Reader {
    /// Reads one response.
    pub fn read(&mut self, response: &ModelInferResponse) -> Result<Read, BackendError> {
        let new = self.new_text(read_text(response, "text_output")?)?;
        self.output_tokens = self.output_tokens.saturating_add(1).min(self.max_tokens);
        let finish = finish_reason(&read_text(response, "finish_reason")?)?;
        let text = match self.stop_words.push(&new) {
            Passed::Stopped(text) => {
                let piece = self.piece(text, Some(FinishReason::Stop));
                let patience = if finish.is_some() { END_TIMEOUT } else { STOP_TIMEOUT };
                return Ok(Read::Last(piece, patience));
            }
            Passed::Text(text) => text,
        };
        Ok(match finish {
            None => Read::More(self.piece(text, None)),
            Some(_) => {
                let text = text + &self.stop_words.rest();
                Read::Last(self.piece(text, finish), END_TIMEOUT)
            }
        })
    }

    /// What the engine's text has beyond that of the response before.
    fn new_text(&mut self, all: String) -> Result<String, BackendError> {
        let Some(new) = all.strip_prefix(self.text.as_str()) else {
            return Err(protocol("text_output does not begin with the text of the response before".to_owned()));
        };
        let new = new.to_owned();
        self.text = all;
        Ok(new)
    }

    fn piece(&self, text: String, finish: Option<FinishReason>) -> Piece {
        Piece { text, output_tokens: self.output_tokens, finish, ..Piece::default() }
    }
}
