//! An engine's tokens as an answer. Pure.

use std::sync::Arc;

use super::{Decode, DecodeError, Detokenizer, Passed, StopWords, Tokenizer};

/// Special tokens of an answer, those that end it left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They are not text.
    LeftOut,
    /// They mark calls of tools.
    Written,
}

/// A tokenizer, and what it does with special tokens.
struct Decoder {
    tokenizer: Arc<Tokenizer>,
    special: SpecialTokens,
}

impl Decode for Decoder {
    fn text(&self, tokens: &[u32]) -> Result<String, DecodeError> {
        match self.special {
            SpecialTokens::LeftOut => self.tokenizer.text(tokens),
            SpecialTokens::Written => self.tokenizer.whole_text(tokens),
        }
    }
}

/// An answer that arrives as tokens.
pub struct Answer {
    decoder: Decoder,
    detokenizer: Detokenizer,
    stop_words: StopWords,
    max_tokens: u32,
    output_tokens: u32,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The new text; may be empty.
    pub text: String,
    /// Tokens so far, those that end an answer left out.
    pub output_tokens: u32,
    /// Why nothing follows; present on the last part only.
    pub over: Option<Over>,
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The model ended it.
    End,
    /// The limit on tokens was reached.
    Length,
    /// The text reached a stop word; the engine may continue, because it knows only tokens.
    StopWord,
}

impl Answer {
    /// An answer of so many tokens at most.
    pub fn new(tokenizer: Arc<Tokenizer>, special: SpecialTokens, stop_words: Vec<String>, max_tokens: u32) -> Self {
        let (detokenizer, stop_words) = (Detokenizer::default(), StopWords::new(stop_words));
        Self { decoder: Decoder { tokenizer, special }, detokenizer, stop_words, max_tokens, output_tokens: 0 }
    }

    /// Takes further tokens. Nothing may follow a part that is over.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn push(&mut self, tokens: &[u32]) -> Result<Part, DecodeError> {
        let room = usize::try_from(self.max_tokens - self.output_tokens).unwrap_or(usize::MAX);
        let end =
            tokens.iter().position(|token| self.decoder.tokenizer.ends().contains(token)).filter(|end| *end <= room);
        let taken = &tokens[..end.unwrap_or(tokens.len()).min(room)];
        self.output_tokens += u32::try_from(taken.len()).unwrap_or(u32::MAX);
        let text = self.detokenizer.push(taken, &self.decoder)?;
        let text = match self.stop_words.push(&text) {
            Passed::Stopped(text) => return Ok(self.part(text, Some(Over::StopWord))),
            Passed::Text(text) => text,
        };
        match (end, self.is_full()) {
            (Some(_), _) => self.close(text, Over::End),
            (None, true) => self.close(text, Over::Length),
            (None, false) => Ok(self.part(text, None)),
        }
    }

    /// Ends the answer where the engine did, without a token that says so.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn end(&mut self) -> Result<Part, DecodeError> {
        let over = if self.is_full() { Over::Length } else { Over::End };
        self.close(String::new(), over)
    }

    /// Whether a token ends an answer.
    pub fn is_end(&self, token: u32) -> bool {
        self.decoder.tokenizer.ends().contains(&token)
    }

    fn is_full(&self) -> bool {
        self.output_tokens >= self.max_tokens
    }

    /// Gives what was held back: of characters, then of stop words.
    fn close(&mut self, text: String, over: Over) -> Result<Part, DecodeError> {
        let rest = self.detokenizer.rest(&self.decoder)?;
        Ok(match self.stop_words.push(&rest) {
            Passed::Stopped(rest) => self.part(text + &rest, Some(Over::StopWord)),
            Passed::Text(rest) => {
                let text = text + &rest + &self.stop_words.rest();
                self.part(text, Some(over))
            }
        })
    }

    fn part(&self, text: String, over: Option<Over>) -> Part {
        Part { text, output_tokens: self.output_tokens, over }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::backend::tokens::tokenizer::tests::demo;

    /// The token at which the demo's model ends.
    const END: u32 = 258;

    fn answer(max_tokens: u32, stop_words: &[&str]) -> Answer {
        Answer::new(
            Arc::new(demo()),
            SpecialTokens::LeftOut,
            stop_words.iter().map(|word| (*word).to_owned()).collect(),
            max_tokens,
        )
    }

    /// The first 256 tokens of the demo's model are bytes.
    fn tokens(text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn part(text: &str, output_tokens: u32, over: Option<Over>) -> Part {
        Part { text: text.to_owned(), output_tokens, over }
    }

    #[test]
    fn an_answer_ends_at_the_models_own_end() {
        let mut answer = answer(64, &["END"]);
        let first = answer.push(&tokens("17 E")).expect("it decodes");
        let last = answer.push(&[tokens("€"), vec![END], tokens("and more")].concat()).expect("it decodes");
        assert_eq!([first, last], [part("17 ", 4, None), part("E€", 7, Some(Over::End))]);
    }

    #[test]
    fn an_answer_ends_before_a_stop_word() {
        let mut answer = answer(64, &["\n\n"]);
        let first = answer.push(&tokens("Answer: 5\n")).expect("it decodes");
        let last = answer.push(&tokens("\nQ")).expect("it decodes");
        assert_eq!([first, last], [part("Answer: 5", 10, None), part("", 12, Some(Over::StopWord))]);
    }

    #[test]
    fn an_answer_has_no_more_tokens_than_were_asked_for() {
        let last = answer(5, &[]).push(&tokens("Answer: 5")).expect("it decodes");
        assert_eq!(last, part("Answe", 5, Some(Over::Length)));
        let end = answer(5, &[]).push(&[tokens("Answe"), vec![END]].concat()).expect("it decodes");
        assert_eq!(end.over, Some(Over::End), "the model had nothing more to say");
        let late = answer(5, &[]).push(&[tokens("Answer"), vec![END]].concat()).expect("it decodes");
        assert_eq!(late.over, Some(Over::Length));
    }

    #[test]
    fn what_is_held_back_comes_at_the_end() {
        let mut answer = answer(64, &["\n\n"]);
        answer.push(&tokens("5\n")).expect("it decodes");
        // The first byte of a character whose others never come.
        let held = answer.push(&[0xE2]).expect("it decodes");
        assert_eq!(held, part("", 3, None));
        assert_eq!(answer.end().expect("it decodes"), part("\n\u{fffd}", 3, Some(Over::End)));
    }

    #[test]
    fn an_engine_that_stops_at_its_limit_has_reached_it() {
        let mut answer = answer(0, &[]);
        assert_eq!(answer.end().expect("it decodes"), part("", 0, Some(Over::Length)));
    }
}
