//! The artifact store of a namespace as a type. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use slipway_crds::store::{StoreItem, StoreRecord, Sweep, SweepEnd};

use crate::output::Shown;

/// What is known of a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreView {
    /// Its folders, by their paths.
    pub folders: Vec<Folder>,
    /// The sweep in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// How the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sweep: Option<SweepEnd>,
}

impl Shown for StoreView {
    const KIND: &'static str = "Store";
}

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Content {
    /// An artifact of an Engine, with its scores.
    Engine,
    /// A checkpoint.
    Checkpoint,
    /// Records of a campaign.
    Records,
    /// Something that this version does not know.
    Other,
}

/// A folder of a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// Its path below the root of the volume.
    pub path: String,
    /// What it holds.
    pub content: Content,
    /// Its bytes, where somebody has said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Objects that hold it, the first few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// Since when nothing has needed it but what goes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unneeded_since: Option<Time>,
}

impl StoreView {
    /// What is known of the store with this record.
    pub fn of(record: &StoreRecord) -> Self {
        let StoreRecord { version: _, items, jobs: _, sweeps: _, sweep, last } = record.clone();
        let folders = items.into_iter().map(|(path, item)| Folder::of(path, item)).collect();
        Self { folders, sweep, last_sweep: last }
    }
}

impl Folder {
    fn of(path: String, item: StoreItem) -> Self {
        let StoreItem { bytes, held_by, unreferenced_since, free_since: _, is_swept: _ } = item;
        let content = match path.split('/').next() {
            Some("engines") => Content::Engine,
            Some("checkpoints") => Content::Checkpoint,
            Some("profiles") => Content::Records,
            Some(_) | None => Content::Other,
        };
        Self { path, content, bytes, held_by, unneeded_since: unreferenced_since }
    }

    /// Whether something needs it.
    pub fn is_needed(&self) -> bool {
        self.unneeded_since.is_none()
    }
}
