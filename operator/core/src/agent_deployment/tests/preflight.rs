//! The checks of a pod's GPUs come with a revision, ask for no GPU more, and blame the node, not the revision.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_crds::v1alpha1::{AgentDeploymentSpec, agent_deployment::Preflight, profile::ProfilePhase};
use slipway_vocabulary::preflight::{GpuRefusal, PreflightReport};

use super::{
    cluster::{Cluster, world},
    profiling::{ended, profiled},
};
use crate::{
    agent_deployment::world::{RefusedPod, ServingView, Unscheduled},
    jobs::preflight,
    plan::Child,
};

const SMALL: &str = "GPU 0 has 20000 of 81559 MiB free and 73403 are needed: end what holds the rest, or lower \
                     spec.serving.preflight.minFreeMemory";

fn with_image(mut cluster: Cluster) -> Cluster {
    Arc::make_mut(&mut cluster.world.settings).images.preflight = Some("example.com/preflight:1".to_owned());
    cluster
}

/// Two GPUs of a product, checked as a manifest says.
fn checked(spec: &mut AgentDeploymentSpec, yaml: &str) {
    spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-H100-80GB-HBM3".to_owned());
    spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
    spec.serving.preflight = Some(serde_norway::from_str::<Preflight>(yaml).expect("checks"));
}

fn pod(cluster: &Cluster, revision: &str) -> PodSpec {
    let deployment = cluster.plan().children.into_iter().find_map(|child| match child {
        Child::Deployment(object) if object.metadata.name == Some(format!("support-{revision}")) => object.spec,
        _ => None,
    });
    deployment.and_then(|spec| spec.template.spec).expect("a revision has pods")
}

fn init_containers(pod: &PodSpec) -> Vec<&Container> {
    pod.init_containers.iter().flatten().collect()
}

fn names(pod: &PodSpec) -> Vec<&str> {
    init_containers(pod).into_iter().map(|container| container.name.as_str()).collect()
}

#[test]
fn checks_come_with_a_revision_and_run_between_the_engines_copy_and_the_server() {
    let unchecked = with_image(world().serving());
    let stable = unchecked.stable();
    let before = pod(&unchecked, &stable);
    assert_eq!(names(&before), ["materialize", "triton"]);
    let mut cluster = unchecked.edited(|spec| checked(spec, "{minDriver: 580.65.06, minFreeMemory: 40%}"));
    cluster.settle();
    let canary = cluster.canary();
    assert_eq!(pod(&cluster, &stable), before, "pods that serve stay as they are");
    let pod = pod(&cluster, &canary);
    assert_eq!(names(&pod), ["materialize", "preflight", "triton"]);
    let preflight = init_containers(&pod)[1];
    let task = json!({"gpus": 2, "product": "NVIDIA-H100-80GB-HBM3", "minDriver": "580.65.06",
        "minFreePerMillion": 400_000, "engine": "/slipway/engine", "messageBytes": 3_072});
    let expected: Container = serde_json::from_value(json!({
        "name": "preflight",
        "image": "example.com/preflight:1",
        "imagePullPolicy": "IfNotPresent",
        "args": [task.to_string()],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"},
        },
        "volumeMounts": [{"name": "engine", "mountPath": "/slipway/engine", "readOnly": true}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    }))
    .expect("a container");
    let argument = |container: &Container| -> serde_json::Value {
        let text = container.args.iter().flatten().next().expect("a task");
        serde_json::from_str(text).expect("JSON")
    };
    assert_eq!(argument(preflight), argument(&expected));
    assert_eq!(Container { args: None, ..preflight.clone() }, Container { args: None, ..expected });
}

#[test]
fn checks_change_no_measurement() {
    let measured = with_image(ended(profiled(), ProfilePhase::Chosen).with_pods_ready());
    let profiles = measured.world.profiles.len();
    let yaml = serde_norway::from_str("{}").expect("checks");
    let mut checked = measured.edited(|spec| spec.serving.preflight = Some(yaml));
    checked.settle();
    assert_eq!((checked.world.profiles.len(), checked.running_jobs()), (profiles, Vec::new()));
}

#[test]
fn an_operator_without_the_image_says_so_before_anything_is_built() {
    let mut cluster = world().edited(|spec| checked(spec, "{}"));
    cluster.settle();
    let stalled = condition(&cluster, "Stalled");
    let expected = "spec.serving.preflight: the operator's configuration names no image for it: set image.preflight of \
                    the operator's chart, or remove the field";
    assert_eq!(stalled, ("True".to_owned(), "SpecRefused".to_owned(), expected.to_owned()));
    assert_eq!(cluster.running_jobs(), Vec::<String>::new());
}

fn condition(cluster: &Cluster, type_: &str) -> (String, String, String) {
    let found = cluster.world.status.conditions.iter().find(|condition| condition.type_ == type_);
    let found = found.expect("the condition is there");
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn refuse(view: &mut ServingView, problems: &str) {
    view.ready = 0;
    view.failure = Some(format!("preflight: {problems}"));
    view.refused =
        Some(RefusedPod { pod: "support-a-x".to_owned(), node: "gpu-1".to_owned(), problems: problems.to_owned() });
}

/// A revision whose first pod's container `preflight` has ended with these refusals.
fn condition_of(refusals: Vec<GpuRefusal>) -> (String, String, String) {
    let report = serde_json::to_string(&PreflightReport::of(refusals)).expect("JSON");
    let problems = preflight::refused(&report).expect("it refuses");
    let mut cluster = with_image(world().edited(|spec| checked(spec, "{}")));
    cluster = cluster.serving().edited(|spec| spec.agent.system_prompt = "Answer briefly.".to_owned());
    cluster.settle();
    let canary = cluster.canary();
    refuse(cluster.world.serving.get_mut(&canary).expect("its pods"), &problems);
    cluster.settle();
    condition(&cluster, "Reconciling")
}

#[rstest]
#[case::an_old_driver(
    GpuRefusal::OldDriver { driver: "535.104.05".to_owned(), needed: "580.65.06".to_owned() },
    "driver 535.104.05 is older than 580.65.06"
)]
#[case::an_occupied_gpu(
    GpuRefusal::Occupied { gpu: 1, free_mib: 20_000, memory_mib: 81_559, needed_mib: 73_403 },
    "GPU 1 has 20000 of 81559 MiB free and 73403 are needed"
)]
#[case::mig(
    GpuRefusal::Mig { gpu: 0, name: "NVIDIA H100 80GB HBM3".to_owned() },
    "GPU 0 (NVIDIA H100 80GB HBM3) is cut into MIG slices"
)]
#[case::fewer_gpus_than_asked_for(GpuRefusal::TooFew { seen: 1, asked: 2 }, "the container sees 1 of 2 GPUs")]
#[case::weights_that_do_not_fit(
    GpuRefusal::WeightsDoNotFit { weights_mib: 140_000, free_mib: 81_076, gpus: 1 },
    "the weights take 140000 MiB, and one GPU has 81076 MiB free"
)]
fn what_a_gpu_is_refused_for_is_a_condition_with_the_numbers(#[case] refusal: GpuRefusal, #[case] words: &str) {
    let (status, reason, message) = condition_of(vec![refusal]);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "PreflightFailed"));
    assert!(message.contains("on node gpu-1") && message.contains(words), "{message}");
}

#[test]
fn a_pod_that_asks_for_more_gpus_than_any_node_has_says_how_many() {
    let mut cluster = with_image(world().edited(|spec| checked(spec, "{}"))).serving();
    cluster = cluster.edited(|spec| {
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "16".to_owned());
    });
    cluster.settle();
    let (canary, since) = (cluster.canary(), cluster.world.now);
    let view = cluster.world.serving.get_mut(&canary).expect("its pods");
    let message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.".to_owned();
    (view.ready, view.unscheduled) = (0, Some(Unscheduled { since, message }));
    cluster.settle();
    let (_, reason, message) = condition(&cluster, "Reconciling");
    assert_eq!(reason, "WaitingForCapacity");
    let words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, and each pod asks for 16. After ";
    assert!(message.contains(words), "{message}");
}

#[test]
fn gpus_that_are_watched_have_a_program_beside_their_server_and_ask_for_no_gpu_more() {
    let of = |yaml: &str| {
        let cluster = with_image(world().edited(|spec| checked(spec, yaml))).serving();
        pod(&cluster, &cluster.stable())
    };
    let (before, after) = (of("{}"), of("{watch: true}"));
    let container = |pod: &PodSpec, name: &str| {
        init_containers(pod).into_iter().find(|container| container.name == name).cloned().expect("a container")
    };
    let (server, watched) = (container(&before, "triton"), container(&after, "triton"));
    let [shell, option, script, zero, command @ ..] = watched.command.as_deref().expect("a command") else {
        panic!("{:?}", watched.command)
    };
    let beside = "/slipway/watch/slipway-preflight watch & exec \"$@\"";
    assert_eq!([shell, option, script, zero], ["/bin/sh", "-c", beside, "sh"]);
    assert_eq!(Some(command), server.command.as_deref());
    assert_eq!((watched.resources, watched.startup_probe), (server.resources, server.startup_probe));
    let mounted = |container: &Container| -> Vec<(String, Option<bool>)> {
        let mounts = container.volume_mounts.iter().flatten().filter(|mount| mount.name == "gpu-watch");
        mounts.map(|mount| (mount.mount_path.clone(), mount.read_only)).collect()
    };
    let at = |read_only| vec![("/slipway/watch".to_owned(), read_only)];
    assert_eq!(mounted(&container(&after, "triton")), at(Some(true)));
    assert_eq!(mounted(&container(&after, "preflight")), at(None));
    let task = container(&after, "preflight").args.into_iter().flatten().next().expect("a task");
    assert!(task.contains(r#""copyTo":"/slipway/watch""#), "{task}");
    assert_eq!(names(&after), names(&before));
}

#[test]
fn refused_gpus_are_a_condition_with_the_figures_and_the_node() {
    let mut cluster = with_image(world().edited(|spec| checked(spec, "{}"))).serving();
    let stable = cluster.stable();
    let edited = |spec: &mut AgentDeploymentSpec| spec.agent.system_prompt = "Answer briefly.".to_owned();
    cluster = cluster.edited(edited);
    cluster.settle();
    let canary = cluster.canary();
    refuse(cluster.world.serving.get_mut(&canary).expect("its pods"), SMALL);
    cluster.settle();
    let message = format!(
        "revision {canary} does not start on node gpu-1, whose GPUs its preflight refuses: {SMALL}. Pod support-a-x tries \
         again; to have it elsewhere, cordon the node and delete the pod"
    );
    let refused = ("True".to_owned(), "PreflightFailed".to_owned(), message);
    assert_eq!(condition(&cluster, "Reconciling"), refused);
    assert_eq!(cluster.stable(), stable, "what serves goes on");
    cluster.world.serving.get_mut(&canary).expect("its pods").is_past_deadline = true;
    cluster.settle();
    assert_eq!(condition(&cluster, "Stalled"), refused);
}
