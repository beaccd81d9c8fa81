//! The controller of Engines.

pub mod neighbours;
pub mod reconcile;
