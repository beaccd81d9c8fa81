//! API types of slipway.dev: resources, condition reasons, labels and identities.
//!
//! The crate describes and validates; it decides nothing. It reads no cluster and no clock.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat the name of their type")]

pub mod conditions;
pub mod identity;
pub mod labels;
pub mod v1alpha1;
pub mod values;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// All CustomResourceDefinitions of the group, in the order in which they are installed.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![v1alpha1::AgentDeployment::crd(), v1alpha1::Engine::crd(), v1alpha1::Profile::crd()]
}
