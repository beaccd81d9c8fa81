//! The engines, in order or as the search asks for them. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{MeasurementPurpose, MeasurementVerdict},
};

use super::{
    asked,
    engine::{self, EngineStep, creates_a_job, failed},
    order,
};
use crate::{
    plan::AT_ONCE,
    profile::{
        build::shares,
        parts::{Parts, Planned},
        status::CampaignState,
        world::ProfileWorld,
    },
};

/// Measures the engines in order; nothing is left to do when it comes to `None`. As many are measured at once as the
/// AgentDeployment allows.
pub fn explore(world: &ProfileWorld, before: &ProfileStatus) -> Planned<Option<CampaignState>> {
    let inputs = &world.spec.inputs;
    Planned::of(|parts| {
        let mut working = Vec::new();
        if inputs.is_asking() {
            if let Some(failed) = parts.join(asked::explore(world, before, &mut working)) {
                return Some(failed);
            }
        } else {
            for engine in order::in_order(world, before) {
                let is_full = working.len() >= world.agent.most_at_once() || creates_a_job(parts);
                // The number may have been lowered since: a Job that runs is still polled.
                if is_full && !shares::has_job(world, &parts.found.seen_from(before), engine) {
                    continue;
                }
                match parts.join(engine::measure(world, &parts.found.seen_from(before), engine)) {
                    EngineStep::Working(state) => working.push(state),
                    EngineStep::Ended => {}
                    EngineStep::CampaignFailed(state) => return Some(state),
                }
            }
        }
        if creates_a_job(parts) && working.len() < world.agent.most_at_once() {
            parts.add(Parts::look_within(AT_ONCE));
        }
        if !working.is_empty() {
            return together(working);
        }
        nothing_usable(&parts.found.seen_from(before)).map(|words| parts.join(failed(words)))
    })
}

/// What several engines do, as one state: the first one's, with the words of all.
pub(super) fn together(working: Vec<CampaignState>) -> Option<CampaignState> {
    working.into_iter().reduce(|all, next| match (all, next) {
        (
            CampaignState::Working { purpose, reason, message },
            CampaignState::Working { message: another, purpose: _, reason: _ },
        ) => CampaignState::Working { purpose, reason, message: format!("{message}; {another}") },
        (all, _) => all,
    })
}

/// The first failure's words, when no engine has a row that says anything.
fn nothing_usable(status: &ProfileStatus) -> Option<String> {
    let explored = || status.measurements.iter().filter(|m| m.purpose == MeasurementPurpose::Explore);
    let is_usable = |verdict| match verdict {
        MeasurementVerdict::Feasible | MeasurementVerdict::Infeasible | MeasurementVerdict::Unbounded => true,
        MeasurementVerdict::Failed => false,
    };
    if explored().any(|m| is_usable(m.verdict)) {
        return None;
    }
    let of_row = explored().find(|m| !m.reason.is_empty());
    Some(match (of_row, status.engines.first()) {
        (Some(row), _) => format!("{} at {} in flight: {}", row.configuration, row.level, row.reason),
        (None, Some(engine)) => engine.end.clone(),
        (None, None) => "there is no engine to measure".to_owned(),
    })
}
