//! Codes of what the memories of judge and drift test store. Pure.
//!
//! States in users' clusters hold them: a code is given once and never to anything else.

use slipway_vocabulary::evidence::{Metric, Unit};

use crate::judge::{Arm, Verdict};

/// The code of a metric.
pub(crate) const fn of_metric(metric: Metric) -> u8 {
    match metric {
        Metric::AgentRunLatency => 0,
        Metric::ModelTime => 1,
        Metric::ToolTime => 2,
        Metric::RequestLatency => 3,
        Metric::RequestTimeToFirstToken => 4,
        Metric::InterTokenLatency => 5,
        Metric::ModelCallsPerRun => 6,
        Metric::OutputTokensPerRun => 7,
        Metric::RunSuccess => 8,
        Metric::ApprovalWait => 9,
        Metric::Cancelled => 10,
        Metric::Shed => 11,
        Metric::TaskSuccess => 12,
        Metric::TimeToFirstToken => 13,
    }
}

/// The metric of a code.
pub(crate) fn metric(code: u8) -> Option<Metric> {
    Metric::ALL.into_iter().find(|metric| of_metric(*metric) == code)
}

/// The code of a unit.
pub(super) const fn of_unit(unit: Unit) -> u8 {
    match unit {
        Unit::Run => 0,
        Unit::Request => 1,
        Unit::Session => 2,
    }
}

/// The unit of a code.
pub(super) const fn unit(code: u8) -> Option<Unit> {
    match code {
        0 => Some(Unit::Run),
        1 => Some(Unit::Request),
        2 => Some(Unit::Session),
        _ => None,
    }
}

/// The code of an arm.
pub(super) const fn of_arm(arm: Arm) -> u8 {
    match arm {
        Arm::Stable => 0,
        Arm::Canary => 1,
    }
}

/// The arm of a code.
pub(super) const fn arm(code: u8) -> Arm {
    if code == 1 { Arm::Canary } else { Arm::Stable }
}

/// The code of a verdict that ends a rollout; 0 for none.
pub(super) const fn of_decided(verdict: Option<Verdict>) -> u8 {
    match verdict {
        None | Some(Verdict::Hold | Verdict::Advance) => 0,
        Some(Verdict::Rollback) => 1,
        Some(Verdict::Promote) => 2,
    }
}

/// The verdict of a code, if one ended the rollout.
pub(super) const fn decided(code: u8) -> Option<Verdict> {
    match code {
        1 => Some(Verdict::Rollback),
        2 => Some(Verdict::Promote),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_code_is_given_once_and_stays() {
        let metrics: Vec<_> = (0..=14).map(|code| metric(code).map(Metric::as_str)).collect();
        let names = [
            "AgentRunLatency",
            "ModelTime",
            "ToolTime",
            "RequestLatency",
            "RequestTimeToFirstToken",
            "InterTokenLatency",
            "ModelCallsPerRun",
            "OutputTokensPerRun",
            "RunSuccess",
            "ApprovalWait",
            "Cancelled",
            "Shed",
            "TaskSuccess",
            "TimeToFirstToken",
        ];
        assert_eq!(metrics, names.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
        assert_eq!([0, 1, 2, 3].map(unit), [Some(Unit::Run), Some(Unit::Request), Some(Unit::Session), None]);
        assert_eq!([Unit::Run, Unit::Request, Unit::Session].map(of_unit), [0, 1, 2]);
        assert_eq!([Arm::Stable, Arm::Canary].map(of_arm), [0, 1]);
        assert_eq!([0, 1, 2].map(decided), [None, Some(Verdict::Rollback), Some(Verdict::Promote)]);
        assert_eq!([None, Some(Verdict::Rollback), Some(Verdict::Promote)].map(of_decided), [0, 1, 2]);
    }
}
