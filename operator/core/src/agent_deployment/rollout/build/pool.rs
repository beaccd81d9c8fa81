//! The InferencePool of a revision: its pods, for gateways that pick one by its load. Pure.

use slipway_crds::v1alpha1::agent_deployment::{EndpointPicker, PickerFailureMode};

use super::pod::API_PORT;
use crate::{
    agent_deployment::{
        metadata::{owned, revision_name, selector, serving_labels},
        world::{PoolsView, World},
    },
    inference_pool::{EndpointPickerRef, InferencePool, InferencePoolSpec, PoolPort, PoolSelector},
};

/// Whether the spec asks for pools.
pub fn is_asked_for(world: &World) -> bool {
    let gateway = world.spec.rollout.traffic.gateway_api.as_ref();
    gateway.is_some_and(|gateway| gateway.inference_pool.is_some())
}

/// Why the pools that the spec asks for cannot be written, with the remedy.
pub fn problem(world: &World) -> Option<&'static str> {
    match world.pools {
        _ if !is_asked_for(world) => None,
        PoolsView::Writable => None,
        PoolsView::NotAllowed => Some(
            "inferencePool: the operator is not allowed to write InferencePools: set gateway.inferencePools in its \
             chart, or remove inferencePool",
        ),
        PoolsView::UnknownKind => Some(
            "inferencePool: the cluster has no InferencePool of version v1: install the CRDs of the Gateway API \
             Inference Extension, or remove inferencePool",
        ),
    }
}

/// The pool of a revision, where there is to be one.
pub fn inference_pool(world: &World, hash: &str) -> Option<InferencePool> {
    let gateway = world.spec.rollout.traffic.gateway_api.as_ref().filter(|_| problem(world).is_none())?;
    let backend = gateway.inference_pool.as_ref()?;
    Some(InferencePool {
        metadata: owned(world, revision_name(world, hash), serving_labels(world, Some(hash))),
        spec: InferencePoolSpec {
            selector: PoolSelector { match_labels: selector(world, hash) },
            target_ports: vec![PoolPort { number: API_PORT }],
            endpoint_picker_ref: backend.endpoint_picker.as_ref().map(picker),
        },
    })
}

fn picker(picker: &EndpointPicker) -> EndpointPickerRef {
    let failure_mode = match picker.failure_mode {
        PickerFailureMode::FailClose => "FailClose",
        PickerFailureMode::FailOpen => "FailOpen",
    };
    EndpointPickerRef {
        group: String::new(),
        kind: "Service".to_owned(),
        name: picker.name.clone(),
        port: PoolPort { number: picker.port },
        failure_mode: failure_mode.to_owned(),
    }
}
