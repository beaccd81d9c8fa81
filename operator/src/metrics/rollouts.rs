//! What a rollout is judged by, as metrics in the words of its status: for dashboards, and for questions afterwards
//! what was known when.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use kube::{ResourceExt, runtime::reflector::Store};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use slipway_crds::v1alpha1::agent_deployment::RolloutStatus;

use super::conditions::Agents;

/// There are as many names as AgentDeployments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
}

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

/// Reads the rollouts when metrics are asked for. An AgentDeployment without a canary is in none of them. Hashes of
/// plans are no labels: every edit would be a series of its own.
#[derive(Debug, Clone, Default)]
pub struct Rollouts(Arc<OnceLock<Agents>>);

impl Rollouts {
    /// Names the objects. A second call changes nothing.
    pub fn of(&self, agents: Agents) {
        self.0.get_or_init(|| agents);
    }

    /// Those with a canary, by namespace and name.
    fn under_way(&self) -> Vec<(Labels, RolloutStatus)> {
        let objects = self.0.get().map(Store::state).unwrap_or_default();
        let agents = objects.iter().filter_map(|object| object.0.as_ref().ok());
        let rollouts = agents.filter_map(|agent| {
            let rollout = agent.status.as_ref()?.rollout.clone().filter(|rollout| rollout.canary.is_some())?;
            Some((Labels { namespace: agent.namespace().unwrap_or_default(), name: agent.name_any() }, rollout))
        });
        let mut rollouts: Vec<_> = rollouts.collect();
        rollouts.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rollouts
    }
}

impl Collector for Rollouts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rollouts = self.under_way();
        let help = "Share of the traffic that a canary has, in percent";
        let mut family = encoder.encode_descriptor("rollout_canary_weight_percent", help, None, MetricType::Gauge)?;
        for (labels, rollout) in &rollouts {
            ConstGauge::new(i64::from(rollout.weight.unwrap_or(0))).encode(family.encode_family(labels)?)?;
        }
        let help = "What the judge said last of a canary: 1 for its verdict and reason";
        let mut family = encoder.encode_descriptor("rollout_verdict", help, None, MetricType::Gauge)?;
        for labels in rollouts.iter().filter_map(|(labels, rollout)| verdict(labels, rollout)) {
            ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        }
        let help = "Natural logarithm of the evidence that a canary does harm, guard by guard";
        let mut family = encoder.encode_descriptor("rollout_log_evidence", help, None, MetricType::Gauge)?;
        for (labels, value) in rollouts.iter().flat_map(|(labels, rollout)| guards(labels, rollout)) {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn verdict(labels: &Labels, rollout: &RolloutStatus) -> Option<VerdictLabels> {
    let Labels { namespace, name } = labels.clone();
    let (verdict, reason) = (rollout.verdict?.as_str().to_owned(), rollout.reason.clone().unwrap_or_default());
    Some(VerdictLabels { namespace, name, verdict, reason })
}

fn guards(labels: &Labels, rollout: &RolloutStatus) -> Vec<(GuardLabels, f64)> {
    let guard = |guard: &str| {
        let Labels { namespace, name } = labels.clone();
        GuardLabels { namespace, name, guard: guard.to_owned() }
    };
    let numbers = rollout
        .evidence
        .iter()
        .filter_map(|evidence| Some((guard(&evidence.guard), evidence.log_evidence.parse().ok()?)));
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use kube::{
        core::DeserializeGuard,
        runtime::{reflector, watcher::Event},
    };
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use slipway_crds::v1alpha1::AgentDeployment;

    use super::super::Metrics;

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
        let (store, mut writer) = reflector::store();
        agents.into_iter().for_each(|agent| writer.apply_watcher_event(&Event::Apply(agent)));
        let metrics = Metrics::new();
        metrics.show(store);
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
        ];
        assert_eq!(lines(vec![agent("support", &rollout)]), expected);
    }

    #[test]
    fn a_canary_without_a_verdict_has_none_and_an_agent_without_a_canary_is_in_no_metric() {
        let starting = agent("starting", &json!({"stable": "0a", "canary": "1b", "weight": 0}));
        let at_rest = agent("at-rest", &json!({"stable": "0a", "verdict": "Promote", "reason": "NonInferior"}));
        let expected = [r#"slipway_operator_rollout_canary_weight_percent{namespace="team",name="starting"} 0"#];
        assert_eq!(lines(vec![starting, at_rest]), expected);
    }
}
