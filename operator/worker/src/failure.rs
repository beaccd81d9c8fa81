//! How a verb's error becomes a termination message and an exit code.

use std::error::Error;

use slipway_worker_contract::{FailureClass, Message};

/// An error that says whether another attempt can help.
pub trait Classify: Error {
    /// Returns the failure class that the operator records.
    fn class(&self) -> FailureClass;
}

/// Writes an error and its sources on one line, outermost first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Makes the termination message of a failed verb; boxed, for it travels as an error.
pub fn message<E: Classify>(error: &E) -> Box<Message> {
    Box::new(Message::Failed { class: error.class(), text: chain(error) })
}
