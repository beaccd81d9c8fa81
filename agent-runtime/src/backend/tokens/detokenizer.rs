//! Text from tokens that arrive one by one. Pure.

use std::{error::Error, mem};

/// What a decoder makes of bytes that are not a character, or not yet a whole one.
const UNFINISHED: char = char::REPLACEMENT_CHARACTER;
/// Maximum number of tokens without a whole character at their end. Beyond it the first bytes are dropped: a character
/// has at most four bytes, so that these can never become one.
const MOST_HELD: usize = 16;
/// Bytes of the longest character, and so the tokens that the end of one may need.
const LONGEST_CHARACTER: usize = 4;

/// What turns tokens into text.
pub trait Decode {
    /// The text of these tokens, bytes that are not characters as U+FFFD.
    ///
    /// # Errors
    /// The tokenizer's decoder failed.
    fn text(&self, tokens: &[u32]) -> Result<String, DecodeError>;
}

/// The tokenizer's decoder failed.
#[derive(Debug, thiserror::Error)]
#[error("the tokenizer cannot turn tokens into text")]
pub struct DecodeError(#[source] pub Box<dyn Error + Send + Sync>);

/// Gives the text of tokens as soon as its characters are whole. All pieces together are the text of all tokens.
///
/// A token's text depends on the tokens before it. Some tokenizers drop the blank of the first word, and several tokens
/// may hold the bytes of one character. So the last output is decoded along with new tokens, and the difference is
/// given.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// The tokens whose text was given last.
    given: Vec<u32>,
    /// Tokens whose text has yet to be given.
    held: Vec<u32>,
}

impl Detokenizer {
    /// Takes further tokens and gives the text that is certain by now.
    ///
    /// # Errors
    /// The decoder failed.
    pub fn push(&mut self, tokens: &[u32], decoder: &impl Decode) -> Result<String, DecodeError> {
        self.held.extend_from_slice(tokens);
        let (before, after) = self.texts(decoder)?;
        if after.ends_with(UNFINISHED) {
            return self.give_up(&before, &after, decoder);
        }
        // Nothing where a decoder took back what it had given: what follows will be longer again.
        match after.get(before.len()..) {
            None | Some("") => Ok(String::new()),
            Some(new) => {
                self.given = mem::take(&mut self.held);
                Ok(new.to_owned())
            }
        }
    }

    /// The text that is still held back, once no more tokens follow.
    ///
    /// # Errors
    /// The decoder failed.
    pub fn rest(&mut self, decoder: &impl Decode) -> Result<String, DecodeError> {
        let (before, after) = self.texts(decoder)?;
        self.given = mem::take(&mut self.held);
        Ok(after.get(before.len()..).unwrap_or_default().to_owned())
    }

    /// The text that was given last, and the same with what is held.
    fn texts(&self, decoder: &impl Decode) -> Result<(String, String), DecodeError> {
        Ok((decoder.text(&self.given)?, decoder.text(&[&self.given[..], &self.held].concat())?))
    }

    /// Gives bytes that cannot become a character any more, where what is left of the tokens reads the same by itself.
    fn give_up(&mut self, before: &str, after: &str, decoder: &impl Decode) -> Result<String, DecodeError> {
        if self.held.len() <= MOST_HELD {
            return Ok(String::new());
        }
        let count = self.held.len();
        for at in (count - LONGEST_CHARACTER..count).rev() {
            let (head, tail) = self.held.split_at(at);
            let text = decoder.text(&[&self.given[..], head].concat())?;
            if text.clone() + &decoder.text(tail)? == after {
                let new = text.get(before.len()..).unwrap_or_default().to_owned();
                let tail = self.held.split_off(at);
                self.given = mem::replace(&mut self.held, tail);
                return Ok(new);
            }
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// Tokens are bytes, as in tokenizers of byte level.
    struct Bytes;

    impl Decode for Bytes {
        fn text(&self, tokens: &[u32]) -> Result<String, DecodeError> {
            let bytes: Vec<u8> = tokens.iter().map(|token| u8::try_from(*token).expect("tokens are bytes")).collect();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }

    /// Tokens are words; the blank before the first one is left out.
    struct Words;

    impl Decode for Words {
        fn text(&self, tokens: &[u32]) -> Result<String, DecodeError> {
            Ok(tokens.iter().map(|token| format!(" w{token}")).collect::<String>().trim_start().to_owned())
        }
    }

    fn pieces<D: Decode>(decoder: &D, tokens: &[Vec<u32>]) -> Vec<String> {
        let mut detokenizer = Detokenizer::default();
        let mut pieces: Vec<String> =
            tokens.iter().map(|tokens| detokenizer.push(tokens, decoder).expect("these decode")).collect();
        pieces.push(detokenizer.rest(decoder).expect("these decode"));
        pieces
    }

    fn bytes(text: &str) -> Vec<Vec<u32>> {
        text.bytes().map(|byte| vec![u32::from(byte)]).collect()
    }

    #[test]
    fn a_character_comes_with_its_last_byte() {
        assert_eq!(pieces(&Bytes, &bytes("a€")), ["a", "", "", "€", ""]);
    }

    #[test]
    fn the_blank_between_words_is_kept() {
        assert_eq!(pieces(&Words, &[vec![1], vec![2, 3], vec![4]]), ["w1", " w2 w3", " w4", ""]);
    }

    #[test]
    fn half_a_character_at_the_end_is_no_text_but_is_not_lost_either() {
        let mut tokens = bytes("a€");
        tokens.pop();
        assert_eq!(pieces(&Bytes, &tokens), ["a", "", "", "\u{fffd}"]);
    }

    #[test]
    fn bytes_that_never_become_characters_are_not_held_for_ever() {
        let mut detokenizer = Detokenizer::default();
        let given: String = (0..500).map(|_| detokenizer.push(&[0x80], &Bytes).expect("these decode")).collect();
        assert!(given.chars().count() > 480 && detokenizer.held.len() <= MOST_HELD, "{}", detokenizer.held.len());
    }

    proptest! {
        #[test]
        fn all_pieces_together_are_the_text_of_all_tokens(
            tokens in prop::collection::vec(prop::collection::vec(0u32..256, 0..4), 0..80),
        ) {
            let whole = Bytes.text(&tokens.concat()).expect("these decode");
            prop_assert_eq!(pieces(&Bytes, &tokens).concat(), whole);
        }

        /// Mostly bytes from the middle of characters, so that much is held and given up.
        #[test]
        fn so_they_are_where_most_bytes_are_no_characters(
            tokens in prop::collection::vec(prop::collection::vec(0x78u32..256, 0..4), 0..80),
        ) {
            let whole = Bytes.text(&tokens.concat()).expect("these decode");
            prop_assert_eq!(pieces(&Bytes, &tokens).concat(), whole);
        }
    }
}
