//! Scenarios on a real cluster, and the test servers they use.

pub mod cluster;
pub mod servers;
