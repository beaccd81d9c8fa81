//! The kinds that the server knows: all that the operator and what runs beside it use.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, ResourceQuota, Service},
    events::v1::Event as StructuredEvent,
    networking::v1::NetworkPolicy,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slipway_operator_core::{inference_pool::InferencePool, prometheus::PrometheusRule};

use super::schema::Schema;

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    /// Whether its status is written by itself, and leaves the rest alone.
    pub has_status: bool,
    /// Whether `metadata.generation` counts the changes of the spec.
    pub has_generation: bool,
}

const fn kind(
    (group, version): (&'static str, &'static str),
    (plural, kind): (&'static str, &'static str),
    (has_status, has_generation): (bool, bool),
) -> Kind {
    Kind { group, version, plural, kind, has_status, has_generation }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const SLIPWAY: (&str, &str) = ("slipway.dev", "v1alpha1");

pub const AGENT_DEPLOYMENTS: Kind = kind(SLIPWAY, ("agentdeployments", "AgentDeployment"), (true, true));
pub const ENGINES: Kind = kind(SLIPWAY, ("engines", "Engine"), (true, true));
pub const PROFILES: Kind = kind(SLIPWAY, ("profiles", "Profile"), (true, true));
pub const PODS: Kind = kind(CORE, ("pods", "Pod"), (true, true));
pub const SERVICES: Kind = kind(CORE, ("services", "Service"), (true, false));
pub const CONFIG_MAPS: Kind = kind(CORE, ("configmaps", "ConfigMap"), (false, false));
pub const CLAIMS: Kind = kind(CORE, ("persistentvolumeclaims", "PersistentVolumeClaim"), (true, false));
pub const QUOTAS: Kind = kind(CORE, ("resourcequotas", "ResourceQuota"), (true, false));
pub const CORE_EVENTS: Kind = kind(CORE, ("events", "Event"), (false, false));
pub const EVENTS: Kind = kind(("events.k8s.io", "v1"), ("events", "Event"), (false, false));
pub const DEPLOYMENTS: Kind = kind(APPS, ("deployments", "Deployment"), (true, true));
pub const CONTROLLER_REVISIONS: Kind = kind(APPS, ("controllerrevisions", "ControllerRevision"), (false, false));
pub const JOBS: Kind = kind(("batch", "v1"), ("jobs", "Job"), (true, true));
pub const LEASES: Kind = kind(("coordination.k8s.io", "v1"), ("leases", "Lease"), (false, false));
pub const NETWORK_POLICIES: Kind =
    kind(("networking.k8s.io", "v1"), ("networkpolicies", "NetworkPolicy"), (false, true));
pub const ROUTES: Kind = kind(("gateway.networking.k8s.io", "v1"), ("httproutes", "HTTPRoute"), (true, true));
pub const POOLS: Kind = kind(("inference.networking.k8s.io", "v1"), ("inferencepools", "InferencePool"), (true, true));
pub const RULES: Kind = kind(("monitoring.coreos.com", "v1"), ("prometheusrules", "PrometheusRule"), (false, true));

/// All of them.
pub const KINDS: [Kind; 18] = [
    AGENT_DEPLOYMENTS,
    ENGINES,
    PROFILES,
    PODS,
    SERVICES,
    CONFIG_MAPS,
    CLAIMS,
    QUOTAS,
    CORE_EVENTS,
    EVENTS,
    DEPLOYMENTS,
    CONTROLLER_REVISIONS,
    JOBS,
    LEASES,
    NETWORK_POLICIES,
    ROUTES,
    POOLS,
    RULES,
];

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether it comes with a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io") || [ROUTES, POOLS].contains(self)
    }

    /// The schema of a kind of ours.
    pub fn schema(&self) -> Option<&'static Schema> {
        (self.group == SLIPWAY.0).then(|| Schema::of(self.kind))
    }

    /// The object without what the kind does not have. A kind of Kubernetes' or of others is read by its type.
    ///
    /// # Errors
    /// With the parser's words where a value is of another type.
    pub fn pruned(&self, object: Value) -> Result<Value, serde_json::Error> {
        match *self {
            PODS => through::<Pod>(object),
            SERVICES => through::<Service>(object),
            CONFIG_MAPS => through::<ConfigMap>(object),
            CLAIMS => through::<PersistentVolumeClaim>(object),
            QUOTAS => through::<ResourceQuota>(object),
            CORE_EVENTS => through::<Event>(object),
            EVENTS => through::<StructuredEvent>(object),
            DEPLOYMENTS => through::<Deployment>(object),
            CONTROLLER_REVISIONS => through::<ControllerRevision>(object),
            JOBS => through::<Job>(object),
            LEASES => through::<Lease>(object),
            NETWORK_POLICIES => through::<NetworkPolicy>(object),
            ROUTES => through::<HttpRoute>(object),
            POOLS => through::<InferencePool>(object),
            RULES => through::<PrometheusRule>(object),
            _ => Ok(self.schema().map(|schema| schema.pruned(&object)).unwrap_or(object)),
        }
    }
}

fn through<T: DeserializeOwned + Serialize>(object: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}
