//! Close points are measured again in turn before one of them wins, so that a disturbed minute does not choose. Pure.
//!
//! Every round starts its engines again, because pods of one engine differ. With `parallelJobs` the engines of a round
//! are measured side by side, as they were explored. A start may take longer than what is measured after it, and what
//! disturbs the cluster then disturbs them alike.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{Measurement, MeasurementPurpose, ProfileInputs, ProfiledEngine},
    },
};
use slipway_selection::{
    close::{self, ROUNDS, Turn},
    select,
};
use slipway_worker_contract::ProfileEnd;

use super::{
    engine::creates_a_job,
    explore::together,
    job::{self, Affordable, JobStep},
};
use crate::{
    plan::{AT_ONCE, Note},
    profile::{
        build::budget::Budget,
        parts::{Found, MAX_MEASUREMENTS, Parts, Planned},
        rows::failed,
        scope::{CONFIRM, JobScope, Point, REPEAT},
        status::CampaignState,
        world::ProfileWorld,
    },
};

/// Outcome of a look at a round of close points, or at those of one engine.
enum RoundStep {
    /// It goes on by itself.
    Working(CampaignState),
    /// Every point has its row of this round.
    Measured,
    /// The budget allows no more.
    BudgetUsed,
}

/// Measures close points again, round after round; nothing is left to do when it comes to `None`.
pub fn repeat(world: &ProfileWorld, before: &ProfileStatus) -> Planned<Option<CampaignState>> {
    let inputs = &world.spec.inputs;
    Planned::of(|parts| {
        if has_begun_confirming(before) {
            return None;
        }
        let mut measured = 0;
        loop {
            // Who takes part in a round depends on all rows before it, also on those that this look finds.
            let status = parts.found.seen_from(before);
            let scopes = rounds(inputs, &status).into_iter().nth(measured)?;
            match parts.join(round(world, &status, &scopes)) {
                RoundStep::Working(state) => {
                    parts.add(announcement(inputs, before, &parts.found));
                    return Some(state);
                }
                RoundStep::Measured => measured += 1,
                RoundStep::BudgetUsed => return None,
            }
        }
    })
}

/// Why not every close point was measured as often as it was to be, as it is said of a choice.
pub fn what_is_missing(inputs: &ProfileInputs, status: &ProfileStatus) -> Option<String> {
    let scopes = rounds(inputs, status).into_iter().flatten();
    let next = scopes.map(|scope| missing(status, &scope).len()).find(|left| *left > 0)?;
    Some(format!("close points were not all measured again: {}", affordable(inputs, status, next)?))
}

/// What is confirmed was chosen: a campaign of an earlier release goes on as it began.
fn has_begun_confirming(status: &ProfileStatus) -> bool {
    status.jobs.iter().any(|job| job.kind == CONFIRM)
        || status.measurements.iter().any(|row| row.purpose == MeasurementPurpose::Confirm)
}

/// The rounds in their order, each with a Job for every engine that has a close point. None where the status has no
/// room for their rows.
fn rounds<'a>(inputs: &'a ProfileInputs, status: &ProfileStatus) -> Vec<Vec<JobScope<'a>>> {
    let turns = close::turns(inputs, &status.measurements);
    let open = turns.iter().filter(|turn| !close::is_taken(&status.measurements, **turn)).count();
    if status.measurements.len() + open > MAX_MEASUREMENTS {
        return Vec::new();
    }
    turns.chunk_by(|a, b| a.round == b.round).map(|round| scopes(inputs, status, round)).collect()
}

/// The Jobs of one round.
fn scopes<'a>(inputs: &'a ProfileInputs, status: &ProfileStatus, turns: &[Turn]) -> Vec<JobScope<'a>> {
    let mut scopes: Vec<JobScope<'a>> = Vec::new();
    for turn in turns {
        let Some((engine, point)) = place(inputs, &status.measurements[turn.point]) else { continue };
        let of_engine = scopes.iter_mut().find_map(|scope| match scope {
            JobScope::Repeat { engine: of, points, .. } if of.name == engine.name => Some(points),
            JobScope::Repeat { .. } | JobScope::Explore { .. } | JobScope::Confirm { .. } => None,
        });
        match of_engine {
            Some(points) => points.push(point),
            None => scopes.push(JobScope::Repeat { engine, round: turn.round, points: vec![point] }),
        }
    }
    scopes
}

fn place<'a>(inputs: &'a ProfileInputs, row: &Measurement) -> Option<(&'a ProfiledEngine, Point<'a>)> {
    let engine = inputs.engines.iter().find(|engine| engine.name == row.engine)?;
    let configuration = inputs.configurations.iter().find(|named| named.name == row.configuration)?;
    Some((engine, Point { configuration, level: row.level }))
}

/// Looks at the Jobs of a round: one after another, or as many at once as the AgentDeployment allows.
fn round(world: &ProfileWorld, before: &ProfileStatus, scopes: &[JobScope<'_>]) -> Planned<RoundStep> {
    let most = world.agent.most_at_once();
    Planned::of(|parts| {
        let (mut working, mut to_come, mut is_budget_used) = (Vec::new(), 0, false);
        for scope in scopes {
            let status = parts.found.seen_from(before);
            let is_full = working.len() >= most || creates_a_job(parts) || is_budget_used;
            // The number may have been lowered since: a Job that runs is still polled.
            if is_full && !is_begun(world, &status, scope) {
                continue;
            }
            match parts.join(measure(world, &status, scope, to_come)) {
                RoundStep::Working(state) => {
                    to_come += missing(&parts.found.seen_from(before), scope).len();
                    working.push(state);
                }
                RoundStep::Measured => {}
                RoundStep::BudgetUsed => is_budget_used = true,
            }
        }
        if creates_a_job(parts) && working.len() < most {
            parts.add(Parts::look_within(AT_ONCE));
        }
        match together(working) {
            Some(state) => RoundStep::Working(state),
            None if is_budget_used => RoundStep::BudgetUsed,
            None => RoundStep::Measured,
        }
    })
}

/// Whether the Job of a scope was recorded.
fn is_begun(world: &ProfileWorld, status: &ProfileStatus, scope: &JobScope<'_>) -> bool {
    let hash = scope.hash(&world.name, &world.spec.input_hash, status);
    status.jobs.iter().any(|job| job.kind == scope.kind() && job.input_hash == hash)
}

/// Looks at the Job of one engine in a round. Beside Jobs whose rows are still `to_come` it may have to wait for what
/// they leave of the budget.
fn measure(world: &ProfileWorld, before: &ProfileStatus, scope: &JobScope<'_>, to_come: usize) -> Planned<RoundStep> {
    let inputs = &world.spec.inputs;
    let left = missing(before, scope).len();
    if left == 0 && !is_begun(world, before, scope) {
        return Parts::default().with(RoundStep::Measured);
    }
    Planned::of(|parts| {
        let refusal = match left {
            // Its Job may still run: the next one must not measure beside it.
            0 => Some("every point has its row".to_owned()),
            _ => affordable(inputs, before, left),
        };
        let is_affordable = left == 0 || refusal.is_none();
        let of_scope = match refusal {
            Some(words) => Affordable::No(words),
            None if affordable(inputs, before, to_come + left).is_some() => Affordable::Later,
            None => Affordable::Yes,
        };
        let step = parts.join(job::run(world, before, scope, of_scope));
        let status = parts.found.seen_from(before);
        let words = match step {
            JobStep::Working(state) => return RoundStep::Working(state),
            JobStep::Ended { end: ProfileEnd::BudgetUsed, .. } if !missing(&status, scope).is_empty() => {
                return RoundStep::BudgetUsed;
            }
            JobStep::GivenUp(_) if !is_affordable => return RoundStep::BudgetUsed,
            JobStep::Ended { end: _, reason } => reason,
            JobStep::GivenUp(words) => words,
        };
        // A point without a row of this round had its turn all the same: such a row decides nothing.
        let rows = missing(&status, scope)
            .into_iter()
            .map(|point| failed(scope.subject(), (&point.configuration.name, point.level), &words));
        parts.add(Parts::of_found(Found { measurements: rows.collect(), ..Found::default() }));
        RoundStep::Measured
    })
}

/// The points of a round that have no row of it.
fn missing<'a>(status: &ProfileStatus, scope: &JobScope<'a>) -> Vec<Point<'a>> {
    let JobScope::Repeat { engine, round, points } = scope else { return Vec::new() };
    let has_row = |point: &&Point<'_>| {
        status.measurements.iter().any(|row| {
            (row.purpose, row.round) == (MeasurementPurpose::Repeat, Some(*round))
                && (&row.engine, &row.configuration, row.level)
                    == (&engine.name, &point.configuration.name, point.level)
        })
    };
    points.iter().filter(|point| !has_row(point)).copied().collect()
}

/// In words, if the budget does not allow so many more measurements.
fn affordable(inputs: &ProfileInputs, status: &ProfileStatus, wanted: usize) -> Option<String> {
    let budget = Budget::left(inputs, status);
    let is_enough = u64::from(budget.measurements) >= wanted as u64;
    budget.used_up().or_else(|| {
        let left = budget.measurements;
        (!is_enough).then(|| format!("spec.profiling.budget.measurements leaves {left}, and a round takes {wanted}"))
    })
}

/// Says once that close points are measured again, and which.
fn announcement(inputs: &ProfileInputs, before: &ProfileStatus, found: &Found) -> Parts {
    let is_begun = before.jobs.iter().any(|job| job.kind.starts_with(REPEAT));
    if is_begun || !found.jobs.iter().any(|job| job.kind.starts_with(REPEAT)) {
        return Parts::default();
    }
    let points = close::points(inputs, &before.measurements);
    let places: Vec<String> = points.iter().map(|point| select::place(inputs, &before.measurements[*point])).collect();
    let line =
        format!("the bounds of {} overlap: they are measured at least {ROUNDS} times more, in turn", places.join(", "));
    Parts::of_notes([Note::normal(Reason::ConfigurationMeasured, line)])
}
