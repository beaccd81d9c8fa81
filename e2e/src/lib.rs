//! Scenarios on a real cluster, and the test servers they use.

pub mod agents;
pub mod cluster;
pub mod namespace;
pub mod servers;
