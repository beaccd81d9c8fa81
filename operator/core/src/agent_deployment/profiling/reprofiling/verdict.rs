//! Whether the serving choice stays after it was measured again. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{Measurement, MeasurementPurpose, ProfileInputs},
};
use slipway_selection::{close, confirm, select};

use super::World;
use crate::agent_deployment::rollout::revision::{RevisionPlan, ServedArtifact};

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
        let row = |m: &Measurement| {
            (&m.engine, &m.configuration, m.level) == (&choice.engine, &choice.configuration, choice.level)
                && m.purpose == MeasurementPurpose::Explore
        };
        status.measurements.iter().position(row)
    });
    let stable = world.stable().and_then(|stable| world.revision(stable));
    // A plan of another spec is no yardstick for this one's choice.
    let stable = stable.filter(|stable| stable.inputs().spec == spec);
    let (Some(chosen), Some(stable)) = (chosen, stable) else { return Verdict::Changes(status.message.clone()) };
    let Some(serving) = point_of(&stable.plan, inputs, status) else {
        let new = select::point(inputs, &status.measurements[chosen]);
        return Verdict::Changes(format!(
            "{new} replaces the serving choice, which was not measured or does not meet spec.slo"
        ));
    };
    let is_same = serving == chosen;
    // Where a point was measured again, the middle measurement stands for it.
    let figures = |point| &status.measurements[close::figures(inputs, &status.measurements, point).unwrap_or(point)];
    let (chosen, serving) = (figures(chosen), figures(serving));
    if is_same {
        return Verdict::Stays(format!("the choice is unchanged: {}", select::point(inputs, chosen)));
    }
    let (new, old) = (select::point(inputs, chosen), select::point(inputs, serving));
    if select::is_clearly_better(inputs, chosen, serving) {
        Verdict::Changes(format!("{new} replaces {old}"))
    } else {
        Verdict::Stays(format!("the choice is unchanged: {new} is not 5 % better than {old}"))
    }
}

/// The first measurement of what serves, by its position, if it is of the very artifact and meets the objectives: also
/// in a confirm run, if it had one.
fn point_of(plan: &RevisionPlan, inputs: &ProfileInputs, status: &ProfileStatus) -> Option<usize> {
    let ServedArtifact { engine, configuration, .. } = plan.served.artifact()?;
    let digest = engine.manifest_digest.to_string();
    let inputs_have = inputs.engines.iter().any(|e| e.name == engine.name && e.manifest_digest == digest);
    let was_asked_for =
        status.asked.iter().any(|asked| asked.engine == engine.name && asked.manifest_digest.as_ref() == Some(&digest));
    let is_artifact = inputs_have || was_asked_for;
    let named = inputs.configurations.iter().find(|named| named.settings == *configuration).filter(|_| is_artifact)?;
    let is_it =
        |m: &Measurement| (&m.engine, &m.configuration, m.level) == (&engine.name, &named.name, plan.max_in_flight);
    let has_failed =
        |m: &Measurement| is_it(m) && m.purpose == MeasurementPurpose::Confirm && !confirm::passes(m, inputs);
    if status.measurements.iter().any(has_failed) {
        return None;
    }
    let point = status.measurements.iter().position(|m| is_it(m) && m.purpose == MeasurementPurpose::Explore)?;
    close::figures(inputs, &status.measurements, point).map(|_| point)
}
