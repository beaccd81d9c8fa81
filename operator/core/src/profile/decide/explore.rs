//! The engines, one after the other. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{MeasuredEngine, MeasurementPurpose, MeasurementVerdict, NotMeasured, ProfiledEngine},
    },
};
use slipway_worker_contract::ProfileEnd;

use super::{
    job::{self, Affordable, JobStep},
    rows,
};
use crate::{
    plan::{Note, Plan},
    profile::{
        build::{budget::Budget, scope::JobScope},
        status::{CampaignState, cut},
        world::ProfileWorld,
    },
};

/// Measures the engines in order; nothing is left to do when it returns `None`.
pub fn explore(world: &ProfileWorld, plan: &mut Plan<ProfileStatus>) -> Option<CampaignState> {
    for engine in &world.spec.inputs.engines {
        if plan.status.engines.iter().any(|ended| ended.engine == engine.name) {
            continue;
        }
        let budget = Budget::left(&world.spec.inputs, &plan.status);
        let affordable = budget.used_up().map_or(Affordable::Yes, Affordable::No);
        let is_affordable = matches!(affordable, Affordable::Yes);
        match job::run(world, &JobScope::Explore { engine }, affordable, plan) {
            JobStep::Working(state) => return Some(state),
            JobStep::Ended { end, reason } => {
                if end == ProfileEnd::BudgetUsed && !has_any_row(&plan.status) {
                    return Some(failed(Budget::too_small(&world.spec.inputs), plan));
                }
                end_engine(engine, &reason, plan);
            }
            JobStep::GivenUp(words) => {
                if !is_affordable && !has_any_row(&plan.status) {
                    return Some(failed(words, plan));
                }
                give_up_engine(engine, &words, plan);
            }
        }
    }
    nothing_usable(&plan.status).map(|words| failed(words, plan))
}

fn failed(message: String, plan: &mut Plan<ProfileStatus>) -> CampaignState {
    plan.notes.push(Note::warning(Reason::ProfilingFailed, message.clone()));
    CampaignState::Failed { message }
}

fn has_any_row(status: &ProfileStatus) -> bool {
    status.measurements.iter().any(|m| m.purpose == MeasurementPurpose::Explore)
}

fn end_engine(engine: &ProfiledEngine, reason: &str, plan: &mut Plan<ProfileStatus>) {
    let rows = plan.status.measurements.iter().filter(|m| m.engine == engine.name).count();
    let message = format!("{}: {rows} measurements; {reason}", engine.display_name);
    plan.notes.push(Note::normal(Reason::ConfigurationMeasured, message));
    plan.status.engines.push(MeasuredEngine { engine: engine.name.clone(), end: cut(reason, 512) });
}

fn give_up_engine(engine: &ProfiledEngine, words: &str, plan: &mut Plan<ProfileStatus>) {
    plan.notes.push(Note::warning(Reason::ProfilingFailed, format!("{}: {words}", engine.display_name)));
    plan.status.engines.push(MeasuredEngine { engine: engine.name.clone(), end: cut(words, 512) });
    let entry = NotMeasured {
        engine: engine.name.clone(),
        configuration: None,
        from_level: None,
        to_level: None,
        reason: cut(words, 256),
    };
    rows::add_not_measured(&mut plan.status, entry);
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
