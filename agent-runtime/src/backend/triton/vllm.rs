//! The entry of Triton's vLLM backend. Pure.
//!
//! Its tensors have no batch dimension. In: `text_input`, `stream`, `exclude_input_in_output`, `sampling_parameters`
//! (JSON of vLLM's `SamplingParams`), and one switch for each further output. Out: `text_output` (the new piece),
//! `num_output_tokens` (those of this piece) and `finish_reason`, which is Python's `None` until the end
//! (<https://github.com/triton-inference-server/vllm_backend/blob/r25.01/docs/additional_outputs.md>).

use serde_json::json;

use super::{
    END_TIMEOUT, Read,
    tensor::{on, protocol, read_integers, read_text, texts},
};
use crate::backend::{
    BackendError, FinishReason, Generation, Piece,
    inference::{ModelInferRequest, ModelInferResponse},
    sampling,
};

/// Counts the tokens of one generation.
#[derive(Default)]
pub struct Reader {
    output_tokens: u32,
}

/// The request of a generation.
pub fn request(model: &str, generation: Generation) -> ModelInferRequest {
    let is_rendered = generation.wants_special_tokens();
    let generation = generation.without_begin();
    let Generation { id, prompt, max_tokens, stop_words, form: _, sampling: chosen, ignores_end, .. } = generation;
    // vLLM samples at temperature 1 unless told otherwise; the other entries take the likeliest token.
    let mut sampling = json!({"max_tokens": max_tokens});
    sampling::write(chosen, &mut sampling);
    if is_rendered {
        sampling["skip_special_tokens"] = json!(false);
    }
    if !stop_words.is_empty() {
        sampling["stop"] = json!(stop_words);
    }
    if ignores_end {
        sampling["ignore_eos"] = json!(true);
    }
    let inputs = vec![
        texts("text_input", vec![prompt]),
        on("stream", &[1]),
        on("exclude_input_in_output", &[1]),
        texts("sampling_parameters", vec![sampling.to_string()]),
        on("return_finish_reason", &[1]),
        on("return_num_output_tokens", &[1]),
    ];
    ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs }
}

impl Reader {
    /// Reads one response.
    pub fn read(&mut self, response: &ModelInferResponse) -> Result<Read, BackendError> {
        let text = read_text(response, "text_output")?;
        let [new] = read_integers(response, "num_output_tokens")?[..] else {
            return Err(protocol("output \"num_output_tokens\" is not one UINT32".to_owned()));
        };
        self.output_tokens = self.output_tokens.saturating_add(new.cast_unsigned());
        let finish = finish_reason(&read_text(response, "finish_reason")?)?;
        let piece = Piece { text, output_tokens: self.output_tokens, finish, ..Piece::default() };
        Ok(if finish.is_some() { Read::Last(piece, END_TIMEOUT) } else { Read::More(piece) })
    }
}

/// Python's name of a reason, as both entries of text give it that have no build.
pub fn finish_reason(name: &str) -> Result<Option<FinishReason>, BackendError> {
    match name {
        "" | "None" => Ok(None),
        "stop" => Ok(Some(FinishReason::Stop)),
        "length" => Ok(Some(FinishReason::Length)),
        other => Err(protocol(format!("finish_reason is {other:?}; expected \"None\", \"stop\" or \"length\""))),
    }
}
