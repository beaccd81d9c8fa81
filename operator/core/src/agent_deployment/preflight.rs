//! The checks of GPUs that a plan has: what the spec asks for, by the image that the operator knows. Pure.

use slipway_crds::v1alpha1::agent_deployment::Serving;

use super::rollout::revision::PlannedPreflight;
use crate::settings::Settings;

/// The checks of new plans; absent where the spec asks for none.
///
/// # Errors
/// What is wrong, and the remedy.
pub fn planned_preflight(settings: &Settings, serving: &Serving) -> Result<Option<PlannedPreflight>, String> {
    let Some(asked) = &serving.preflight else { return Ok(None) };
    let image = settings.images.preflight.clone().ok_or_else(|| {
        "the operator's configuration names no image for it: set image.preflight of the operator's chart, or remove \
         the field"
            .to_owned()
    })?;
    Ok(Some(PlannedPreflight { image, asked: asked.clone() }))
}
