//! The point with which a campaign begins, where an earlier one of the same model chose it. Pure.
//!
//! It is only measured first. What the earlier campaign measured of other points is not believed under another load. On
//! one of two public sets that left the best point out in one search of eleven (docs/benchmarks.md).

use slipway_crds::{
    conditions::Reason,
    v1alpha1::profile::{NamedConfiguration, ProfileInputs, ProfiledEngine, WarmStart},
};

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
    let has_begun = world.status.phase.is_some() || !adopted.measurements.is_empty();
    if has_begun || inputs.repetition.is_some() || inputs.prior.is_some() {
        return Parts::default();
    }
    let Some((engine, warm_start)) = world.earlier.iter().find_map(|earlier| of_earlier(inputs, earlier)) else {
        return Parts::default();
    };
    let WarmStart { profile, configuration, level, .. } = &warm_start;
    let line = format!("Profile {profile} chose {}/{configuration} at {level} in flight before", engine.display_name);
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
