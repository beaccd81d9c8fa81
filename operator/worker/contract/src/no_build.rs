//! What a Job does for an engine without a build.

use serde::{Deserialize, Serialize};

use crate::{Digest, NoBuildBackend};

/// Orders a serving repository around a checkpoint of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoBuild {
    /// What serves it.
    pub backend: NoBuildBackend,
    /// Its version, as in `0.11.0`.
    pub version: String,
    /// The checkpoint, which becomes a part of the artifact.
    pub checkpoint: Digest,
    /// The text of the file with the engine's arguments.
    pub arguments: String,
    /// The adapter that answers, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
}

/// An adapter of LoRA in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Adapter {
    /// Its folder.
    pub folder: String,
    /// The rank that the engine is told.
    pub rank: u32,
}
