//! What is shown of AgentDeployments. They are kept as packed text, so each is read once when metrics are asked for.

use std::fmt;

use kube::core::DeserializeGuard;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use slipway_crds::v1alpha1::AgentDeployment;

use super::{
    conditions::{self, Standing},
    costs,
    gauges::Watched,
    objectives,
    rollouts::{self, UnderWay},
};

/// Reads the objects when metrics are asked for, so that one which is gone has no series.
#[derive(Debug, Clone)]
pub struct Agents(pub Watched<DeserializeGuard<AgentDeployment>>);

impl Collector for Agents {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shown = self.0.readable(|agent| {
            let figures = (objectives::Figures::of(agent), costs::Figures::of(agent));
            (Standing::of(agent), figures, UnderWay::of(agent))
        });
        let apart = shown.into_iter().map(|(object, (standing, (slo, costs), rollout))| {
            let named = [object.clone(), object.clone(), object.clone()];
            let [of_standing, of_slo, of_costs] = named;
            ((of_standing, standing), (of_slo, slo), (of_costs, costs), (object, rollout))
        });
        let (standings, slos, costs, rollouts): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = apart.collect();
        conditions::encode(&mut encoder, &standings)?;
        objectives::encode(&mut encoder, &slos)?;
        costs::encode(&mut encoder, &costs)?;
        rollouts::encode(&mut encoder, &rollouts)
    }
}
