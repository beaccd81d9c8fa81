//! What the prompts of a ReAct transcript begin with. Pure.

use std::{fmt, sync::Arc};

use super::{
    chat::{Author, Vocabulary},
    marks::Written,
    transcript::GeneratedTurn,
};

/// The rendered template of a transcript, whose turns follow it.
#[derive(Clone)]
pub struct TranscriptOpening {
    /// Marks in what the template was filled with are broken, where the vocabulary is known.
    text: String,
    vocabulary: Option<Arc<Vocabulary>>,
}

impl TranscriptOpening {
    /// Of a rendered template, and of what turns it into tokens, where the engine takes these.
    pub fn new(text: String, vocabulary: Option<Arc<Vocabulary>>) -> Self {
        Self { text, vocabulary }
    }

    /// The rendered template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What turns prompts into tokens, where the engine takes these.
    pub(super) fn vocabulary(&self) -> Option<&Arc<Vocabulary>> {
        self.vocabulary.as_ref()
    }

    /// The prompt behind these turns. Marks in them do not count, not even those of the model: none is a part of the
    /// grammar.
    pub(super) fn write(&self, turns: impl Iterator<Item = String>) -> Written {
        let first = std::iter::once(self.text.clone());
        match &self.vocabulary {
            None => Written::plain(first.chain(turns).collect()),
            Some(vocabulary) => {
                let harmless = |turn: String| vocabulary.harmless(Author::Other, &turn).into_owned();
                Written::rendered(first.chain(turns.map(harmless)).collect())
            }
        }
    }

    /// The last turn as the engine generated it, and the part of the prompt behind what was sent that says the same.
    /// The end of a text is left out: here a turn ends with an empty line.
    pub(super) fn generated(&self, tokens: &[u32], rest: Option<&str>) -> GeneratedTurn {
        let whole = self.vocabulary.as_ref().and_then(|vocabulary| {
            let tokenizer = vocabulary.tokenizer();
            let count = tokens.iter().rposition(|token| !tokenizer.ends().contains(token))? + 1;
            let tokens = &tokens[..count];
            Some((tokenizer.whole_text(tokens).ok()?, tokens.to_vec()))
        });
        let Some((said, tokens)) = whole else { return GeneratedTurn::default() };
        let written = rest.filter(|rest| rest.starts_with(&said)).map(|_| said.clone());
        GeneratedTurn { written, said, tokens }
    }
}

impl fmt::Debug for TranscriptOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TranscriptOpening").field(&self.text).finish()
    }
}

impl PartialEq for TranscriptOpening {
    fn eq(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|opening| opening.vocabulary.as_ref().map(Arc::as_ptr));
        self.text == other.text && ours == theirs
    }
}

impl Eq for TranscriptOpening {}

#[cfg(test)]
mod tests;
