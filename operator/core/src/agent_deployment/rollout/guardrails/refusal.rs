//! Why a guardrail's query is refused. Pure.

use thiserror::Error;

/// Why a query cannot be held to a namespace. Places are counted in bytes from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScopeError {
    /// No query has such a character outside of quotes.
    #[error("its query has {found:?} at {at}, which PromQL does not know: take it out")]
    Character {
        /// The character.
        found: char,
        /// Its place.
        at: usize,
    },
    /// A quote is never closed.
    #[error("its query has a quote at {at} that is not closed: close it on the same line")]
    Unterminated {
        /// Its place.
        at: usize,
    },
    /// A word stands where PromQL has none like it.
    #[error(
        "its query has {found:?} at {at}, where PromQL has no such word: correct it, or write it without a dialect"
    )]
    Unexpected {
        /// The word.
        found: String,
        /// Its place.
        at: usize,
    },
    /// It ends too early.
    #[error("its query ends where more is expected: complete it")]
    Ended,
    /// It calls a function that reads metrics which nothing selects.
    #[error("its query calls {function}(), which reads metrics of all namespaces: write it without")]
    Function {
        /// The function.
        function: String,
    },
}
