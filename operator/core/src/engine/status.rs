//! The status of an Engine. Pure.

use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::EngineStatus,
};

use super::world::EngineWorld;
use crate::{
    conditions::{Draft, dated},
    why::{Blocked, Step},
};

/// The status with everything that follows from how far the build is.
pub fn complete(world: &EngineWorld, step: &Step<()>, status: EngineStatus) -> EngineStatus {
    let draft =
        |condition, is_true, reason, message: &str| Draft { condition, is_true, reason, message: message.to_owned() };
    let idle = |condition| draft(condition, false, Reason::UpToDate, "nothing is in progress");
    let drafts = match step {
        Ok(()) => [
            draft(ConditionType::Ready, true, Reason::Available, "the artifact is in the store"),
            idle(ConditionType::Reconciling),
            idle(ConditionType::Stalled),
        ],
        Err(Blocked::Waiting(why)) => [
            draft(ConditionType::Ready, false, why.reason(), &why.to_string()),
            draft(ConditionType::Reconciling, true, why.reason(), &why.to_string()),
            idle(ConditionType::Stalled),
        ],
        Err(Blocked::Stopped(why)) => [
            draft(ConditionType::Ready, false, why.reason(), &why.to_string()),
            idle(ConditionType::Reconciling),
            draft(ConditionType::Stalled, true, why.reason(), &why.to_string()),
        ],
    };
    let conditions =
        drafts.into_iter().map(|draft| dated(draft, &world.status.conditions, (world.generation, world.now))).collect();
    EngineStatus { observed_generation: Some(world.generation), conditions, ..status }
}
