//! Rows of earlier campaigns that hold for these inputs too: an edited objective is answered from what is known. Pure.

use std::collections::BTreeMap;

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        profile::{
            MeasuredEngine, Measurement, MeasurementPurpose, NamedConfiguration, ProfileInputs, ProfilePlacement,
            ProfiledEngine,
        },
    },
};
use slipway_selection::{
    close,
    judged::{Judged, judge},
};

use crate::{
    plan::Note,
    profile::{
        build::driver,
        parts::{Found, Parts},
        world::{Earlier, ProfileWorld},
    },
};

/// Adopts every row that decides these objectives, once and before anything is measured. Confirm runs are repeated,
/// because what they must show depends on the choice.
pub fn adopt(world: &ProfileWorld) -> Parts {
    let inputs = &world.spec.inputs;
    // A repetition asks what has changed since the earlier campaigns. One that asks for engines takes rows over once it
    // knows the artifact.
    if world.status.phase.is_some() || inputs.repetition.is_some() || inputs.is_asking() {
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

/// Adopts the rows of an engine that was asked for, once its artifact is known.
pub(super) fn adopt_engine(world: &ProfileWorld, before: &ProfileStatus, engine: &ProfiledEngine) -> Parts {
    let mut inputs = world.spec.inputs.clone();
    if inputs.repetition.is_some() {
        return Parts::default();
    }
    inputs.engines.retain(|other| other.name == engine.name);
    inputs.engines.iter_mut().for_each(|known| *known = engine.clone());
    let alike = world.earlier.iter().filter(|earlier| is_measured_alike(&inputs, &earlier.inputs));
    let rows = alike.flat_map(|earlier| {
        let measured = earlier.status.measurements.iter();
        measured.filter_map(|row| adopted(&inputs, earlier, row))
    });
    let rows = Found { measurements: rows.collect(), ..Found::default() };
    let known = known(&inputs, &rows.seen_from(before), engine);
    known.into_iter().fold(Parts::of_found(rows), Parts::and)
}

/// The artifact of an engine that a campaign measured.
fn artifact<'a>(earlier: &'a Earlier, engine: &'a ProfiledEngine) -> &'a str {
    let asked = earlier.status.asked.iter().find(|asked| asked.engine == engine.name);
    asked.and_then(|asked| asked.manifest_digest.as_deref()).unwrap_or(&engine.manifest_digest)
}

/// What is said of an engine with adopted rows, which has nothing left to measure if all of its points have one.
fn known(inputs: &ProfileInputs, status: &ProfileStatus, engine: &ProfiledEngine) -> Option<Parts> {
    let points = inputs.configurations.len() * inputs.levels.len();
    let is_explored = |row: &&Measurement| row.engine == engine.name && row.purpose == MeasurementPurpose::Explore;
    let known = status.measurements.iter().filter(is_explored).count();
    if known == 0 {
        return None;
    }
    let line = format!("{known} of {points} points were measured by earlier campaigns");
    let note = Note::normal(Reason::ConfigurationMeasured, format!("{}: {line}", engine.display_name));
    let ended = (known == points).then(|| MeasuredEngine { engine: engine.name.clone(), end: line });
    let found = Found { engines: ended.into_iter().collect(), ..Found::default() };
    Some(Parts::of_notes([note]).and(Parts::of_found(found)))
}

/// Whether a row of one campaign is what the other would measure: the same load on the same pods, wherever their nodes
/// are.
fn is_measured_alike(inputs: &ProfileInputs, earlier: &ProfileInputs) -> bool {
    let pods = |of: &ProfileInputs| ProfilePlacement { node_selector: BTreeMap::new(), ..of.placement.clone() };
    driver::is_same_load(inputs, earlier) && pods(inputs) == pods(earlier)
}

/// The row by these objectives, if it is of a point of these inputs and leaves none of them open. Rounds compare points
/// in turn, so where one of a campaign left an objective open, all of them are measured again.
fn adopted(inputs: &ProfileInputs, earlier: &Earlier, row: &Measurement) -> Option<Measurement> {
    let is_engine = |engine: &&ProfiledEngine| engine.name == row.engine;
    let now = inputs.engines.iter().find(is_engine)?;
    let then = earlier.inputs.engines.iter().find(is_engine)?;
    let is_configuration = |named: &&NamedConfiguration| named.name == row.configuration;
    let is_compared = match row.purpose {
        MeasurementPurpose::Explore => true,
        MeasurementPurpose::Repeat => !earlier.status.measurements.iter().any(close::is_open_round),
        MeasurementPurpose::Confirm => false,
    };
    let is_point = is_compared
        && inputs.node_selector_of(now) == earlier.inputs.node_selector_of(then)
        && !now.manifest_digest.is_empty()
        && now.manifest_digest == artifact(earlier, then)
        && inputs.configurations.iter().find(is_configuration)?.settings
            == earlier.inputs.configurations.iter().find(is_configuration)?.settings
        && inputs.levels.contains(&row.level);
    if !is_point {
        return None;
    }
    let measured_in = row.measured_in.clone().unwrap_or_else(|| earlier.name.clone());
    // Its bounds decide exactly as its records would.
    let Judged::Decided { verdict, reason } = judge(inputs, row) else { return None };
    Some(Measurement { verdict, reason, measured_in: Some(measured_in), ..row.clone() })
}
