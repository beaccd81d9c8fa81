//! What a run at a cell is worth: the chance that it is feasible and the improvement to expect. Pure.
//!
//! Constrained expected improvement (Schonlau, Welch and Jones, 1998; Gardner et al., ICML 2014) of ln objective. All
//! tied metrics share the throughput deviation T, so it is integrated out by the trapezoid rule; given T they are
//! independent.

use super::surrogate::{Belief, MetricBelief};
use super::{Constraint, MetricKind, Space};
use crate::pareto::Direction;
use crate::slo::Bound;

/// Nodes of the quadrature over T: evenly spaced to four standard deviations, because a bound on throughput is a step.
const NODES: usize = 25;
/// Distance of the nodes in standard deviations.
const SPACING: f64 = 8.0 / (NODES - 1) as f64;
/// An improvement counts at most as this many e-folds, so that a wide prior does not promise the world.
const MOST_GAIN: f64 = 1.0;

/// The worth of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score {
    /// Chance that it runs and meets every constraint.
    pub feasible: f64,
    /// Expected gain in ln objective over the incumbent, zero where infeasible. Without incumbent: expected ln
    /// objective is in `objective` and this is 0.
    pub gain: f64,
    /// Expected ln objective, larger is better.
    pub objective: f64,
    /// Standard deviation of ln objective.
    pub spread: f64,
    /// Chance that the limits on what is sampled of the device are met.
    pub sampled: f64,
}

/// Scores cells of a space against the incumbent. What is the same for every cell is worked out once.
#[derive(Debug)]
pub(super) struct Scorer {
    direction: Direction,
    objective: usize,
    /// ln objective of the incumbent, larger is better, if there is one.
    incumbent: Option<f64>,
    limits: Vec<Limit>,
    /// Nodes in standard deviations and their weights.
    nodes: [(f64, f64); NODES],
}

/// A constraint in logarithms.
#[derive(Debug, Clone, Copy)]
struct Limit {
    metric: usize,
    /// 1 for an upper limit, -1 for a lower one.
    sign: f64,
    /// Whether its metric is sampled of the device.
    is_sampled: bool,
    /// ln (limit + floor); a limit that nothing positive meets, or everything does, is infinitely far.
    ln: f64,
}

impl Limit {
    fn new(constraint: &Constraint, kind: MetricKind, floor: f64) -> Self {
        let (limit, sign) = match constraint.bound {
            Bound::AtMost(limit) => (limit, 1.0),
            Bound::AtLeast(limit) => (limit, -1.0),
        };
        let limit = limit + floor;
        let ln = if limit <= 0.0 { f64::NEG_INFINITY } else { limit.ln() };
        Self { metric: constraint.metric, sign, is_sampled: kind.is_sampled(), ln }
    }

    /// The distance in logarithms by which a mean meets it; negative when it misses.
    fn room(self, mean: f64) -> f64 {
        self.sign * (self.ln - mean)
    }

    /// The chance that a metric meets it, given T.
    fn chance(self, metric: &MetricBelief, throughput: f64, sd: f64) -> f64 {
        normal_cdf(self.room(metric.known + metric.coupling * throughput + metric.own.mean), sd)
    }
}

impl Scorer {
    /// For a space whose metrics have floors, and the incumbent's ln objective, larger is better.
    pub(super) fn new(space: &Space, floor: impl Fn(usize) -> f64, incumbent: Option<f64>) -> Self {
        let limit = |constraint: &Constraint| {
            Limit::new(constraint, space.metrics[constraint.metric].kind, floor(constraint.metric))
        };
        let node = |node: usize| {
            let z = SPACING * node as f64 - 4.0;
            (z, SPACING * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt())
        };
        Self {
            direction: space.direction,
            objective: space.objective,
            incumbent,
            limits: space.constraints.iter().map(limit).collect(),
            nodes: std::array::from_fn(node),
        }
    }

    /// Scores a cell.
    pub(super) fn score(&self, belief: &Belief) -> Score {
        let sd = belief.throughput.variance.sqrt();
        let objective = &belief.metrics[self.objective];
        let own_sd = objective.own.variance.sqrt();
        let (mut feasible, mut gain) = (0.0, 0.0);
        for (z, weight) in self.nodes {
            let throughput = belief.throughput.mean + sd * z;
            let chance = |limit: &Limit| {
                let metric = &belief.metrics[limit.metric];
                limit.chance(metric, throughput, metric.own.variance.sqrt())
            };
            let meets: f64 = self.limits.iter().map(chance).product();
            feasible += weight * meets;
            if let Some(incumbent) = self.incumbent {
                let mean = objective.known + objective.coupling * throughput + objective.own.mean;
                gain += weight * meets * improvement(self.direction.as_cost(-mean) - incumbent, own_sd);
            }
        }
        let (mean, spread) = law(belief, self.objective);
        let objective = self.direction.as_cost(-mean);
        let sampled = self.limits.iter().filter(|limit| limit.is_sampled).map(|limit| {
            let (mean, sd) = law(belief, limit.metric);
            normal_cdf(limit.room(mean), sd)
        });
        let sampled = sampled.product();
        Score { feasible: feasible * belief.runs, gain: gain * belief.runs, objective, spread, sampled }
    }

    /// The upper bound of a cell's score. Its chance is that of the constraint least likely to be met; it is 1 where
    /// one is expected to be met, because the belief's variances may be too large. Its gain is that chance of
    /// [`MOST_GAIN`], or the objective's own expected improvement. A few exponentials instead of a quadrature.
    pub(super) fn at_most(&self, belief: &Belief) -> Score {
        let chance = |limit: &Limit| {
            let (mean, sd) = law(belief, limit.metric);
            match limit.room(mean) {
                room if room >= 0.0 => 1.0,
                room => normal_cdf(room, sd),
            }
        };
        let feasible = self.limits.iter().map(chance).fold(1.0, f64::min);
        let (mean, spread) = law(belief, self.objective);
        let objective = self.direction.as_cost(-mean);
        let improvement = |incumbent: f64| improvement(objective - incumbent, spread).min(feasible * MOST_GAIN);
        let gain = self.incumbent.map_or(0.0, improvement);
        Score { feasible: feasible * belief.runs, gain, objective, spread, sampled: 1.0 }
    }
}

/// Mean and standard deviation of a metric's ln value, T included.
fn law(belief: &Belief, metric: usize) -> (f64, f64) {
    let metric = &belief.metrics[metric];
    let mean = metric.known + metric.coupling * belief.throughput.mean + metric.own.mean;
    let variance = metric.coupling * metric.coupling * belief.throughput.variance + metric.own.variance;
    (mean, variance.sqrt())
}

/// P(N(0, sd^2) <= x); a step at 0, which counts, for sd 0.
fn normal_cdf(x: f64, sd: f64) -> f64 {
    if sd < 1e-9 {
        // Values at the limit meet it; the slack is that of a logarithm and an exponential.
        return if x >= -1e-9 { 1.0 } else { 0.0 };
    }
    // Abramowitz and Stegun, 26.2.17: absolute error below 7.5e-8.
    let z = x / sd;
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = series * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// E max(0, min(X, most)) of X ~ N(mean, sd^2).
fn improvement(mean: f64, sd: f64) -> f64 {
    if sd < 1e-9 {
        return mean.clamp(0.0, MOST_GAIN);
    }
    let above = |threshold: f64| {
        let z = (mean - threshold) / sd;
        (mean - threshold) * normal_cdf(z, 1.0) + sd * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
    };
    (above(0.0) - above(MOST_GAIN)).max(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::super::gp::Normal;
    use super::super::tests::two_axes;
    use super::*;

    proptest! {
        #[test]
        fn a_score_is_at_most_what_the_glance_says(
            throughput in (-2.0f64..2.0, 0.0f64..0.25),
            rate in 0.0f64..0.2,
            latency in (0.0f64..8.0, 0.05f64..0.2),
            incumbent in -2.0f64..2.0,
        ) {
            let space = two_axes();
            let normal = |(mean, variance)| Normal { mean, variance };
            let metric = |known, coupling, own| MetricBelief { known, coupling, own };
            let metrics = smallvec![
                metric(0.0, 1.0, normal((0.0, rate))),
                metric(latency.0, -1.0, normal((0.0, latency.1))),
            ];
            let belief = Belief { throughput: normal(throughput), metrics, runs: 1.0 };
            let scorer = Scorer::new(&space, |_| 0.0, Some(incumbent));
            let (exact, most) = (scorer.score(&belief), scorer.at_most(&belief));
            // The quadrature's own error.
            const SLACK: f64 = 1e-3;
            prop_assert!(exact.feasible <= most.feasible + SLACK, "{exact:?} {most:?}");
            prop_assert!(exact.gain <= most.gain + SLACK, "{exact:?} {most:?}");
            prop_assert_eq!((exact.objective, exact.spread), (most.objective, most.spread));
        }
    }
}
