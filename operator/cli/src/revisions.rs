//! The revisions of an AgentDeployment, and their shares of the traffic. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use slipway_crds::v1alpha1::{AgentDeployment, agent_deployment::RolloutStatus};

/// The part that a revision plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Role {
    /// It serves.
    Stable,
    /// It is on trial.
    Canary,
    /// Fresh pods of stable's plan, with which the canary is compared.
    Baseline,
    /// It has lost its traffic, and its pods will be removed.
    Leaving,
}

impl Role {
    /// In lowercase, as texts have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Canary => "canary",
            Self::Baseline => "baseline",
            Self::Leaving => "leaving",
        }
    }
}

/// A revision with its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The part that it plays.
    pub role: Role,
    /// Its name: the hash of its plan.
    pub revision: String,
    /// Its share of the traffic, in percent.
    pub share_percent: i32,
    /// When it got this share. Absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When its pods will be removed, of one that leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Gives the revisions that the status names: stable, canary, baseline, then those that leave.
pub fn shares(object: &AgentDeployment) -> Vec<Share> {
    let none = RolloutStatus::default();
    let rollout = object.status.as_ref().and_then(|status| status.rollout.as_ref()).unwrap_or(&none);
    let weight = rollout.canary.as_ref().map_or(0, |_| rollout.weight.unwrap_or(0));
    let baseline = rollout.baseline.as_ref().filter(|_| rollout.canary.is_some());
    let of_baseline = baseline.map_or(0, |baseline| baseline.weight);
    let share = |role, revision: &String, share_percent| {
        let since = rollout.weight_since.clone().filter(|_| rollout.canary.is_some());
        Share { role, revision: revision.clone(), share_percent, since, until: None }
    };
    let stable = rollout.stable.as_ref().map(|stable| share(Role::Stable, stable, 100 - weight - of_baseline));
    let canary = rollout.canary.as_ref().map(|canary| share(Role::Canary, canary, weight));
    let baseline = baseline.map(|baseline| share(Role::Baseline, &baseline.revision, baseline.weight));
    let leaving = rollout.leaving.iter().map(|leaving| Share {
        since: None,
        until: Some(leaving.until.clone()),
        ..share(Role::Leaving, &leaving.revision, 0)
    });
    [stable, canary, baseline].into_iter().flatten().chain(leaving).collect()
}
