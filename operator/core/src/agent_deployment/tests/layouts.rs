//! Another version of the operator lays pods out in another way, and restarts none of those that serve.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use pretty_assertions::assert_eq;

use super::cluster::{Cluster, world};
use crate::{agent_deployment::rollout::layout::Layout, plan::Child};

/// An agent that an operator from before there were layouts brought up.
fn of_first_layout() -> Cluster {
    let mut cluster = world().serving();
    for revision in &mut cluster.world.revisions {
        revision.plan.layout = Layout::V1;
        revision.plan.worker_resources = None;
    }
    cluster
}

/// The pods that a plan asks for, by revision.
fn pods(cluster: &Cluster) -> BTreeMap<String, PodSpec> {
    let deployments = cluster.plan().children.into_iter().filter_map(|child| match child {
        Child::Deployment(deployment) => Some(deployment),
        _ => None,
    });
    let pod = |deployment: Box<k8s_openapi::api::apps::v1::Deployment>| {
        let name = deployment.metadata.name.expect("a Deployment has a name");
        let revision = name.strip_prefix("support-").expect("of the agent").to_owned();
        (revision, deployment.spec.and_then(|spec| spec.template.spec).expect("a Deployment has pods"))
    };
    deployments.map(pod).collect()
}

/// Whether nothing but its own pod reaches the APIs of a pod's Triton.
fn is_shut(pod: &PodSpec) -> bool {
    let containers = pod.init_containers.iter().flatten().filter(|container| container.name == "triton");
    let mut words = containers.flat_map(|container| container.command.iter().flatten());
    words.any(|word| word == "--http-address=127.0.0.1")
}

#[test]
fn pods_of_an_older_layout_stay_as_they_are_until_the_next_revision() {
    let mut cluster = of_first_layout();
    let old = cluster.stable();
    let before = pods(&cluster);
    assert_eq!(before.values().map(is_shut).collect::<Vec<_>>(), [false]);
    cluster.settle();
    assert_eq!(pods(&cluster), before, "an operator that knows a newer layout restarts nothing");
    let mut edited = cluster.edited(|spec| spec.agent.system_prompt = "Answer briefly.".to_owned());
    edited.step();
    edited.settle();
    let after = pods(&edited);
    assert_eq!(after.get(&old), before.get(&old), "the revision that serves stays until the new one is judged");
    let new: Vec<_> = after.iter().filter(|(revision, _)| **revision != old).map(|(_, pod)| is_shut(pod)).collect();
    assert_eq!(new, [true]);
}

/// The members that came with the second layout are absent in older plans, whose hashes are names on users' clusters.
#[test]
fn a_plan_of_the_first_layout_says_nothing_of_it() {
    let cluster = of_first_layout();
    let plan = serde_json::to_value(&cluster.world.revisions[0].plan).expect("a plan is JSON");
    assert_eq!((plan.get("layout"), plan.get("workerResources")), (None, None));
}

#[test]
fn a_plan_of_a_layout_from_the_future_is_not_read() {
    let cluster = world().serving();
    let mut plan = serde_json::to_value(&cluster.world.revisions[0].plan).expect("a plan is JSON");
    assert_eq!(plan["layout"], "V6");
    plan["layout"] = "V9".into();
    let error = serde_json::from_value::<crate::agent_deployment::rollout::revision::RevisionPlan>(plan).unwrap_err();
    assert_eq!(error.to_string(), "unknown variant `V9`, expected one of `V1`, `V2`, `V3`, `V4`, `V5`, `V6`");
}
