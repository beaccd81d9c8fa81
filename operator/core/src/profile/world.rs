//! What is known of a Profile when it is decided on. Pure data.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::v1alpha1::{
    AgentDeployment, ProfileSpec, ProfileStatus, agent_deployment::AgentDeploymentStatus, profile::ProfileInputs,
};
use slipway_worker_contract::Progress;

use crate::{jobs::view::JobView, settings::Settings};

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
    /// Earlier campaigns of the same model, the latest first. Those of other agents are known until this one has begun.
    pub earlier: Vec<Earlier>,
    /// What the AgentDeployment says to its campaign.
    pub agent: AgentView,
    /// When the Profile was created.
    pub created: Option<Timestamp>,
}

impl ProfileWorld {
    /// Whether the AgentDeployment has left the campaign: nobody builds the engines that it asks for.
    pub fn is_superseded(&self) -> bool {
        let is_named = |campaigns: &Vec<String>| campaigns.contains(&self.name);
        let has_had_time = self.created.is_some_and(|created| self.now.duration_since(created) > UNTIL_NAMED);
        has_had_time && self.agent.campaigns.as_ref().is_some_and(|campaigns| !is_named(campaigns))
    }
}

/// A new campaign is named in the status of its AgentDeployment before this time.
const UNTIL_NAMED: SignedDuration = SignedDuration::from_mins(2);

/// What an AgentDeployment says to its campaign.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentView {
    /// The campaigns that it conducts. Absent of one that is gone.
    pub campaigns: Option<Vec<String>>,
    /// Engines that may be measured at once, if more than one.
    pub parallel_jobs: Option<i32>,
    /// Engines that were asked for and have been decided on, by name.
    pub offers: BTreeMap<String, Offer>,
}

/// The answer for an engine that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Offer {
    /// It may be measured: the digest of its artifact's manifest.
    Artifact(String),
    /// It failed or was refused, in words.
    None(String),
}

impl AgentView {
    /// Engines that are measured at once.
    pub fn most_at_once(&self) -> usize {
        self.parallel_jobs.and_then(|most| usize::try_from(most).ok()).unwrap_or(1).max(1)
    }

    /// What the object says. Nothing of one that is gone.
    pub fn of(object: Option<&AgentDeployment>) -> Self {
        let Some(object) = object else { return Self::default() };
        let choices = object.status.iter().flat_map(|status| &status.engines);
        let offers = choices.filter_map(|choice| {
            let offer = match &choice.offer.as_ref()?.manifest_digest {
                Some(digest) => Offer::Artifact(digest.clone()),
                None => Offer::None(choice.state.clone()),
            };
            Some((choice.name.clone(), offer))
        });
        let parallel_jobs = object.spec.profiling.as_ref().and_then(|profiling| profiling.parallel_jobs);
        let again = |status: &AgentDeploymentStatus| status.reprofiling.as_ref()?.run.as_ref()?.profile.clone();
        let campaigns = object.status.as_ref().map(|status| status.profile.clone().into_iter().chain(again(status)));
        Self { campaigns: campaigns.map(Iterator::collect), parallel_jobs, offers: offers.collect() }
    }
}

/// Another campaign, of this agent or of one with the same model.
#[derive(Debug, Clone, PartialEq)]
pub struct Earlier {
    /// Name of the Profile.
    pub name: String,
    /// What it measures.
    pub inputs: ProfileInputs,
    /// What it found so far.
    pub status: ProfileStatus,
}
