//! The conditions of AgentDeployments as metrics, in the words of their status: what alerts on the operator's own work
//! rest on.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use slipway_crds::v1alpha1::AgentDeployment;

use super::gauges::Object;

/// Types, states and reasons are closed vocabularies; there are as many names as AgentDeployments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
    condition: String,
    status: String,
    reason: String,
}

/// The conditions of an agent, by type: type, state and reason of each.
pub struct Standing(Vec<[String; 3]>);

impl Standing {
    /// As its status has them.
    pub fn of(agent: &AgentDeployment) -> Self {
        let conditions = agent.status.iter().flat_map(|status| &status.conditions);
        let words =
            conditions.map(|condition| [&condition.type_, &condition.status, &condition.reason].map(Clone::clone));
        let mut standing: Vec<_> = words.collect();
        standing.sort();
        Self(standing)
    }
}

/// Writes the conditions of agents.
///
/// # Errors
/// Those of the encoder.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Standing)]) -> fmt::Result {
    let help = "Conditions of AgentDeployments: 1 for the state and reason that each has";
    let mut family = encoder.encode_descriptor("agentdeployment_condition", help, None, MetricType::Gauge)?;
    let all =
        agents.iter().flat_map(|(object, Standing(conditions))| conditions.iter().map(move |words| (object, words)));
    for (object, words) in all {
        let (Object { namespace, name }, [condition, status, reason]) = (object.clone(), words.clone());
        let labels = Labels { namespace, name, condition, status, reason };
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::{core::DeserializeGuard, runtime::watcher::Event};
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use slipway_crds::v1alpha1::AgentDeployment;

    use super::super::Metrics;
    use crate::kube_io::cache::cache;

    /// Lines about conditions, after events of a watch.
    fn lines(events: Vec<Event<DeserializeGuard<AgentDeployment>>>) -> Vec<String> {
        let (agents, mut writer) = cache();
        events.into_iter().for_each(|event| drop(writer.take(event)));
        let metrics = Metrics::new();
        metrics.show(agents);
        let text = metrics.encode();
        text.lines().filter(|line| line.starts_with("slipway_operator_agentdeployment")).map(str::to_owned).collect()
    }

    fn stalled() -> DeserializeGuard<AgentDeployment> {
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
