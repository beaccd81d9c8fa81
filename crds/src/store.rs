//! What is known of the artifact store of a namespace: what it holds, what holds that, and what was removed.
//!
//! The record is a ConfigMap beside the claim, owned by it. A status of the claim would be Kubernetes' own to write,
//! annotations of it are too short for some thousand folders, and no AgentDeployment has a store of its own.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// Name of the claim in every namespace, and of the ConfigMap with its record.
pub const NAME: &str = "slipway-store";
/// The key of the record.
pub const KEY: &str = "store.json";
/// The version of the text.
pub const VERSION: u32 = 1;

/// What is known of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRecord {
    /// [`VERSION`].
    pub version: u32,
    /// What something has named, by its folder in the store.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, StoreItem>,
    /// Jobs that have ended and that nothing reads, each with when that was seen first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub jobs: BTreeMap<String, Time>,
    /// Number of the last sweep.
    #[serde(default)]
    pub sweeps: i32,
    /// The sweep in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// How the last one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<SweepEnd>,
}

impl Default for StoreRecord {
    fn default() -> Self {
        Self { version: VERSION, items: BTreeMap::new(), jobs: BTreeMap::new(), sweeps: 0, sweep: None, last: None }
    }
}

/// A folder of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreItem {
    /// Its bytes. Absent where nobody has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Objects that need it, the first few. It stays as long as there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// Since when nothing has needed it but what goes by itself: an Engine that nobody names, a Job that ended. It is
    /// kept for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreferenced_since: Option<Time>,
    /// Since when not even such an object has held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_since: Option<Time>,
    /// Whether the sweep in progress is to remove it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_swept: bool,
}

/// A sweep in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sweep {
    /// Its number, from 1.
    pub number: i32,
    /// When it was decided on.
    pub at: Time,
    /// What its Job waits for, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// How a sweep ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepEnd {
    /// Its number.
    pub number: i32,
    /// When its end was recorded.
    pub at: Time,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What it found and did; absent if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<SweepFigures>,
}

/// What a sweep found and did. Numbers are of folders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepFigures {
    /// Removed.
    pub removed: i64,
    /// Bytes of them.
    pub removed_bytes: i64,
    /// Needed, or kept for a while.
    pub kept: i64,
    /// Named by nobody and changed lately.
    pub young: i64,
    /// Named by nobody and written by a Job.
    pub busy: i64,
    /// Bytes of all that stayed.
    pub kept_bytes: i64,
    /// Entries that are none of the store's.
    pub foreign: i64,
    /// Bytes that the volume had left.
    pub free_bytes: i64,
    /// Bytes of the volume.
    pub capacity_bytes: i64,
}
