//! Rows of earlier campaigns that hold for these inputs too: an edited objective is answered from what is known. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        agent_deployment::WrittenObjective,
        profile::{
            MeasuredEngine, Measurement, MeasurementPurpose, MeasurementVerdict, NamedConfiguration, ProfileInputs,
            ProfiledEngine,
        },
    },
};

use super::infeasible;
use crate::{
    plan::Note,
    profile::{
        build::driver,
        parts::{Found, Parts},
        rows::natural,
        world::{Earlier, ProfileWorld},
    },
};

/// Adopts every row that decides these objectives, once and before anything is measured. Confirm runs are repeated,
/// because what they must show depends on the choice.
pub fn adopt(world: &ProfileWorld) -> Parts {
    let inputs = &world.spec.inputs;
    // A repetition asks what has changed since the earlier campaigns.
    if world.status.phase.is_some() || inputs.repetition.is_some() {
        return Parts::default();
    }
    let alike = world.earlier.iter().filter(|earlier| is_measured_alike(inputs, &earlier.inputs));
    let rows = alike.flat_map(|earlier| {
        let measured = earlier.status.measurements.iter();
        measured.filter_map(|row| adopted(inputs, earlier, row))
    });
    let rows = Found { measurements: rows.collect(), ..Found::default() };
    let status = rows.seen_from(&world.status);
    let engines = inputs.engines.iter().filter_map(|engine| known(inputs, &status, engine));
    engines.fold(Parts::of_found(rows), Parts::and)
}

/// What is said of an engine with adopted rows, which has nothing left to measure if all of its points have one.
fn known(inputs: &ProfileInputs, status: &ProfileStatus, engine: &ProfiledEngine) -> Option<Parts> {
    let points = inputs.configurations.len() * inputs.levels.len();
    let known = status.measurements.iter().filter(|row| row.engine == engine.name).count();
    if known == 0 {
        return None;
    }
    let line = format!("{known} of {points} points were measured by earlier campaigns");
    let note = Note::normal(Reason::ConfigurationMeasured, format!("{}: {line}", engine.display_name));
    let ended = (known == points).then(|| MeasuredEngine { engine: engine.name.clone(), end: line });
    let found = Found { engines: ended.into_iter().collect(), ..Found::default() };
    Some(Parts::of_notes([note]).and(Parts::of_found(found)))
}

/// Whether a row of one campaign is what the other would measure: the same load on the same pods.
fn is_measured_alike(inputs: &ProfileInputs, earlier: &ProfileInputs) -> bool {
    driver::is_same_load(inputs, earlier) && inputs.placement == earlier.placement
}

/// The row by these objectives, if it is of a point of these inputs and leaves none of them open.
fn adopted(inputs: &ProfileInputs, earlier: &Earlier, row: &Measurement) -> Option<Measurement> {
    let is_engine = |engine: &&ProfiledEngine| engine.name == row.engine;
    let now = inputs.engines.iter().find(is_engine)?;
    let then = earlier.inputs.engines.iter().find(is_engine)?;
    let is_configuration = |named: &&NamedConfiguration| named.name == row.configuration;
    let is_point = row.purpose == MeasurementPurpose::Explore
        && now.manifest_digest == then.manifest_digest
        && inputs.configurations.iter().find(is_configuration)?.settings
            == earlier.inputs.configurations.iter().find(is_configuration)?.settings
        && inputs.levels.contains(&row.level);
    if !is_point {
        return None;
    }
    let measured_in = row.measured_in.clone().unwrap_or_else(|| earlier.name.clone());
    let (verdict, reason) = verdict(inputs, row)?;
    Some(Measurement { verdict, reason, measured_in: Some(measured_in), ..row.clone() })
}

/// Judges a row by other objectives than those it was measured for. Its bounds decide exactly as its records would.
fn verdict(inputs: &ProfileInputs, row: &Measurement) -> Option<(MeasurementVerdict, String)> {
    match row.verdict {
        MeasurementVerdict::Feasible | MeasurementVerdict::Infeasible | MeasurementVerdict::Unbounded => {}
        MeasurementVerdict::Failed => return None,
    }
    let total = natural(i64::from(row.count)) + natural(i64::from(row.errors));
    let failed = natural(i64::from(row.errors)) * 1_000_000 / total.max(1);
    let most = inputs.error_rate.as_ref().map(|rate| u64::from(rate.max.parts_per_million()));
    if row.count == 0 || most.is_some_and(|most| failed > most) {
        return Some((MeasurementVerdict::Infeasible, format!("{} of {total} failed", row.errors)));
    }
    let objectives = infeasible::judged(inputs, MeasurementPurpose::Explore);
    let judged: Vec<Assessment> = objectives.iter().map(|objective| assessment(objective, row)).collect();
    let missed = objectives.iter().zip(&judged).find(|(_, assessment)| **assessment == Assessment::Missed);
    match missed {
        Some((objective, _)) => Some((MeasurementVerdict::Infeasible, format!("{} is missed", objective.name))),
        None if judged.contains(&Assessment::Open) => None,
        None => Some((MeasurementVerdict::Feasible, String::new())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Assessment {
    Met,
    Missed,
    Open,
}

fn assessment(objective: &WrittenObjective, row: &Measurement) -> Assessment {
    let is_it = |latency: &&slipway_crds::v1alpha1::profile::MeasuredLatency| {
        (latency.metric, latency.percentile) == (objective.metric, objective.percentile)
    };
    let Some(latency) = row.latencies.iter().find(is_it) else { return Assessment::Open };
    let limit = objective.max.microseconds();
    if natural(latency.lower) > limit {
        Assessment::Missed
    } else if latency.upper.is_some_and(|upper| natural(upper) <= limit) {
        Assessment::Met
    } else {
        Assessment::Open
    }
}
