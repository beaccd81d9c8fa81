//! The engines, one after the other. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{MeasuredEngine, Measurement, MeasurementPurpose, MeasurementVerdict, NotMeasured, ProfiledEngine},
    },
};
use slipway_worker_contract::ProfileEnd;

use super::job::{self, Affordable, JobStep};
use crate::{
    plan::Note,
    profile::{
        build::budget::Budget,
        parts::{Found, Parts, Planned},
        scope::JobScope,
        status::{CampaignState, cut},
        world::ProfileWorld,
    },
};

/// Measures the engines in order; nothing is left to do when it comes to `None`.
pub fn explore(world: &ProfileWorld, before: &ProfileStatus) -> Planned<Option<CampaignState>> {
    let inputs = &world.spec.inputs;
    Planned::of(|parts| {
        for engine in &inputs.engines {
            let status = parts.found.seen_from(before);
            if status.engines.iter().any(|ended| ended.engine == engine.name) {
                continue;
            }
            let affordable = Budget::left(inputs, &status).used_up().map_or(Affordable::Yes, Affordable::No);
            let is_affordable = matches!(affordable, Affordable::Yes);
            let step = parts.join(job::run(world, &status, &JobScope::Explore { engine }, affordable));
            let status = parts.found.seen_from(before);
            match step {
                JobStep::Working(state) => return Some(state),
                JobStep::Ended { end, reason } => {
                    if end == ProfileEnd::BudgetUsed && !has_any_row(&status) {
                        return Some(parts.join(failed(Budget::too_small(inputs))));
                    }
                    parts.add(end_engine(&status, engine, &reason));
                }
                JobStep::GivenUp(words) => {
                    if !is_affordable && !has_any_row(&status) {
                        return Some(parts.join(failed(words)));
                    }
                    parts.add(give_up_engine(engine, &words));
                }
            }
        }
        nothing_usable(&parts.found.seen_from(before)).map(|words| parts.join(failed(words)))
    })
}

fn failed(message: String) -> Planned<CampaignState> {
    let note = Note::warning(Reason::ProfilingFailed, message.clone());
    Parts::of_notes([note]).with(CampaignState::Failed { message })
}

fn has_any_row(status: &ProfileStatus) -> bool {
    status.measurements.iter().any(|m| m.purpose == MeasurementPurpose::Explore)
}

fn end_engine(status: &ProfileStatus, engine: &ProfiledEngine, reason: &str) -> Parts {
    let is_explored = |m: &&Measurement| m.engine == engine.name && m.purpose == MeasurementPurpose::Explore;
    let rows = status.measurements.iter().filter(is_explored).count();
    let message = format!("{}: {rows} measurements; {reason}", engine.display_name);
    let found = Found { engines: vec![ended(engine, reason)], ..Found::default() };
    Parts::of_notes([Note::normal(Reason::ConfigurationMeasured, message)]).and(Parts::of_found(found))
}

fn give_up_engine(engine: &ProfiledEngine, words: &str) -> Parts {
    let note = Note::warning(Reason::ProfilingFailed, format!("{}: {words}", engine.display_name));
    let entry = NotMeasured {
        engine: engine.name.clone(),
        configuration: None,
        from_level: None,
        to_level: None,
        reason: cut(words, 256),
    };
    let found = Found { engines: vec![ended(engine, words)], not_measured: vec![entry], ..Found::default() };
    Parts::of_notes([note]).and(Parts::of_found(found))
}

fn ended(engine: &ProfiledEngine, reason: &str) -> MeasuredEngine {
    MeasuredEngine { engine: engine.name.clone(), end: cut(reason, 512) }
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
