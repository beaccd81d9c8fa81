//! The conditions of AgentDeployments as metrics, in the words of their status: what alerts on the operator's own work
//! rest on.

use std::fmt;

use kube::{ResourceExt, core::DeserializeGuard};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use slipway_crds::v1alpha1::AgentDeployment;

use super::gauges::Watched;

/// Types, states and reasons are closed vocabularies; there are as many names as AgentDeployments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
    condition: String,
    status: String,
    reason: String,
}

/// Reads the conditions when metrics are asked for, so that an object which is gone has none.
#[derive(Debug, Clone)]
pub struct Conditions(pub Watched<DeserializeGuard<AgentDeployment>>);

impl Conditions {
    fn labels(&self) -> Vec<Labels> {
        let mut labels: Vec<Labels> = self.0.rows(|object| Some(labels_of(object))).into_iter().flatten().collect();
        labels.sort_by(|a, b| (&a.namespace, &a.name, &a.condition).cmp(&(&b.namespace, &b.name, &b.condition)));
        labels
    }
}

fn labels_of(object: &DeserializeGuard<AgentDeployment>) -> Vec<Labels> {
    let Ok(agent) = &object.0 else { return Vec::new() };
    let conditions = agent.status.iter().flat_map(|status| &status.conditions);
    let labels = conditions.map(|condition| Labels {
        namespace: agent.namespace().unwrap_or_default(),
        name: agent.name_any(),
        condition: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
    });
    labels.collect()
}

impl Collector for Conditions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Conditions of AgentDeployments: 1 for the state and reason that each has";
        let mut family = encoder.encode_descriptor("agentdeployment_condition", help, None, MetricType::Gauge)?;
        for labels in self.labels() {
            ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::Metrics;
    use crate::kube_io::cache::cache;

    /// Lines about conditions, after events of a watch.
    fn lines(events: Vec<Event<super::DeserializeGuard<super::AgentDeployment>>>) -> Vec<String> {
        let (agents, mut writer) = cache();
        events.into_iter().for_each(|event| drop(writer.take(event)));
        let metrics = Metrics::new();
        metrics.show(agents);
        let text = metrics.encode();
        text.lines().filter(|line| line.starts_with("slipway_operator_agentdeployment")).map(str::to_owned).collect()
    }

    fn stalled() -> super::DeserializeGuard<super::AgentDeployment> {
        let condition = json!({
            "type": "Stalled", "status": "True", "reason": "JobFailed", "message": "exit code 3",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let agent = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
            "metadata": {"name": "support", "namespace": "team"},
            "spec": {
                "model": {"uri": "http://models/react-512/"},
                "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
                "agent": {},
            },
            "status": {"conditions": [condition]},
        });
        serde_json::from_value(agent).expect("a constant agent is one")
    }

    #[test]
    fn an_agent_that_is_stalled_is_seen_in_the_metrics_with_its_reason() {
        let expected = "slipway_operator_agentdeployment_condition{namespace=\"team\",name=\"support\",condition=\"Stalled\",\
                        status=\"True\",reason=\"JobFailed\"} 1";
        assert_eq!(lines(vec![Event::Apply(stalled())]), [expected]);
    }

    #[test]
    fn an_agent_that_is_gone_is_in_no_metric() {
        assert_eq!(lines(vec![Event::Apply(stalled()), Event::Delete(stalled())]), Vec::<String>::new());
    }
}
