//! Between text and an engine that knows tokens alone: a prompt becomes tokens, and its tokens become an answer, piece
//! by piece.
//!
//! [`Tokenizer`] reads the checkpoint's own files. The rest is pure. [`Detokenizer`] gives text as soon as its
//! characters are complete, and [`StopWords`] cuts text before a stop word. [`Answer`] combines both with the ends of a
//! generation.

mod answer;
mod detokenizer;
mod stop_words;
mod tokenizer;

pub use answer::{Answer, Over, Part, SpecialTokens};
pub use detokenizer::{Decode, DecodeError, Detokenizer};
pub use stop_words::{Passed, StopWords};
pub use tokenizer::{EncodeError, Tokenizer, TokenizerError};
