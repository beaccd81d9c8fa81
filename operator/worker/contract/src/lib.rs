//! Wire types between the operator and its Jobs: task files and termination messages.
