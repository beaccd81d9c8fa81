//! Fixed-threshold rules as users of Argo Rollouts and Flagger write them, re-stated from their documentation. Pure.

use std::collections::VecDeque;

use slipway_analysis::judge::{Arm, Window};
use slipway_vocabulary::evidence::{Histogram, Quantile};

use crate::simulate::{MEDIAN_MICROSECONDS, SIGMA};

/// A rule that is checked once a minute.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub minutes: usize,
    pub check: Check,
    /// The canary is rolled back when more checks than this have failed.
    pub failure_limit: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// The canary's quantile is above 1.2 times the objective, which is stable's without drift.
    Static(Quantile),
    /// The canary's quantile is above 1.2 times stable's.
    Ratio(Quantile),
    /// The canary's errors are above this share, and above twice stable's where `relative`.
    Errors { share: f64, relative: bool },
}

/// Argo Rollouts: an interval of a minute, queries over five; Flagger: queries over one minute, threshold 5 (it rolls
/// back at the fifth failed check, and never forgets one).
pub const RULES: [Rule; 7] = [
    Rule { name: "Argo p95 static, limit 0", minutes: 5, check: Check::Static(Quantile::P95), failure_limit: 0 },
    Rule { name: "Argo p95 ratio, limit 0", minutes: 5, check: Check::Ratio(Quantile::P95), failure_limit: 0 },
    Rule { name: "Argo p95 ratio, limit 3", minutes: 5, check: Check::Ratio(Quantile::P95), failure_limit: 3 },
    Rule { name: "Flagger p99 static, 5", minutes: 1, check: Check::Static(Quantile::P99), failure_limit: 4 },
    Rule { name: "Flagger p99 ratio, 5", minutes: 1, check: Check::Ratio(Quantile::P99), failure_limit: 4 },
    Rule {
        name: "Argo errors > 1 % and > 2x",
        minutes: 5,
        check: Check::Errors { share: 0.01, relative: true },
        failure_limit: 0,
    },
    Rule {
        name: "Flagger success < 99 %, 5",
        minutes: 1,
        check: Check::Errors { share: 0.01, relative: false },
        failure_limit: 4,
    },
];

#[derive(Clone, Debug, Default)]
struct Arms {
    histograms: [Histogram; 2],
    count: [u64; 2],
    errors: [u64; 2],
}

/// Runs every rule over the same windows.
#[derive(Default)]
pub struct Rules {
    recent: VecDeque<Arms>,
    failures: [u32; RULES.len()],
    pub fired_seconds: [Option<u64>; RULES.len()],
}

impl Rules {
    pub fn consume(&mut self, window: &Window) {
        let mut arms = Arms::default();
        for observation in &window.observations {
            let arm = usize::from(observation.arm == Arm::Stable);
            arms.histograms[arm].merge(&observation.buckets);
            arms.count[arm] += observation.count;
            arms.errors[arm] += observation.errors;
        }
        self.recent.push_back(arms);
        if self.recent.len() > 30 {
            self.recent.pop_front();
        }
        if !window.end_seconds.is_multiple_of(60) {
            return;
        }
        for (position, rule) in RULES.iter().enumerate() {
            if self.fired_seconds[position].is_none() && self.fails(rule) {
                self.failures[position] += 1;
                if self.failures[position] > rule.failure_limit {
                    self.fired_seconds[position] = Some(window.end_seconds);
                }
            }
        }
    }

    fn fails(&self, rule: &Rule) -> bool {
        let mut sum = Arms::default();
        for arms in self.recent.iter().rev().take(rule.minutes * 6) {
            for arm in 0..2 {
                sum.histograms[arm].merge(&arms.histograms[arm]);
                sum.count[arm] += arms.count[arm];
                sum.errors[arm] += arms.errors[arm];
            }
        }
        let quantile = |arm: usize, quantile| sum.histograms[arm].quantile(quantile).map(|bounds| bounds.upper as f64);
        match rule.check {
            Check::Static(q) => quantile(0, q).is_some_and(|value| value > 1.2 * objective(q)),
            Check::Ratio(q) => quantile(0, q).zip(quantile(1, q)).is_some_and(|(canary, stable)| canary > 1.2 * stable),
            Check::Errors { share, relative } => {
                let rate = |arm: usize| sum.errors[arm] as f64 / sum.count[arm].max(1) as f64;
                rate(0) > share && (!relative || rate(0) > 2.0 * rate(1))
            }
        }
    }
}

/// Stable's quantile without drift: the objective such a user would have measured.
pub fn objective(quantile: Quantile) -> f64 {
    let z = match quantile {
        Quantile::P99 => 2.326_347_874,
        _ => 1.644_853_627,
    };
    MEDIAN_MICROSECONDS * f64::exp(SIGMA * z)
}
