//! The configuration as people write it, and how it is read. Pure.

use serde::{Deserialize, Deserializer};
use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{
    Change, Config, ConfigError, CostGuard, CountedObjective, DEFAULT_MAX_SOAK_SECONDS, DEFAULT_SOAK_SECONDS,
    OnInconclusive, Prediction, Step, margin_bins,
};

/// The configuration as it is written; every field may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    steps: Option<Vec<WrittenStep>>,
    max_regression: Option<Percent>,
    false_rollback: Option<Percent>,
    warm_up_seconds: u64,
    on_inconclusive: OnInconclusive,
    objectives: Vec<WrittenObjective>,
    cost_guards: Vec<WrittenCostGuard>,
    task_failures_max: Option<f64>,
    error_rate_max: Option<Percent>,
    predictions: Vec<Prediction>,
    change: Change,
    first_revision: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenStep {
    weight_percent: f64,
    min_soak_seconds: Option<u64>,
    max_soak_seconds: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenObjective {
    metric: Metric,
    percentile: WrittenPercentile,
    max_microseconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenCostGuard {
    metric: Metric,
    max_increase: Percent,
}

/// A percentage: `"10%"` as people write it, or a bare fraction.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Percent {
    Text(String),
    Fraction(f64),
}

/// A percentile: `"p99"`, or the bare number 99.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum WrittenPercentile {
    Text(String),
    Number(f64),
}

impl TryFrom<Written> for Config {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        let defaults = Self::default();
        let cost_guards = written.cost_guards.into_iter().map(|guard| {
            let increase = guard.max_increase.fraction("maxIncrease", 0.0, 1_000.0)?;
            Ok(CostGuard { metric: guard.metric, margin_bins: margin_bins(increase) })
        });
        let steps = written.steps.map_or(defaults.steps, |steps| steps.into_iter().map(Step::from).collect());
        let margin_bins = match written.max_regression {
            None => defaults.margin_bins,
            Some(percent) => margin_bins(percent.fraction("maxRegression", 0.0, 1_000.0)?),
        };
        let alpha = match written.false_rollback {
            None => defaults.alpha,
            Some(percent) => percent.fraction("falseRollback", 0.001, 50.0)?,
        };
        let error_rate_max =
            written.error_rate_max.map(|percent| percent.fraction("errorRateMax", 0.0, 99.0)).transpose()?;
        let objectives = written.objectives.into_iter().enumerate().map(|(index, objective)| {
            let WrittenObjective { metric, percentile, max_microseconds } = objective;
            Ok(CountedObjective { metric, percentile: percentile.known(index)?, max_microseconds })
        });
        let config = Self {
            steps,
            margin_bins,
            alpha,
            warm_up_seconds: written.warm_up_seconds,
            on_inconclusive: written.on_inconclusive,
            objectives: objectives.collect::<Result<_, _>>()?,
            cost_guards: cost_guards.collect::<Result<_, ConfigError>>()?,
            task_failures_max: written.task_failures_max,
            error_rate_max,
            predictions: written.predictions,
            change: written.change,
            is_first_revision: written.first_revision,
        };
        config.check()
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Written::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl From<WrittenStep> for Step {
    fn from(written: WrittenStep) -> Self {
        let min_soak_seconds = written.min_soak_seconds.unwrap_or(DEFAULT_SOAK_SECONDS);
        Self {
            weight_percent: written.weight_percent,
            min_soak_seconds,
            max_soak_seconds: written.max_soak_seconds.unwrap_or(DEFAULT_MAX_SOAK_SECONDS.max(min_soak_seconds)),
        }
    }
}

impl Percent {
    /// The fraction that is meant, checked against limits in percent.
    fn fraction(&self, field: &'static str, low: f64, high: f64) -> Result<f64, ConfigError> {
        let (percent, text) = match self {
            Self::Text(text) => (text.strip_suffix('%').and_then(|number| number.trim().parse().ok()), text.clone()),
            Self::Fraction(fraction) => (Some(fraction * 100.0), fraction.to_string()),
        };
        let valid = percent.filter(|percent: &f64| (low..=high).contains(percent));
        valid.map(|percent| percent / 100.0).ok_or(ConfigError::Percent { field, text, low, high })
    }
}

impl WrittenPercentile {
    /// The percentile that is meant, in percent or as a share.
    fn known(&self, index: usize) -> Result<Percentile, ConfigError> {
        let (number, text) = match self {
            Self::Text(text) => (text.trim_start_matches(['p', 'P']).parse().ok(), text.clone()),
            Self::Number(number) => (Some(*number), number.to_string()),
        };
        let per_mille = number.map(|number: f64| if number <= 1.0 { number * 1_000.0 } else { number * 10.0 });
        per_mille
            .and_then(|given| {
                Percentile::ALL.into_iter().find(|known| (f64::from(known.per_mille()) - given).abs() < 0.05)
            })
            .ok_or(ConfigError::Percentile { index, text })
    }
}
