//! Search, Pareto fronts, SLO arithmetic, rollout judge, drift and trace diagnosis.
//!
//! The crate is pure: it knows no Kubernetes, no clock, no network and no async runtime. Randomness comes from a seed the
//! caller passes. Only [`cli`] touches files.

pub mod cli;
pub mod drift;
pub mod early;
pub mod judge;
pub mod pareto;
pub mod replay;
pub mod search;
pub mod slo;
pub mod trace;
