//! What is known of a Profile when it is decided on. Pure data.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::v1alpha1::{ProfileSpec, ProfileStatus, profile::ProfileInputs};
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
    /// Other campaigns of the same agent, the latest first.
    pub earlier: Vec<Earlier>,
}

/// Another campaign of the same agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Earlier {
    /// Name of the Profile.
    pub name: String,
    /// What it measures.
    pub inputs: ProfileInputs,
    /// What it found so far.
    pub status: ProfileStatus,
}
