//! The search for the best configuration that meets the objectives. Pure and resumable.
//!
//! A [`SearchStrategy`] is a function of a frozen [`Space`], a seed and the measurements so far. [`Slipway`] is the
//! product's.

mod cost;
mod gp;
mod kernel;
mod ledger;
mod model;
pub mod prior;
mod score;
mod skipped;
mod slipway;
mod space;
mod strategy;
mod surrogate;

pub use self::slipway::{Budget, Settings, Skipped, Slipway, WhyNot};
pub use self::space::{
    Arm, Axis, Cell, ColumnUnit, Columns, Constraint, Metric, MetricKind, ModelSize, Role, Space, Value,
};
pub use self::strategy::{Conclusion, Ending, Measurement, Outcome, Progress, Proposal, Purpose, SearchStrategy, Step};

#[cfg(test)]
mod tests;
