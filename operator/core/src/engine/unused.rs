//! Engines that nobody names any more, and when they go. Pure.
//!
//! An Engine is shared in its namespace, so nobody owns it. It goes once neither an AgentDeployment, nor a kept revision, nor a
//! campaign has named it for a while; its Jobs go with it. Whoever names it in the very moment finds it gone at the next look, and
//! asks for it again: that costs a build, and nothing that serves reads the object.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::EngineStatus;

use super::decide::EngineWorld;
use crate::plan::{Plan, Removal, RemovalKind};

/// How long an Engine without an artifact stays that nobody names: enough for an AgentDeployment that is replaced.
const KEEP_UNBUILT: SignedDuration = SignedDuration::from_secs(60);

/// Whether anybody names an Engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Somebody does.
    Used,
    /// Nobody does.
    Unused,
    /// Something that may name it cannot be read by this version, or the Engine was not made by Slipway.
    Unknown,
}

/// Records since when nobody names the Engine, and removes it once that has lasted.
pub(super) fn collect(world: &EngineWorld, plan: &mut Plan<EngineStatus>) {
    let since = match world.used {
        Use::Unknown => return,
        Use::Used => {
            plan.status.unused_since = None;
            return;
        }
        Use::Unused => world.status.unused_since.clone().unwrap_or(Time(world.now)),
    };
    let keep = match plan.status.artifact {
        Some(_) => SignedDuration::from_secs(world.settings.store.keep_unused_engines_seconds),
        None => KEEP_UNBUILT,
    };
    let left = keep - world.now.duration_since(since.0);
    plan.status.unused_since = Some(since);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => plan.requeue = plan.requeue.min(left),
        Ok(_) | Err(_) => {
            // What is about to go starts nothing.
            plan.children.clear();
            plan.removals.push(Removal {
                kind: RemovalKind::Engine,
                name: world.name.clone(),
                uid: world.owner.uid.clone(),
                resource_version: world.resource_version.clone(),
            });
        }
    }
}
