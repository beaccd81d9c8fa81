//! The best point is run at its target rate, and chosen if it holds. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{
            Measurement, MeasurementPurpose, MeasurementVerdict, NamedConfiguration, ProfileChoice, ProfileInputs,
            ProfilePhase, ProfiledEngine,
        },
    },
};

use super::{
    infeasible,
    job::{self, Affordable, JobStep},
    select,
};
use crate::{
    plan::{Note, Plan},
    profile::{
        build::{rate, scope::JobScope},
        status::{CampaignState, cut},
        world::ProfileWorld,
    },
};

/// Points that are tried before the campaign ends without a choice.
const MAX_CONFIRMS: usize = 3;

/// Ends a campaign whose engines have all been measured: chooses, confirms, or says why neither is possible.
pub fn finish(world: &ProfileWorld, plan: &mut Plan<ProfileStatus>) -> CampaignState {
    let inputs = &world.spec.inputs;
    plan.status.front = select::front(inputs, &plan.status.measurements);
    // Every pass ends one confirm run for good, so there are at most so many, and one to conclude.
    for _ in 0..=MAX_CONFIRMS {
        let ranked = select::ranked(inputs, &plan.status.measurements);
        let Some(best) = ranked.first().copied() else {
            return none(world, MeasurementPurpose::Explore, "no configuration meets the objectives", plan);
        };
        if inputs.agent_trace.is_none() {
            let words = "a measurement with a fixed number in flight, not confirmed: add a workload with agentTrace";
            return choose(world, Chosen { point: best, predicted_by: best, words: words.to_owned() }, plan);
        }
        match next_confirm(&ranked, &plan.status.measurements, world) {
            Confirm::Passed { point, row } => {
                let confirmed = &plan.status.measurements[row];
                let words = format!("confirmed by {} runs: {}", confirmed.count, select::point(inputs, confirmed));
                return choose(world, Chosen { point, predicted_by: row, words }, plan);
            }
            Confirm::Exhausted { failed } => {
                return not_confirmed(world, failed, plan);
            }
            Confirm::Try(point) => {
                if let Some(state) = confirm(world, point, plan) {
                    return state;
                }
            }
        }
    }
    not_confirmed(world, MAX_CONFIRMS, plan)
}

enum Confirm {
    Passed { point: usize, row: usize },
    Try(usize),
    Exhausted { failed: usize },
}

/// Confirm rows decide in the order of the ranking: the first that passes is the choice.
fn next_confirm(ranked: &[usize], measurements: &[Measurement], world: &ProfileWorld) -> Confirm {
    let mut failed = 0;
    for &point in ranked {
        let row = measurements.iter().position(|m| is_confirm_of(m, &measurements[point]));
        match row {
            Some(row) if passes(&measurements[row], &world.spec.inputs) => return Confirm::Passed { point, row },
            Some(_) => failed += 1,
            None if failed < MAX_CONFIRMS => return Confirm::Try(point),
            None => break,
        }
    }
    Confirm::Exhausted { failed }
}

fn is_confirm_of(row: &Measurement, point: &Measurement) -> bool {
    row.purpose == MeasurementPurpose::Confirm
        && row.engine == point.engine
        && row.configuration == point.configuration
        && row.level == point.level
}

/// Whether a confirm run lets its point serve. One that could bound no objective has shown none to be met, unless there
/// is none to judge.
pub fn passes(row: &Measurement, inputs: &ProfileInputs) -> bool {
    match row.verdict {
        MeasurementVerdict::Feasible => true,
        MeasurementVerdict::Unbounded => infeasible::judged(inputs, MeasurementPurpose::Confirm).is_empty(),
        MeasurementVerdict::Infeasible | MeasurementVerdict::Failed => false,
    }
}

/// Runs the confirm Job of a point; `None` once its row is in the planned status.
fn confirm(world: &ProfileWorld, point: usize, plan: &mut Plan<ProfileStatus>) -> Option<CampaignState> {
    let explored = plan.status.measurements[point].clone();
    let inputs = &world.spec.inputs;
    let engine = inputs.engines.iter().find(|engine| engine.name == explored.engine);
    let configuration = inputs.configurations.iter().find(|c| c.name == explored.configuration);
    let (Some(engine), Some(configuration)) = (engine, configuration) else {
        record_failed(&explored, "the inputs do not name this point", plan);
        return None;
    };
    let scope = scope(world, (engine, configuration), &explored);
    let words = match job::run(world, &scope, Affordable::Yes, plan) {
        JobStep::Working(state) => return Some(state),
        JobStep::Ended { end: _, reason } => reason,
        JobStep::GivenUp(words) => words,
    };
    if !plan.status.measurements.iter().any(|m| is_confirm_of(m, &explored)) {
        record_failed(&explored, &words, plan);
    }
    if let Some(row) = plan.status.measurements.iter().find(|m| is_confirm_of(m, &explored)) {
        let line = format!("confirm run of {}: {}", select::point(inputs, row), row.reason);
        plan.notes.push(if passes(row, inputs) {
            Note::normal(Reason::ConfigurationMeasured, line)
        } else {
            Note::warning(Reason::ConfigurationMeasured, line)
        });
    }
    None
}

fn scope<'a>(
    world: &ProfileWorld,
    (engine, configuration): (&'a ProfiledEngine, &'a NamedConfiguration),
    explored: &Measurement,
) -> JobScope<'a> {
    let arrivals_per_kilosecond = rate::arrivals_per_kilosecond(&world.spec.inputs, explored.per_kilosecond);
    JobScope::Confirm { engine, configuration, level: explored.level, arrivals_per_kilosecond }
}

/// A confirm run that left no row counts as one that failed, so that the next point has its turn.
fn record_failed(explored: &Measurement, words: &str, plan: &mut Plan<ProfileStatus>) {
    plan.status.measurements.push(Measurement {
        purpose: MeasurementPurpose::Confirm,
        verdict: MeasurementVerdict::Failed,
        count: 0,
        errors: 0,
        milliseconds: 0,
        per_kilosecond: 0,
        latencies: Vec::new(),
        gpu_milliseconds: 0,
        records: None,
        measured_in: None,
        reason: cut(words, 512),
        ..explored.clone()
    });
}

struct Chosen {
    point: usize,
    predicted_by: usize,
    words: String,
}

fn choose(world: &ProfileWorld, chosen: Chosen, plan: &mut Plan<ProfileStatus>) -> CampaignState {
    let Chosen { point, predicted_by, words } = chosen;
    let inputs = &world.spec.inputs;
    let measurement = &plan.status.measurements[point];
    let why = cut(&format!("{}; {words}", select::why(inputs, &plan.status.measurements, point)), 512);
    let choice = ProfileChoice {
        engine: measurement.engine.clone(),
        configuration: measurement.configuration.clone(),
        level: measurement.level,
        predicted_by: i32::try_from(predicted_by).unwrap_or(i32::MAX),
        why: why.clone(),
    };
    let message = format!("{}: {why}", select::place(inputs, measurement));
    plan.notes.push(Note::normal(Reason::ConfigurationFound, message.clone()));
    plan.status.choice = Some(choice);
    CampaignState::Ended { phase: ProfilePhase::Chosen, message }
}

fn not_confirmed(world: &ProfileWorld, failed: usize, plan: &mut Plan<ProfileStatus>) -> CampaignState {
    let confirms = || plan.status.measurements.iter().filter(|m| m.purpose == MeasurementPurpose::Confirm);
    let is_broken = |m: &Measurement| m.verdict == MeasurementVerdict::Failed;
    if confirms().all(is_broken) {
        let first = confirms().find(|m| !m.reason.is_empty()).map_or("no reason was given", |m| m.reason.as_str());
        let message = format!("no confirm run took place: {first}");
        plan.notes.push(Note::warning(Reason::ProfilingFailed, message.clone()));
        return CampaignState::Failed { message };
    }
    let candidates = match failed {
        1 => "the only candidate failed its confirm run".to_owned(),
        2 => "both candidates failed their confirm runs".to_owned(),
        _ => "three candidates failed their confirm run".to_owned(),
    };
    none(world, MeasurementPurpose::Confirm, &candidates, plan)
}

fn none(
    world: &ProfileWorld,
    purpose: MeasurementPurpose,
    words: &str,
    plan: &mut Plan<ProfileStatus>,
) -> CampaignState {
    let infeasible = infeasible::explain(&world.spec.inputs, &plan.status.measurements, purpose);
    let message = format!("{words}: {}", infeasible.what_it_would_take);
    plan.notes.push(Note::warning(Reason::NoFeasibleConfiguration, message.clone()));
    plan.status.infeasible = Some(infeasible);
    CampaignState::Ended { phase: ProfilePhase::Infeasible, message }
}
