//! The controller of Engines.

pub mod reconcile;
