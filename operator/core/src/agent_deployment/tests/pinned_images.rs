//! The image that serves an engine of backend Custom, by its digest.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{CustomEngine, JobAttempt, Precision};

use super::{
    cluster::{Cluster, Ending, digest, world},
    profiling::{PROFILED, inputs},
    tensorrt_llm::serving_container,
};
use crate::agent_deployment::world::WorkloadView;

const TRITON: &str = "example.com/triton:1";
const PINNED: &str = "example.com/triton@sha256:2e";

fn served_by(cluster: &Cluster) -> String {
    serving_container(cluster, "triton").image.expect("a container has an image")
}

fn custom(cluster: &mut Cluster) -> &mut CustomEngine {
    cluster.world.spec.engine.as_mut().and_then(|engine| engine.custom.as_mut()).expect("the engine is custom")
}

/// With the model resolved on a node that has pulled both images.
fn resolved(mut cluster: Cluster) -> Cluster {
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Success);
    let job = cluster.world.jobs.get_mut(&resolve).expect("the resolve Job exists");
    job.pinned_images.insert(TRITON.to_owned(), PINNED.to_owned());
    job.pinned_images.insert("example.com/builder:1".to_owned(), "example.com/builder@sha256:1e".to_owned());
    cluster
}

fn attempts_of_resolve(cluster: &Cluster) -> Vec<JobAttempt> {
    cluster.world.status.jobs.iter().filter(|job| job.kind == "resolve").cloned().collect()
}

/// As an operator left it that asked for the builder's image alone.
fn of_an_earlier_operator() -> Cluster {
    let mut of_one_image = world();
    custom(&mut of_one_image).triton_image = "example.com/builder:1".to_owned();
    let earlier = attempts_of_resolve(&of_one_image.resolved());
    let mut cluster = world().serving();
    cluster.world.status.jobs.retain(|job| job.kind != "resolve");
    cluster.world.status.jobs.extend(earlier);
    cluster.world.status.images.retain(|image| image.reference != TRITON);
    cluster
}

#[test]
fn a_tag_that_moves_changes_no_pod() {
    let cluster = resolved(world()).fetched().with_engine_built(Precision::FP32);
    let images = cluster.world.status.images.iter().map(|image| (image.reference.as_str(), image.pinned.as_deref()));
    let expected = [("example.com/builder:1", Some("example.com/builder@sha256:1e")), (TRITON, Some(PINNED))];
    assert_eq!((images.collect::<Vec<_>>(), served_by(&cluster)), (expected.to_vec(), PINNED.to_owned()));
}

#[test]
fn a_campaign_measures_what_will_serve() {
    let mut cluster = world().edited(|spec| *spec = serde_norway::from_str(PROFILED).expect("a valid spec"));
    let data = WorkloadView::Lines { digest: digest("prompts") };
    cluster.world.workloads.insert(("chat".to_owned(), "prompts.jsonl".to_owned()), data);
    let cluster = resolved(cluster).fetched().with_engine_built(Precision::FP32).with_engine_built(Precision::INT8);
    assert_eq!(inputs(&cluster).placement.triton_image, PINNED);
}

#[test]
fn an_upgrade_starts_no_job_and_no_rollout() {
    let mut cluster = of_an_earlier_operator();
    let (stable, jobs) = (cluster.stable(), cluster.world.status.jobs.clone());
    cluster.settle();
    let cluster = cluster.edited(|spec| spec.serving.replicas = 2).with_pods_ready();
    assert_eq!((cluster.stable(), &cluster.world.status.jobs), (stable, &jobs));
    assert_eq!((cluster.running_jobs(), served_by(&cluster)), (Vec::<String>::new(), TRITON.to_owned()));
}

#[test]
fn another_serving_image_is_pinned_after_an_upgrade_as_well() {
    let mut cluster = of_an_earlier_operator();
    let before = attempts_of_resolve(&cluster);
    custom(&mut cluster).triton_image = "example.com/triton:2".to_owned();
    cluster.settle();
    let started = cluster.running_jobs();
    assert!(started.len() == 1 && started[0].starts_with("resolve-"), "{started:?}");
    assert_ne!(attempts_of_resolve(&cluster), before);
}
