//! One engine of a campaign: its Job, and its end. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{MeasuredEngine, Measurement, MeasurementPurpose, NotMeasured, ProfiledEngine},
    },
};
use slipway_worker_contract::ProfileEnd;

use super::job::{self, Affordable, JobStep};
use crate::{
    plan::{Child, Note},
    profile::{
        build::{budget::Budget, shares},
        parts::{Found, Parts, Planned},
        scope::JobScope,
        status::{CampaignState, cut},
        world::ProfileWorld,
    },
};

/// Outcome of a look at one engine.
pub enum EngineStep {
    /// It goes on by itself.
    Working(CampaignState),
    /// Nothing more of it is measured.
    Ended,
    /// The campaign cannot go on.
    CampaignFailed(CampaignState),
}

/// Looks at the Job of one engine, and plans what comes next for it.
pub fn measure(world: &ProfileWorld, before: &ProfileStatus, engine: &ProfiledEngine) -> Planned<EngineStep> {
    let inputs = &world.spec.inputs;
    if before.engines.iter().any(|ended| ended.engine == engine.name) {
        return Parts::default().with(EngineStep::Ended);
    }
    let beside = shares::left_beside(world, before, Some(engine));
    let affordable = match (Budget::left(inputs, before).used_up(), beside.used_up()) {
        (Some(words), _) => Affordable::No(words),
        (None, Some(_)) => Affordable::Later,
        (None, None) => Affordable::Yes,
    };
    let is_affordable = !matches!(affordable, Affordable::No(_));
    Planned::of(|parts| {
        let step = parts.join(job::run(world, before, &JobScope::Explore { engine }, affordable));
        let status = parts.found.seen_from(before);
        match step {
            JobStep::Working(state) => EngineStep::Working(state),
            JobStep::Ended { end, reason } => {
                // Of several at once each has a share: the others may still measure something.
                let is_alone = world.agent.most_at_once() <= 1;
                if end == ProfileEnd::BudgetUsed && is_alone && !has_any_row(&status) {
                    return EngineStep::CampaignFailed(parts.join(failed(Budget::too_small(inputs))));
                }
                parts.add(end_engine(&status, engine, &reason));
                EngineStep::Ended
            }
            JobStep::GivenUp(words) => {
                if !is_affordable && !has_any_row(&status) {
                    return EngineStep::CampaignFailed(parts.join(failed(words)));
                }
                parts.add(give_up_engine(engine, &words));
                EngineStep::Ended
            }
        }
    })
}

/// The end of a campaign that cannot go on.
pub fn failed(message: String) -> Planned<CampaignState> {
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

/// The end of an engine that could not be measured.
pub fn give_up_engine(engine: &ProfiledEngine, words: &str) -> Parts {
    let note = Note::warning(Reason::ProfilingFailed, format!("{}: {words}", engine.display_name));
    Parts::of_notes([note]).and(Parts::of_found(without_rows(engine, words)))
}

/// The end of an engine, and the reason for what it has no rows of.
pub fn without_rows(engine: &ProfiledEngine, words: &str) -> Found {
    let entry = NotMeasured {
        engine: engine.name.clone(),
        configuration: None,
        from_level: None,
        to_level: None,
        reason: cut(words, 256),
    };
    Found { engines: vec![ended(engine, words)], not_measured: vec![entry], ..Found::default() }
}

fn ended(engine: &ProfiledEngine, reason: &str) -> MeasuredEngine {
    MeasuredEngine { engine: engine.name.clone(), end: cut(reason, 512) }
}

/// Whether a Job is about to be created. The next one waits until this one is seen: its share depends on it.
pub(super) fn creates_a_job(parts: &Parts) -> bool {
    parts.children.iter().any(|child| matches!(child, Child::Job(_)))
}
