//! The plans of several GPU models as one. Pure.

use slipway_backends::gpu;

use super::{MemoryPlan, Refused};

/// One plan of those of each GPU model. What all of them refuse is said once, and without a name.
pub(super) fn joined(mut plans: Vec<MemoryPlan>, products: &[&str]) -> Option<MemoryPlan> {
    let refusals = plans.first()?.refusals.clone();
    let is_shared = |refused: &Refused| plans.iter().all(|plan| plan.refusals.contains(refused));
    let shared: Vec<Refused> = refusals.into_iter().filter(is_shared).collect();
    for (plan, product) in plans.iter_mut().zip(products) {
        let own = std::mem::take(&mut plan.refusals).into_iter().filter(|refused| !shared.contains(refused));
        plan.refusals = own.map(|refused| named(refused, product)).collect();
    }
    let mut plans = plans.into_iter();
    let first = plans.next()?;
    let refusals = shared.into_iter().chain(first.refusals).collect();
    Some(MemoryPlan { refusals, further: plans.collect(), ..first })
}

/// The problem of one GPU model. One that is not known is named already.
fn named(Refused { field, problem }: Refused, product: &str) -> Refused {
    if field.ends_with(gpu::PRODUCTS_FIELD) {
        return Refused { field, problem };
    }
    Refused { problem: gpu::refused_on(product, &problem), field }
}
