//! How the judge judges, as far as the spec says it. Pure.

use slipway_analysis::judge::{Change, Config, CostGuard, CountedObjective, Step, config};
use slipway_crds::v1alpha1::AgentDeploymentSpec;
use slipway_vocabulary::LatencyObjective;

/// The configuration for these steps, without what depends on the change itself.
pub(super) fn judge_config(spec: &AgentDeploymentSpec, steps: Vec<Step>) -> Config {
    let (rollout, judge) = (&spec.rollout, &spec.rollout.judge);
    let objectives = spec.slo.objectives.iter().take(config::MAX_OBJECTIVES).map(LatencyObjective::from);
    let costs = judge.costs.iter().map(|guard| CostGuard {
        metric: guard.metric.into(),
        margin_bins: config::margin_bins(guard.max_increase.ratio()),
    });
    Config {
        steps,
        margin_bins: config::margin_bins(judge.max_regression.ratio()),
        alpha: judge.false_rollback_probability(),
        warm_up_seconds: judge.warm_up.seconds_rounded_up(),
        on_inconclusive: rollout.on_inconclusive,
        objectives: objectives.map(|objective| CountedObjective::from(&objective)).collect(),
        cost_guards: costs.collect(),
        error_rate_max: spec.slo.error_rate.as_ref().map(|error_rate| error_rate.max.ratio()),
        predictions: Vec::new(),
        change: Change::Any,
        is_first_revision: false,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::evidence::Metric;

    use super::*;

    fn spec(judge: &str) -> AgentDeploymentSpec {
        let text = format!(
            "model: {{uri: 'http://models.example/react'}}\n\
             engine: {{backend: Custom, custom: {{builderImage: b, tritonImage: t}}}}\n\
             agent: {{systemPrompt: Answer.}}\n\
             rollout: {{traffic: {{type: ReplicaRatio}}, judge: {judge}}}\n"
        );
        serde_norway::from_str(&text).expect("a valid spec")
    }

    #[test]
    fn costs_guard_with_margins_of_their_own_and_only_where_the_spec_bounds_them() {
        let costs =
            "{costs: [{metric: OutputTokensPerRun, maxIncrease: 20%}, {metric: ModelCallsPerRun, maxIncrease: 1%}]}";
        let guards = [("{}", vec![]), (costs, vec![(Metric::OutputTokensPerRun, 8), (Metric::ModelCallsPerRun, 4)])];
        for (judge, expected) in guards {
            let found = judge_config(&spec(judge), Vec::new()).cost_guards;
            let found: Vec<_> = found.iter().map(|guard| (guard.metric, guard.margin_bins)).collect();
            assert_eq!(found, expected);
        }
    }
}
