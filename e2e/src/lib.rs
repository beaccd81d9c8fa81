//! Scenarios on a real cluster, the test servers they use, and traffic.

pub mod agents;
pub mod cluster;
pub mod namespace;
pub mod servers;
pub mod traffic;
