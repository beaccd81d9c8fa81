//! Steps 1 to 3, from the model's reference to engines: what a campaign measures and what serves. Pure.

use slipway_crds::v1alpha1::profile::ProfiledEngine;

use super::{
    engines::{self, Engines, built::BuiltEngine},
    parts::{Halt, Parts, Planned, Planning},
    preflight::planned_preflight,
    resolve::{self, Resolved, fetch},
    rollout::revision::PlannedPreflight,
    world::World,
};
use crate::{
    plan::SOON,
    why::{Blocked, Step, Why},
};

/// What can be measured, and served.
pub(super) struct Prepared {
    pub(super) resolved: Resolved,
    pub(super) engines: Vec<BuiltEngine>,
    /// All engines that a campaign may ask for; empty where all are built beforehand.
    pub(super) askable: Vec<ProfiledEngine>,
    pub(super) preflight: Option<PlannedPreflight>,
}

/// From the model's reference to engines.
pub(super) fn prepare(world: &World) -> Planning<Prepared> {
    Planned::of(|parts| {
        let refused = |field, problem| Halt::stopped(Why::SpecRefused { field, problem });
        let checkpoint = world.spec.checkpoint().ok_or_else(|| {
            refused("spec.model", "names no checkpoint, or no engine serves it: add uri and spec.engine".to_owned())
        })?;
        accepted_by_sidecars(world)?;
        let preflight = planned_preflight(&world.settings, &world.spec.serving)
            .map_err(|problem| refused("spec.serving.preflight", problem))?;
        let resolved = parts.join(resolve::decide(world, checkpoint))?;
        // What cannot be built need not be fetched.
        parts.join(buildable(world, &resolved))?;
        parts.join(fetch::decide(world, checkpoint, &resolved))?;
        let Engines { accepted, askable } = parts.join(engines::decide(world, &resolved))?;
        Ok(Prepared { resolved, engines: accepted, askable, preflight })
    })
}

/// Whether a sidecar could be configured so. It would refuse the rest, but only after engines are built and measured.
pub(super) fn accepted_by_sidecars(world: &World) -> Step<()> {
    match slipway_agent_config::refusal(&world.name, &world.spec) {
        Some((field, problem)) => Err(Blocked::Stopped(Why::SpecRefused { field, problem })),
        None => Ok(()),
    }
}

/// Whether every engine that the spec asks for can be.
fn buildable(world: &World, resolved: &Resolved) -> Planning<()> {
    match engines::points(world, resolved) {
        Ok(_) => Parts::default().with(Ok(())),
        Err(waiting @ Blocked::Waiting(_)) => Parts::look_within(SOON).with(Err(waiting.into())),
        Err(stopped @ Blocked::Stopped(_)) => Parts::default().with(Err(stopped.into())),
    }
}
