//! Engine: one built artifact, shared by content within its namespace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::FailureClass;
use slipway_vocabulary::serving::ModelFamily;

use super::{
    agent_deployment::{
        self, Backend, EngineServer, KvCachePrecision, NoBuildOptions, Precision, ServedBy, TensorRtLlmOptions,
        VllmFeatures,
    },
    shared::{self, ConfigMapKeyReference, ContainerResources, Toleration},
};
use crate::values::Percent;

/// What an engine is built from. The object's name ends in the hash of its identity, so `build` never changes;
/// `placement` may.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slipway.dev",
    version = "v1alpha1",
    kind = "Engine",
    plural = "engines",
    shortname = "eng",
    category = "slipway",
    namespaced,
    status = "EngineStatus",
    derive = "PartialEq",
    doc = "A built artifact that AgentDeployments of its namespace share by content.",
    printcolumn(name = "Precision", type_ = "string", json_path = ".spec.build.precision"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.artifact.sizeBytes"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.build == oldSelf.build")
    .message("build is immutable: create another Engine for another build"))]
pub struct EngineSpec {
    /// What is built. It is part of the identity.
    pub build: EngineBuild,
    /// Where it is built. It is not part of the identity.
    pub placement: BuildPlacement,
}

/// Everything that determines an engine's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineBuild {
    /// Backend that builds and serves the engine.
    pub backend: Backend,
    /// Digest over all files of the checkpoint.
    #[schemars(length(min = 1, max = 80))]
    pub source_digest: String,
    /// Commit of the model, if its source has commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub model_commit: Option<String>,
    /// Digest over the files of the tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub tokenizer_digest: Option<String>,
    /// Content digest of the builder's image.
    #[schemars(length(min = 1, max = 512))]
    pub builder_image_digest: String,
    /// Numeric format.
    pub precision: Precision,
    /// Folder of the checkpoint that is built, if not its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub variant: Option<String>,
    /// Options that are passed to the builder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub options: BTreeMap<String, String>,
    /// What TensorRT-LLM's tools build, with backend TensorRTLLM.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tensorRTLLM")]
    pub tensorrt_llm: Option<TensorRtLlmBuild>,
    /// Settings of an engine without a build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_build: Option<NoBuild>,
}

impl EngineBuild {
    /// Gives what serves the engine.
    pub fn served_by(&self) -> ServedBy {
        let server = self.no_build.as_ref().map_or(EngineServer::default(), |of| of.server);
        match (&self.tensorrt_llm, agent_deployment::no_build_backend(self.backend, server)) {
            (_, Some(backend)) => ServedBy::NoBuild(backend),
            (Some(of), None) => ServedBy::TensorRtLlm { ranks: self.gpus(), entry: of.options.settings.entry },
            (None, None) => ServedBy::Custom,
        }
    }

    /// GPU model that it is for, by the label `nvidia.com/gpu.product`. Absent with backend Custom.
    pub fn gpu_product(&self) -> Option<&str> {
        let of_tensorrt_llm = self.tensorrt_llm.as_ref().map(|of| of.gpu_product.as_str());
        of_tensorrt_llm.or_else(|| self.no_build.as_ref().map(|of| of.gpu_product.as_str()))
    }

    /// Number of GPUs that the engine is split over: 1 with backend Custom, whose engines are not.
    pub fn gpus(&self) -> u32 {
        let of_tensorrt_llm = self.tensorrt_llm.as_ref().map(|of| (of.tensor_parallel, of.pipeline_parallel));
        let of_no_build = self.no_build.as_ref().map(|of| (of.tensor_parallel, of.pipeline_parallel));
        // Numbers of the API are signed and bounded below by 1.
        let positive = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
        of_tensorrt_llm.or(of_no_build).map_or(1, |(tensor, pipeline)| positive(tensor) * positive(pipeline))
    }
}

/// An engine that needs no build: how its checkpoint is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoBuild {
    /// Version of the backend.
    #[schemars(length(max = 20))]
    pub version: String,
    /// What takes requests.
    #[serde(default, skip_serializing_if = "EngineServer::is_default")]
    pub server: EngineServer,
    /// GPU model that measures and serves it, by the label `nvidia.com/gpu.product`.
    #[schemars(length(max = 63))]
    pub gpu_product: String,
    /// Number of GPUs that each layer is split over.
    pub tensor_parallel: i32,
    /// Number of pipeline stages.
    pub pipeline_parallel: i32,
    /// Numeric format of the KV cache.
    pub kv_cache_precision: KvCachePrecision,
    /// Maximum number of sequences that it runs together.
    pub max_batch_size: i32,
    /// Maximum number of tokens of one iteration.
    pub max_num_tokens: i32,
    /// Value of `gpuMemoryUtilization`, `kvCacheFreeGpuMemory` or `memFractionStatic`.
    pub memory: Percent,
    /// Whether the weights are quantized when they are loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quantized_at_load: bool,
    /// Features of vLLM.
    #[serde(default, skip_serializing_if = "VllmFeatures::is_default")]
    pub features: VllmFeatures,
    /// Further options.
    pub options: NoBuildOptions,
}

/// An engine of TensorRT-LLM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TensorRtLlmBuild {
    /// Version of TensorRT-LLM.
    #[schemars(length(max = 20))]
    pub version: String,
    /// GPU model that it runs on, by the label `nvidia.com/gpu.product`.
    #[schemars(length(max = 63))]
    pub gpu_product: String,
    /// Number of GPUs that each layer is split over.
    pub tensor_parallel: i32,
    /// Number of pipeline stages.
    pub pipeline_parallel: i32,
    /// Numeric format of the KV cache.
    pub kv_cache_precision: KvCachePrecision,
    /// Maximum number of sequences that it runs together.
    pub max_batch_size: i32,
    /// Maximum number of tokens of one iteration.
    pub max_num_tokens: i32,
    /// Family of the model, which decides the script that converts it. Absent means Llama.
    #[serde(default, skip_serializing_if = "ModelFamily::is_llama")]
    pub family: ModelFamily,
    /// Whether the checkpoint is quantized already. The tools only convert it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prequantized: bool,
    /// Calibration of the quantization, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationIdentity>,
    /// Further options of the tools.
    pub options: TensorRtLlmOptions,
}

/// Calibration texts, by content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalibrationIdentity {
    /// Digest of the texts.
    #[schemars(length(max = 80))]
    pub digest: String,
    /// Number of texts used.
    pub samples: i32,
    /// Maximum number of tokens of a text.
    pub max_tokens: i32,
}

/// Where an engine is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildPlacement {
    /// Builder image, as it can be pulled.
    #[schemars(length(min = 1, max = 512))]
    pub builder_image: String,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::label_values")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
    /// Resources of the builder.
    #[serde(default)]
    pub resources: ContainerResources,
    /// Source of the calibration texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<ConfigMapKeyReference>,
}

/// Observed state of an Engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Reconciling and Stalled as kstatus defines them.
    #[serde(default)]
    #[schemars(schema_with = "shared::conditions")]
    pub conditions: Vec<Condition>,
    /// The built artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<EngineArtifact>,
    /// The artifact that the store lost, until it is there again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostArtifact>,
    /// Since when no AgentDeployment, kept revision or Profile has named it. Absent while one does. It is removed after
    /// `store.keepUnusedEnginesSeconds` of the operator's configuration, or after a minute if it is not built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_since: Option<Time>,
    /// Attempts to build, latest last. Of more than 16, the first are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub attempts: Vec<BuildAttempt>,
}

/// An artifact that the store lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostArtifact {
    /// Digest of its manifest.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// When a pod missed it.
    pub at: Time,
    /// Number of the last attempt before.
    pub attempts_before: i32,
}

/// A built artifact in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineArtifact {
    /// Digest of the manifest, which holds the digest of every file.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// Path of the artifact in the store.
    #[schemars(length(max = 512))]
    pub location: String,
    /// Size of all files, in bytes.
    pub size_bytes: i64,
    /// When it was recorded. Absent for one of a release that did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Time>,
    /// Duration of the build in milliseconds, from the start of its pod to its end.
    pub build_milliseconds: i64,
    /// Duration of each step in milliseconds: those that the builder reported, then those that processed its output.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::step_milliseconds")]
    pub step_milliseconds: BTreeMap<String, i64>,
    /// Versions of the builder's tools, as it reported them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub versions: BTreeMap<String, String>,
}

/// An attempt to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildAttempt {
    /// Number of the attempt, from 1.
    pub number: i32,
    /// Name of its Job.
    #[schemars(length(max = 63))]
    pub job: String,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<AttemptFailure>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFailure {
    /// Class of the failure. Infrastructure is retried, and MissingArtifact once the store has the files again.
    pub class: FailureClass,
    /// What happened, with the last line of the log.
    #[schemars(length(max = 1024))]
    pub message: String,
}
