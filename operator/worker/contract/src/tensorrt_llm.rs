//! What a build Job of backend `TensorRTLLM` does in the vendor's image.

use serde::{Deserialize, Serialize};

use crate::{Digest, EngineEntry};

/// Orders the steps of a build: upstream's tools one after the other, then the serving repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TensorRtLlmBuild {
    /// The version that the image must carry, as in `0.16.0`.
    pub version: String,
    /// GPUs that a layer is split over.
    pub tensor_parallel: u32,
    /// Groups that the layers are split into.
    pub pipeline_parallel: u32,
    /// The tools in their order: the checkpoint, then the engine.
    pub steps: Vec<ToolStep>,
    /// SHA-256 of the calibration texts, where a step reads any; they are mounted from a ConfigMap that may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Digest>,
    /// Sequences that the engine runs together.
    pub max_batch_size: u32,
    /// Whether the repository shares KV blocks among prompts; the engine must have paged context attention.
    pub kv_cache_reuse: bool,
    /// Whether long prompts are read in chunks; the engine must have paged context attention.
    pub chunked_context: bool,
    /// Entry of the image's repository.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine")]
    pub entry: EngineEntry,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolStep {
    /// `convert`, `quantize` or `build`: what `slipway-worker tool --step` names.
    pub name: String,
    /// The program.
    pub program: String,
    /// The script that the program runs, below the image's folder of examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The arguments behind program and script.
    pub arguments: Vec<String>,
}

impl TensorRtLlmBuild {
    /// Finds a step by its name.
    pub fn step(&self, name: &str) -> Option<&ToolStep> {
        self.steps.iter().find(|step| step.name == name)
    }
}
