//! Whether the serving choice stays after it was measured again. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};
use slipway_selection::{confirm, select};

use super::World;
use crate::agent_deployment::rollout::revision::RevisionPlan;

/// What follows from a repetition, in words.
pub(super) enum Verdict {
    /// The serving choice stays.
    Stays(String),
    /// Another choice replaces it.
    Changes(String),
}

/// Compares the choice with the serving one, which stays unless it no longer meets the objectives, or is clearly worse.
pub(super) fn verdict(world: &World, spec: &str, inputs: &ProfileInputs, status: &ProfileStatus) -> Verdict {
    let chosen = status.choice.as_ref().and_then(|choice| {
        let row = |m: &&Measurement| {
            (&m.engine, &m.configuration, m.level) == (&choice.engine, &choice.configuration, choice.level)
                && m.purpose == MeasurementPurpose::Explore
        };
        status.measurements.iter().find(row)
    });
    let stable = world.stable().and_then(|stable| world.revision(stable));
    // A plan of another spec is no yardstick for this one's choice.
    let stable = stable.filter(|stable| stable.inputs().spec == spec);
    let (Some(chosen), Some(stable)) = (chosen, stable) else { return Verdict::Changes(status.message.clone()) };
    let Some(serving) = point_of(&stable.plan, inputs, status) else {
        let new = select::point(inputs, chosen);
        return Verdict::Changes(format!(
            "{new} replaces the serving choice, which was not measured or does not meet spec.slo"
        ));
    };
    if std::ptr::eq(serving, chosen) {
        return Verdict::Stays(format!("the choice is unchanged: {}", select::point(inputs, chosen)));
    }
    let (new, old) = (select::point(inputs, chosen), select::point(inputs, serving));
    if select::is_clearly_better(inputs, chosen, serving) {
        Verdict::Changes(format!("{new} replaces {old}"))
    } else {
        Verdict::Stays(format!("the choice is unchanged: {new} is not 5 % better than {old}"))
    }
}

/// The measurement of what serves, if it is of the very artifact and meets the objectives: also in a confirm run, if it
/// had one.
fn point_of<'a>(plan: &RevisionPlan, inputs: &ProfileInputs, status: &'a ProfileStatus) -> Option<&'a Measurement> {
    let digest = plan.engine.manifest_digest.to_string();
    let is_artifact = inputs.engines.iter().any(|e| e.name == plan.engine.name && e.manifest_digest == digest);
    let named =
        inputs.configurations.iter().find(|named| named.settings == plan.configuration).filter(|_| is_artifact)?;
    let is_it = |m: &&Measurement| {
        (&m.engine, &m.configuration, m.level) == (&plan.engine.name, &named.name, plan.max_in_flight)
    };
    let rows = || status.measurements.iter().filter(is_it);
    let has_failed = rows().any(|m| m.purpose == MeasurementPurpose::Confirm && !confirm::passes(m, inputs));
    let explored =
        rows().find(|m| m.purpose == MeasurementPurpose::Explore && m.verdict == MeasurementVerdict::Feasible);
    explored.filter(|_| !has_failed)
}
