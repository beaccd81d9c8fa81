//! Text up to a stop word. Pure.

use std::mem;

/// Passes text through up to the first stop word, and holds back what may become one.
///
/// The first word is the one that is complete first, and among those the one that began first. So the result does not
/// depend on the pieces in which the text arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopWords {
    words: Vec<String>,
    held: String,
}

/// What came through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Text that no stop word can begin in any more.
    Text(String),
    /// The text before a stop word: it is the last.
    Stopped(String),
}

impl StopWords {
    /// Stops at these words; an empty one stops nothing.
    pub fn new(words: Vec<String>) -> Self {
        let words = words.into_iter().filter(|word| !word.is_empty()).collect();
        Self { words, held: String::new() }
    }

    /// Takes further text.
    pub fn push(&mut self, text: &str) -> Passed {
        self.held.push_str(text);
        let found = self.words.iter().filter_map(|word| self.held.find(word).map(|at| (at + word.len(), at))).min();
        if let Some((_, at)) = found {
            self.held.truncate(at);
            return Passed::Stopped(mem::take(&mut self.held));
        }
        let begun = self.words.iter().map(|word| begun(&self.held, word)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - begun);
        Passed::Text(mem::replace(&mut self.held, rest))
    }

    /// What is still held back, once no more text follows.
    pub fn rest(&mut self) -> String {
        mem::take(&mut self.held)
    }
}

/// Bytes at the end of a text that a word begins with, the whole word left out.
fn begun(text: &str, word: &str) -> usize {
    let mut lengths = (1..word.len()).rev().filter(|length| word.is_char_boundary(*length));
    lengths.find(|length| text.ends_with(&word[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// What comes through of a text in pieces, and whether a word stopped it.
    fn passed<'a>(words: &[&str], pieces: impl IntoIterator<Item = &'a str>) -> (String, bool) {
        let mut stop_words = StopWords::new(words.iter().map(|word| (*word).to_owned()).collect());
        let mut all = String::new();
        for piece in pieces {
            match stop_words.push(piece) {
                Passed::Text(text) => all += &text,
                Passed::Stopped(text) => return (all + &text, true),
            }
        }
        (all + &stop_words.rest(), false)
    }

    #[test]
    fn a_stop_word_that_arrives_in_pieces_is_held_back() {
        let mut stop_words = StopWords::new(vec!["\n\n".into(), "END".into()]);
        assert_eq!(stop_words.push("Answer: 4\n"), Passed::Text("Answer: 4".into()));
        assert_eq!(stop_words.push("E"), Passed::Text("\n".into()));
        assert_eq!(stop_words.push("N"), Passed::Text(String::new()));
        assert_eq!(stop_words.push("ough"), Passed::Text("ENough".into()));
        assert_eq!(stop_words.push("\n\nrest"), Passed::Stopped(String::new()));
    }

    #[test]
    fn the_word_that_is_complete_first_stops() {
        assert_eq!(passed(&["abc", "b"], ["abc"]), ("a".to_owned(), true));
        assert_eq!(passed(&["bc", "abc"], ["xabc"]), ("x".to_owned(), true));
        assert_eq!(passed(&[""], ["abc"]), ("abc".to_owned(), false));
        assert_eq!(passed(&["é!"], ["caf", "é", "?é"]), ("café?é".to_owned(), false));
    }

    proptest! {
        /// Short alphabets, so that words overlap with each other and with themselves.
        #[test]
        fn the_outcome_is_the_same_in_whatever_pieces_the_text_arrives(
            pieces in prop::collection::vec("[abé]{0,3}", 0..12),
            words in prop::collection::vec("[abé]{1,4}", 0..4),
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            let in_pieces = passed(&words, pieces.iter().map(String::as_str));
            prop_assert_eq!(&in_pieces, &passed(&words, [whole.as_str()]));
            prop_assert_eq!(in_pieces.1, words.iter().any(|word| whole.contains(word)));
            prop_assert!(whole.starts_with(&in_pieces.0));
        }
    }
}
