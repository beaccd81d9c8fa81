//! Rollouts, as scenarios bring them about and watch them.

mod fixture;
pub mod room;
pub mod watch;

pub use fixture::{AGENT, Bench, Options, ROLLOUT_LIMIT, host, kill_operator, rollout_of};
