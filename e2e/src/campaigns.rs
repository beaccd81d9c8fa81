//! Campaigns of measurements, followed to their choice.

use std::{env, time::Duration};

use serde_json::Value;
use slipway_crds::v1alpha1::{AgentDeployment, Profile, profile::ProfilePhase};

use crate::namespace::{Namespace, Outcome};

/// Longest time of one campaign of a few points, on a machine of two cores.
pub const CAMPAIGN_LIMIT: Duration = Duration::from_secs(900);
/// Names the variable that says how many campaigns a scenario repeats.
const CAMPAIGNS: &str = "SLIPWAY_E2E_CAMPAIGNS";

/// How many campaigns are asked for.
pub fn campaigns(default: u32) -> u32 {
    env::var(CAMPAIGNS).ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

impl Namespace {
    /// Applies an agent and gives its campaign once that has chosen.
    ///
    /// # Errors
    /// When the manifest is refused, or nothing is chosen within the limit.
    pub async fn campaign(&self, agent: &Value) -> Outcome<Profile> {
        let applied = self.apply(agent).await?.metadata;
        let (generation, name) = (applied.generation, applied.name.unwrap_or_default());
        let campaign = self
            .wait(&name, "with a campaign", CAMPAIGN_LIMIT, |object: &AgentDeployment| {
                let status = object.status.as_ref().filter(|status| status.observed_generation == generation);
                status.and_then(|status| status.profile.clone()).ok_or_else(|| "no campaign yet".to_owned())
            })
            .await?;
        self.wait(&campaign, "ended", CAMPAIGN_LIMIT, |object: &Profile| match &object.status {
            Some(status) if status.phase == Some(ProfilePhase::Chosen) => Ok(object.clone()),
            Some(status) => Err(status.message.clone()),
            None => Err("no status yet".to_owned()),
        })
        .await
    }
}
