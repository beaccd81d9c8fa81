//! What serving costs as metrics, in US dollars: the choice's prediction and price, and `slo.cost`.
//!
//! What it costs in fact follows from the price of a replica, the pods and the runs: Prometheus has all three.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{CostFigures, SelectedCost, ThroughputUnit},
};

use super::gauges::{Family, Object};

/// An amount of what is limited or chosen. The unit follows from the object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnitLabels {
    namespace: String,
    name: String,
    unit: &'static str,
}

/// An amount in millionths of a dollar: its name, its help, and where it is.
type Amount<F> = (&'static str, &'static str, fn(&F) -> Option<i64>);

const OF_A_THOUSAND: Amount<SelectedCost> =
    ("selected_cost_dollars_per_thousand", "What 1,000 are predicted to cost on the chosen configuration", |cost| {
        Some(cost.microdollars_per_thousand)
    });
const OF_THE_CHOICE: [Amount<SelectedCost>; 2] = [
    (
        "selected_cost_dollars_per_million_tokens",
        "What a million output tokens are predicted to cost on the chosen configuration",
        |cost| cost.microdollars_per_million_tokens,
    ),
    ("selected_replica_dollars_per_hour", "What a replica of the chosen configuration costs an hour", |cost| {
        Some(cost.microdollars_per_replica_hour)
    }),
];
const OF_THE_OBJECTIVE: [Amount<CostFigures>; 2] = [
    ("slo_cost_target_dollars_per_thousand", "Most that 1,000 may cost", |figures| {
        Some(figures.target_microdollars_per_thousand)
    }),
    ("slo_cost_predicted_dollars_per_thousand", "What profiling predicts that 1,000 cost", |figures| {
        figures.predicted_microdollars_per_thousand
    }),
];

/// Writes the costs of agents.
///
/// # Errors
/// Those of the encoder.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Figures)]) -> fmt::Result {
    chosen(encoder, agents)?;
    objectives(encoder, agents)
}

/// What an agent costs.
pub struct Figures {
    selected: Option<SelectedCost>,
    objective: Option<CostFigures>,
}

impl Figures {
    /// As its status has it.
    pub fn of(agent: &AgentDeployment) -> Self {
        let status = agent.status.as_ref();
        let selected = status.and_then(|status| status.selected.as_ref()?.cost.clone());
        // There is one such objective.
        let objective = status.and_then(|status| status.slo.iter().find_map(|objective| objective.cost));
        Self { selected, objective }
    }
}

fn chosen(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Figures)]) -> fmt::Result {
    let (name, help, amount) = OF_A_THOUSAND;
    let series = agents.iter().filter_map(|(object, figures)| {
        let cost = figures.selected.as_ref()?;
        Some((labels(object, cost.unit), dollars(amount(cost)?)))
    });
    Family { name, help, unit: None }.encode(encoder, series)?;
    for (name, help, amount) in OF_THE_CHOICE {
        let series = agents
            .iter()
            .filter_map(|(object, figures)| Some((object.clone(), dollars(amount(figures.selected.as_ref()?)?))));
        Family { name, help, unit: None }.encode(encoder, series)?;
    }
    Ok(())
}

fn objectives(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Figures)]) -> fmt::Result {
    for (name, help, amount) in OF_THE_OBJECTIVE {
        let series = agents.iter().filter_map(|(object, figures)| {
            let figures = figures.objective.as_ref()?;
            Some((labels(object, figures.unit), dollars(amount(figures)?)))
        });
        Family { name, help, unit: None }.encode(encoder, series)?;
    }
    Ok(())
}

fn labels(object: &Object, unit: ThroughputUnit) -> UnitLabels {
    let Object { namespace, name } = object.clone();
    let unit = match unit {
        ThroughputUnit::Runs => "Runs",
        ThroughputUnit::Requests => "Requests",
    };
    UnitLabels { namespace, name, unit }
}

fn dollars(microdollars: i64) -> f64 {
    microdollars as f64 / 1e6
}
