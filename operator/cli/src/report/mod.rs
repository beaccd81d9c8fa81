//! The report of a campaign: one HTML file that needs nothing else. Pure.

mod html;
mod page;
mod plot;
mod scale;
mod sections;

use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// The AgentDeployment that asked for the campaign.
    pub object: &'a AgentDeployment,
    /// The campaign.
    pub profile: &'a Profile,
    /// Its engines, as far as they are there.
    pub engines: &'a [Engine],
}

/// The report as a whole HTML document: no script, no font, no link, nothing that is loaded.
pub fn report(material: Material<'_>) -> String {
    page::page(&material)
}
