//! What a rollout is judged by, as metrics in the words of its status: for dashboards, and for questions afterwards
//! what was known when.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};
use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{GuardrailStatus, RolloutStatus},
};

use super::gauges::{Family, Object};

/// Verdicts and reasons are closed vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    namespace: String,
    name: String,
    verdict: String,
    reason: String,
}

/// Guards are metrics of a closed vocabulary, each with a harm; of those of `spec.slo` there are at most as many as
/// objectives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabels {
    namespace: String,
    name: String,
    guard: String,
}

/// Guardrails are those of `spec.rollout.guardrails`: at most eight.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardrailLabels {
    namespace: String,
    name: String,
    guardrail: String,
}

/// A rollout with what its evidence is compared with.
pub struct UnderWay {
    rollout: RolloutStatus,
    /// Natural logarithm of the evidence at which a canary is rolled back.
    threshold: f64,
}

impl UnderWay {
    /// That of an agent with a canary. Hashes of plans are not shown: every edit would be a series of its own.
    pub fn of(agent: &AgentDeployment) -> Option<Self> {
        let rollout = agent.status.as_ref()?.rollout.clone().filter(|rollout| rollout.canary.is_some())?;
        let threshold = -agent.spec.rollout.judge.false_rollback_probability().ln();
        Some(Self { rollout, threshold })
    }
}

/// Writes the rollouts of agents. One without a canary is in none of them.
///
/// # Errors
/// Those of the encoder.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Option<UnderWay>)]) -> fmt::Result {
    let rollouts: Vec<_> = agents.iter().filter_map(|(object, rollout)| Some((object, rollout.as_ref()?))).collect();
    let help = "Share of the traffic that a canary has, in percent";
    let mut family = encoder.encode_descriptor("rollout_canary_weight_percent", help, None, MetricType::Gauge)?;
    for (object, UnderWay { rollout, .. }) in &rollouts {
        ConstGauge::new(i64::from(rollout.weight.unwrap_or(0))).encode(family.encode_family(*object)?)?;
    }
    let help = "What the judge said last of a canary: 1 for its verdict and reason";
    let mut family = encoder.encode_descriptor("rollout_verdict", help, None, MetricType::Gauge)?;
    for labels in rollouts.iter().filter_map(|(object, of)| verdict(object, &of.rollout)) {
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
    }
    let help = "Natural logarithm of the evidence that a canary does harm, guard by guard";
    Family { name: "rollout_log_evidence", help, unit: None }
        .encode(encoder, rollouts.iter().flat_map(|(object, of)| guards(object, &of.rollout)))?;
    let help = "Natural logarithm at which the weighted mean of all guards' evidence rolls a canary back";
    Family { name: "rollout_log_evidence_threshold", help, unit: None }
        .encode(encoder, rollouts.iter().map(|(object, of)| ((*object).clone(), of.threshold)))?;
    let help = "Expected duration of the whole rollout at stable's traffic";
    let expected = rollouts
        .iter()
        .filter_map(|(object, of)| Some(((*object).clone(), of.rollout.expected_verdict_seconds? as f64)));
    Family { name: "rollout_expected_verdict", help, unit: Some(&Unit::Seconds) }.encode(encoder, expected)?;
    let of_guardrails = |millionths: fn(&GuardrailStatus) -> Option<i64>| {
        rollouts.iter().flat_map(move |(object, of)| guardrails(object, &of.rollout, millionths))
    };
    let help = "Last value of a guardrail for the canary";
    Family { name: "rollout_guardrail_value", help, unit: None }
        .encode(encoder, of_guardrails(|guardrail| guardrail.value_millionths))?;
    let help = "Largest value of a guardrail";
    Family { name: "rollout_guardrail_limit", help, unit: None }
        .encode(encoder, of_guardrails(|guardrail| guardrail.limit_millionths))
}

fn verdict(object: &Object, rollout: &RolloutStatus) -> Option<VerdictLabels> {
    let Object { namespace, name } = object.clone();
    let (verdict, reason) = (rollout.verdict?.as_str().to_owned(), rollout.reason.clone().unwrap_or_default());
    Some(VerdictLabels { namespace, name, verdict, reason })
}

fn guards(object: &Object, rollout: &RolloutStatus) -> Vec<(GuardLabels, f64)> {
    let guard = |guard: &str| {
        let Object { namespace, name } = object.clone();
        GuardLabels { namespace, name, guard: guard.to_owned() }
    };
    let numbers = rollout
        .evidence
        .iter()
        .filter_map(|evidence| Some((guard(&evidence.guard), evidence.log_evidence.parse().ok()?)));
    numbers.collect()
}

fn guardrails(
    object: &Object,
    rollout: &RolloutStatus,
    millionths: fn(&GuardrailStatus) -> Option<i64>,
) -> Vec<(GuardrailLabels, f64)> {
    let numbers = rollout.guardrails.iter().filter_map(|guardrail| {
        let Object { namespace, name } = object.clone();
        let labels = GuardrailLabels { namespace, name, guardrail: guardrail.name.clone() };
        Some((labels, millionths(guardrail)? as f64 / 1e6))
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use kube::{core::DeserializeGuard, runtime::watcher::Event};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use slipway_crds::v1alpha1::AgentDeployment;

    use super::super::Metrics;
    use crate::kube_io::cache::cache;

    fn agent(name: &str, rollout: &Value) -> DeserializeGuard<AgentDeployment> {
        let agent = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "model": {"uri": "http://models/react-512/"},
                "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
                "agent": {},
            },
            "status": {"rollout": rollout},
        });
        serde_json::from_value(agent).expect("a constant agent is one")
    }

    /// Lines about rollouts, with these objects in the cluster.
    fn lines(agents: Vec<DeserializeGuard<AgentDeployment>>) -> Vec<String> {
        let (shown, mut writer) = cache();
        agents.into_iter().for_each(|agent| drop(writer.take(Event::Apply(agent))));
        let metrics = Metrics::new();
        metrics.show(shown);
        let text = metrics.encode();
        text.lines().filter(|line| line.starts_with("slipway_operator_rollout")).map(str::to_owned).collect()
    }

    #[test]
    fn a_canary_is_seen_in_the_metrics_with_its_share_its_verdict_and_its_evidence() {
        let rollout = json!({
            "stable": "0a", "canary": "1b", "weight": 20, "verdict": "Hold", "reason": "Soaking",
            "evidence": [
                {"guard": "AgentRunLatency/relative", "logEvidence": "-1.25"},
                {"guard": "RunSuccess/errors", "logEvidence": "0.00"},
            ],
        });
        let expected = [
            r#"slipway_operator_rollout_canary_weight_percent{namespace="team",name="support"} 20"#,
            r#"slipway_operator_rollout_verdict{namespace="team",name="support",verdict="Hold",reason="Soaking"} 1"#,
            r#"slipway_operator_rollout_log_evidence{namespace="team",name="support",guard="AgentRunLatency/relative"} -1.25"#,
            r#"slipway_operator_rollout_log_evidence{namespace="team",name="support",guard="RunSuccess/errors"} 0.0"#,
            r#"slipway_operator_rollout_log_evidence_threshold{namespace="team",name="support"} 4.605170185988091"#,
        ];
        assert_eq!(lines(vec![agent("support", &rollout)]), expected);
    }

    #[test]
    fn a_canary_without_a_verdict_has_none_and_an_agent_without_a_canary_is_in_no_metric() {
        let starting = agent("starting", &json!({"stable": "0a", "canary": "1b", "weight": 0}));
        let at_rest = agent("at-rest", &json!({"stable": "0a", "verdict": "Promote", "reason": "NonInferior"}));
        let expected = [
            r#"slipway_operator_rollout_canary_weight_percent{namespace="team",name="starting"} 0"#,
            r#"slipway_operator_rollout_log_evidence_threshold{namespace="team",name="starting"} 4.605170185988091"#,
        ];
        assert_eq!(lines(vec![starting, at_rest]), expected);
    }
}
