//! API types of slipway.dev: resources, condition reasons, labels and identities.
//!
//! The crate describes and validates; it decides nothing. It reads no cluster and no clock.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat the name of their type")]

pub mod commands;
pub mod conditions;
pub mod identity;
pub mod labels;
mod readable_patterns;
pub mod store;
pub mod v1alpha1;
pub mod values;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// All CustomResourceDefinitions of the group, in the order in which they are installed.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![v1alpha1::AgentDeployment::crd(), v1alpha1::Engine::crd(), v1alpha1::Profile::crd()];
    for version in definitions.iter_mut().flat_map(|definition| &mut definition.spec.versions) {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("spec"));
        spec.into_iter().for_each(readable_patterns::say_patterns_in_words);
    }
    definitions
}
