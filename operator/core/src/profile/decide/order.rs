//! In which order engines that are all built are measured. Pure.
//!
//! The search of an engine knows the rows of those before it, and leaves one that promises less after a cell or two.
//! So what is first decides what a campaign costs. Weights of fewer bits take less of the memory's bandwidth, so such
//! an engine is expected to serve more. That expectation orders, and leaves nothing out: every engine gets a run.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::Precision,
    profile::{ProfileInputs, ProfiledEngine},
};
use slipway_worker_contract::MOST_WALKED;

use crate::profile::{build::shares, world::ProfileWorld};

/// The engines of the inputs. Of spaces that are searched, that of the warm start comes first, and then those with
/// fewer bits. Spaces that are walked whole cost the same in any order. An engine whose Job has begun comes before all
/// others.
pub(super) fn in_order<'a>(world: &'a ProfileWorld, before: &ProfileStatus) -> Vec<&'a ProfiledEngine> {
    let inputs = &world.spec.inputs;
    let mut engines: Vec<&ProfiledEngine> = inputs.engines.iter().collect();
    if is_searched(inputs) {
        let begins = |engine: &ProfiledEngine| before.warm_start.as_ref().is_some_and(|of| of.engine == engine.name);
        engines.sort_by_cached_key(|engine| (!shares::has_job(world, before, engine), !begins(engine), bits(engine)));
    }
    engines
}

fn is_searched(inputs: &ProfileInputs) -> bool {
    inputs.configurations.len() * inputs.levels.len() > MOST_WALKED
}

/// Bits of the weights. The name that is shown begins with the precision, whose longest match it is.
fn bits(engine: &ProfiledEngine) -> u32 {
    let is_it = |precision: &Precision| engine.display_name.starts_with(&precision.as_str().to_lowercase());
    let named = Precision::ALL.into_iter().filter(is_it).max_by_key(|precision| precision.as_str().len());
    let known = engine.axes.as_ref().map(|axes| axes.precision).or(named);
    known.map_or(u32::MAX, Precision::weight_bits)
}
