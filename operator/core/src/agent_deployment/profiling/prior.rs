//! What the search is told before it measures: the model's size, and the expectations of a table, engine by engine.
//! Pure.

use slipway_backends::memory;
use slipway_crds::v1alpha1::{
    agent_deployment::ResolvedModel,
    profile::{EngineAxes, FrozenData, ProfileInputs, ProfiledEngine, ProfiledModel},
};

use crate::{
    agent_deployment::{
        engines::memory_shape,
        prepare::Prepared,
        world::{PriorView, World},
    },
    expectations::{Sought, Subject, expected},
    why::{Blocked, Step, Why},
};

/// Writes what is expected of each engine into the inputs, and gives the table that says so. Inputs without a table are
/// as they were.
pub(super) fn freeze(world: &World, prepared: &Prepared, inputs: &mut ProfileInputs) -> Step<Option<FrozenData>> {
    let Some(source) = world.spec.profiling.as_ref().and_then(|profiling| profiling.prior.as_ref()) else {
        return Ok(None);
    };
    let config_map = source.config_map.name.clone();
    let unusable = |problem: String| Why::PriorUnusable { config_map, problem };
    let (digest, table) = match &world.prior {
        Some(PriorView::Table { digest, table }) => (digest, table),
        Some(PriorView::Invalid { problem }) => return Err(Blocked::Stopped(unusable(problem.clone()))),
        Some(PriorView::Missing) | None => {
            let problem = format!("it does not exist or has no key {}: create it", source.config_map.key);
            return Err(Blocked::Waiting(unusable(problem)));
        }
    };
    let subject = Subject { model: world.spec.model.uri.as_deref().unwrap_or_default(), levels: &inputs.levels };
    let sought = |(engine, axes): (&ProfiledEngine, EngineAxes)| Sought {
        served_by: engine.served_by(),
        gpu_product: inputs.gpu_product_of(engine).unwrap_or_default().to_owned(),
        axes,
    };
    let engines: Vec<Sought> = inputs.engines.iter().zip(axes(prepared)).map(sought).collect();
    let all = expected(table, subject, &engines).map_err(|problem| Blocked::Stopped(unusable(problem)))?;
    inputs.engines.iter_mut().zip(all).for_each(|(engine, expected)| engine.expected = expected);
    Ok(Some(FrozenData { config_map: source.config_map.clone(), digest: digest.to_string() }))
}

/// The size of the language model, where the search asks for engines of one.
pub(super) fn model(model: &ResolvedModel, inputs: &ProfileInputs) -> Option<ProfiledModel> {
    let is_split = |engine: &ProfiledEngine| engine.axes.as_ref().is_some_and(|axes| axes.tensor_parallel.is_some());
    let shape = memory_shape(model, model.shape.as_ref().filter(|_| inputs.engines.iter().any(is_split))?);
    // Truncation is the meaning: whole parameters.
    let (all, active) = (memory::all_parameters(&shape) as i64, memory::active_parameters(&shape) as i64);
    (all > 0).then(|| ProfiledModel { parameters: all, active_parameters: active.clamp(1, all) })
}

/// The points of the build axes that a campaign's engines are. Inputs have them only where the search asks for engines.
fn axes(prepared: &Prepared) -> Vec<EngineAxes> {
    match prepared.askable.as_slice() {
        [] => prepared.engines.iter().map(|built| built.axes.clone()).collect(),
        askable => askable.iter().filter_map(|engine| engine.axes.clone()).collect(),
    }
}
