//! How far measured latencies and throughputs may be off, as standard errors of their logarithm. Pure.

/// The least standard error that is believed: machines differ by as much from run to run.
const LEAST: f64 = 0.01;
/// The standard error of what says nothing of its spread.
const UNKNOWN: f64 = 0.3;
/// One-sided bounds of 95 % lie so many standard errors away.
pub const ERRORS_TO_BOUND: f64 = 1.645;

/// A measured percentile with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    /// The percentile of the sample.
    pub value: f64,
    /// Its lower bound; 0 if nothing is known of it.
    pub lower: f64,
    /// Its upper bound, where there were enough requests for one.
    pub upper: Option<f64>,
}

/// The standard error in ln of a figure that is sampled of a device. It has no bounds: verdicts compare it as it is.
/// So does a search, also where recorded measurements are replayed.
pub const SAMPLED_LOG_ERROR: f64 = 0.0;

/// The standard error of a percentile in ln: half the width of its bounds; without an upper one, as a high percentile
/// of few requests has none, what lies below. One that was not measured is known least.
#[must_use]
pub fn latency_log_error(of: Option<Bounded>) -> f64 {
    let Some(Bounded { value, lower, upper }) = of.filter(|of| of.lower > 0.0) else { return UNKNOWN };
    let (upper, sides) = upper.map_or((value, 1.0), |upper| (upper, 2.0));
    let width = (upper.max(1.0) / lower).ln() / sides;
    (width / ERRORS_TO_BOUND).clamp(LEAST, UNKNOWN)
}

/// The standard error of a throughput in ln: what the run itself showed ([`super::throughput_error_by_batches`]), if it
/// was long enough. A shorter run is known by its number of requests. So many in flight finish at the pace of their
/// mean latency, whose error is about that of the median; and no counting is worse than that of independent arrivals.
#[must_use]
pub fn throughput_log_error(shown: Option<f64>, count: u64, slowest_median: Option<Bounded>) -> f64 {
    let by_count = 1.0 / (count.max(1) as f64).sqrt();
    shown.unwrap_or_else(|| latency_log_error(slowest_median).min(by_count)).clamp(LEAST, UNKNOWN)
}

/// The factor between a value and its one-sided bounds of 95 %.
#[must_use]
pub fn factor_to_bound(log_error: f64) -> f64 {
    (ERRORS_TO_BOUND * log_error).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(lower: f64, upper: Option<f64>) -> Option<Bounded> {
        Some(Bounded { value: 100.0, lower, upper })
    }

    #[test]
    fn wider_bounds_are_a_greater_error_up_to_that_of_the_unknown() {
        let errors = [bounded(98.0, Some(102.0)), bounded(90.0, Some(110.0)), bounded(90.0, None), bounded(0.0, None)];
        let errors = errors.map(latency_log_error);
        assert!((errors[0] - (102.0_f64 / 98.0).ln() / 2.0 / 1.645).abs() < 1e-12);
        assert!(errors[0] < errors[1] && errors[1] < errors[2] + 0.01, "{errors:?}");
        assert_eq!((errors[3], latency_log_error(None)), (UNKNOWN, UNKNOWN));
        assert_eq!(latency_log_error(bounded(100.0, Some(100.0))), LEAST);
    }

    #[test]
    fn a_throughput_is_known_by_its_count_or_better_by_its_median() {
        assert_eq!(throughput_log_error(None, 100, None), 0.1);
        assert_eq!(throughput_log_error(None, 100, bounded(100.0, Some(100.0))), LEAST);
        assert_eq!(throughput_log_error(None, 0, None), UNKNOWN);
        assert!((factor_to_bound(0.1) - 1.1788).abs() < 1e-4);
    }

    #[test]
    fn what_a_run_shows_counts_for_more_than_its_number_of_requests() {
        let known = bounded(100.0, Some(100.0));
        let errors = [Some(0.09), Some(0.0), Some(f64::INFINITY)].map(|shown| throughput_log_error(shown, 100, known));
        assert_eq!(errors, [0.09, LEAST, UNKNOWN]);
    }
}
