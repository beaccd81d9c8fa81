//! What can be wrong with a file of measurements: each error names the file, the place in it and the remedy.

use std::{io, path::PathBuf};

use thiserror::Error;

/// A refused file. Display is one line; the cause of an IO or syntax error is its source.
#[derive(Debug, Error)]
pub enum InputError {
    /// A file could not be opened or read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file does not have the required format.
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
    Value {
        /// The file.
        path: PathBuf,
        /// The column, or the field in dotted notation, or the line.
        place: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
}
