//! What comes next for a Profile. Pure.
//!
//! Every finished measurement is written to the status before anything depends on it. So a campaign continues from
//! wherever it was interrupted: the rows of the status are all that it remembers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::v1alpha1::{ProfileSpec, ProfileStatus};
use slipway_worker_contract::Progress;

use super::status;
use crate::{
    jobs::view::JobView,
    plan::{Plan, RESYNC},
    settings::Settings,
};

mod adopt;
pub mod confirm;
mod explore;
mod infeasible;
mod job;
pub mod rows;
pub mod select;

pub use adopt::Earlier;

/// While a Job measures: no event reports its progress.
const POLL: Duration = Duration::from_secs(3);

/// Everything that was observed of a Profile.
#[derive(Debug, Clone)]
pub struct ProfileWorld {
    /// The time of the observation.
    pub now: Timestamp,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Name of the Profile.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its generation.
    pub generation: i64,
    /// Reference by which it owns its Jobs.
    pub owner: OwnerReference,
    /// What is to be measured.
    pub spec: ProfileSpec,
    /// What was recorded last.
    pub status: ProfileStatus,
    /// Its Jobs, by name.
    pub jobs: BTreeMap<String, JobView>,
    /// What running Jobs say of themselves, by name of the Job.
    pub progress: BTreeMap<String, Progress>,
    /// Other campaigns of the same agent, the latest first.
    pub earlier: Vec<Earlier>,
}

/// Decides what comes next.
pub fn decide(world: &ProfileWorld) -> Plan<ProfileStatus> {
    let mut plan = Plan {
        children: Vec::new(),
        removals: Vec::new(),
        status: world.status.clone(),
        notes: Vec::new(),
        announcements: Vec::new(),
        requeue: RESYNC,
    };
    adopt::adopt(world, &mut plan);
    let state = status::ended(&world.status)
        .or_else(|| explore::explore(world, &mut plan))
        .unwrap_or_else(|| confirm::finish(world, &mut plan));
    status::complete(world, state, &mut plan.status);
    plan
}

/// The text, cut to what a field of the status holds.
fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

#[cfg(test)]
mod tests;
