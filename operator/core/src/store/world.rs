//! What is known of the store of a namespace when it is decided on. Pure data.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::store::StoreRecord;

use super::references::References;
use crate::{jobs::view::JobView, settings::Settings};

/// Everything that was observed of a store.
#[derive(Debug, Clone)]
pub struct StoreWorld {
    /// The time of the observation.
    pub now: Timestamp,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// The namespace.
    pub namespace: String,
    /// Reference by which the claim owns its Jobs and its record.
    pub owner: OwnerReference,
    /// What was recorded last.
    pub record: StoreRecord,
    /// What is needed; absent where something cannot be read that may need anything.
    pub references: Option<References>,
    /// Jobs of ours.
    pub jobs: Vec<SeenJob>,
    /// Tasks of sweeps.
    pub tasks: Vec<SeenTask>,
}

/// A Job of the namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenJob {
    /// How far it is.
    pub view: JobView,
    /// The part that it plays, by its label.
    pub component: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
}

/// The ConfigMap with the task of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTask {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
}
