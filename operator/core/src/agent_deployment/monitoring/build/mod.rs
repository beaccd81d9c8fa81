//! Alerting rules and the memory of drift, one kind a file. Pure.

pub mod alerts;
pub mod drift_memory;
