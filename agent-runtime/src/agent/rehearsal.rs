//! An engine for runs that are made up. It generates as many tokens as a run asks for, and hands out the run's own next
//! turn in place of what was written. Pure but for the engine behind it.
//!
//! A made-up run says in its question what its turns are: `[[run 17: 120 80 60]]` has three model requests of so many
//! tokens. The first two end in a call of the tool [`TOOL`] with the arguments `17-1` and `17-2`, the third is the
//! answer. So tokens are really generated, and nothing depends on what a model says to texts without a meaning.

use std::sync::Arc;

use futures::{StreamExt, future::BoxFuture, stream::BoxStream};

pub use slipway_runtime_config::{REHEARSED_ARGUMENT as ARGUMENT, REHEARSED_TOOL as TOOL};

use super::grammar::{self, ToolCall};
use crate::backend::{Backend, BackendError, EngineLoad, FinishReason, Generation, Piece, SamplingFields};

/// What the answers of made-up runs say.
const ANSWER: &str = "done";
/// A word that is one token in nearly every vocabulary.
const WORD: &str = " so";
/// Tokens of a turn beside its thoughts, about.
const TOKENS_OF_A_CALL: u32 = 12;

/// An engine whose texts are replaced.
pub struct Rehearsal {
    engine: Arc<dyn Backend>,
}

impl Rehearsal {
    /// Replaces the texts of an engine.
    pub fn over(engine: Arc<dyn Backend>) -> Arc<dyn Backend> {
        Arc::new(Self { engine })
    }
}

impl Backend for Rehearsal {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let Some(turn) = Turn::of(&generation) else { return self.engine.generate(generation) };
        let max_tokens = turn.tokens.min(generation.max_tokens).max(1);
        let asked = Generation { max_tokens, stop_words: Vec::new(), ignores_end: true, ..generation };
        let mut speaker = Speaker { turn, has_begun: false };
        self.engine.generate(asked).map(move |piece| piece.map(|piece| speaker.says(piece))).boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        self.engine.ready()
    }

    fn sampling(&self) -> SamplingFields {
        self.engine.sampling()
    }

    fn load(&self) -> BoxFuture<'_, EngineLoad> {
        self.engine.load()
    }
}

/// The question of a made-up run whose turns have so many tokens.
pub fn question(words: &str, run: u64, tokens: &[u32]) -> String {
    let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
    format!("{words} [[run {run}: {}]]", tokens.join(" "))
}

/// What a turn of a made-up run gives to its tool.
pub fn argument(run: u64, turn: usize) -> String {
    format!("{run}-{turn}")
}

/// One turn of a made-up run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    tokens: u32,
    /// What it calls; nothing for the answer.
    call: Option<ToolCall>,
}

impl Turn {
    /// The turn that a generation is for; none of a prompt without a made-up run.
    fn of(generation: &Generation) -> Option<Self> {
        let (_, rest) = generation.prompt.split_once("[[run ")?;
        let (run, tokens) = rest.split_once("]]")?.0.split_once(": ")?;
        let run: u64 = run.parse().ok()?;
        let tokens: Vec<u32> = tokens.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        // The driver names generations by their run and step.
        let step: usize = generation.id.rsplit_once('-')?.1.parse().ok()?;
        let input = argument(run, step);
        let call = (step < tokens.len()).then(|| ToolCall { name: TOOL.to_owned(), input });
        Some(Self { tokens: *tokens.get(step.checked_sub(1)?).or(tokens.last())?, call })
    }

    /// The text of a turn that calls, as long as what was generated.
    fn text(&self, call: &ToolCall) -> String {
        let words = self.tokens.saturating_sub(TOKENS_OF_A_CALL);
        grammar::write_call(&WORD.repeat(words as usize), call)
    }
}

/// Replaces what an engine writes.
struct Speaker {
    turn: Turn,
    has_begun: bool,
}

impl Speaker {
    /// A call comes at once, with the last token, as it can only be made then. An answer begins with the first.
    fn says(&mut self, piece: Piece) -> Piece {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let text = match (&self.turn.call, piece.finish) {
            (Some(call), Some(_)) => self.turn.text(call),
            (Some(_), None) => String::new(),
            (None, _) if is_first => grammar::write_last(ANSWER),
            (None, _) => String::new(),
        };
        Piece { text, logprobs: Vec::new(), finish: piece.finish.map(|_| FinishReason::Stop), ..piece }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn turn(id: &str, prompt: &str) -> Option<Turn> {
        Turn::of(&Generation { id: id.to_owned(), prompt: prompt.to_owned(), ..Generation::default() })
    }

    fn call(input: &str) -> Option<ToolCall> {
        Some(ToolCall { name: TOOL.to_owned(), input: input.to_owned() })
    }

    #[rstest]
    #[case::the_first("r-9f-1", "Question: a b [[run 17: 120 80 60]]\n", Some(Turn { tokens: 120, call: call("17-1") }))]
    #[case::the_second("r-9f-2", "Question: a b [[run 17: 120 80 60]]\n", Some(Turn { tokens: 80, call: call("17-2") }))]
    #[case::the_answer("r-9f-3", "Question: a b [[run 17: 120 80 60]]\n", Some(Turn { tokens: 60, call: None }))]
    #[case::without_calls("r-1", "[[run 0: 9]]", Some(Turn { tokens: 9, call: None }))]
    #[case::a_warm_up("warm-up-1", "Question: How high is Bela?\n", None)]
    #[case::something_else("r-1", "[[run 17: many]]", None)]
    fn a_prompt_says_what_its_turns_are(#[case] id: &str, #[case] prompt: &str, #[case] expected: Option<Turn>) {
        assert_eq!(turn(id, prompt), expected);
    }

    #[test]
    fn a_turn_that_calls_is_as_long_as_what_was_generated_and_can_be_read() {
        let turn = Turn { tokens: 40, call: call("17-1") };
        let mut speaker = Speaker { turn, has_begun: false };
        let piece = |output_tokens, finish| Piece { text: "x".to_owned(), output_tokens, finish, ..Piece::default() };
        let silent = speaker.says(piece(1, None));
        assert_eq!((silent.text.as_str(), silent.output_tokens), ("", 1));
        let last = speaker.says(piece(40, Some(FinishReason::Length)));
        assert_eq!((last.output_tokens, last.finish), (40, Some(FinishReason::Stop)));
        assert_eq!(last.text.split_whitespace().count(), 28 + 3);
        let mut reader = grammar::TurnReader::default();
        reader.push(&last.text);
        let read = reader.finish(grammar::IsCutOff::No);
        assert_eq!(read, Ok(grammar::Turn::Calls(call("17-1").into_iter().collect())));
    }

    #[test]
    fn an_answer_begins_with_the_first_token() {
        let mut speaker = Speaker { turn: Turn { tokens: 2, call: None }, has_begun: false };
        let piece = |finish| Piece { text: "x".to_owned(), finish, ..Piece::default() };
        let mut reader = grammar::TurnReader::default();
        assert_eq!(reader.push(&speaker.says(piece(None)).text).as_deref(), Some(ANSWER));
        assert_eq!(reader.push(&speaker.says(piece(Some(FinishReason::Length))).text), None);
        assert_eq!(reader.finish(grammar::IsCutOff::No), Ok(grammar::Turn::Answer(ANSWER.to_owned())));
    }
}
