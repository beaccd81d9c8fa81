//! When drift starts another campaign. Pure.
//!
//! Without a person, only while an objective is at risk, and seven days after the last campaign began, whatever its
//! cause: persistent noise must not keep GPUs busy. What may be the effect of slower tools waits until that is known. A
//! person may request one at once for another workload. Budget, approval and rollout are those of any repetition.

use jiff::{SignedDuration, Timestamp};
use slipway_crds::v1alpha1::agent_deployment::{DriftStatus, OnDrift, Profiling};

use super::World;
use crate::why::{AfterDrift, Why};

/// Between the beginning of the last campaign and the next that nobody asked for.
const APART: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What drift asks for.
#[derive(Debug)]
pub(super) struct Call {
    /// From when on.
    pub(super) at: Timestamp,
    /// What is at risk, or has changed.
    pub(super) risk: String,
}

/// What drift asks for, where `spec.profiling.onDrift` lets it.
pub(super) fn call(world: &World, drift: Option<&DriftStatus>) -> Option<Call> {
    let (profiling, drift) = acting(world, drift)?;
    let approved = |proposal: &String| world.commands().approves_reprofiling(profiling, proposal);
    if let Some(source) = drift.proposal.as_ref().and_then(approved) {
        return Some(Call { at: drift.since.0, risk: format!("{}, as {source} allows", drift.message) });
    }
    let risk = drift.risk.as_ref().filter(|risk| risk.blocks_left.is_none())?;
    let run = world.status.reprofiling.as_ref().and_then(|state| state.run.as_ref());
    let last = world.latest_campaign.max(run.map(|run| run.started_at.0));
    let rested = last.and_then(|last| last.checked_add(APART).ok());
    Some(Call { at: rested.map_or(risk.since.0, |rested| rested.max(risk.since.0)), risk: risk.message.clone() })
}

/// What drift would ask for, and does not yet: tools may be the cause.
pub(super) fn awaited(world: &World, drift: Option<&DriftStatus>) -> Option<Why> {
    let (_, drift) = acting(world, drift)?;
    let risk = drift.risk.as_ref()?;
    let waits = AfterDrift::Cause { blocks_left: risk.blocks_left? };
    Some(Why::ReprofilingAfterDrift { waits, risk: risk.message.clone(), latest: None })
}

/// Drift, where it is acted upon.
fn acting<'a>(world: &'a World, drift: Option<&'a DriftStatus>) -> Option<(&'a Profiling, &'a DriftStatus)> {
    let profiling = world.spec.profiling.as_ref()?;
    match profiling.on_drift {
        OnDrift::Report => None,
        OnDrift::Reprofile => Some((profiling, drift?)),
    }
}
