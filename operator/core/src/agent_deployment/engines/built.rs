//! An engine that was built, as the steps after it know it. Pure.

use slipway_crds::v1alpha1::{agent_deployment::ServedBy, profile::EngineAxes};
use slipway_worker_contract::EngineRef;

/// An engine that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent_deployment) struct BuiltEngine {
    pub(in crate::agent_deployment) reference: EngineRef,
    pub(in crate::agent_deployment) display_name: String,
    /// What serves it.
    pub(in crate::agent_deployment) served_by: ServedBy,
    /// The GPU model that it is for, where the spec has several.
    pub(in crate::agent_deployment) gpu_product: Option<String>,
    /// What distinguishes it from the others.
    pub(in crate::agent_deployment) axes: EngineAxes,
}
