//! Which row of a Profile is chosen, what it costs, and what another question would choose. Pure.
//!
//! The operator, the plugin and the command line of the analysis choose with the same code.

pub mod bounds;
pub mod close;
pub mod confirm;
pub mod cost;
pub mod infeasible;
pub mod judged;
mod rank;
pub mod select;
pub mod target;
pub mod uncompared;
pub mod what_if;

/// Integers of the API are signed, those of a count are not; both stay far from the bounds.
pub fn natural(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
