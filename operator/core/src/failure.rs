//! Errors in words. Pure.

use std::error::Error;

/// An error with its causes, on one line: a log's formatter shows the error alone.
pub fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
