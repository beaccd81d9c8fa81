//! What serving costs: the price that a campaign compares by, and what its choice is predicted to cost. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::{OptimizeFor, SelectedCost},
    profile::{HourlyPrice, ProfileInputs},
};
use slipway_selection::{
    cost::{ReplicaPrice, dollars, gpus, gpus_of},
    target::driver_for,
};

use super::World;
use crate::{
    settings::NoPrice,
    why::{Blocked, Step, Why},
};

/// The price of the pods where the choice depends on it, or that of each of several GPU models. Without one the spec
/// cannot be carried out.
pub(super) fn prices(world: &World) -> Step<(Option<HourlyPrice>, Vec<HourlyPrice>)> {
    let slo = &world.spec.slo;
    let field = match (&slo.cost, slo.optimize_for) {
        (Some(_), _) => "spec.slo.cost",
        (None, OptimizeFor::Cost) => "spec.slo.optimizeFor",
        (None, OptimizeFor::Throughput | OptimizeFor::Latency) => return Ok((None, Vec::new())),
    };
    let held = gpus_of(&world.spec.serving.triton_resources);
    let refused = |problem: NoPrice| Blocked::Stopped(Why::SpecRefused { field, problem: problem.to_string() });
    let of = |product: Option<&str>| {
        let hardware = world.spec.hardware.on(product);
        world.settings.prices.of(&hardware.node_selector, held).map_err(refused)
    };
    match world.spec.search.gpu_products.as_slice() {
        [] => Ok((Some(of(None)?), Vec::new())),
        several => Ok((None, several.iter().map(|product| of(Some(product))).collect::<Step<_>>()?)),
    }
}

/// What a row of a campaign predicts that serving costs.
pub(super) fn predicted(inputs: &ProfileInputs, status: &ProfileStatus, row: i32) -> Option<SelectedCost> {
    let row = status.measurements.get(usize::try_from(row).ok()?)?;
    let hourly = inputs.priced_by((status.price.as_ref(), &status.prices), &row.engine)?;
    let (cost, price) = (row.cost?, ReplicaPrice::of(hourly, gpus(inputs)));
    let unit = driver_for(inputs, row.purpose).unit();
    let of_tokens = cost.microdollars_per_million_tokens;
    let tokens = of_tokens.map_or_else(String::new, |of| format!(", {} for a million output tokens", dollars(of)));
    Some(SelectedCost {
        text: format!("{} for 1,000 {}{tokens}", dollars(cost.microdollars_per_thousand), unit.words()),
        unit,
        microdollars_per_thousand: cost.microdollars_per_thousand,
        microdollars_per_million_tokens: of_tokens,
        microdollars_per_replica_hour: price.microdollars_per_hour(),
    })
}
