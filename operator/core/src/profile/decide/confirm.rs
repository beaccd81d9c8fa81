//! The best point is run at its target rate, and chosen if it holds. Pure.

use slipway_analysis::slo;
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
use slipway_selection::{
    close,
    confirm::{Conclusion, MAX_CONFIRMS, conclude, is_confirm_of, passes},
    infeasible, select,
};
use slipway_worker_contract::RuledOutBy;

use super::{
    job::{self, Affordable, JobStep},
    ledger, repeat,
};
use crate::{
    plan::Note,
    profile::{
        build::rate,
        parts::{Found, Parts, Planned},
        rows,
        scope::{JobScope, Subject},
        status::{CampaignState, cut},
        world::ProfileWorld,
    },
};

/// Ends a campaign whose engines have all been measured: chooses, confirms, or says why neither is possible.
pub fn finish(world: &ProfileWorld, before: &ProfileStatus) -> Planned<CampaignState> {
    let inputs = &world.spec.inputs;
    let front = Some(select::front(inputs, &before.measurements));
    Planned::of(|parts| {
        parts.add(Parts::of_found(Found { front, ..Found::default() }));
        // Every pass ends one confirm run for good, so there are at most this many, and one to conclude.
        for _ in 0..=MAX_CONFIRMS {
            let status = parts.found.seen_from(before);
            match parts.join(next(world, &status)) {
                Next::Concluded(state) => return state,
                Next::Confirm(point) => {
                    if let Some(state) = parts.join(confirm(world, &status, point)) {
                        return state;
                    }
                }
            }
        }
        let status = parts.found.seen_from(before);
        parts.join(not_confirmed(world, &status.measurements, MAX_CONFIRMS))
    })
}

enum Next {
    Concluded(CampaignState),
    Confirm(usize),
}

fn next(world: &ProfileWorld, status: &ProfileStatus) -> Planned<Next> {
    let (inputs, measurements) = (&world.spec.inputs, status.measurements.as_slice());
    Planned::of(|parts| match conclude(inputs, measurements) {
        Conclusion::NoCandidate => {
            let words = nothing_feasible(inputs, status);
            Next::Concluded(parts.join(none(world, measurements, MeasurementPurpose::Explore, &words)))
        }
        Conclusion::Measured { point } => {
            let predicted_by = close::figures(inputs, measurements, point).unwrap_or(point);
            let words = "a measurement with a fixed number in flight, not confirmed: add a workload with runs";
            let chosen = Chosen { point, predicted_by, words: words.to_owned() };
            Next::Concluded(parts.join(choose(world, status, chosen)))
        }
        Conclusion::Confirmed { point, row } => {
            let confirmed = &measurements[row];
            let words = format!("confirmed by {} runs: {}", confirmed.count, select::point(inputs, confirmed));
            let chosen = Chosen { point, predicted_by: row, words };
            Next::Concluded(parts.join(choose(world, status, chosen)))
        }
        Conclusion::Exhausted { failed } => Next::Concluded(parts.join(not_confirmed(world, measurements, failed))),
        Conclusion::Confirm { point } => Next::Confirm(point),
    })
}

/// Runs the confirm Job of a point; `None` once its row is found.
fn confirm(world: &ProfileWorld, before: &ProfileStatus, point: usize) -> Planned<Option<CampaignState>> {
    let explored = &before.measurements[point];
    let inputs = &world.spec.inputs;
    let engine = inputs.engines.iter().find(|engine| engine.name == explored.engine);
    let configuration = inputs.configurations.iter().find(|c| c.name == explored.configuration);
    let (Some(engine), Some(configuration)) = (engine, configuration) else {
        return failed(explored, "the inputs do not name this point").with(None);
    };
    let figures = close::figures(inputs, &before.measurements, point).unwrap_or(point);
    let scope = scope(world, (engine, configuration), &before.measurements[figures]);
    Planned::of(|parts| {
        let words = match parts.join(job::run(world, before, &scope, Affordable::Yes)) {
            JobStep::Working(state) => return Some(state),
            JobStep::Ended { end: _, reason } => reason,
            JobStep::GivenUp(words) => words,
        };
        // It counts only if the run left no row.
        parts.add(failed(explored, &words));
        let status = parts.found.seen_from(before);
        let row = status.measurements.iter().find(|m| is_confirm_of(m, explored));
        parts.add(Parts::of_notes(row.map(|row| news(inputs, row))));
        None
    })
}

fn news(inputs: &ProfileInputs, row: &Measurement) -> Note {
    let line = format!("confirm run of {}: {}", select::point(inputs, row), row.reason);
    if passes(row, inputs) {
        Note::normal(Reason::ConfigurationMeasured, line)
    } else {
        Note::warning(Reason::ConfigurationMeasured, line)
    }
}

fn scope<'a>(
    world: &ProfileWorld,
    (engine, configuration): (&'a ProfiledEngine, &'a NamedConfiguration),
    explored: &Measurement,
) -> JobScope<'a> {
    let &Measurement { level, per_kilosecond, .. } = explored;
    let arrivals_per_kilosecond =
        rate::arrivals_per_kilosecond(&world.spec.inputs, &engine.name, rate::Explored { level, per_kilosecond });
    JobScope::Confirm { engine, configuration, level, arrivals_per_kilosecond }
}

/// The row of a confirm run without one: it counts as failed, so that the next point has its turn.
fn failed(explored: &Measurement, words: &str) -> Parts {
    let subject = Subject { engine: &explored.engine, purpose: MeasurementPurpose::Confirm, round: None };
    let row = rows::failed(subject, (&explored.configuration, explored.level), words);
    Parts::of_found(Found { measurements: vec![row], ..Found::default() })
}

struct Chosen {
    point: usize,
    predicted_by: usize,
    words: String,
}

fn choose(world: &ProfileWorld, status: &ProfileStatus, chosen: Chosen) -> Planned<CampaignState> {
    let Chosen { point, predicted_by, words } = chosen;
    let (inputs, measurements) = (&world.spec.inputs, status.measurements.as_slice());
    let measurement = &measurements[point];
    let reasons =
        [Some(select::why(inputs, measurements, point)), repeat::what_is_missing(inputs, status), Some(words)];
    let why = cut(&reasons.into_iter().flatten().collect::<Vec<_>>().join("; "), 512);
    let message = format!("{}: {why}", select::place(inputs, measurement));
    let choice = ProfileChoice {
        engine: measurement.engine.clone(),
        configuration: measurement.configuration.clone(),
        level: measurement.level,
        predicted_by: i32::try_from(predicted_by).unwrap_or(i32::MAX),
        why,
    };
    let note = Note::normal(Reason::ConfigurationFound, message.clone());
    let found = Found { choice: Some(choice), ..Found::default() };
    let state = CampaignState::Ended { phase: ProfilePhase::Chosen, message };
    Parts::of_notes([note]).and(Parts::of_found(found)).with(state)
}

fn not_confirmed(world: &ProfileWorld, measurements: &[Measurement], failed: usize) -> Planned<CampaignState> {
    let confirms = || measurements.iter().filter(|m| m.purpose == MeasurementPurpose::Confirm);
    let is_broken = |m: &Measurement| m.verdict == MeasurementVerdict::Failed;
    if confirms().all(is_broken) {
        let first = confirms().find(|m| !m.reason.is_empty()).map_or("no reason was given", |m| m.reason.as_str());
        let message = format!("no confirm run took place: {first}");
        let note = Note::warning(Reason::ProfilingFailed, message.clone());
        return Parts::of_notes([note]).with(CampaignState::Failed { message });
    }
    let candidates = match failed {
        1 => "the only candidate failed its confirm run",
        2 => "both candidates failed their confirm runs",
        _ => "three candidates failed their confirm run",
    };
    none(world, measurements, MeasurementPurpose::Confirm, candidates)
}

/// That nothing meets the objectives is said of what was measured, with what ruled it out. Of the other points of
/// measured engines it gives the chance that the search leaves them. Points of other engines are counted alone.
fn nothing_feasible(inputs: &ProfileInputs, status: &ProfileStatus) -> String {
    let of_an_engine = inputs.configurations.len() * inputs.levels.len();
    let explored = || status.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Explore);
    let has_rows = |engine: &&ProfiledEngine| explored().any(|row| row.engine == engine.name);
    let engines = inputs.engines.iter().filter(has_rows).count();
    let (points, unseen) = (engines * of_an_engine, (inputs.engines.len() - engines) * of_an_engine);
    let with = |verdict| explored().filter(|row| row.verdict == verdict).count();
    let by = |cause| explored().filter(|row| ledger::ruled_out_by(inputs, row) == Some(cause)).count();
    let confidence = (100.0 * slo::CONFIDENCE).round();
    let ruled_out = [
        (by(RuledOutBy::Bounds), format!("missed with {confidence} % confidence")),
        (by(RuledOutBy::Errors), "with too many errors".to_owned()),
        (by(RuledOutBy::GpuFigure), "missed by what was sampled of the GPU".to_owned()),
        (with(MeasurementVerdict::Unbounded), "not decided".to_owned()),
        (with(MeasurementVerdict::Feasible), "within the latencies but not all limits".to_owned()),
        (with(MeasurementVerdict::Failed), "failed".to_owned()),
    ];
    let ruled_out = ruled_out.into_iter().filter(|(count, _)| *count > 0);
    let ruled_out: Vec<String> = ruled_out.map(|(count, words)| format!("{count} {words}")).collect();
    let (measured, ruled_out) = (explored().count(), ruled_out.join(", "));
    let left = points.saturating_sub(measured);
    if left + unseen == 0 {
        return format!("no configuration meets the objectives ({ruled_out})");
    }
    let rest = || format!("; {left} of {points} were not measured: {}", ledger::of_the_rest(inputs, status));
    let rest = if left > 0 { rest() } else { String::new() };
    let unseen = match unseen {
        0 => String::new(),
        unseen => format!("; {unseen} are of engines that were not measured: status.notMeasured says why"),
    };
    format!("none of the {measured} points that were measured meets the objectives ({ruled_out}{rest}{unseen})")
}

fn none(
    world: &ProfileWorld,
    measurements: &[Measurement],
    purpose: MeasurementPurpose,
    words: &str,
) -> Planned<CampaignState> {
    let infeasible = infeasible::explain(&world.spec.inputs, measurements, purpose);
    let message = format!("{words}: {}", infeasible.what_it_would_take);
    let note = Note::warning(Reason::NoFeasibleConfiguration, message.clone());
    let found = Found { infeasible: Some(infeasible), ..Found::default() };
    let state = CampaignState::Ended { phase: ProfilePhase::Infeasible, message };
    Parts::of_notes([note]).and(Parts::of_found(found)).with(state)
}
