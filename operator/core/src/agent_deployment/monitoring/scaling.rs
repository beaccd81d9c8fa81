//! Who sets the number of pods: `spec.serving.autoscaling`, or a client of /scale. Pure.

use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::agent_deployment::AutoscalingStatus,
};

use crate::{agent_deployment::world::World, conditions::Draft};

/// Whether the load is known, and whether somebody scales an agent that scales itself; absent where there is nothing to
/// say.
pub fn conditions(world: &World, scaled: Option<&AutoscalingStatus>) -> Vec<Draft> {
    let own = scaled.map(|scaled| {
        let reason = Reason::ALL.iter().find(|reason| reason.as_str() == scaled.reason);
        let reason = reason.copied().unwrap_or(Reason::LoadUnknown);
        let is_true = reason != Reason::LoadUnknown;
        Draft { condition: ConditionType::ScalingActive, is_true, reason, message: scaled.message.clone() }
    });
    own.into_iter().chain(contested(world)).chain(held(world)).collect()
}

/// Both at once: one has no effect, and both may trust numbers that they did not cause.
pub fn contested(world: &World) -> Option<Draft> {
    let (Some(_), Some(manager)) = (&world.spec.serving.autoscaling, &world.scaled_by) else { return None };
    let message = format!(
        "{manager} set spec.serving.replicas to {} through /scale, which has no effect while spec.serving.autoscaling \
         is set: delete the HorizontalPodAutoscaler or ScaledObject of this agent, or remove spec.serving.autoscaling. \
         This condition clears when spec.serving.replicas is changed in the manifest",
        world.spec.serving.replicas
    );
    Some(Draft { condition: ConditionType::ReplicasContested, is_true: true, reason: Reason::ScaledByOthers, message })
}

/// Fewer pods are asked for through /scale than a rollout keeps.
fn held(world: &World) -> Option<Draft> {
    let manager = world.scaled_by.as_ref().filter(|_| world.spec.serving.autoscaling.is_none())?;
    let (asked, kept) = (world.spec.serving.replicas, world.replicas());
    (asked < kept).then(|| Draft {
        condition: ConditionType::ScalingActive,
        is_true: false,
        reason: Reason::ScaleDownDelayed,
        message: format!("{manager} asks for {asked} pods through /scale: {kept} stay until the rollout ends"),
    })
}
