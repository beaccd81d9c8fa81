//! What a measurement says.

use serde::{Deserialize, Serialize};

/// Verdicts of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum MeasurementVerdict {
    /// Every measured objective is met, by its bound.
    Feasible,
    /// An objective is missed, by its bound.
    Infeasible,
    /// Some objective has too few requests to be decided. Only a round of a point that is Feasible counts nevertheless.
    Unbounded,
    /// The measurement failed.
    Failed,
}
