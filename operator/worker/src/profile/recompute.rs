//! `recompute`: computes a row again from its stored records, with the campaign's own code. Pure.

use slipway_worker_contract::{ProfileTask, Row, RowTooLarge};

use super::{
    judge::{self, Rules},
    records::{Records, RecordsError},
};
use crate::hash;

/// Says why a row cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum RecomputeError {
    /// No records of this format.
    #[error("the stored records cannot be read")]
    Records(#[source] RecordsError),
    /// The row would be larger than it may be.
    #[error("the row cannot be reported")]
    Row(#[source] RowTooLarge),
}

/// Computes a row from the bytes of its records, as the campaign of the task did; `records` of the row is their digest.
///
/// # Errors
/// [`RecomputeError`].
pub fn run(task: &ProfileTask, bytes: &[u8]) -> Result<Row, RecomputeError> {
    let records = Records::parse(bytes).map_err(RecomputeError::Records)?;
    judge::reported(&records, Some(hash::bytes(bytes)), &Rules::of(task)).map_err(RecomputeError::Row)
}
