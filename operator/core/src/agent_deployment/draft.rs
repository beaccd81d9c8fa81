//! The plan while planners put it together, and the revision that it is for. Pure.

use std::time::Duration;

use slipway_crds::v1alpha1::AgentDeploymentStatus;

use super::rollout::revision::RevisionPlan;
use crate::plan::{Child, Note, Removal};

/// The plan that is being put together.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) children: Vec<Child>,
    pub(super) removals: Vec<Removal>,
    pub(super) status: AgentDeploymentStatus,
    pub(super) notes: Vec<Note>,
    pub(super) requeue: Duration,
}

/// The plan that the spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) hash: String,
    pub(super) input_hash: String,
    pub(super) plan: RevisionPlan,
}
