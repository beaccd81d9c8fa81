//! The windows over which runs are counted, and the pairs of them that alert. Pure.

use std::fmt;

use super::objective::Share;

/// A span of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Window {
    /// Five minutes.
    Minutes5,
    /// Half an hour.
    Minutes30,
    /// An hour.
    Hour1,
    /// Two hours.
    Hours2,
    /// Six hours.
    Hours6,
    /// A day.
    Day1,
    /// Three days.
    Days3,
}

impl Window {
    /// The windows of alerts that wake people, evaluated as often as Prometheus evaluates anything.
    pub const SHORT: [Self; 4] = [Self::Minutes5, Self::Minutes30, Self::Hour1, Self::Hours6];
    /// The windows of alerts that can wait. They read days of samples.
    pub const LONG: [Self; 3] = [Self::Hours2, Self::Day1, Self::Days3];
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minutes5 => "5m",
            Self::Minutes30 => "30m",
            Self::Hour1 => "1h",
            Self::Hours2 => "2h",
            Self::Hours6 => "6h",
            Self::Day1 => "1d",
            Self::Days3 => "3d",
        })
    }
}

/// How soon someone should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Now.
    Critical,
    /// On the next working day.
    Warning,
}

impl Severity {
    /// The value of the label `severity`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// Two windows that must both be bad: the long one shows that it matters, the short one that it still goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The long window.
    pub long: Window,
    /// The short window.
    pub short: Window,
    /// How soon someone should look.
    pub severity: Severity,
}

/// The pairs of the SRE workbook for a budget of 30 days, each with its burn rate in tenths. They alert at 2 % of the
/// budget within an hour, 5 % within six, and 10 % within a day or three.
/// <https://sre.google/workbook/alerting-on-slos/#6-multiwindow-multi-burn-rate-alerts>
pub const BURN_PAIRS: [(Pair, u32); 4] = [
    (Pair { long: Window::Hour1, short: Window::Minutes5, severity: Severity::Critical }, 144),
    (Pair { long: Window::Hours6, short: Window::Minutes30, severity: Severity::Critical }, 60),
    (Pair { long: Window::Day1, short: Window::Hours2, severity: Severity::Warning }, 30),
    (Pair { long: Window::Days3, short: Window::Hours6, severity: Severity::Warning }, 10),
];

/// The pairs for objectives that allow a tenth or more of bad runs.
pub const MISS_PAIRS: [Pair; 2] = [BURN_PAIRS[0].0, BURN_PAIRS[2].0];

/// The share of bad runs that burns the budget this many tenths of times too fast, but at most half of all runs. With
/// the standard factors, a p95 would alert only at 72 % of bad runs.
///
/// In burn rates this is min(standard, 0.5 / (1 - p)).
pub fn burning_share(allowed: Share, tenths: u32) -> Share {
    allowed.times_tenths(tenths).min(Share::HALF)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    /// Written out by hand: 14.4, 6, 3 and 1 times the allowed share, and never more than a half.
    #[rstest]
    #[case::p99_9(1_000, ["0.0144", "0.006", "0.003", "0.001"])]
    #[case::p99(10_000, ["0.144", "0.06", "0.03", "0.01"])]
    #[case::p95(50_000, ["0.5", "0.3", "0.15", "0.05"])]
    #[case::nearly_a_tenth(99_999, ["0.5", "0.5", "0.299997", "0.099999"])]
    #[case::no_errors_at_all(0, ["0", "0", "0", "0"])]
    fn thresholds_are_burn_rates_times_the_allowed_share(#[case] ppm: u32, #[case] expected: [&str; 4]) {
        let allowed = Share::from_parts_per_million(ppm);
        let thresholds = BURN_PAIRS.map(|(_, tenths)| burning_share(allowed, tenths).decimal());
        assert_eq!(thresholds, expected.map(str::to_owned));
    }
}
