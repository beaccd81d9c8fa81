//! Which of the ranked points is chosen, as far as its confirm run says. Pure.

use slipway_crds::v1alpha1::profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs};

use crate::{
    judged::{gpu_limits, judged},
    select,
};

/// Points that are tried before a campaign ends without a choice.
pub const MAX_CONFIRMS: usize = 3;

/// What rows lead to, as positions among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// No point meets the objectives.
    NoCandidate,
    /// The best point, where there are no recorded runs to confirm it with.
    Measured {
        /// The point.
        point: usize,
    },
    /// The best point whose confirm run holds.
    Confirmed {
        /// The point.
        point: usize,
        /// Its confirm run.
        row: usize,
    },
    /// The best point that has had no confirm run.
    Confirm {
        /// The point.
        point: usize,
    },
    /// As many confirm runs as may be have failed, or all that could be.
    Exhausted {
        /// How many.
        failed: usize,
    },
}

/// Confirm rows decide in the order of the ranking: the first that passes is the choice.
pub fn conclude(inputs: &ProfileInputs, measurements: &[Measurement]) -> Conclusion {
    let ranked = select::ranked(inputs, measurements);
    let Some(best) = ranked.first().copied() else { return Conclusion::NoCandidate };
    if !inputs.has_runs() {
        return Conclusion::Measured { point: best };
    }
    let mut failed = 0;
    for point in ranked {
        let row = measurements.iter().position(|m| is_confirm_of(m, &measurements[point]));
        match row {
            Some(row) if passes(&measurements[row], inputs) => return Conclusion::Confirmed { point, row },
            Some(_) => failed += 1,
            None if failed < MAX_CONFIRMS => return Conclusion::Confirm { point },
            None => break,
        }
    }
    Conclusion::Exhausted { failed }
}

/// Whether a row is the confirm run of a point.
pub fn is_confirm_of(row: &Measurement, point: &Measurement) -> bool {
    row.purpose == MeasurementPurpose::Confirm
        && row.engine == point.engine
        && row.configuration == point.configuration
        && row.level == point.level
}

/// Whether a confirm run lets its point serve. One that could bound no objective has shown none to be met, unless there
/// is none to judge.
pub fn passes(row: &Measurement, inputs: &ProfileInputs) -> bool {
    match row.verdict {
        MeasurementVerdict::Feasible => true,
        MeasurementVerdict::Unbounded => {
            let purpose = MeasurementPurpose::Confirm;
            judged(inputs, purpose).is_empty() && gpu_limits(inputs, purpose).is_empty()
        }
        MeasurementVerdict::Infeasible | MeasurementVerdict::Failed => false,
    }
}
