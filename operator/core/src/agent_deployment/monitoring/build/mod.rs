//! Alerting rules. Pure.

pub mod alerts;
