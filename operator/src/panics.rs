//! Where a panic ends: one of a single object, event or notification must not end the process, and with it everybody's.

use std::{any::Any, future::Future, panic::AssertUnwindSafe};

use futures::FutureExt;
use thiserror::Error;

/// Some work has panicked, and what it said.
#[derive(Debug, Error)]
#[error("panicked: {message}")]
pub struct Panicked {
    /// The words of the panic.
    pub message: String,
}

/// Does some work to its end, or to its panic.
///
/// # Errors
/// [`Panicked`], with the words of the panic.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    // What work shares with others are counters, caches and queues behind locks that forgive poison.
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.map_err(|panic| Panicked { message: message(panic.as_ref()) })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn work_that_panics_ends_with_its_words_and_other_work_with_its_result() {
        let numbers = [1, 2];
        let index = std::hint::black_box(7);
        let panicked = caught(async { numbers[index] }).await.unwrap_err();
        assert_eq!(panicked.to_string(), "panicked: index out of bounds: the len is 2 but the index is 7");
        assert_eq!(caught(async { numbers[1] }).await.unwrap(), 2);
    }
}
