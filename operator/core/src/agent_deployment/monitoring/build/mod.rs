//! Alerting rules and what is remembered to tell drift, one kind a file. Pure.

pub mod alerts;
pub mod drift_memory;
