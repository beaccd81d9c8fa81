//! Whether drift puts an objective at risk that another campaign could fix. Pure.
//!
//! A campaign changes how the model is served, and not how fast tools are. An alarm of drift does not tell the two
//! apart: the strongest signal may be the time of whole runs, while a tool is slow. So a slower objective is at risk
//! once the model's own signals show that the model is slower ([`LiveTest::is_slower`]). While it is not, that is said
//! of at most 1 % of all plans, whatever tools do.
//!
//! An objective that is missed, or more failures, may have a cause that no signal shows. They are at risk at once, and
//! acted upon if after [`ATTRIBUTED_BLOCKS`] tools are not shown to be slower.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::drift::live::{ATTRIBUTED_BLOCKS, Family, LiveTest, Part, Signal};
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
    let is_of_model = test.is_slower(Part::Model);
    if !is_of_model && test.is_slower(Part::Tools) {
        return None;
    }
    let is_certain = before.as_ref().is_some_and(|before| before.blocks_left.is_none());
    // Drift that goes on though less is shown of it than when it was found.
    if verdict == DriftVerdict::BehaviorDrift && shown.is_empty() && is_certain {
        return before;
    }
    let may_be_model = is_of_model || is_certain;
    let slower = slower(world, &shown).filter(|_| may_be_model);
    let Some(message) = slower.or_else(|| failing(world, &shown)).or_else(|| missed(world)) else {
        // What some pods have not told yet is no news.
        return before.filter(|_| !world.are_all_heard);
    };
    let new = DriftRisk {
        since: before.as_ref().map_or(Time(world.now), |before| before.since.clone()),
        message: message.chars().take(MAX_MESSAGE).collect(),
        blocks_left: if may_be_model { None } else { blocks_left(before.as_ref()) },
    };
    Some(match before {
        // The figures stand while the same is said.
        Some(before) if before.blocks_left.is_some() == new.blocks_left.is_some() => {
            DriftRisk { blocks_left: new.blocks_left, ..before }
        }
        _ => new,
    })
}

/// Blocks until a risk that may be of tools is acted upon; `None` where none is left.
fn blocks_left(before: Option<&DriftRisk>) -> Option<i32> {
    let left = before.map_or(ATTRIBUTED_BLOCKS.into(), |before| before.blocks_left.map_or(0, |left| left - 1));
    (left > 0).then_some(left)
}

fn slower(world: &World, shown: &[Signal]) -> Option<String> {
    let is_slower = |metric| shown.contains(&Signal::Slower(metric));
    let slower = world.spec.slo.objectives.iter().find(|objective| is_slower(Metric::of(objective.metric)))?;
    Some(format!("{}: {} is slower than on the first day", slower.name, slower.metric.as_str()))
}

fn failing(world: &World, shown: &[Signal]) -> Option<String> {
    let has_errors = shown.iter().any(|signal| matches!(signal, Signal::Errors(_)));
    world.spec.slo.error_rate.as_ref().filter(|_| has_errors)?;
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
