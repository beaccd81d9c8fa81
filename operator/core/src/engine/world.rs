//! What is known of an Engine when it is decided on. Pure data.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::v1alpha1::{EngineSpec, EngineStatus};

use crate::{jobs::view::JobView, settings::Settings};

/// Everything that was observed of an Engine.
#[derive(Debug, Clone)]
pub struct EngineWorld {
    /// The time of the observation.
    pub now: Timestamp,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Name of the Engine.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its generation.
    pub generation: i64,
    /// Reference by which it owns its Jobs.
    pub owner: OwnerReference,
    /// What is to be built.
    pub spec: EngineSpec,
    /// What was recorded last.
    pub status: EngineStatus,
    /// Its Jobs, by name.
    pub jobs: BTreeMap<String, JobView>,
    /// Its resource version.
    pub resource_version: String,
    /// Whether anybody names it.
    pub used: Use,
    /// When a pod last missed its artifact in the store; absent where none did.
    pub missed_at: Option<Timestamp>,
    /// When its checkpoint was last fetched; absent where no Job says so.
    pub fetched_at: Option<Timestamp>,
}

/// Whether anybody names an Engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Somebody does.
    Used,
    /// Nobody does.
    Unused,
    /// Something that may name it cannot be read by this version, or the Engine was not made by Slipway.
    Unknown,
}
