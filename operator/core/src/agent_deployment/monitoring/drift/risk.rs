//! Whether drift puts an objective at risk that another campaign could fix. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::drift::live::{Family, LiveTest, Signal};
use slipway_crds::v1alpha1::agent_deployment::{DriftRisk, DriftStatus, DriftVerdict};
use slipway_vocabulary::evidence::Metric;

use crate::agent_deployment::world::World;

/// Characters of a message, as the schema has it.
const MAX_MESSAGE: usize = 256;

/// The objective at risk: its metric has become worse for the same kind of work, or the last hour exceeds its bound
/// with certainty. There is none while the workload has changed, nor for the effect of slower tools, because no
/// measurement fixes these.
pub fn risk(world: &World, test: &LiveTest, verdict: DriftVerdict, known: Option<&DriftStatus>) -> Option<DriftRisk> {
    let before = known.and_then(|known| known.risk.clone());
    let shown: Vec<Signal> = match verdict {
        DriftVerdict::Collecting | DriftVerdict::NotEnough | DriftVerdict::WorkloadDrift => return None,
        DriftVerdict::NoDrift => Vec::new(),
        DriftVerdict::BehaviorDrift => test.shown(Family::Behavior).into_iter().map(|(signal, _)| signal).collect(),
    };
    // Drift that goes on though less is shown of it than when it was found.
    if verdict == DriftVerdict::BehaviorDrift && shown.is_empty() {
        return before;
    }
    if is_of_tools(&shown) {
        return None;
    }
    let message = drifted(world, &shown).or_else(|| missed(world))?;
    let new = DriftRisk { since: Time(world.now), message: message.chars().take(MAX_MESSAGE).collect() };
    Some(before.unwrap_or(new))
}

/// Whether tools have become slower, and nothing of the model has.
fn is_of_tools(shown: &[Signal]) -> bool {
    let of_model =
        [Metric::ModelTime, Metric::RequestLatency, Metric::RequestTimeToFirstToken, Metric::InterTokenLatency];
    shown.contains(&Signal::Slower(Metric::ToolTime))
        && !of_model.iter().any(|metric| shown.contains(&Signal::Slower(*metric)))
}

fn drifted(world: &World, shown: &[Signal]) -> Option<String> {
    let slo = &world.spec.slo;
    let is_slower = |metric| shown.contains(&Signal::Slower(metric));
    let slower = slo.objectives.iter().find(|objective| is_slower(Metric::of(objective.metric)));
    if let Some(objective) = slower {
        let metric = objective.metric.as_str();
        return Some(format!("{}: {metric} is slower than on the first day", objective.name));
    }
    let has_errors = shown.iter().any(|signal| matches!(signal, Signal::Errors(_)));
    slo.error_rate.as_ref().filter(|_| has_errors)?;
    Some("slo.errorRate: more runs fail than on the first day".to_owned())
}

fn missed(world: &World) -> Option<String> {
    // Pods are counted with all others, or not at all.
    if !world.are_all_heard {
        return None;
    }
    let slo = &world.spec.slo;
    let mut latencies = slo.objectives.iter();
    latencies.find_map(|objective| world.observed.surely_missed(objective)).or_else(|| {
        let error_rate = slo.error_rate.as_ref()?;
        world.observed.surely_failing(error_rate)
    })
}
