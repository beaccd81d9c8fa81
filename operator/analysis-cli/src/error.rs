//! What can be wrong with a verb's input: each names the file, the place in it and the remedy.

use std::io;

use slipway_evaluation::InputError;
use slipway_selection::what_if::Unanswerable;
use thiserror::Error;

use crate::trace::TraceError;

/// A verb's refusal. Display is one line; the cause of an IO or syntax error is its source.
#[derive(Debug, Error)]
pub enum CliError {
    /// A file cannot be read or used.
    #[error(transparent)]
    Input(InputError),
    /// An argument of the command line cannot be used.
    #[error("{argument}: {problem}; {remedy}")]
    Argument {
        /// The argument as it is typed.
        argument: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A question has no answer.
    #[error("Profile {profile} cannot answer")]
    Unanswerable {
        /// Name of the Profile.
        profile: String,
        /// What it or the question lacks.
        #[source]
        source: Unanswerable,
    },
    /// A trace could not be analysed.
    #[error(transparent)]
    Trace(TraceError),
    /// The result could not be written.
    #[error("failed to write the result")]
    Write(#[source] io::Error),
}
