//! Engines that nobody names any more, and when they go. Pure.
//!
//! An Engine is shared in its namespace, so nobody owns it. It goes once no AgentDeployment, kept revision or campaign
//! has named it for a while; its Jobs go with it. Who names it in that very moment finds it gone at the next look, and
//! asks for it again: that costs a build, and nothing that serves reads the object.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::EngineStatus;

use super::world::{EngineWorld, Use};
use crate::plan::{Plan, Removal, RemovalKind};

/// How long an Engine without an artifact stays that nobody names: enough for an AgentDeployment that is replaced.
const KEEP_UNBUILT: SignedDuration = SignedDuration::from_secs(60);

/// The plan with since when nobody names the Engine, and with its removal once that has lasted.
pub(super) fn collected(world: &EngineWorld, plan: Plan<EngineStatus>) -> Plan<EngineStatus> {
    let since = match world.used {
        Use::Unknown => return plan,
        Use::Used => return Plan { status: EngineStatus { unused_since: None, ..plan.status }, ..plan },
        Use::Unused => world.status.unused_since.clone().unwrap_or(Time(world.now)),
    };
    let keep = match plan.status.artifact {
        Some(_) => SignedDuration::from_secs(world.settings.store.keep_unused_engines_seconds),
        None => KEEP_UNBUILT,
    };
    let left = Duration::try_from(keep - world.now.duration_since(since.0)).unwrap_or_default();
    let status = EngineStatus { unused_since: Some(since), ..plan.status };
    if !left.is_zero() {
        return Plan { status, requeue: plan.requeue.min(left), ..plan };
    }
    let removal = Removal {
        kind: RemovalKind::Engine,
        name: world.name.clone(),
        uid: world.owner.uid.clone(),
        resource_version: world.resource_version.clone(),
    };
    // What is about to go starts nothing.
    Plan { status, children: Vec::new(), removals: vec![removal], ..plan }
}
