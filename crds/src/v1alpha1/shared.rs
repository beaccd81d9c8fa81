//! Types that several kinds share.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1 as corev1, apimachinery::pkg::api::resource::Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reference to an object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Reference to one key of a ConfigMap of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKeyReference {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Reference to one key of a Secret of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Settings of a model's configuration that need no new build. Absent ones stay as the repository has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServingConfiguration {
    /// Number of instances of the model in one Triton.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<i32>,
    /// How long a request waits for others to form a batch, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_microseconds: Option<i32>,
    /// Parameters of the model, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "option_values")]
    pub parameters: BTreeMap<String, String>,
}

impl ServingConfiguration {
    /// Whether everything stays as the repository has it.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Requests and limits of one container, as Kubernetes writes them: `cpu: 500m`, `memory: 2Gi`, `nvidia.com/gpu: "1"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResources {
    /// Resources that the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub requests: BTreeMap<String, String>,
    /// Maximum resources of the container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub limits: BTreeMap<String, String>,
}

impl ContainerResources {
    /// Bytes of memory that the container may use at most; absent where nothing limits it.
    pub fn memory_limit(&self) -> Option<u64> {
        bytes_of(self.limits.get("memory")?)
    }

    /// Converts to Kubernetes' own type.
    pub fn to_requirements(&self) -> corev1::ResourceRequirements {
        let convert = |quantities: &BTreeMap<String, String>| {
            let converted: BTreeMap<_, _> =
                quantities.iter().map(|(name, quantity)| (name.clone(), Quantity(quantity.clone()))).collect();
            (!converted.is_empty()).then_some(converted)
        };
        corev1::ResourceRequirements {
            requests: convert(&self.requests),
            limits: convert(&self.limits),
            ..Default::default()
        }
    }
}

/// The bytes of a quantity. What is too much for the type is as good as the most.
fn bytes_of(quantity: &str) -> Option<u64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    let factor = match unit {
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * factor) as u64)
}

/// A tolerated taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint. Absent with operator Exists matches every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub key: Option<String>,
    /// How key and value are compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint. Only with operator Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Effect to tolerate. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Converts to Kubernetes' own type.
    pub fn to_kubernetes(&self) -> corev1::Toleration {
        let Self { key, operator, value, effect } = self;
        corev1::Toleration {
            key: key.clone(),
            operator: Some(match operator {
                TolerationOperator::Equal => "Equal".to_owned(),
                TolerationOperator::Exists => "Exists".to_owned(),
            }),
            value: value.clone(),
            effect: effect.map(|effect| match effect {
                TaintEffect::NoSchedule => "NoSchedule".to_owned(),
                TaintEffect::PreferNoSchedule => "PreferNoSchedule".to_owned(),
                TaintEffect::NoExecute => "NoExecute".to_owned(),
            }),
            ..Default::default()
        }
    }
}

/// Operators of a toleration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TolerationOperator {
    /// Key and value are equal.
    #[default]
    Equal,
    /// The key exists.
    Exists,
}

/// Effect of a taint on pods that do not tolerate it. Absent means all effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TaintEffect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are scheduled elsewhere where possible.
    PreferNoSchedule,
    /// Running pods are evicted.
    NoExecute,
}

/// Gives the schema of a map of resource names to quantities, bounded so that rules over it have a bounded cost.
pub(crate) fn quantities(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "type": "string", "maxLength": 32,
            "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
        },
    })
}

/// Gives the schema of a map of label values, bounded in number and length.
pub(crate) fn label_values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// Gives the schema of a map of builder options, bounded in number and length.
pub(crate) fn option_values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 256 },
    })
}

/// Gives the schema of a map of steps to milliseconds, bounded in number.
pub(crate) fn step_milliseconds(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "integer", "format": "int64", "minimum": 0 },
    })
}

/// Gives the schema of a status's conditions: a list keyed by type.
pub(crate) fn conditions(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    let mut schema = generator.subschema_for::<Vec<Condition>>();
    schema.insert("maxItems".to_owned(), 16.into());
    schema.insert("x-kubernetes-list-type".to_owned(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".to_owned(), serde_json::json!(["type"]));
    schema
}
