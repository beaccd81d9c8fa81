//! How the judge judges, as far as the spec says it. Pure.

use slipway_analysis::judge::{Change, Config, CostGuard, CountedObjective, Step, config};
use slipway_crds::v1alpha1::AgentDeploymentSpec;
use slipway_vocabulary::LatencyObjective;

/// The configuration for these steps, without what depends on the change itself but for what a token of the canary
/// costs, as a multiple of stable's.
pub(super) fn judge_config(spec: &AgentDeploymentSpec, steps: Vec<Step>, token_cost_ratio: f64) -> Config {
    let (rollout, judge) = (&spec.rollout, &spec.rollout.judge);
    let objectives = spec.slo.objectives.iter().map(LatencyObjective::from);
    let margins = judge.cost_margins(token_cost_ratio).into_iter();
    let costs = margins.map(|(metric, margin)| CostGuard { metric, margin_bins: config::margin_bins(margin) });
    Config {
        steps,
        margin_bins: config::margin_bins(judge.max_regression.ratio()),
        alpha: judge.false_rollback_probability(),
        warm_up_seconds: judge.warm_up.seconds_rounded_up(),
        on_inconclusive: rollout.on_inconclusive,
        objectives: objectives.map(|objective| CountedObjective::from(&objective)).collect(),
        cost_guards: costs.collect(),
        task_failures_max: judge.task_failures_max(),
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
            let found = judge_config(&spec(judge), Vec::new(), 1.0).cost_guards;
            let found: Vec<_> = found.iter().map(|guard| (guard.metric, guard.margin_bins)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn money_is_bounded_by_the_tokens_that_a_run_may_write_for_it() {
        let guards = |costs: &str, ratio| {
            let config = judge_config(&spec(&format!("{{costs: [{costs}]}}")), Vec::new(), ratio);
            config.cost_guards.iter().map(|guard| (guard.metric, guard.margin_bins)).collect::<Vec<_>>()
        };
        let money = "{metric: CostPerRun, maxIncrease: 20%}";
        let tokens = |bins| vec![(Metric::OutputTokensPerRun, bins)];
        assert_eq!(guards(money, 1.0), tokens(8), "as many tokens cost as much");
        assert_eq!(guards(money, 0.6), tokens(32), "cheaper tokens may be twice as many");
        assert_eq!(guards(money, 1.1), tokens(4), "9.09 % more at most");
        let both = format!("{money}, {{metric: OutputTokensPerRun, maxIncrease: 50%}}");
        assert_eq!(guards(&both, 0.6), tokens(18), "the narrower of two bounds counts");
    }

    #[test]
    fn how_often_tasks_may_fail_is_a_factor_of_at_least_a_tenth_more() {
        let factor = |judge| judge_config(&spec(judge), Vec::new(), 1.0).task_failures_max;
        let found = ["{}", "{taskFailures: {maxIncrease: 50%}}", "{taskFailures: {maxIncrease: 1%}}"].map(factor);
        assert_eq!(found, [None, Some(1.5), Some(1.1)]);
    }
}
