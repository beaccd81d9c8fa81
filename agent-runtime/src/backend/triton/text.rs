//! The entry that takes text. Pure.
//!
//! Tensor names are those of the TensorRT-LLM ensemble, without a batch dimension: in `text_input`, `max_tokens`,
//! `stop_words`, `stream`; out `text_output` (the new piece), `output_tokens` (so far) and `finish_reason`.

use super::{
    END_TIMEOUT, Read,
    tensor::{integers, on, protocol, read_integers, read_text, texts},
};
use crate::backend::{
    BackendError, FinishReason, Generation, Piece,
    inference::{ModelInferRequest, ModelInferResponse},
};

/// The request of a generation.
pub fn request(model: &str, generation: Generation) -> ModelInferRequest {
    // How tokens are chosen is added for the inputs that the model has.
    let Generation { id, prompt, max_tokens, stop_words, form: _, sampling: _, .. } = generation.without_begin();
    let max_tokens = i32::try_from(max_tokens).unwrap_or(i32::MAX);
    let mut inputs =
        vec![texts("text_input", vec![prompt]), integers("max_tokens", &[1], vec![max_tokens]), on("stream", &[1])];
    if !stop_words.is_empty() {
        inputs.push(texts("stop_words", stop_words));
    }
    ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs }
}

/// Reads one response.
pub fn read(response: &ModelInferResponse) -> Result<Read, BackendError> {
    let text = read_text(response, "text_output")?;
    let output_tokens = read_count(response, "output_tokens")?;
    let finish = match read_text(response, "finish_reason")?.as_str() {
        "" => None,
        "stop" => Some(FinishReason::Stop),
        "length" => Some(FinishReason::Length),
        other => return Err(protocol(format!("finish_reason is {other:?}; expected \"\", \"stop\" or \"length\""))),
    };
    let is_last = finish.is_some();
    let piece = Piece { text, output_tokens, finish, ..Piece::default() };
    Ok(if is_last { Read::Last(piece, END_TIMEOUT) } else { Read::More(piece) })
}

fn read_count(response: &ModelInferResponse, name: &str) -> Result<u32, BackendError> {
    let [count] = read_integers(response, name)?[..] else {
        return Err(protocol(format!("output {name:?} is not one INT32")));
    };
    u32::try_from(count).map_err(|_| protocol(format!("output {name:?} is negative")))
}
