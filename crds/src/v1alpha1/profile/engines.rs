//! The engines of a campaign: what they are, which were asked for, which have been measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::agent_deployment::{EngineEntry, KvCachePrecision, NoBuildBackend, Precision, ServedBy};

/// An engine of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfiledEngine {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Digest of the artifact's manifest. Absent if the engine is built only when the search asks for it: see
    /// `status.asked`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// What distinguishes it from the other engines, for the search that asks for engines. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axes: Option<EngineAxes>,
    /// Display name of the engine.
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// Number of processes that serve an engine of TensorRT-LLM, each with a GPU. Absent with other backends.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tensorRTLLMRanks")]
    #[schemars(range(min = 1))]
    pub tensorrt_llm_ranks: Option<i32>,
    /// Model of an engine of TensorRT-LLM that receives requests. Absent means the engine itself.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine", rename = "tensorRTLLMEntry")]
    pub tensorrt_llm_entry: EngineEntry,
    /// Backend of an engine without a build. Absent with other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_build: Option<NoBuildBackend>,
    /// GPU model that it is for, by the label `nvidia.com/gpu.product`. Absent where all engines are for that of
    /// `placement`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub gpu_product: Option<String>,
    /// What `spec.profiling.prior` expects of it, level by level. Absent where it expects nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub expected: Vec<ExpectedLevel>,
}

/// What an outside model expects of an engine at a level, for requests of its own. The search learns by which factor
/// those of the campaign differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedLevel {
    /// Requests in flight on one replica.
    #[schemars(range(min = 1, max = 1024))]
    pub level: i32,
    /// Requests per 1,000 seconds.
    #[schemars(range(min = 1))]
    pub per_kilosecond: i64,
    /// Latency of a request.
    #[schemars(range(min = 1))]
    pub request_microseconds: i64,
    /// Time to the first token of a request.
    #[schemars(range(min = 1))]
    pub first_token_microseconds: i64,
    /// Time between two tokens.
    #[schemars(range(min = 1))]
    pub inter_token_microseconds: i64,
}

/// The point that an earlier campaign of the same model chose under another load. A search begins with it, and it
/// counts for no more than any other. A space of at most 24 cells is walked in its own order all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmStart {
    /// Profile of the earlier campaign.
    #[schemars(length(max = 63))]
    pub profile: String,
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration.
    #[schemars(length(max = 40))]
    pub configuration: String,
    /// Level: requests or runs in flight.
    pub level: i32,
}

impl ProfiledEngine {
    /// Gives what serves the engine.
    pub fn served_by(&self) -> ServedBy {
        let ranks = self.tensorrt_llm_ranks.and_then(|ranks| u32::try_from(ranks).ok());
        ServedBy::of(ranks, self.tensorrt_llm_entry, self.no_build)
    }
}

/// A point of the build axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineAxes {
    /// Numeric format of the weights.
    pub precision: Precision,
    /// Numeric format of the KV cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_cache_precision: Option<KvCachePrecision>,
    /// Number of GPUs that a layer is split over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_parallel: Option<i32>,
    /// Number of pipeline stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_parallel: Option<i32>,
    /// Maximum number of sequences that run together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch_size: Option<i32>,
    /// Maximum number of tokens in one iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_num_tokens: Option<i32>,
    /// Variant of a Custom engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub variant: String,
}

/// An engine that the search asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedEngine {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Why, in words.
    #[schemars(length(max = 256))]
    pub why: String,
    /// Digest of the manifest of the artifact that is measured. Absent until it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub manifest_digest: Option<String>,
}

/// An engine whose measurements have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredEngine {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Why they ended, in words.
    #[schemars(length(max = 512))]
    pub end: String,
}
