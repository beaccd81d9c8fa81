//! A step that is done, or why it is not. Pure.

use super::Why;

/// What a step gives once it is done, or why it is not.
pub type Step<T> = Result<T, Blocked>;

/// Why a step is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// The step goes on by itself.
    Waiting(Why),
    /// The step has stopped, and only a person can help.
    Stopped(Why),
}

impl Blocked {
    /// The same, for a reason that follows from this one.
    pub fn map(self, why: impl FnOnce(Why) -> Why) -> Self {
        match self {
            Self::Waiting(of) => Self::Waiting(why(of)),
            Self::Stopped(of) => Self::Stopped(why(of)),
        }
    }
}
