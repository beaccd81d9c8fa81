//! Search, Pareto fronts, SLO arithmetic, loss systems, rollout judge and drift: the statistics that operator and
//! worker link.
//!
//! Pure. The crate knows no Kubernetes, no clock, no file, no network and no async runtime. Its callers pass the seed
//! of all randomness.

pub mod drift;
pub mod early;
pub mod judge;
pub mod loss;
pub mod pareto;
pub mod search;
pub mod slo;
