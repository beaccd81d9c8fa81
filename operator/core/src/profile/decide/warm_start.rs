//! The point with which a campaign begins, where an earlier one of the same model chose it under another load. Pure.
//!
//! It is only measured first. What the earlier campaign measured of other points is not believed under this load: on
//! public tables that left the best point out in one search of eleven (docs/benchmarks.md).

use slipway_crds::{
    conditions::Reason,
    v1alpha1::profile::{NamedConfiguration, ProfileInputs, ProfiledEngine, WarmStart},
};

use super::adopt::is_measured_alike;
use crate::{
    plan::Note,
    profile::{
        parts::{Found, Parts},
        world::{Earlier, ProfileWorld},
    },
};

/// Where a campaign begins that adopts no row: at the choice of the latest that this one could choose too. One that was
/// told what to expect, or that asks what has changed since, begins by itself.
pub(super) fn found(world: &ProfileWorld, adopted: &Found) -> Parts {
    let inputs = &world.spec.inputs;
    let is_told = inputs.engines.iter().any(|engine| !engine.expected.is_empty());
    if world.status.phase.is_some() || inputs.repetition.is_some() || is_told || !adopted.measurements.is_empty() {
        return Parts::default();
    }
    // Rows of the same load are adopted, engine by engine.
    let mut others = world.earlier.iter().filter(|earlier| !is_measured_alike(inputs, &earlier.inputs));
    let Some((engine, warm_start)) = others.find_map(|earlier| of_earlier(inputs, earlier)) else {
        return Parts::default();
    };
    let WarmStart { profile, configuration, level, .. } = &warm_start;
    let line = format!(
        "the search begins with {}/{configuration} at {level} in flight, which Profile {profile} chose under another load",
        engine.display_name
    );
    let found = Found { warm_start: Some(warm_start), ..Found::default() };
    Parts::of_notes([Note::normal(Reason::Profiling, line)]).and(Parts::of_found(found))
}

/// What an earlier campaign chose, if it is a point of this one on the same kind of node with as many GPUs.
fn of_earlier<'a>(inputs: &'a ProfileInputs, earlier: &Earlier) -> Option<(&'a ProfiledEngine, WarmStart)> {
    let choice = earlier.status.choice.as_ref()?;
    let is_chosen = |engine: &&ProfiledEngine| engine.name == choice.engine;
    let now = inputs.engines.iter().find(is_chosen)?;
    let then = earlier.inputs.engines.iter().find(is_chosen)?;
    let is_named = |named: &&NamedConfiguration| named.name == choice.configuration;
    let settings = |of: &ProfileInputs| of.configurations.iter().find(is_named).map(|named| named.settings.clone());
    let resources = |of: &ProfileInputs| of.placement.triton_resources.clone();
    let is_point = inputs.node_selector_of(now) == earlier.inputs.node_selector_of(then)
        && resources(inputs) == resources(&earlier.inputs)
        && settings(inputs)? == settings(&earlier.inputs)?
        && inputs.levels.contains(&choice.level);
    let warm_start = WarmStart {
        profile: earlier.name.clone(),
        engine: choice.engine.clone(),
        configuration: choice.configuration.clone(),
        level: choice.level,
    };
    is_point.then_some((now, warm_start))
}
