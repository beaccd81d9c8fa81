//! How far a step has come. Pure.

use super::Why;

/// How far a step has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<T> {
    /// The step is done.
    Done(T),
    /// The step goes on by itself.
    Waiting(Why),
    /// The step has stopped, and only a person can help.
    Stopped(Why),
}
