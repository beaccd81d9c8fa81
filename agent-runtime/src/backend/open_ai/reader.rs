//! The events of one completion. Pure.
//!
//! Each has one choice with the new text, or, at the end, none. Every one has the usage so far where the server knows
//! `continuous_usage_stats`; the last has it in any case, and `[DONE]` follows.

use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::refusal;
use crate::backend::{
    BackendError, FinishReason, Piece, TokenLogprob,
    tokens::{Passed, StopWords},
};

/// The data of the event after the last.
pub(super) const DONE: &str = "[DONE]";

/// Reads the events of one completion.
#[derive(Debug, Default)]
pub struct Reader {
    /// Stop words at which the text is cut here.
    stop_words: StopWords,
    /// Whether the engine may go on behind them.
    goes_on: bool,
    /// Whether likely tokens are left out that nobody asked for.
    hides_likely: bool,
    counts: Counts,
    /// Tokens that no piece has yet.
    tokens: Vec<u32>,
    /// Probabilities that no piece has yet.
    logprobs: Vec<TokenLogprob>,
    /// The piece with the reason of the end, until all tokens are counted.
    last: Option<Piece>,
}

/// A piece, and whether more follow.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// More follow.
    More(Piece),
    /// The last.
    Last(Piece),
    /// The last for us, of an engine that goes on.
    Cut(Piece),
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    text: String,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Option<Logprobs>,
    /// Only where they are asked for, and the server gives them.
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
}

/// Lists of one length: the tokens of an event.
#[derive(Deserialize)]
struct Logprobs {
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    token_logprobs: Vec<Option<Number>>,
    #[serde(default)]
    top_logprobs: Option<Vec<Option<Map<String, Value>>>>,
}

/// Tokens as far as the server has counted them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    prompt_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    output_tokens: u32,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptTokens>,
}

#[derive(Deserialize)]
struct PromptTokens {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

impl Reader {
    /// Reads a completion, and cuts it at these stop words.
    pub fn new(stop_words: StopWords) -> Self {
        Self { stop_words, ..Self::default() }
    }

    /// The same of an engine that may not see a stop word, and that names a likely token where none is wanted.
    pub fn of_engine_that_goes_on(stop_words: StopWords, hides_likely: bool) -> Self {
        Self { goes_on: true, hides_likely, ..Self::new(stop_words) }
    }

    /// Reads the data of one event.
    pub fn read(&mut self, data: &str) -> Result<Option<Read>, BackendError> {
        if data == DONE {
            return self.end().map(|piece| Some(Read::Last(piece)));
        }
        if let Some(described) = refusal::read(data) {
            return Err(described.in_answer());
        }
        let Chunk { choices, usage } = serde_json::from_str(data)
            .map_err(|error| BackendError::Protocol { problem: format!("an event is not a completion: {error}") })?;
        let choice = choices.into_iter().next();
        self.counts.read(usage, choice.is_some());
        let Some(Choice { text, finish_reason, logprobs, token_ids }) = choice else { return Ok(None) };
        self.tokens.extend(token_ids.into_iter().flatten());
        let shown = |token| if self.hides_likely { TokenLogprob { top: Vec::new(), ..token } } else { token };
        self.logprobs.extend(logprobs.into_iter().flat_map(Logprobs::of_tokens).map(shown));
        let finish = finish_reason.as_deref().map(finish_of).transpose()?;
        let text = match self.stop_words.push(&text) {
            Passed::Text(text) => text,
            Passed::Stopped(text) => {
                let piece = self.piece(text, Some(FinishReason::Stop));
                let goes_on = self.goes_on && finish.is_none();
                return Ok(Some(if goes_on { Read::Cut(piece) } else { Read::Last(piece) }));
            }
        };
        if finish.is_none() {
            return Ok(Some(Read::More(self.piece(text, finish))));
        }
        let rest = self.stop_words.rest();
        self.last = Some(self.piece(text + &rest, finish));
        Ok(None)
    }

    /// The answer has ended.
    pub fn end(&mut self) -> Result<Piece, BackendError> {
        let piece = self.last.take().ok_or(BackendError::EndedEarly)?;
        let Counts { prompt_tokens, cached_tokens, output_tokens } = self.counts;
        Ok(Piece { prompt_tokens, cached_tokens, output_tokens, ..piece })
    }

    fn piece(&mut self, text: String, finish: Option<FinishReason>) -> Piece {
        let (tokens, logprobs) = (std::mem::take(&mut self.tokens), std::mem::take(&mut self.logprobs));
        Piece { tokens, logprobs, ..self.counts.piece(text, finish) }
    }
}

impl Counts {
    /// Takes what an event says of them. A server that does not count sends an event for each step.
    pub(super) fn read(&mut self, usage: Option<Usage>, is_step: bool) {
        let Some(Usage { prompt_tokens, completion_tokens, prompt_tokens_details: details }) = usage else {
            self.output_tokens = self.output_tokens.saturating_add(u32::from(is_step));
            return;
        };
        self.prompt_tokens = prompt_tokens.or(self.prompt_tokens);
        self.cached_tokens = details.and_then(|details| details.cached_tokens).or(self.cached_tokens);
        self.output_tokens = completion_tokens.unwrap_or_else(|| self.output_tokens.saturating_add(u32::from(is_step)));
    }

    /// A piece with all tokens so far.
    pub(super) fn piece(self, text: String, finish: Option<FinishReason>) -> Piece {
        let Self { prompt_tokens, cached_tokens, output_tokens } = self;
        Piece { text, prompt_tokens, cached_tokens, output_tokens, finish, ..Piece::default() }
    }
}

impl Logprobs {
    /// Tokens of which the server knows no probability are left out.
    fn of_tokens(self) -> impl Iterator<Item = TokenLogprob> {
        let Self { tokens, token_logprobs, top_logprobs } = self;
        let tops = top_logprobs.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
        let each = tokens.into_iter().zip(token_logprobs).zip(tops);
        each.filter_map(|((token, logprob), top)| Some(TokenLogprob { token, logprob: logprob?, top: likeliest(top) }))
    }
}

/// The likeliest first.
fn likeliest(top: Option<Map<String, Value>>) -> Vec<(String, Number)> {
    let pairs = top.unwrap_or_default().into_iter().filter_map(|(token, logprob)| match logprob {
        Value::Number(logprob) => Some((token, logprob)),
        _ => None,
    });
    let mut pairs: Vec<_> = pairs.collect();
    let value = |number: &Number| number.as_f64().unwrap_or(f64::NEG_INFINITY);
    pairs.sort_by(|(_, one), (_, other)| value(other).total_cmp(&value(one)));
    pairs
}

/// Why an answer ended. Servers have several names for the end of a text.
pub(super) fn finish_of(name: &str) -> Result<FinishReason, BackendError> {
    match name {
        "stop" | "eos_token" | "stop_sequence" | "tool_calls" | "function_call" => Ok(FinishReason::Stop),
        "length" => Ok(FinishReason::Length),
        "content_filter" => Err(BackendError::engine("the server's filter of contents ended the answer".to_owned())),
        other => {
            let problem = format!("finish_reason is {other:?}; expected \"stop\" or \"length\"");
            Err(BackendError::Protocol { problem })
        }
    }
}
