//! What a memory belongs to, as a hash of a text: the judge's configuration, or the baseline of a drift test. Pure.
//!
//! The texts are what every release has hashed so far, so that a memory in a user's cluster goes on after an upgrade.
//! Their words are codes, written out here: to rename a type or a field changes none of them.

use slipway_vocabulary::evidence::{Metric, Quantile};

use crate::{
    drift::baseline::{Baseline, Counts},
    judge::{
        config::{Change, Config, CostGuard, CountedObjective, OnInconclusive, Prediction, Step},
        strata::hash,
    },
};

/// The hash of everything in a configuration that the meaning of the state depends on.
pub(super) fn of_config(config: &Config) -> u32 {
    hash(&config_text(config))
}

/// The hash of everything in a baseline.
pub(crate) fn of_baseline(baseline: &Baseline) -> u32 {
    hash(&baseline_text(baseline))
}

fn config_text(config: &Config) -> String {
    // Without `..`, so that a new field cannot be forgotten here.
    let Config {
        steps,
        margin_bins,
        alpha,
        warm_up_seconds,
        on_inconclusive,
        objectives,
        cost_guards,
        task_failures_max,
        error_rate_max,
        predictions,
        change,
        is_first_revision,
    } = config;
    // A configuration without them has the text of releases that did not know them.
    let cost_guards = if cost_guards.is_empty() {
        String::new()
    } else {
        format!(", cost_guards: [{}]", joined(cost_guards, cost_guard))
    };
    let task_failures_max =
        task_failures_max.map_or_else(String::new, |factor| format!(", task_failures_max: {factor:?}"));
    let error_rate_max = error_rate_max.map_or_else(|| "None".to_owned(), |max| format!("Some({max:?})"));
    format!(
        "Config {{ steps: [{}], margin_bins: {margin_bins}, alpha: {alpha:?}, warm_up_seconds: {warm_up_seconds}, \
         on_inconclusive: {}, objectives: [{}], error_rate_max: {error_rate_max}, predictions: [{}], change: {}, \
         is_first_revision: {is_first_revision}{cost_guards}{task_failures_max} }}",
        joined(steps, step),
        match on_inconclusive {
            OnInconclusive::Pause => "Pause",
            OnInconclusive::Rollback => "Rollback",
            OnInconclusive::Promote => "Promote",
        },
        joined(objectives, objective),
        joined(predictions, prediction),
        match change {
            Change::Any => "Any",
            Change::Engine => "Engine",
            Change::Agent => "Agent",
        },
    )
}

fn step(Step { weight_percent, min_soak_seconds, max_soak_seconds }: &Step) -> String {
    format!(
        "Step {{ weight_percent: {weight_percent:?}, min_soak_seconds: {min_soak_seconds}, \
         max_soak_seconds: {max_soak_seconds} }}"
    )
}

fn objective(CountedObjective { metric, percentile, max_microseconds }: &CountedObjective) -> String {
    let (metric, parts) = (word(*metric), Quantile::from(*percentile).parts_per_ten_thousand());
    format!("Objective {{ metric: {metric}, percentile: Quantile({parts}), max_microseconds: {max_microseconds} }}")
}

fn cost_guard(CostGuard { metric, margin_bins }: &CostGuard) -> String {
    format!("CostGuard {{ metric: {}, margin_bins: {margin_bins} }}", word(*metric))
}

fn prediction(Prediction { metric, ratio_percent }: &Prediction) -> String {
    format!("Prediction {{ metric: {}, ratio_percent: {ratio_percent} }}", word(*metric))
}

/// The word of a metric. The first token of a request keeps the name under which it was hashed first.
const fn word(metric: Metric) -> &'static str {
    match metric {
        Metric::RequestTimeToFirstToken => "TimeToFirstToken",
        Metric::TimeToFirstToken => "UserTimeToFirstToken",
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::RequestLatency
        | Metric::InterTokenLatency
        | Metric::ModelCallsPerRun
        | Metric::OutputTokensPerRun
        | Metric::RunSuccess
        | Metric::ApprovalWait
        | Metric::Cancelled
        | Metric::Shed
        | Metric::TaskSuccess => metric.as_str(),
    }
}

fn baseline_text(baseline: &Baseline) -> String {
    let Baseline { identity, promoted_seconds, counted } = baseline;
    let identity: Vec<_> = identity.iter().map(|(name, value)| format!("{name:?}: {value:?}")).collect();
    let metric = |metric: Metric| {
        let strata: Vec<_> = counted.strata(metric).collect();
        let strata = joined(&strata, |(stratum, of)| format!("{stratum:?}: {}", counts(of)));
        format!("{}: {{{strata}}}", word(metric))
    };
    let metrics: Vec<_> = counted.metrics().map(metric).collect();
    format!(
        "Baseline {{ identity: {{{}}}, promoted_seconds: {promoted_seconds}, counted: Counted {{ metrics: {{{}}} }} }}",
        identity.join(", "),
        metrics.join(", ")
    )
}

fn counts(Counts { count, errors, buckets }: &Counts) -> String {
    let pairs: Vec<_> = buckets.pairs().map(|(index, count)| format!("({index}, {count})")).collect();
    let buckets = format!("Histogram {{ counts: [{}] }}", pairs.join(", "));
    format!("Counts {{ count: {count}, errors: {errors}, buckets: {buckets} }}")
}

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::{Percentile, evidence::Histogram};

    use super::*;

    /// A configuration with something in every field.
    fn config() -> Config {
        Config {
            steps: vec![Step { weight_percent: 12.5, min_soak_seconds: 60, max_soak_seconds: 600 }],
            objectives: vec![CountedObjective {
                metric: Metric::AgentRunLatency,
                percentile: Percentile::P95,
                max_microseconds: 500_000,
            }],
            error_rate_max: Some(0.02),
            predictions: vec![Prediction { metric: Metric::RequestLatency, ratio_percent: 120 }],
            change: Change::Engine,
            ..Config::default()
        }
    }

    #[test]
    fn the_text_of_a_configuration_stays() {
        let text = "Config { steps: [Step { weight_percent: 12.5, min_soak_seconds: 60, max_soak_seconds: 600 }], \
                    margin_bins: 4, alpha: 0.01, warm_up_seconds: 0, on_inconclusive: Pause, objectives: [Objective { \
                    metric: AgentRunLatency, percentile: Quantile(9500), max_microseconds: 500000 }], error_rate_max: \
                    Some(0.02), predictions: [Prediction { metric: RequestLatency, ratio_percent: 120 }], change: \
                    Engine, is_first_revision: false }";
        assert_eq!(config_text(&config()), text);
    }

    #[test]
    fn what_a_run_may_cost_is_part_of_the_text_where_it_is_guarded() {
        let guard = CostGuard { metric: Metric::OutputTokensPerRun, margin_bins: 8 };
        let text = config_text(&Config { cost_guards: vec![guard], ..config() });
        let end = "is_first_revision: false, cost_guards: [CostGuard { metric: OutputTokensPerRun, margin_bins: 8 }] }";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn how_often_tasks_may_fail_is_part_of_the_text_where_it_is_guarded() {
        let text = config_text(&Config { task_failures_max: Some(1.5), ..config() });
        assert!(text.ends_with("is_first_revision: false, task_failures_max: 1.5 }"), "{text}");
    }

    #[test]
    fn the_first_token_of_requests_and_that_of_users_are_never_mistaken() {
        let of = |metric| prediction(&Prediction { metric, ratio_percent: 120 });
        assert_eq!(
            [Metric::RequestTimeToFirstToken, Metric::TimeToFirstToken].map(of),
            [
                "Prediction { metric: TimeToFirstToken, ratio_percent: 120 }",
                "Prediction { metric: UserTimeToFirstToken, ratio_percent: 120 }"
            ]
        );
    }

    #[test]
    fn the_text_of_a_baseline_stays() {
        let identity = [("engine", "sha256:1"), ("gpu", "H100")].map(|(name, of)| (name.to_owned(), of.to_owned()));
        let mut baseline = Baseline::new(identity.into(), 600);
        let buckets = Histogram::from_pairs([(16, 1), (17, 3)]).expect("buckets of the table");
        baseline.counted.set(Metric::ModelTime, "miss/p9/f0".to_owned(), Counts { count: 5, errors: 1, buckets });
        baseline.counted.set(Metric::RunSuccess, String::new(), Counts { count: 5, errors: 1, ..Counts::default() });
        let text = "Baseline { identity: {\"engine\": \"sha256:1\", \"gpu\": \"H100\"}, promoted_seconds: 600, counted: \
                    Counted { metrics: {ModelTime: {\"miss/p9/f0\": Counts { count: 5, errors: 1, buckets: Histogram { \
                    counts: [(16, 1), (17, 3)] } }}, RunSuccess: {\"\": Counts { count: 5, errors: 1, buckets: \
                    Histogram { counts: [] } }}} } }";
        assert_eq!(baseline_text(&baseline), text);
    }
}
