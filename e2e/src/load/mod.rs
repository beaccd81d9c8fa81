//! Clients of an agent for scenarios: requests that arrive at random, whether or not earlier ones were answered, each
//! of them counted.

pub mod arrivals;
pub mod client;
pub mod pod;
pub mod report;
