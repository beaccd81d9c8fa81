//! What serves a revision: configuration, Deployment and Services. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{ConfigMap, PodTemplateSpec, Service, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use slipway_agent_config::{Asked, ServedAgent};
use slipway_crds::labels;

use super::{authentication, network_policy, pod, pool, preflight, traces};
use crate::{
    agent_deployment::{
        metadata::{owned, revision_name, selector, serving_labels},
        rollout::revision::{RevisionPlan, Served},
        world::World,
    },
    plan::Child,
};

/// Port of the Services.
pub const SERVICE_PORT: i32 = 80;
/// Revision that no pod has: what the Service of an AgentDeployment selects before anything serves.
const NO_REVISION: &str = "none";
/// Seconds in which a new pod must become ready before its revision counts as failed.
pub const PROGRESS_DEADLINE_SECONDS: i32 = 600;
/// Seconds for which a pod is ready before a canary counts it. A busy kubelet was seen to take readiness back within
/// 0.2 s, and a request of the share that had been given meanwhile found no server.
const MIN_READY_SECONDS: i32 = 5;

/// Everything that a revision of so many pods needs, in the order in which it is applied: what a pod mounts comes
/// before the pod.
pub fn revision_children(world: &World, hash: &str, plan: &RevisionPlan, replicas: i32) -> Vec<Child> {
    let always = [
        Child::ConfigMap(Box::new(config_map(world, hash, plan))),
        Child::Service(Box::new(revision_service(world, hash))),
        Child::Deployment(Box::new(deployment(world, hash, plan, replicas))),
    ];
    let pool = pool::inference_pool(world, hash).map(|pool| Child::InferencePool(Box::new(pool)));
    let policy = network_policy::network_policy(world, hash, plan).map(|policy| Child::NetworkPolicy(Box::new(policy)));
    policy.into_iter().chain(always).chain(pool).collect()
}

fn config_map(world: &World, hash: &str, plan: &RevisionPlan) -> ConfigMap {
    let objectives = plan.layout.objectives(&world.spec.slo.objectives);
    let mut config = slipway_agent_config::runtime_config(&world.name, hash, served_agent(plan), &objectives);
    config.chat_template = pod::chat_template(plan);
    let rates = world.spec.serving.authentication.as_ref().map(|edited| &edited.rates);
    config.authentication = authentication::config(plan, rates);
    config.tracing = traces::config(plan, &world.namespace);
    config.gpus_endpoint = preflight::watch_endpoint(plan);
    config.recording = plan.recording;
    ConfigMap {
        metadata: owned(world, revision_name(world, hash), serving_labels(world, Some(hash))),
        data: Some(BTreeMap::from([(pod::CONFIG_FILE.to_owned(), config.to_json())])),
        ..Default::default()
    }
}

fn served_agent(plan: &RevisionPlan) -> ServedAgent<'_> {
    let asked = match &plan.served {
        Served::Artifact(artifact) => Asked::Beside(artifact.engine.served_by),
        Served::Upstream(served) => Asked::Upstream(&served.upstream),
    };
    ServedAgent { agent: &plan.agent, asked, max_in_flight: plan.max_in_flight }
}

fn deployment(world: &World, hash: &str, plan: &RevisionPlan, replicas: i32) -> Deployment {
    let name = revision_name(world, hash);
    let labels = serving_labels(world, Some(hash));
    Deployment {
        metadata: owned(world, name.clone(), labels.clone()),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            min_ready_seconds: Some(MIN_READY_SECONDS),
            progress_deadline_seconds: Some(PROGRESS_DEADLINE_SECONDS),
            // A revision's template never changes; its records are ours, not the Deployment's.
            revision_history_limit: Some(1),
            selector: LabelSelector { match_labels: Some(selector(world, hash)), ..Default::default() },
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(1)),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(pod::pod_spec(&world.settings, &name, plan)),
            },
            ..Default::default()
        }),
        status: None,
    }
}

fn service(metadata: ObjectMeta, selector: BTreeMap<String, String>) -> Service {
    Service {
        metadata,
        spec: Some(ServiceSpec {
            selector: Some(selector),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: SERVICE_PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(pod::API_PORT_NAME.to_owned())),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        status: None,
    }
}

fn revision_service(world: &World, hash: &str) -> Service {
    service(owned(world, revision_name(world, hash), serving_labels(world, Some(hash))), selector(world, hash))
}

/// The Service that clients call. It exists from the first reconciliation on and goes to the stable revision.
pub fn stable_service(world: &World, stable: Option<&str>) -> Service {
    service(
        owned(world, world.name.clone(), serving_labels(world, None)),
        selector(world, stable.unwrap_or(NO_REVISION)),
    )
}

/// The same Service while the pods of two revisions share its traffic.
pub fn common_service(world: &World) -> Service {
    let of_agent = BTreeMap::from([(labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone())]);
    let serves = (labels::APP_COMPONENT.to_owned(), labels::Component::Serve.as_str().to_owned());
    let selector = of_agent.into_iter().chain([serves]).collect();
    service(owned(world, world.name.clone(), serving_labels(world, None)), selector)
}
