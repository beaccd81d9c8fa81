//! An agent of the API as the configuration of its agent runtime, and what of a spec no agent runtime takes. Pure.
//!
//! The operator writes the configuration, and refuses with the same words as `kubectl slipway check`.

mod config;
mod folders;
mod problems;

pub use self::{config::*, folders::*, problems::*};
