//! What can be wrong with a verb's input: each names the file, the place in it and the remedy.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A verb's refusal. Display is one line; the cause of an IO or syntax error is its source.
#[derive(Debug, Error)]
pub enum CliError {
    /// A file could not be opened or read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file is not of the format it must have.
    #[error("failed to parse {}; {remedy}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
        /// Where the syntax breaks.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A field or column of a file has a value that cannot be used.
    #[error("{}: {place}: {problem}; {remedy}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The column, or the field in dotted notation, or the line.
        place: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
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
    /// A trace could not be analysed.
    #[error(transparent)]
    Trace(super::trace::TraceError),
    /// The result could not be written.
    #[error("failed to write the result")]
    Write(#[source] io::Error),
}
