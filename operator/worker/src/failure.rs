//! How a verb's error becomes a termination message and an exit code.

use std::error::Error;

pub use slipway_vocabulary::failure::chain;
use slipway_worker_contract::{FailureClass, Message};

/// An error that says whether another attempt can help.
pub trait Classify: Error {
    /// Returns the failure class that the operator records.
    fn class(&self) -> FailureClass;
}

/// Makes the termination message of a failed verb; boxed, because it travels as an error.
pub fn message<E: Classify>(error: &E) -> Box<Message> {
    Box::new(Message::Failed { class: error.class(), text: chain(error) })
}
