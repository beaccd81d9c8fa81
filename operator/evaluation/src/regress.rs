//! A run against the recorded baseline of its configuration: the labs' regression detector, with bounds where records
//! exist. Pure.
//!
//! Without records a metric regresses when its point is worse than the baseline's by strictly more than the threshold.
//! With records of both runs it regresses when the *lower confidence bound* of the degradation exceeds the threshold.
//! What the records cannot bound (a p99 needs hundreds of them) is decided by its point, as the labs do, and shows no
//! bound.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_analysis::drift::{Identity, Incomparable, compare_identities};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// The labs' threshold: worse by more than 10 %.
pub const THRESHOLD: f64 = 0.10;

/// The labs' rolling threshold: a live p95 beyond 120 % of the baseline's.
pub const ROLLING_THRESHOLD: f64 = 0.20;

/// Error probability of each bound, both sides of both runs together.
pub const ALPHA: f64 = 0.05;

/// Least records of a run for a bound; the labs ask for 20 to 50 iterations.
pub const MIN_RECORDS: usize = 20;

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates and utilization.
    Higher,
    /// Times and memory.
    Lower,
}

/// How a metric follows from records.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FromRecords {
    /// A quantile of `total_ms`.
    Quantile(f64),
    /// The mean of the field of the same name.
    Mean,
    /// The largest value: no bound.
    Largest,
}

/// The metrics that are compared, as the profiling wrapper names them.
const METRICS: [(&str, Better, FromRecords); 9] = [
    ("decode_tokens_per_sec", Better::Higher, FromRecords::Mean),
    ("prefill_tokens_per_sec", Better::Higher, FromRecords::Mean),
    ("gpu_active_pct", Better::Higher, FromRecords::Mean),
    ("p50_ms", Better::Lower, FromRecords::Quantile(0.5)),
    ("p90_ms", Better::Lower, FromRecords::Quantile(0.9)),
    ("p95_ms", Better::Lower, FromRecords::Quantile(0.95)),
    ("p99_ms", Better::Lower, FromRecords::Quantile(0.99)),
    ("total_ms", Better::Lower, FromRecords::Mean),
    ("peak_memory_gb", Better::Lower, FromRecords::Largest),
];

/// The field of a record that latency quantiles are taken from.
const LATENCY_FIELD: &str = "total_ms";

/// One run of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// When it ran, as its tool wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// What was measured; runs of different identity are not compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identity: Identity,
    /// Metrics by name; those that are not known are kept and not compared.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// One entry per iteration: numbers by field, such as `total_ms`; fields that are not numbers are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<BTreeMap<String, f64>>,
}

/// The comparison of one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The metric.
    pub metric: &'static str,
    /// Its value in the baseline.
    pub baseline: f64,
    /// Its value now.
    pub current: f64,
    /// How much worse it is, percent; negative when better.
    pub degradation_pct: f64,
    /// The least degradation that the records allow, percent; absent without enough records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degradation_lower_bound_pct: Option<f64>,
    /// Whether this is a regression.
    pub regressed: bool,
}

/// The live p95 against the baseline's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rolling {
    /// Records per window.
    pub window: usize,
    /// The record, counted from one, after which the p95 of the last `window` was first beyond the threshold.
    pub alert_at_record: Option<usize>,
    /// The largest rolling p95, milliseconds.
    pub worst_p95_ms: f64,
    /// The baseline's p95, milliseconds.
    pub baseline_p95_ms: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Regression {
    /// Nothing is worse by more than the threshold.
    Ok {
        /// Every metric that both runs have.
        compared: Vec<Compared>,
        /// The rolling detector, where records exist.
        #[serde(skip_serializing_if = "Option::is_none")]
        rolling: Option<Rolling>,
    },
    /// At least one metric is.
    Regression {
        /// Every metric that both runs have.
        compared: Vec<Compared>,
        /// The rolling detector, where records exist.
        #[serde(skip_serializing_if = "Option::is_none")]
        rolling: Option<Rolling>,
    },
    /// The configuration has no baseline yet; this run is to become it.
    NoBaseline,
    /// The baseline is of something else.
    Incomparable {
        /// What differs.
        difference: Incomparable,
    },
}

/// How runs are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The degradation beyond which a metric regresses, as a fraction.
    pub threshold: f64,
    /// Records per window of the rolling detector.
    pub rolling_window: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { threshold: THRESHOLD, rolling_window: 100 }
    }
}

/// Compares a run with the baseline of its configuration.
///
/// Metrics that are zero, not finite or absent on either side are skipped.
#[must_use]
pub fn compare(baseline: Option<&Run>, current: &Run, rules: Rules) -> Regression {
    let Some(baseline) = baseline else { return Regression::NoBaseline };
    if let Err(difference) = compare_identities(&baseline.identity, &current.identity) {
        return Regression::Incomparable { difference };
    }
    let compared: Vec<Compared> =
        METRICS.iter().filter_map(|metric| compare_metric(*metric, baseline, current, rules)).collect();
    let rolling = rolling(baseline, current, rules);
    let has_alert = rolling.as_ref().is_some_and(|rolling| rolling.alert_at_record.is_some());
    if has_alert || compared.iter().any(|compared| compared.regressed) {
        Regression::Regression { compared, rolling }
    } else {
        Regression::Ok { compared, rolling }
    }
}

fn compare_metric(
    (name, better, from): (&'static str, Better, FromRecords),
    baseline: &Run,
    current: &Run,
    rules: Rules,
) -> Option<Compared> {
    let (before, now) = (baseline.value(name, from)?, current.value(name, from)?);
    let worse = |before: f64, now: f64| match better {
        Better::Higher => (before - now) / before,
        Better::Lower => (now - before) / before,
    };
    let bound = baseline.bounds(name, from).zip(current.bounds(name, from)).map(|(before, now)| match better {
        Better::Higher => worse(before.0, now.1),
        Better::Lower => worse(before.1, now.0),
    });
    let degradation = worse(before, now);
    Some(Compared {
        metric: name,
        baseline: before,
        current: now,
        degradation_pct: degradation * 100.0,
        degradation_lower_bound_pct: bound.map(|bound| bound * 100.0),
        regressed: bound.unwrap_or(degradation) > rules.threshold,
    })
}

impl Run {
    /// The value of a metric: as given, else from the records. Zero counts as absent.
    fn value(&self, name: &str, from: FromRecords) -> Option<f64> {
        let given = self.metrics.get(name).copied();
        given.or_else(|| self.recorded_value(name, from)).filter(|value| value.is_finite() && *value > 0.0)
    }

    fn recorded_value(&self, name: &str, from: FromRecords) -> Option<f64> {
        match from {
            FromRecords::Quantile(p) => {
                let sorted = self.sorted(LATENCY_FIELD);
                let rank = (p * sorted.len() as f64).ceil().max(1.0) as usize;
                sorted.get(rank - 1).copied()
            }
            FromRecords::Mean => {
                let values = self.sorted(name);
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            }
            FromRecords::Largest => self.sorted(name).last().copied(),
        }
    }

    /// Confidence bounds of a metric from the records, each side at `ALPHA / 4`: two sides, two runs.
    fn bounds(&self, name: &str, from: FromRecords) -> Option<(f64, f64)> {
        let side = ALPHA / 4.0;
        match from {
            FromRecords::Quantile(p) => quantile_bounds(&self.sorted(LATENCY_FIELD), p, side),
            FromRecords::Mean => mean_bounds(&self.sorted(name), side),
            FromRecords::Largest => None,
        }
    }

    /// The values of a field over all records, ascending; values that are not finite or not positive are skipped.
    fn sorted(&self, field: &str) -> Vec<f64> {
        let values = self.records.iter().filter_map(|record| record.get(field).copied());
        let mut values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Order statistics that bound a quantile, each with error at most `side`. They are `X_(l)` with `P(Bin(n, p) < l) <=
/// side` and `X_(u)` with `P(Bin(n, p) >= u) <= side` (David and Nagaraja, Order Statistics, 7.1). `None` when the
/// sample has none.
fn quantile_bounds(sorted: &[f64], p: f64, side: f64) -> Option<(f64, f64)> {
    if sorted.len() < MIN_RECORDS {
        return None;
    }
    let n = sorted.len() as u64;
    let binomial = Binomial::new(p, n).ok()?;
    let lower = (1..=n).take_while(|l| binomial.cdf(l - 1) <= side).last()?;
    let upper = (1..=n).find(|u| 1.0 - binomial.cdf(u - 1) <= side)?;
    Some((sorted[lower as usize - 1], sorted[upper as usize - 1]))
}

/// Student's bounds of a mean, each with error `side`.
fn mean_bounds(values: &[f64], side: f64) -> Option<(f64, f64)> {
    if values.len() < MIN_RECORDS {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
    let quantile = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(1.0 - side);
    let half = quantile * (variance / n).sqrt();
    Some((mean - half, mean + half))
}

/// The rolling p95 of the current records in their order, against the baseline's p95.
fn rolling(baseline: &Run, current: &Run, rules: Rules) -> Option<Rolling> {
    let baseline_p95_ms = baseline.value("p95_ms", FromRecords::Quantile(0.95))?;
    let latencies: Vec<f64> = current.records.iter().filter_map(|record| record.get(LATENCY_FIELD).copied()).collect();
    let window = rules.rolling_window.max(1);
    let p95s = latencies.windows(window).map(|window| {
        let mut sorted = window.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[(0.95 * sorted.len() as f64).ceil() as usize - 1]
    });
    let p95s: Vec<f64> = p95s.collect();
    let worst_p95_ms = p95s.iter().copied().reduce(f64::max)?;
    let limit = baseline_p95_ms * (1.0 + ROLLING_THRESHOLD);
    let alert_at_record = p95s.iter().position(|p95| *p95 > limit).map(|position| position + window);
    Some(Rolling { window, alert_at_record, worst_p95_ms, baseline_p95_ms })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::{BTreeMap, Identity, Regression, Rolling, Rules, Run, compare, quantile_bounds};

    fn run(metrics: &[(&str, f64)]) -> Run {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Run { metrics, ..Run::default() }
    }

    fn recorded(latencies: impl IntoIterator<Item = f64>) -> Run {
        let record = |latency| BTreeMap::from([("total_ms".to_owned(), latency)]);
        Run { records: latencies.into_iter().map(record).collect(), ..Run::default() }
    }

    fn regressed(regression: Regression) -> Vec<&'static str> {
        match regression {
            Regression::Ok { compared, .. } | Regression::Regression { compared, .. } => {
                compared.into_iter().filter(|compared| compared.regressed).map(|compared| compared.metric).collect()
            }
            Regression::NoBaseline | Regression::Incomparable { .. } => Vec::new(),
        }
    }

    #[test]
    fn each_metric_is_worse_in_its_own_direction() {
        let baseline = run(&[("decode_tokens_per_sec", 100.0), ("p95_ms", 100.0), ("peak_memory_gb", 10.0)]);
        let worse = run(&[("decode_tokens_per_sec", 80.0), ("p95_ms", 120.0), ("peak_memory_gb", 12.0)]);
        let better = run(&[("decode_tokens_per_sec", 120.0), ("p95_ms", 80.0), ("peak_memory_gb", 8.0)]);
        let compared = |current| regressed(compare(Some(&baseline), current, Rules::default()));
        assert_eq!(compared(&worse), ["decode_tokens_per_sec", "p95_ms", "peak_memory_gb"]);
        assert_eq!(compared(&better), [""; 0]);
    }

    #[test]
    fn exactly_the_threshold_is_no_regression() {
        let compared = |now| {
            let (baseline, current) = (run(&[("p50_ms", 1_000.0)]), run(&[("p50_ms", now)]));
            regressed(compare(Some(&baseline), &current, Rules::default()))
        };
        assert_eq!((compared(1_100.0).len(), compared(1_100.1).len()), (0, 1));
    }

    #[test]
    fn zero_and_absent_metrics_are_skipped() {
        let baseline = run(&[("p50_ms", 0.0), ("p90_ms", 10.0), ("unknown", 1.0)]);
        let current = run(&[("p50_ms", 5.0), ("p99_ms", 10.0), ("unknown", 9.0)]);
        let expected = Regression::Ok { compared: Vec::new(), rolling: None };
        assert_eq!(compare(Some(&baseline), &current, Rules::default()), expected);
    }

    #[test]
    fn a_first_run_has_no_baseline_and_another_identity_is_incomparable() {
        assert_eq!(compare(None, &run(&[]), Rules::default()), Regression::NoBaseline);
        let on = |gpu: &str| Run { identity: Identity::from([("gpu".into(), gpu.into())]), ..run(&[("p50_ms", 1.0)]) };
        let Regression::Incomparable { difference } = compare(Some(&on("H100")), &on("A100"), Rules::default()) else {
            panic!("comparable");
        };
        assert_eq!(difference.to_string(), "gpu was H100 and is A100");
    }

    #[test]
    fn with_records_a_noisy_median_is_no_finding_and_a_shift_is() {
        let noise = |i: usize| (i * 7_919 % 97) as f64;
        let baseline = recorded((0..25).map(|i| 100.0 + 2.0 * noise(i)));
        let noisy = recorded((30..55).map(|i| 125.0 + 2.0 * noise(i)));
        let shifted = recorded((0..25).map(|i| 2.0 * (100.0 + 2.0 * noise(i))));
        let compared = |current: &Run| compare(Some(&baseline), current, Rules::default());
        let Regression::Regression { compared: noisy, .. } = compared(&noisy) else { panic!("ok") };
        let median = &noisy[0];
        assert!(median.degradation_pct > 10.0, "{median:?}");
        assert!(median.degradation_lower_bound_pct.unwrap() < 10.0 && !median.regressed, "{median:?}");
        assert_eq!(regressed(compared(&shifted))[0], "p50_ms");
    }

    #[test]
    fn a_percentile_that_records_cannot_bound_is_decided_by_its_point() {
        let latencies = |scale: f64| recorded((0..50_u32).map(move |i| scale * f64::from(100 + i)));
        let regression = compare(Some(&latencies(1.0)), &latencies(1.15), Rules::default());
        let Regression::Regression { compared, .. } = regression else { panic!("ok") };
        let p99 = compared.iter().find(|compared| compared.metric == "p99_ms").unwrap();
        assert_eq!((p99.degradation_lower_bound_pct, p99.regressed), (None, true));
    }

    #[test]
    fn the_rolling_p95_alerts_beyond_twenty_percent_at_the_record_that_tells() {
        let baseline = run(&[("p95_ms", 100.0)]);
        let current = recorded((0..60).map(|i| if i < 40 { 100.0 } else { 130.0 }));
        let rules = Rules { rolling_window: 20, ..Rules::default() };
        let Regression::Regression { rolling, .. } = compare(Some(&baseline), &current, rules) else { panic!("ok") };
        let expected = Rolling { window: 20, alert_at_record: Some(42), worst_p95_ms: 130.0, baseline_p95_ms: 100.0 };
        assert_eq!(rolling, Some(expected));
    }

    proptest! {
        #[test]
        fn quantile_bounds_contain_the_sample_quantile(
            mut values in prop::collection::vec(1.0..1e6_f64, 100..300), p in 0.2..0.8_f64,
        ) {
            values.sort_by(f64::total_cmp);
            let (lower, upper) = quantile_bounds(&values, p, 0.0125).unwrap();
            let at = values[(p * values.len() as f64).ceil() as usize - 1];
            prop_assert!(lower <= at && at <= upper);
        }
    }
}
