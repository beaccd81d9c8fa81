//! The controller of Profiles.

pub mod observe;
pub mod reconcile;
