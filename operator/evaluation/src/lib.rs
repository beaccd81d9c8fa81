//! Recorded measurements: what the search would have cost on them, when a run would have been decided, what regressed.
//!
//! [`replay`] plays a search or one of its [`baseline`]s on a recorded grid; [`problem`] reads such a grid.
//! [`medians`] takes the noise of single samples out of it.
//! [`early_verdict`] does the same with a run's requests, and [`regress`] compares two runs. The programs
//! `bench-search` and `bench-judge` write the tables of `docs/bench`. Only [`problem`], [`early_verdict`] and
//! [`table`] read files; nothing reads a clock.

pub mod baseline;
pub mod early_verdict;
pub mod engine_by_engine;
mod error;
pub mod list_prices;
pub mod medians;
pub mod method;
pub mod problem;
pub mod regress;
pub mod replay;
pub mod requests;
pub mod table;

pub use self::error::InputError;
