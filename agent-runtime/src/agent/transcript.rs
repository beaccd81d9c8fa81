//! The prompt of a run in tokens, which grows step by step. Pure.
//!
//! What the model generated stays in the tokens that it generated. What follows it is encoded by itself, so that a step
//! costs what is new, and the engine finds all that came before in its cache. A template may write a run differently
//! than it was: it leaves earlier thoughts out, or a result was left out to make room. From there on the prompt is
//! encoded again.

use crate::backend::tokens::{EncodeError, Tokenizer};

use super::marks::Written;

/// The prompt of the last model call, as parts of text and their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    begin: Begin,
    parts: Vec<Part>,
    /// The tokens of the last prompt, as they were sent.
    sent: Vec<u32>,
}

/// Who writes the token that models expect before every text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The prompt's text spells it out, as chat templates do.
    SpelledOut,
    /// The tokenizer adds it.
    Added,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    text: String,
    tokens: Vec<u32>,
}

/// A turn of the model that the next prompt may keep as it was generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratedTurn {
    /// What the template makes of it, behind the prompt that it answers; nothing where that lacks something of it.
    pub written: Option<String>,
    /// Its text, as the engine gave it.
    pub said: String,
    /// Its tokens, as the engine gave them; none where it gives none.
    pub tokens: Vec<u32>,
}

/// How many tokens a prompt has, and how many of them were there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// All of them.
    pub tokens: u32,
    /// Those at its beginning that are the tokens of the prompt before, and of the turn that followed it.
    pub kept: u32,
    /// Whether these are all of both, as far as the model has written anything.
    pub is_continued: bool,
}

impl Transcript {
    /// Of no prompt yet.
    pub fn new(begin: Begin) -> Self {
        Self { begin, parts: Vec::new(), sent: Vec::new() }
    }

    /// Goes on to the next prompt, and gives its tokens. Asked again for the same step, it goes on from the same turn.
    ///
    /// # Errors
    /// The tokenizer failed.
    pub fn go_on(
        &mut self,
        tokenizer: &Tokenizer,
        prompt: &Written,
        turn: &GeneratedTurn,
    ) -> Result<(Vec<u32>, Kept), EncodeError> {
        self.keep_turn(tokenizer, prompt, turn);
        let (count, at) = self.written_by(prompt);
        self.parts.truncate(count);
        let rest = prompt.behind(at);
        if !rest.text.is_empty() {
            let last = self.parts.last().and_then(|part| part.tokens.last().copied());
            let tokens = match self.begin {
                Begin::Added if at == 0 => tokenizer.encode(&rest.text, &rest.cuts)?,
                Begin::Added | Begin::SpelledOut => tokenizer.encode_behind(last, &rest.text, &rest.cuts)?,
            };
            self.parts.push(Part { text: rest.text, tokens });
        }
        let tokens: Vec<u32> = self.parts.iter().flat_map(|part| part.tokens.iter().copied()).collect();
        let before = self.sent.iter().chain(&turn.tokens);
        let kept = before.clone().zip(&tokens).take_while(|(before, now)| before == now).count();
        let is_known = turn.said.is_empty() || !turn.tokens.is_empty();
        let is_continued = is_known && kept == before.count();
        Ok((tokens, Kept { tokens: counted(self.count()), kept: counted(kept), is_continued }))
    }

    /// A prompt as the one that was sent before, and the rest; nothing where it does not begin with that one.
    pub fn split<'a>(&self, prompt: &'a Written) -> Option<(&'a str, &'a str)> {
        let (count, begin) = self.written_by(prompt);
        // A turn that was kept has not been sent yet.
        let is_whole = count > 0 && count == self.parts.len() && self.count() == self.sent.len();
        is_whole.then(|| prompt.text.split_at(begin))
    }

    /// Notes what was sent.
    pub fn note_sent(&mut self, tokens: &[u32]) {
        tokens.clone_into(&mut self.sent);
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        *self = Self::new(self.begin);
    }

    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        let tokens = self.count() + self.sent.len();
        self.parts.iter().map(|part| part.text.len()).sum::<usize>() + tokens * size_of::<u32>()
    }

    fn count(&self) -> usize {
        self.parts.iter().map(|part| part.tokens.len()).sum()
    }

    /// How many of the parts the prompt begins with, and their bytes.
    fn written_by(&self, prompt: &Written) -> (usize, usize) {
        let mut rest = prompt.text.as_str();
        let kept = self.parts.iter().map_while(|part| {
            rest = rest.strip_prefix(part.text.as_str())?;
            Some(())
        });
        let count = kept.count();
        (count, prompt.text.len() - rest.len())
    }

    /// Takes the turn as it was generated, where the prompt goes on with it.
    fn keep_turn(&mut self, tokenizer: &Tokenizer, prompt: &Written, turn: &GeneratedTurn) {
        let GeneratedTurn { written: Some(written), said, tokens } = turn else { return };
        let (Some(last), Some((_, rest))) = (tokens.last(), self.split(prompt)) else { return };
        let Some(text) = Some(written.as_str()).filter(|text| rest.starts_with(text)) else { return };
        let at_mark = tokenizer.mark(*last).and_then(|mark| Some(text.rfind(mark)? + mark.len()));
        // White space may follow the end of a turn.
        let at_mark = at_mark.filter(|end| text[*end..].trim().is_empty());
        let as_said = || text.starts_with(said.as_str()).then_some(said.len());
        if let Some(end) = at_mark.or_else(as_said).filter(|end| *end > 0) {
            self.parts.push(Part { text: text[..end].to_owned(), tokens: tokens.clone() });
        }
    }
}

fn counted(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
