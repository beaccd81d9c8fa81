//! Fixed-threshold rules as users of Argo Rollouts and Flagger write them, re-stated from their documentation. Pure.

use std::collections::VecDeque;

use slipway_analysis::judge::{Arm, Window};
use slipway_vocabulary::evidence::{Histogram, Quantile};

use crate::simulate::{MEDIAN_MICROSECONDS, SIGMA};

/// A rule that is checked once a minute.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub minutes: usize,
    pub check: Check,
    /// The canary is rolled back when more checks than this have failed.
    pub failure_limit: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// The canary's quantile is so many times the objective, which is stable's without drift.
    Static(Quantile, f64),
    /// The canary's quantile is so many times stable's.
    Ratio(Quantile, f64),
    /// The canary's errors are above this share, and above twice stable's where `relative`.
    Errors { share: f64, relative: bool },
}

/// Argo Rollouts: an interval of a minute, queries over five; Flagger: queries over one minute, threshold 5 (it rolls
/// back at the fifth failed check, and never forgets one).
pub fn as_documented() -> Vec<Rule> {
    let rule =
        |name: &str, minutes, check, failure_limit| Rule { name: name.to_owned(), minutes, check, failure_limit };
    let (p95, p99) = (Quantile::P95, Quantile::P99);
    vec![
        rule("Argo p95 static, limit 0", 5, Check::Static(p95, 1.2), 0),
        rule("Argo p95 ratio, limit 0", 5, Check::Ratio(p95, 1.2), 0),
        rule("Argo p95 ratio, limit 3", 5, Check::Ratio(p95, 1.2), 3),
        rule("Flagger p99 static, 5", 1, Check::Static(p99, 1.2), 4),
        rule("Flagger p99 ratio, 5", 1, Check::Ratio(p99, 1.2), 4),
        rule("Argo errors > 1 % and > 2x", 5, Check::Errors { share: 0.01, relative: true }, 0),
        rule("Flagger success < 99 %, 5", 1, Check::Errors { share: 0.01, relative: false }, 4),
    ]
}

/// Thresholds that a careful user tries, the most sensitive first.
const RATIOS: [f64; 10] = [1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 3.0];
const ERRORS: [f64; 8] = [0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1];

/// What a careful user tunes: each rule with every threshold, the most sensitive first.
pub fn to_be_tuned() -> [Vec<Rule>; 5] {
    let rule = |name: String, minutes, check, failure_limit| Rule { name, minutes, check, failure_limit };
    let argo = RATIOS.map(|ratio| {
        rule(format!("Argo p95 ratio, limit 3, tuned: {ratio}x"), 5, Check::Ratio(Quantile::P95, ratio), 3)
    });
    let flagger = RATIOS
        .map(|ratio| rule(format!("Flagger p99 ratio, 5, tuned: {ratio}x"), 1, Check::Ratio(Quantile::P99, ratio), 4));
    let errors = ERRORS.map(|share| {
        let name = format!("Argo errors and > 2x, limit 3, tuned: {} %", 100.0 * share);
        rule(name, 5, Check::Errors { share, relative: true }, 3)
    });
    let argo_static = RATIOS.map(|ratio| {
        rule(format!("Argo p95 static, limit 0, tuned: {ratio}x"), 5, Check::Static(Quantile::P95, ratio), 0)
    });
    let flagger_static = RATIOS.map(|ratio| {
        rule(format!("Flagger p99 static, 5, tuned: {ratio}x"), 1, Check::Static(Quantile::P99, ratio), 4)
    });
    [argo_static.to_vec(), flagger_static.to_vec(), argo.to_vec(), flagger.to_vec(), errors.to_vec()]
}

#[derive(Clone, Debug, Default)]
struct Arms {
    histograms: [Histogram; 2],
    count: [u64; 2],
    errors: [u64; 2],
}

/// Runs some rules over the same windows.
pub struct Rules<'a> {
    rules: &'a [Rule],
    recent: VecDeque<Arms>,
    failures: Vec<u32>,
    pub fired_seconds: Vec<Option<u64>>,
}

impl<'a> Rules<'a> {
    pub fn new(rules: &'a [Rule]) -> Self {
        let (failures, fired_seconds) = (vec![0; rules.len()], vec![None; rules.len()]);
        Self { rules, recent: VecDeque::new(), failures, fired_seconds }
    }

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
        for (position, rule) in self.rules.iter().enumerate() {
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
            Check::Static(q, ratio) => quantile(0, q).is_some_and(|value| value > ratio * objective(q)),
            Check::Ratio(q, ratio) => {
                quantile(0, q).zip(quantile(1, q)).is_some_and(|(canary, stable)| canary > ratio * stable)
            }
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
