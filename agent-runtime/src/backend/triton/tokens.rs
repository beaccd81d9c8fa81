//! The entry that takes tokens: `tensorrt_llm`, the model of Triton's TensorRT-LLM backend. Pure.
//!
//! Its tensors have a batch dimension. Inputs are `input_ids`, `input_lengths`, `request_output_len`, `streaming`,
//! `end_id` and `stop_words_list`. Outputs are `output_ids` (only new tokens, because the repository's configuration
//! leaves the prompt out) and `sequence_length`
//! (<https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt>).
//! Its last response does not say why it is the last: the end of the stream, an end token or the limit on tokens does.

use std::sync::Arc;

use super::{
    END_TIMEOUT, Read, STOP_TIMEOUT,
    tensor::{integers, on, protocol, read_integers},
};
use crate::backend::{
    BackendError, FinishReason, Generation, Piece,
    inference::{ModelInferRequest, ModelInferResponse, model_infer_request::InferInputTensor},
    tokens::{Answer, DecodeError, Over, Part, SpecialTokens, Tokenizer},
};

/// Reads the responses of one generation.
pub struct Reader {
    prompt_tokens: u32,
    answer: Answer,
    /// Where the prompt came as tokens: those of the answer that no piece has yet.
    tokens: Option<Vec<u32>>,
}

/// The request of a generation, and what reads its responses.
pub fn begin(
    model: &str,
    generation: Generation,
    tokenizer: &Arc<Tokenizer>,
) -> Result<(ModelInferRequest, Reader), BackendError> {
    let special = if generation.wants_special_tokens() { SpecialTokens::Written } else { SpecialTokens::LeftOut };
    // How tokens are chosen is added for the inputs that the model has.
    let Generation { id, prompt, tokens, max_tokens, stop_words, form: _, sampling: _, .. } = generation;
    let gives_tokens = tokens.is_some();
    let prompt = match tokens {
        Some(tokens) => tokens,
        None => tokenizer.encode(&prompt, &[]).map_err(|error| BackendError::Tokens(Box::new(error)))?,
    };
    let inputs = inputs(&prompt, max_tokens, &stop_words, tokenizer);
    let request = ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs };
    let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    let answer = Answer::new(Arc::clone(tokenizer), special, stop_words, max_tokens);
    Ok((request, Reader { prompt_tokens, answer, tokens: gives_tokens.then(Vec::new) }))
}

fn inputs(prompt: &[u32], max_tokens: u32, stop_words: &[String], tokenizer: &Tokenizer) -> Vec<InferInputTensor> {
    let one = |name: &str, value: usize| integers(name, &[1, 1], vec![i32::try_from(value).unwrap_or(i32::MAX)]);
    let mut inputs = vec![
        integers("input_ids", &[1, prompt.len()], ids(prompt)),
        one("input_lengths", prompt.len()),
        one("request_output_len", usize::try_from(max_tokens).unwrap_or(usize::MAX)),
        on("streaming", &[1, 1]),
    ];
    let mut stops = tokenizer.stop_tokens(stop_words);
    if let Some((end, others)) = tokenizer.ends().split_first() {
        inputs.push(integers("end_id", &[1, 1], ids(&[*end])));
        // The engine knows one end.
        stops.extend(others);
    }
    if !stops.is_empty() {
        inputs.push(integers("stop_words_list", &[1, 2, stops.len()], word_list(&stops)));
    }
    inputs
}

/// Words of one token each: a row of all tokens, and a row of where each word ends in it.
fn word_list(tokens: &[u32]) -> Vec<i32> {
    ids(tokens).into_iter().chain((1..).take(tokens.len())).collect()
}

/// Tokens as the engine numbers them; vocabularies are far smaller than what fits.
fn ids(tokens: &[u32]) -> Vec<i32> {
    tokens.iter().map(|token| i32::try_from(*token).unwrap_or(i32::MAX)).collect()
}

impl Reader {
    /// Reads one response.
    pub fn read(&mut self, response: &ModelInferResponse) -> Result<Read, BackendError> {
        let tokens = read_tokens(response)?;
        let part = self.answer.push(&tokens).map_err(failed)?;
        if let Some(kept) = &mut self.tokens {
            let end = tokens.iter().position(|token| self.answer.is_end(*token));
            kept.extend(&tokens[..end.map_or(tokens.len(), |end| end + 1)]);
        }
        Ok(self.read_part(part))
    }

    /// The engine has ended the stream.
    pub fn end(&mut self) -> Result<Read, BackendError> {
        let part = self.answer.end().map_err(failed)?;
        Ok(self.read_part(part))
    }

    fn read_part(&mut self, part: Part) -> Read {
        let Part { text, output_tokens, over } = part;
        let tokens = self.tokens.as_mut().map(std::mem::take).unwrap_or_default();
        let prompt_tokens = Some(self.prompt_tokens);
        let piece = |finish| Piece { text, prompt_tokens, output_tokens, tokens, finish, ..Piece::default() };
        match over {
            None => Read::More(piece(None)),
            Some(Over::End) => Read::Last(piece(Some(FinishReason::Stop)), END_TIMEOUT),
            Some(Over::Length) => Read::Last(piece(Some(FinishReason::Length)), END_TIMEOUT),
            Some(Over::StopWord) => Read::Last(piece(Some(FinishReason::Stop)), STOP_TIMEOUT),
        }
    }
}

/// The tokens of the only beam, as far as it is filled.
fn read_tokens(response: &ModelInferResponse) -> Result<Vec<u32>, BackendError> {
    let length = read_integers(response, "sequence_length")?.first().copied().unwrap_or_default();
    let mut tokens = read_integers(response, "output_ids")?;
    tokens.truncate(usize::try_from(length).unwrap_or_default());
    let token = |id: &i32| u32::try_from(*id).map_err(|_| protocol(format!("output \"output_ids\" has a token {id}")));
    tokens.iter().map(token).collect()
}

fn failed(error: DecodeError) -> BackendError {
    BackendError::Tokens(Box::new(error))
}
