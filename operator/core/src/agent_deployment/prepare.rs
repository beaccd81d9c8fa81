//! Steps 1 to 3, from the model's reference to engines: what a campaign measures and what serves. Pure.

use slipway_crds::identity::IdentityError;

use super::{
    draft::Draft,
    engines::{self, BuiltEngine},
    resolve::{self, Resolved, fetch},
    world::World,
};
use crate::{
    plan::SOON,
    runtime_config,
    why::{Blocked, Step, Why},
};

/// What can be measured, and served.
pub(super) struct Prepared {
    pub(super) resolved: Resolved,
    pub(super) engines: Vec<BuiltEngine>,
}

/// From the model's reference to engines.
pub(super) fn prepare(world: &World, draft: &mut Draft) -> Result<Step<Prepared>, IdentityError> {
    // A sidecar would refuse it, but only after engines are built and measured.
    if let Some(problem) = runtime_config::problem(&world.name, &world.spec.agent) {
        return Ok(Err(Blocked::Stopped(Why::SpecRefused { field: "spec.agent", problem })));
    }
    let resolved = match resolve::decide(world, draft)? {
        Ok(resolved) => resolved,
        Err(Blocked::Waiting(why)) => return Ok(Err(Blocked::Waiting(why))),
        Err(Blocked::Stopped(why)) => return Ok(Err(Blocked::Stopped(why))),
    };
    // What cannot be built need not be fetched.
    match engines::points(world, &resolved) {
        Ok(_) => {}
        Err(Blocked::Waiting(why)) => {
            draft.requeue = SOON;
            return Ok(Err(Blocked::Waiting(why)));
        }
        Err(Blocked::Stopped(why)) => return Ok(Err(Blocked::Stopped(why))),
    }
    match fetch::decide(world, &resolved, draft)? {
        Ok(()) => {}
        Err(Blocked::Waiting(why)) => return Ok(Err(Blocked::Waiting(why))),
        Err(Blocked::Stopped(why)) => return Ok(Err(Blocked::Stopped(why))),
    }
    Ok(match engines::decide(world, &resolved, draft)? {
        Ok(engines) => Ok(Prepared { resolved, engines }),
        Err(Blocked::Waiting(why)) => Err(Blocked::Waiting(why)),
        Err(Blocked::Stopped(why)) => Err(Blocked::Stopped(why)),
    })
}
