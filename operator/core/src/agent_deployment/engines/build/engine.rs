//! The Engine objects that an AgentDeployment asks for. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::{
    labels::Component,
    v1alpha1::{
        Engine, EngineSpec,
        engine::{BuildPlacement, EngineBuild},
    },
};

use crate::{
    agent_deployment::{engines::axes::product, world::World},
    jobs::template::common_labels,
};

/// An Engine. Nobody owns it: every AgentDeployment of the namespace with the same build shares it.
pub fn engine(world: &World, name: &str, build: EngineBuild, builder_image: &str) -> Engine {
    let tools = world.spec.engine.as_ref().and_then(|engine| engine.tensorrt_llm.as_ref());
    let node_selector = world.spec.hardware.on(product(world, &build)).node_selector;
    let calibration = tools.and_then(|tools| tools.calibration.as_ref());
    let is_calibrated = build.tensorrt_llm.as_ref().is_some_and(|build| build.calibration.is_some());
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
                builder_image: builder_image.to_owned(),
                node_selector,
                tolerations: world.spec.hardware.tolerations.clone(),
                resources: world.spec.serving.triton_resources.clone(),
                calibration: calibration.filter(|_| is_calibrated).map(|calibration| calibration.config_map.clone()),
            },
        },
        status: None,
    }
}
