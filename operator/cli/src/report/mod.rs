//! The report of a campaign: one HTML file that needs nothing else. Pure.

mod html;
mod page;
mod plot;
mod rollout;
mod scale;
mod sections;
mod what_if;

use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};
use slipway_vocabulary::evidence::Evidence;

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// The AgentDeployment that asked for the campaign.
    pub object: &'a AgentDeployment,
    /// The campaign.
    pub profile: &'a Profile,
    /// Its engines, as far as they are there.
    pub engines: &'a [Engine],
    /// What its pods counted in the last hour, as far as they answer: a rollout under way is drawn from it.
    pub evidence: &'a [Evidence],
}

/// The report as a whole HTML document: no script, no font, no link, nothing that is loaded.
pub fn report(material: Material<'_>) -> String {
    page::page(&material)
}
