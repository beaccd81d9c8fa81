//! The judge's configuration: steps, margins, objectives, policy. Pure.

mod written;

use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::OnInconclusive;
use slipway_vocabulary::{
    LatencyObjective, Percentile,
    evidence::{Metric, bucket},
};
use thiserror::Error;

/// A configuration of the judge, checked. The offline form is the `config` of the first line of an evidence file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The steps, ascending by weight; at least one.
    pub steps: Vec<Step>,
    /// Buckets within the largest tolerated relative regression, at least [`MIN_MARGIN_BINS`].
    pub margin_bins: u16,
    /// The probability of rolling back a canary that does no harm.
    pub alpha: f64,
    /// How long a new pod's windows are left out.
    pub warm_up_seconds: u64,
    /// What to do when a step's longest soak passes without a verdict.
    pub on_inconclusive: OnInconclusive,
    /// Latency objectives.
    pub objectives: Vec<CountedObjective>,
    /// What runs cost, as far as it guards the rollout: at most one for each of [`COSTS`].
    pub cost_guards: Vec<CostGuard>,
    /// How far more often tasks may fail than stable's, as far as it guards the rollout: a factor of the odds, above 1.
    pub task_failures_max: Option<f64>,
    /// The largest tolerated share of errors.
    pub error_rate_max: Option<f64>,
    /// What the confirm runs predict of a metric where the serving plan changed.
    pub predictions: Vec<Prediction>,
    /// What the new revision changes, which decides the guardrails.
    pub change: Change,
    /// Whether no revision has served before: absolute guards only.
    pub is_first_revision: bool,
}

/// The smallest margin of lane S: 4 buckets, 9.05 %. Below it a slightly slower pod is taken for a slower revision.
pub const MIN_MARGIN_BINS: u16 = 4;

/// The most latency objectives a rollout is judged by, as many as a spec may have.
pub const MAX_OBJECTIVES: usize = 16;

/// One step of a rollout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The canary's share of new traffic, percent, in `(0, 100]`.
    pub weight_percent: f64,
    /// The shortest time at this step.
    pub min_soak_seconds: u64,
    /// The longest time at this step without a verdict.
    pub max_soak_seconds: u64,
}

/// A latency objective on a metric of the evidence: its `percentile` is at most `max_microseconds`. Any time that pods
/// count can be bounded, so it is wider than a [`LatencyObjective`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedObjective {
    /// The metric.
    pub metric: Metric,
    /// The percentile.
    pub percentile: Percentile,
    /// The limit in microseconds.
    pub max_microseconds: u64,
}

impl From<&LatencyObjective> for CountedObjective {
    fn from(objective: &LatencyObjective) -> Self {
        Self {
            metric: Metric::of(objective.metric),
            percentile: objective.percentile,
            max_microseconds: objective.max_microseconds,
        }
    }
}

/// What a run costs and pods count.
pub const COSTS: [Metric; 2] = [Metric::ModelCallsPerRun, Metric::OutputTokensPerRun];

/// A guard on what a run costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostGuard {
    /// What is counted, one of [`COSTS`].
    pub metric: Metric,
    /// Buckets within the largest tolerated relative increase, at least [`MIN_MARGIN_BINS`].
    pub margin_bins: u16,
}

/// The ratio of canary to stable that the confirm runs predict; below one it counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prediction {
    /// The metric.
    pub metric: Metric,
    /// The predicted ratio in percent: 200 is twice as slow.
    pub ratio_percent: u32,
}

/// What a revision changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Unknown or both: every latency metric and errors are guarded.
    #[default]
    Any,
    /// Engine or configuration: errors, model time and the latencies of requests; those of runs against their
    /// objectives only.
    Engine,
    /// Prompt or tools: run latency and errors.
    Agent,
}

/// Why a configuration is refused. Each message names the field and what to write instead.
#[derive(Debug, Error, PartialEq)]
pub enum ConfigError {
    /// There is no step.
    #[error(
        "steps: at least one step is needed, for example {{\"weightPercent\":5,\"minSoakSeconds\":600,\"maxSoakSeconds\":3600}}"
    )]
    NoStep,
    /// A weight is outside its range.
    #[error("steps[{index}].weightPercent: {weight} is not in (0, 100]")]
    Weight {
        /// Position of the step.
        index: usize,
        /// What was given.
        weight: f64,
    },
    /// A weight does not exceed the one before it.
    #[error("steps[{index}].weightPercent: {weight} does not exceed the step before it: sort the steps by weight")]
    Order {
        /// Position of the step.
        index: usize,
        /// What was given.
        weight: f64,
    },
    /// The longest soak is shorter than the shortest.
    #[error("steps[{index}].maxSoakSeconds: {max} is less than minSoakSeconds {min}")]
    Soak {
        /// Position of the step.
        index: usize,
        /// Shortest soak.
        min: u64,
        /// Longest soak.
        max: u64,
    },
    /// A percentage does not parse or is out of range.
    #[error("{field}: {text:?} is not a percentage between {low}% and {high}%, such as \"10%\"")]
    Percent {
        /// The field.
        field: &'static str,
        /// What was given.
        text: String,
        /// Smallest value, percent.
        low: f64,
        /// Largest value, percent.
        high: f64,
    },
    /// The judge does not know a percentile.
    #[error("objectives[{index}].percentile: {text:?} is none of p50, p90, p95, p99, p99.9")]
    Percentile {
        /// Position of the objective.
        index: usize,
        /// What was given.
        text: String,
    },
    /// A limit is zero.
    #[error("objectives[{index}].maxMicroseconds: 0 is not a limit; give microseconds, 500000 for 500 ms")]
    Limit {
        /// Position of the objective.
        index: usize,
    },
    /// There are more objectives than the judge's state has room for.
    #[error("objectives: {count} are too many for the judge's state, at most {MAX_OBJECTIVES}")]
    TooManyObjectives {
        /// How many there are.
        count: usize,
    },
    /// Two objectives have the same metric and percentile.
    #[error("objectives[{index}]: {metric} has this percentile twice")]
    Duplicate {
        /// Position of the second.
        index: usize,
        /// The metric.
        metric: Metric,
    },
    /// An objective is on a metric that is not a latency.
    #[error(
        "objectives[{index}].metric: {metric} is not a latency; use AgentRunLatency, TimeToFirstToken, ModelTime, ToolTime, RequestLatency, RequestTimeToFirstToken or InterTokenLatency"
    )]
    NoLatency {
        /// Position of the objective.
        index: usize,
        /// The metric.
        metric: Metric,
    },
    /// A guard is on a metric that no run costs.
    #[error("costGuards[{index}].metric: {metric} is not a cost of a run; use ModelCallsPerRun or OutputTokensPerRun")]
    NoCost {
        /// Position of the guard.
        index: usize,
        /// The metric.
        metric: Metric,
    },
    /// Two guards have the same metric.
    #[error("costGuards[{index}]: {metric} is guarded twice; keep one of them")]
    DuplicateCost {
        /// Position of the second.
        index: usize,
        /// The metric.
        metric: Metric,
    },
    /// The factor leaves nothing to tolerate, or it is not a number.
    #[error("taskFailuresMax: {factor} is not above 1: give the factor that is tolerated, 1.5 for half as many again")]
    TaskFailures {
        /// What was given.
        factor: f64,
    },
    /// A predicted ratio is zero or absurd.
    #[error("predictions[{index}].ratioPercent: {ratio} is not in 1..=100000 (200 is twice as slow)")]
    Ratio {
        /// Position of the prediction.
        index: usize,
        /// What was given.
        ratio: u32,
    },
}

/// Shortest soak of a step that names none, and of the default steps.
pub(super) const DEFAULT_SOAK_SECONDS: u64 = 600;

/// Longest soak of a step that names none: long enough for the non-inferiority of two requests a second.
pub(super) const DEFAULT_MAX_SOAK_SECONDS: u64 = 7_200;

impl Default for Config {
    fn default() -> Self {
        let step = |weight_percent| Step {
            weight_percent,
            min_soak_seconds: DEFAULT_SOAK_SECONDS,
            max_soak_seconds: DEFAULT_MAX_SOAK_SECONDS,
        };
        Self {
            steps: [5.0, 20.0, 50.0].map(step).to_vec(),
            margin_bins: MIN_MARGIN_BINS,
            alpha: 0.01,
            warm_up_seconds: 0,
            on_inconclusive: OnInconclusive::Pause,
            objectives: Vec::new(),
            cost_guards: Vec::new(),
            task_failures_max: None,
            error_rate_max: None,
            predictions: Vec::new(),
            change: Change::Any,
            is_first_revision: false,
        }
    }
}

impl Config {
    /// Checks a configuration that was built by hand.
    ///
    /// # Errors
    /// [`ConfigError`], the first field that is wrong.
    pub fn check(self) -> Result<Self, ConfigError> {
        check_steps(&self.steps)?;
        if self.objectives.len() > MAX_OBJECTIVES {
            return Err(ConfigError::TooManyObjectives { count: self.objectives.len() });
        }
        for (index, objective) in self.objectives.iter().enumerate() {
            let CountedObjective { metric, percentile, max_microseconds } = *objective;
            if !is_latency(metric) {
                return Err(ConfigError::NoLatency { index, metric });
            }
            if max_microseconds == 0 {
                return Err(ConfigError::Limit { index });
            }
            if self.objectives[..index].iter().any(|other| (other.metric, other.percentile) == (metric, percentile)) {
                return Err(ConfigError::Duplicate { index, metric });
            }
        }
        for (index, CostGuard { metric, .. }) in self.cost_guards.iter().enumerate() {
            let metric = *metric;
            if !COSTS.contains(&metric) {
                return Err(ConfigError::NoCost { index, metric });
            }
            if self.cost_guards[..index].iter().any(|other| other.metric == metric) {
                return Err(ConfigError::DuplicateCost { index, metric });
            }
        }
        if let Some(factor) = self.task_failures_max.filter(|factor| !(*factor > 1.0 && factor.is_finite())) {
            return Err(ConfigError::TaskFailures { factor });
        }
        for (index, prediction) in self.predictions.iter().enumerate() {
            if !(1..=100_000).contains(&prediction.ratio_percent) {
                return Err(ConfigError::Ratio { index, ratio: prediction.ratio_percent });
            }
        }
        Ok(self)
    }

    /// The guard on a cost, where there is one.
    pub(super) fn cost_guard(&self, metric: Metric) -> Option<CostGuard> {
        self.cost_guards.iter().find(|guard| guard.metric == metric).copied()
    }

    /// The factor of the odds by which the failures of a metric may exceed stable's, where one is tolerated.
    pub(super) fn tolerated_odds(&self, metric: Metric) -> Option<f64> {
        self.task_failures_max.filter(|_| metric == Metric::TaskSuccess && !self.is_first_revision)
    }

    /// Buckets within the largest tolerated increase of a metric.
    pub(super) fn margin_bins_of(&self, metric: Metric) -> u16 {
        self.cost_guard(metric).map_or(self.margin_bins, |guard| guard.margin_bins)
    }

    /// Buckets by which the reference of a metric lies above stable: the predicted ratio, never less than none. A user
    /// waits for the first token through most of a run, whose ratio stands for it where none is known.
    #[must_use]
    pub fn predicted_bins(&self, metric: Metric) -> u16 {
        let of = |metric: Metric| self.predictions.iter().find(|prediction| prediction.metric == metric);
        let of_run = || (metric == Metric::TimeToFirstToken).then(|| of(Metric::AgentRunLatency)).flatten();
        let ratio = of(metric).or_else(of_run);
        let ppm = ratio.map_or(0, |prediction| prediction.ratio_percent.saturating_sub(100).saturating_mul(10_000));
        bucket::bins_within(ppm)
    }
}

/// Whether a metric is a time that users wait.
#[must_use]
pub const fn is_latency(metric: Metric) -> bool {
    match metric {
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::RequestLatency
        | Metric::TimeToFirstToken
        | Metric::RequestTimeToFirstToken
        | Metric::InterTokenLatency => true,
        Metric::ModelCallsPerRun
        | Metric::OutputTokensPerRun
        | Metric::RunSuccess
        | Metric::TaskSuccess
        | Metric::ApprovalWait
        | Metric::Cancelled
        | Metric::Shed => false,
    }
}

fn check_steps(steps: &[Step]) -> Result<(), ConfigError> {
    if steps.is_empty() {
        return Err(ConfigError::NoStep);
    }
    let mut before = 0.0;
    for (index, step) in steps.iter().enumerate() {
        let weight = step.weight_percent;
        if !(weight > 0.0 && weight <= 100.0) {
            return Err(ConfigError::Weight { index, weight });
        }
        if weight <= before {
            return Err(ConfigError::Order { index, weight });
        }
        if step.max_soak_seconds < step.min_soak_seconds {
            return Err(ConfigError::Soak { index, min: step.min_soak_seconds, max: step.max_soak_seconds });
        }
        before = weight;
    }
    Ok(())
}

/// Floors a relative margin to whole buckets, at least [`MIN_MARGIN_BINS`].
#[must_use]
pub fn margin_bins(fraction: f64) -> u16 {
    bucket::bins_within((fraction * 1e6).round() as u32).max(MIN_MARGIN_BINS)
}

#[cfg(test)]
mod tests;
