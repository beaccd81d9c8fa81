//! The Engine objects that an AgentDeployment asks for. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::{
    labels::Component,
    v1alpha1::{
        Engine, EngineSpec,
        engine::{BuildPlacement, EngineBuild},
    },
};

use super::World;
use crate::jobs::template::common_labels;

/// An Engine. Nobody owns it: every AgentDeployment of the namespace with the same build shares it.
pub fn engine(world: &World, name: &str, build: EngineBuild) -> Engine {
    let builder_image =
        world.spec.engine.custom.as_ref().map(|custom| custom.builder_image.clone()).unwrap_or_default();
    Engine {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(world.namespace.clone()),
            labels: Some(common_labels(Component::Build)),
            ..Default::default()
        },
        spec: EngineSpec {
            build,
            placement: BuildPlacement {
                builder_image,
                node_selector: world.spec.hardware.node_selector.clone(),
                tolerations: world.spec.hardware.tolerations.clone(),
                resources: world.spec.serving.triton_resources.clone(),
            },
        },
        status: None,
    }
}
