//! Where the model comes from and what its engine is built with.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::shared::{self, LocalObjectReference};

/// The model that the agent runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSource {
    /// Where the checkpoint lies: `hf://organisation/name@revision`, `pvc://claim/path`, or `http(s)://host/path` of a
    /// folder. What stands behind it is resolved once, and its digest is shown in `status.model`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^(hf|pvc|https?)://[^\s]+$"))]
    pub uri: String,
    /// Secret whose key `token` opens the source. Only pods of this namespace read it; the operator never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// How engines are built and served: the backend by name, and the block of that name in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.backend != 'Custom' || has(self.custom)")
    .message("engine.custom is required when engine.backend is Custom").field_path(".custom"))]
pub struct EngineConfiguration {
    /// The backend that builds and serves the model.
    pub backend: Backend,
    /// A container of your own that writes a Triton model repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomEngine>,
}

/// The backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Backend {
    /// A container of the user's own writes the Triton model repository.
    Custom,
}

/// Builds with a container of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomEngine {
    /// Image that reads the checkpoint at `/slipway/checkpoint`, the options at `/slipway/task/build.json`, and writes the
    /// model repository below `/slipway/output`.
    #[schemars(length(min = 1, max = 512))]
    pub builder_image: String,
    /// Image with tritonserver that serves what the builder wrote.
    #[schemars(length(min = 1, max = 512))]
    pub triton_image: String,
    /// Options handed to the builder as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub options: BTreeMap<String, String>,
    /// Variants of the model to build engines of, each in every precision; absent means the checkpoint as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Vec<EngineVariant>,
}

/// A variant of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineVariant {
    /// Name by which status and events speak of the variant.
    #[schemars(length(min = 1, max = 20), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Folder of the checkpoint that holds this variant; absent means the checkpoint's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    pub folder: Option<String>,
    /// Options of this variant, which go before those of `engine.custom.options`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::option_values")]
    pub options: BTreeMap<String, String>,
}

/// The numeric format of an engine's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Precision {
    /// 32-bit floating point.
    FP32,
    /// 16-bit floating point.
    FP16,
    /// 16-bit floating point with the exponent of FP32.
    BF16,
    /// 8-bit integers.
    INT8,
}

impl Precision {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FP32 => "FP32",
            Self::FP16 => "FP16",
            Self::BF16 => "BF16",
            Self::INT8 => "INT8",
        }
    }
}

/// The configurations to choose from. Every axis is optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchSpace {
    /// Numeric formats to build an engine for, the most exact first.
    #[serde(default = "default_precisions")]
    #[schemars(length(min = 1, max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub precision: Vec<Precision>,
    /// Agent runs in flight on one replica; a sidecar answers 429 beyond the largest.
    #[serde(default = "default_concurrency")]
    #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 1024)), extend("x-kubernetes-list-type" = "set"))]
    pub concurrency: Vec<i32>,
    /// Instances of the model in one Triton, each with weights of its own. Absent means as the repository has it. More than one
    /// value needs `profiling`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(range(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub instances: Vec<i32>,
    /// Parameters of the model's configuration that need no new engine, each with the values to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub parameters: Vec<ServeParameter>,
}

/// A parameter of the model's configuration (`parameters` of config.pbtxt) with the values to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServeParameter {
    /// Key of the parameter.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z][A-Za-z0-9_.-]*$"))]
    pub name: String,
    /// Its values.
    #[schemars(
        length(min = 1, max = 8),
        inner(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub values: Vec<String>,
}

impl Default for SearchSpace {
    fn default() -> Self {
        Self {
            precision: default_precisions(),
            concurrency: default_concurrency(),
            instances: Vec::new(),
            parameters: Vec::new(),
        }
    }
}

fn default_precisions() -> Vec<Precision> {
    vec![Precision::FP32]
}

fn default_concurrency() -> Vec<i32> {
    vec![1, 4, 8]
}
