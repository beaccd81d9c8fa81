//! What must hold among the objects of every fixture.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{
    agent_deployment::{CircuitBreaker, Tool},
    shared::LocalObjectReference,
};
use slipway_runtime_config::RuntimeConfig;
use slipway_worker_contract::Task;

use slipway_operator_core::agent_deployment::rollout::layout::Layout;

use super::{fixture, fixture_of, objects::Objects};

const NONE: Vec<String> = Vec::new();

fn name(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    )
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A label of DNS as RFC 1123 has it: what names of Services, volumes and ports must be.
fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The Jobs on the way to serving.
fn steps(objects: &Objects) -> Vec<&'static str> {
    let has_quality = objects.agent_deployment.spec.slo.quality.is_some();
    let has_campaign = objects.agent_deployment.spec.profiling.is_some();
    let before = ["resolve", "fetch", "build"].into_iter().chain(has_quality.then_some("quality"));
    before.chain(has_campaign.then_some(["profile"; 2]).into_iter().flatten()).collect()
}

/// Templates of pods, with the names of their Jobs and Deployments.
fn templates(objects: &Objects) -> Vec<(String, &Value)> {
    let with_pods = objects.all.iter().filter(|object| object["spec"]["template"].is_object());
    with_pods.map(|object| (name(object), &object["spec"]["template"])).collect()
}

fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    items(&template["spec"], "initContainers").chain(items(&template["spec"], "containers"))
}

/// All pairs of a pod and what a check finds wrong with it.
fn wrong_pods(objects: &Objects, check: impl Fn(&Value) -> Vec<String>) -> Vec<String> {
    let templates = templates(objects);
    // Without an engine no Job runs.
    let least = if objects.agent_deployment.spec.upstream().is_some() { 1 } else { 4 };
    assert!(templates.len() >= least, "a Deployment and three Jobs have pods");
    templates
        .into_iter()
        .flat_map(|(name, template)| check(template).into_iter().map(move |wrong| format!("{name}: {wrong}")))
        .collect()
}

fn wrong_containers(objects: &Objects, is_right: impl Fn(&Value) -> bool) -> Vec<String> {
    wrong_pods(objects, |template| {
        containers(template).filter(|container| !is_right(container)).map(|c| text(c, "name").to_owned()).collect()
    })
}

fn is_subset(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().expect("a selector is a map");
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[rstest]
fn names_are_labels_of_dns(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let invalid: Vec<_> =
        objects.all.iter().filter(|object| !is_dns_label(text(&object["metadata"], "name"))).map(name).collect();
    assert_eq!(invalid, NONE);
}

#[rstest]
fn label_values_are_at_most_63_characters(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let is_long = |object: &&Value| {
        let labels = object["metadata"]["labels"].as_object().expect("every object is labelled");
        labels.values().any(|value| value.as_str().is_none_or(|value| value.len() > 63))
    };
    assert_eq!(objects.all.iter().filter(is_long).map(name).collect::<Vec<_>>(), NONE);
}

/// A namespace that is deleted waits for finalizers, and nobody may be left to remove ours.
#[rstest]
fn nothing_has_a_finalizer(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let holding = objects.all.iter().filter(|object| !object["metadata"]["finalizers"].is_null());
    assert_eq!(holding.map(name).collect::<Vec<_>>(), NONE);
}

/// What several AgentDeployments share belongs to none of them.
#[rstest]
fn everything_but_what_is_shared_has_one_owner(
    #[values("minimal", "full", "claim", "profiled", "agent-run")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let ownerless: Vec<_> =
        objects.all.iter().filter(|o| items(&o["metadata"], "ownerReferences").count() != 1).map(name).collect();
    assert_eq!(ownerless, ["PersistentVolumeClaim slipway-store", "Engine engine-0123456789"]);
    let kinds: BTreeSet<_> = objects
        .all
        .iter()
        .flat_map(|object| items(&object["metadata"], "ownerReferences"))
        .map(|owner| (text(owner, "kind"), owner["controller"] == true))
        .collect();
    let measures = objects.agent_deployment.spec.profiling.as_ref().map(|_| ("Profile", true));
    assert_eq!(
        kinds,
        BTreeSet::from([("AgentDeployment", true), ("Engine", true)]).into_iter().chain(measures).collect()
    );
}

#[rstest]
fn selectors_find_the_pods_of_the_revision(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["slipway.dev/revision"], objects.revision.as_str());
    assert!(is_subset(&deployment["spec"]["selector"]["matchLabels"], labels));
    let services = objects.kind("Service").filter(|service| !is_of_baseline(service));
    let (found, lost): (Vec<_>, Vec<_>) = services.partition(|service| is_subset(&service["spec"]["selector"], labels));
    assert_eq!((found.len(), lost.into_iter().map(name).collect::<Vec<_>>()), (2, NONE));
}

fn is_of_baseline(object: &Value) -> bool {
    text(&object["metadata"]["labels"], "slipway.dev/revision").ends_with("-base")
}

/// A baseline runs what the revision runs, and neither is ever taken for the other.
#[test]
fn a_baseline_is_the_revision_under_another_name() {
    let objects = fixture("full");
    let (of_baseline, of_revision): (Vec<_>, Vec<_>) =
        objects.kind("Deployment").partition(|deployment| is_of_baseline(deployment));
    let ([baseline], [revision]) = (of_baseline.as_slice(), of_revision.as_slice()) else {
        panic!("{} and {} Deployments", of_baseline.len(), of_revision.len())
    };
    let renamed = |object: &Value| {
        let text = object["spec"]["template"]["spec"].to_string();
        text.replace(object["metadata"]["name"].as_str().expect("it has a name"), "NAME")
    };
    assert_eq!(renamed(baseline), renamed(revision));
    let labels = |object: &Value| object["spec"]["template"]["metadata"]["labels"].clone();
    let selectors = objects.kind("Service").chain([*baseline, *revision]).map(|object| {
        let selector = &object["spec"]["selector"];
        selector.get("matchLabels").unwrap_or(selector)
    });
    for selector in selectors {
        let both = is_subset(selector, &labels(baseline)) && is_subset(selector, &labels(revision));
        assert!(!both, "{selector} finds the pods of both");
    }
}

/// The Service that clients call has the AgentDeployment's name, whatever revision serves.
#[rstest]
fn services_go_to_a_port_that_pods_name(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let named: BTreeSet<_> = containers(&deployment["spec"]["template"])
        .flat_map(|container| items(container, "ports"))
        .map(|port| text(port, "name"))
        .collect();
    assert!(named.iter().all(|name| is_dns_label(name) && name.len() <= 15), "{named:?}");
    let targets: BTreeSet<_> = objects
        .kind("Service")
        .flat_map(|service| items(&service["spec"], "ports"))
        .map(|port| text(port, "targetPort"))
        .collect();
    assert_eq!(targets, BTreeSet::from(["http"]));
    assert!(targets.is_subset(&named), "{named:?}");
    let agent_deployment = objects.agent_deployment.metadata.name.as_deref();
    assert!(objects.kind("Service").any(|service| service["metadata"]["name"].as_str() == agent_deployment));
}

#[rstest]
fn no_pod_has_a_token_of_the_api(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let wrong = wrong_pods(&fixture(fixture_name), |template| {
        let spec = &template["spec"];
        let is_right = spec["automountServiceAccountToken"] == false && spec.get("serviceAccountName").is_none();
        let projected = items(spec, "volumes").filter(|volume| volume.get("projected").is_some());
        let projected = projected.map(|volume| format!("volume {}", text(volume, "name")));
        (!is_right).then(|| "mounts a token".to_owned()).into_iter().chain(projected).collect()
    });
    assert_eq!(wrong, NONE);
}

#[rstest]
fn no_container_has_a_capability_or_a_way_to_gain_one(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let wrong = wrong_containers(&fixture(fixture_name), |container| {
        let context = &container["securityContext"];
        context["capabilities"]["drop"] == serde_json::json!(["ALL"])
            && context["capabilities"].get("add").is_none()
            && context["allowPrivilegeEscalation"] == false
            && context.get("privileged").is_none()
    });
    assert_eq!(wrong, NONE);
}

/// The restricted profile of Pod Security Standards (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).
#[rstest]
fn no_pod_runs_as_root_or_reaches_its_node(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let wrong = wrong_pods(&fixture(fixture_name), |template| {
        let spec = &template["spec"];
        let context = &spec["securityContext"];
        let mut wrong = Vec::new();
        if context["runAsNonRoot"] != true || context["runAsUser"].as_i64().is_none_or(|user| user == 0) {
            wrong.push("may run as root".to_owned());
        }
        if context["seccompProfile"]["type"] != "RuntimeDefault" {
            wrong.push("has no seccomp profile".to_owned());
        }
        let host = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| spec.get(*key).is_some());
        wrong.extend(host.map(str::to_owned));
        let paths = items(spec, "volumes").filter(|volume| volume.get("hostPath").is_some());
        wrong.extend(paths.map(|volume| format!("hostPath {}", text(volume, "name"))));
        wrong
    });
    assert_eq!(wrong, NONE);
}

/// A Job's own deadline would run while its pod waits for a GPU.
#[rstest]
fn the_deadline_of_a_job_stands_in_its_pods_template(
    #[values("minimal", "full", "claim", "profiled", "agent-run")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let jobs: Vec<_> = objects
        .kind("Job")
        .map(|job| {
            let spec = &job["spec"];
            let deadline = spec["template"]["spec"]["activeDeadlineSeconds"].as_i64();
            (name(job), deadline, spec["activeDeadlineSeconds"].as_i64(), spec["backoffLimit"].as_i64())
        })
        .collect();
    // A campaign has an hour beyond what its budget of 2.5 h on all its GPUs, or its confirm run of 40 s, may take.
    let campaign = [("Job profile-0123456789-1", 12_600), ("Job profile-9876543210-1", 3_640)];
    let campaign = objects.agent_deployment.spec.profiling.iter().flat_map(|_| campaign);
    let expected: Vec<_> = steps(&objects)
        .into_iter()
        .filter(|step| *step != "profile")
        .map(|step| (format!("Job {step}-0123456789-1"), 14_400))
        .chain(campaign.map(|(name, seconds)| (name.to_owned(), seconds)))
        .map(|(name, seconds)| (name, Some(seconds), None, Some(0)))
        .collect();
    assert_eq!(jobs, expected);
}

/// The operator finds the pods of a Job by a label of its own.
#[rstest]
fn pods_of_a_job_carry_its_name(#[values("minimal", "full", "claim", "profiled", "agent-run")] fixture_name: &str) {
    let objects = fixture(fixture_name);
    let wrong: Vec<_> = objects
        .kind("Job")
        .filter(|job| job["spec"]["template"]["metadata"]["labels"]["slipway.dev/job"] != job["metadata"]["name"])
        .map(name)
        .collect();
    assert_eq!(wrong, NONE);
}

#[rstest]
fn volumes_have_names_of_their_own_that_kubernetes_accepts(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let wrong = wrong_pods(&fixture(fixture_name), |template| {
        let names: Vec<_> = items(&template["spec"], "volumes").map(|volume| text(volume, "name")).collect();
        let invalid = names.iter().filter(|name| !is_dns_label(name)).map(|name| format!("volume {name:?}"));
        let twice = (names.iter().collect::<BTreeSet<_>>().len() < names.len()).then(|| format!("twice in {names:?}"));
        invalid.chain(twice).collect()
    });
    assert_eq!(wrong, NONE);
}

#[rstest]
fn mounts_name_volumes_that_exist_at_paths_of_their_own(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let wrong = wrong_pods(&fixture(fixture_name), |template| {
        let volumes: BTreeSet<_> = items(&template["spec"], "volumes").map(|volume| text(volume, "name")).collect();
        let mut mounted = BTreeSet::new();
        let mut wrong = Vec::new();
        for container in containers(template) {
            let mounts: Vec<_> = items(container, "volumeMounts").collect();
            let paths: BTreeSet<_> = mounts.iter().map(|mount| text(mount, "mountPath")).collect();
            if paths.len() < mounts.len() {
                wrong.push(format!("{} mounts two volumes at one path", text(container, "name")));
            }
            mounted.extend(mounts.iter().map(|mount| text(mount, "name")));
        }
        wrong.extend(mounted.difference(&volumes).map(|name| format!("no volume {name}")));
        wrong.extend(volumes.difference(&mounted).map(|name| format!("nobody mounts {name}")));
        wrong
    });
    assert_eq!(wrong, NONE);
}

/// ConfigMaps and claims are ours or named by the spec, Secrets are always named by the spec.
#[rstest]
fn what_volumes_refer_to_exists(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let ours: BTreeSet<String> = objects.all.iter().map(name).collect();
    let spec = serde_json::to_string(&objects.agent_deployment.spec).expect("a spec is JSON");
    let is_named = |object: &str| spec.contains(&format!("\"{object}\"")) || spec.contains(&format!("pvc://{object}/"));
    let is_known = |reference: &str, object: &str| ours.contains(reference) || is_named(object);
    let wrong = wrong_pods(&objects, |template| {
        items(&template["spec"], "volumes")
            .filter_map(|volume| {
                let references = [
                    ("ConfigMap", text(&volume["configMap"], "name")),
                    ("PersistentVolumeClaim", text(&volume["persistentVolumeClaim"], "claimName")),
                    ("Secret", text(&volume["secret"], "secretName")),
                ];
                references.into_iter().find(|(_, object)| !object.is_empty())
            })
            .filter(|(kind, object)| !is_known(&format!("{kind} {object}"), object))
            .map(|(kind, object)| format!("no {kind} {object}"))
            .collect()
    });
    assert_eq!(wrong, NONE);
}

/// The user's builder reads the checkpoint and writes its output; it sees no secret and nothing else of the store.
#[rstest]
fn a_builder_sees_neither_secrets_nor_the_store(
    #[values("minimal", "full", "claim", "profiled", "agent-run")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let build = objects.kind("Job").find(|job| text(&job["metadata"], "name").starts_with("build-"));
    let template = &build.expect("an engine has a build Job")["spec"]["template"];
    let builder =
        containers(template).find(|container| container["name"] == "builder").expect("the builder's container");
    let mounts: Vec<_> = items(builder, "volumeMounts")
        .map(|mount| (text(mount, "mountPath"), text(mount, "subPath"), mount["readOnly"] == true))
        .collect();
    let checkpoint = format!("checkpoints/{}/files", "a".repeat(64));
    let expected = [
        ("/slipway/task", "", true),
        ("/slipway/checkpoint", checkpoint.as_str(), true),
        ("/slipway/output", "", false),
    ];
    assert_eq!(mounts, expected);
    assert!(items(&template["spec"], "volumes").all(|volume| volume.get("secret").is_none()));
}

/// A vendor's tools see no more, but their scratch and the texts of the calibration.
#[rstest]
#[case("tensorrt-llm", &["quantize", "build", "assemble"])]
#[case("tensorrt-llm-pytorch", &["assemble"])]
#[case("vllm", &["assemble"])]
fn a_vendors_tools_see_neither_secrets_nor_the_store(#[case] fixture_name: &str, #[case] expected: &[&str]) {
    let objects = fixture(fixture_name);
    let build = objects.kind("Job").find(|job| text(&job["metadata"], "name").starts_with("build-"));
    let template = &build.expect("an engine has a build Job")["spec"]["template"];
    let tools: Vec<_> = containers(template).filter(|c| c["image"] == "registry.example/vendor:1").collect();
    let names: Vec<_> = tools.iter().map(|container| text(container, "name")).collect();
    assert_eq!(names, expected);
    let checkpoint = format!("checkpoints/{}/files", "a".repeat(64));
    for tool in tools {
        let store: Vec<_> = items(tool, "volumeMounts").filter(|mount| mount["name"] == "store").collect();
        let seen: Vec<_> = store.iter().map(|mount| (text(mount, "subPath"), mount["readOnly"] == true)).collect();
        assert_eq!(seen, [(checkpoint.as_str(), true)]);
    }
    assert!(items(&template["spec"], "volumes").all(|volume| volume.get("secret").is_none()));
}

/// A pod under examination sees the questions and not the answers.
#[rstest]
fn the_answers_of_the_data_set_are_hidden_from_the_engine(
    #[values("full", "tensorrt-llm", "vllm")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let quality = objects.kind("Job").find(|job| text(&job["metadata"], "name").starts_with("quality-"));
    let template = &quality.expect("the fixture has an objective of quality")["spec"]["template"];
    let readers: Vec<_> = containers(template)
        .filter(|container| items(container, "volumeMounts").any(|mount| mount["name"] == "dataset"))
        .map(|container| text(container, "name"))
        .collect();
    assert_eq!(readers, ["quality"]);
}

#[rstest]
fn every_pod_goes_to_the_nodes_of_the_spec(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "upstream")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let hardware = serde_json::to_value(&objects.agent_deployment.spec.hardware).expect("hardware is JSON");
    let selector = |value: &Value| value.get("nodeSelector").cloned().unwrap_or(Value::Null);
    let wrong = wrong_pods(&objects, |template| {
        let spec = &template["spec"];
        let is_right = selector(spec) == selector(&hardware)
            && items(spec, "tolerations").count() == items(&hardware, "tolerations").count();
        (!is_right).then(|| "goes elsewhere".to_owned()).into_iter().collect()
    });
    assert_eq!(wrong, NONE);
}

/// A quota of the namespace refuses a pod with a container that says nothing of them.
#[rstest]
fn every_container_of_ours_in_a_job_has_requests_and_limits(
    #[values("minimal", "full", "claim", "profiled", "agent-run", "tensorrt-llm", "vllm")] fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let jobs: Vec<_> = objects.kind("Job").map(|job| &job["spec"]["template"]).collect();
    let ours = jobs.iter().flat_map(|template| containers(template)).filter(|container| {
        text(container, "image") == "registry.example/worker:1" || text(container, "name") == "profile"
    });
    let lacks = |container: &&Value| {
        let quantity = |kind: &str, name: &str| container["resources"][kind][name].is_string();
        !["requests", "limits"].into_iter().all(|kind| quantity(kind, "cpu") && quantity(kind, "memory"))
    };
    let wrong: Vec<_> = ours.filter(lacks).map(|container| text(container, "name")).collect();
    assert_eq!(wrong, Vec::<&str>::new());
}

/// A GPU is held by Triton and by the builder, and by nobody who needs none.
#[rstest]
// Triton last of the revision, and of the baseline of a canary.
#[case("full", &["builder", "evaluate", "triton", "triton"])]
#[case("tensorrt-llm", &["quantize", "build", "triton", "triton", "triton", "triton"])]
// Nothing is built: Triton alone, to be scored, measured twice and to serve.
#[case("vllm", &["triton", "triton", "triton", "triton"])]
#[case("vllm-open-ai", &["triton", "triton", "triton", "triton"])]
fn only_triton_and_the_builders_verbs_ask_for_a_gpu(#[case] fixture_name: &str, #[case] expected: &[&str]) {
    let objects = fixture(fixture_name);
    let askers: Vec<_> = templates(&objects)
        .into_iter()
        .flat_map(|(_, template)| containers(template).collect::<Vec<_>>())
        .filter(|container| container["resources"]["limits"].get("nvidia.com/gpu").is_some())
        .map(|container| text(container, "name"))
        .collect();
    assert_eq!(askers, expected);
}

/// Triton's API loads code for anyone who asks. It is closed without any policy of the cluster.
#[rstest]
fn nobody_but_its_pod_reaches_a_triton_that_serves(
    #[values("minimal", "full", "tensorrt-llm", "tensorrt-llm-ensemble", "tensorrt-llm-pytorch", "vllm")]
    fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let open: Vec<_> = objects
        .kind("Deployment")
        .flat_map(|deployment| containers(&deployment["spec"]["template"]))
        .filter(|container| text(container, "name") == "triton")
        .flat_map(|triton| {
            let words: Vec<_> = items(triton, "command").filter_map(Value::as_str).collect();
            // Processes that belong together: the first one answers, and the others open no port.
            let mut processes = words.split(|word| *word == ":");
            let leader: Vec<_> = processes.next().into_iter().flatten().copied().collect();
            let shut = ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1"];
            let refuses = |option: &str| {
                leader.iter().any(|word| word.starts_with(option) && word.contains(",model-repository,"))
            };
            let is_shut = shut.iter().all(|word| leader.contains(word))
                && refuses("--http-restricted-api=")
                && refuses("--grpc-restricted-protocol=");
            let others = processes.filter(|words| !words.contains(&"--allow-http=false")).count();
            (!is_shut || others > 0).then(|| words.join(" "))
        })
        .collect();
    assert_eq!(open, NONE);
}

/// A namespace with a quota refuses pods of which a container has no limits.
#[rstest]
fn what_runs_the_worker_alone_has_limits(#[values("minimal", "full", "tensorrt-llm", "vllm")] fixture_name: &str) {
    let wrong = wrong_containers(&fixture(fixture_name), |container| {
        let limits = &container["resources"]["limits"];
        // These have what the spec gives them.
        let is_of_spec = ["triton", "agent-runtime", "builder", "quantize", "convert", "build", "evaluate"]
            .contains(&text(container, "name"));
        is_of_spec || (limits.get("cpu").is_some() && limits.get("memory").is_some())
    });
    assert_eq!(wrong, NONE);
}

/// Triton outlives the agent runtime: it is a native sidecar, and the pod's grace covers the longest run and both
/// exits.
#[test]
fn a_serving_pod_ends_in_order() {
    let objects = fixture("full");
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let spec = &deployment["spec"]["template"]["spec"];
    let order: Vec<_> = containers(&deployment["spec"]["template"])
        .map(|container| (text(container, "name"), text(container, "restartPolicy")))
        .collect();
    assert_eq!(order, [("materialize", ""), ("triton", "Always"), ("agent-runtime", "")]);
    // 90 s of the longest run, 5 s before the signal, 10 s of Triton's exit, 10 s to spare.
    assert_eq!(spec["terminationGracePeriodSeconds"], 115);
}

#[rstest]
fn the_agent_runtime_accepts_its_configuration(
    #[values(
        "minimal",
        "full",
        "claim",
        "profiled",
        "agent-run",
        "upstream",
        "tensorrt-llm-ensemble",
        "tensorrt-llm-pytorch",
        "vllm",
        "vllm-open-ai"
    )]
    fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let configs: Vec<_> =
        objects.kind("ConfigMap").filter_map(|object| object["data"].get("config.json")?.as_str()).collect();
    assert_eq!(configs.len(), objects.kind("Deployment").count());
    for config in configs {
        let config = RuntimeConfig::from_json(config.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(config.map(|config| config.validate().map_err(|problems| problems.to_string())), Ok(Ok(())));
    }
}

/// Each header Secret is mounted where the configuration says that the tool finds it.
#[test]
fn tools_find_their_headers() {
    let objects = fixture("full");
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config: Value = serde_json::from_str(config.expect("a revision has a configuration")).expect("it is JSON");
    let mut expected: Vec<_> = items(&config, "tools").filter_map(|tool| find(tool, "headersFrom")).collect();
    expected.sort();
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let agent = containers(&deployment["spec"]["template"]).find(|container| container["name"] == "agent-runtime");
    let mut mounted: Vec<_> = items(agent.expect("the agent runtime's container"), "volumeMounts")
        .map(|mount| text(mount, "mountPath").to_owned())
        .filter(|path| path.starts_with("/etc/slipway/headers/"))
        .collect();
    mounted.sort();
    assert_eq!((expected.len(), &expected), (2, &mounted));
}

/// A ConfigMap of certificate authorities is mounted where the configuration says that its tool finds them.
#[test]
fn a_tool_finds_its_certificate_authorities() {
    let mut agent_deployment = fixture("full").agent_deployment;
    let orders = agent_deployment.spec.agent.tools[2].http.as_mut().expect("it is an HTTP tool");
    orders.authorities_from = Some(LocalObjectReference { name: "team-authorities".to_owned() });
    let objects = Objects::of(&agent_deployment, Layout::CURRENT);
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config = RuntimeConfig::from_json(config.expect("a revision has a configuration").as_bytes());
    let config: Value = serde_json::from_str(&config.expect("the sidecar takes it").to_json()).expect("it is JSON");
    let expected = find(&config["tools"][2], "authoritiesFrom").expect("the tool has authorities");
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let template = &deployment["spec"]["template"];
    let agent = containers(template).find(|container| container["name"] == "agent-runtime");
    let agent = agent.expect("the agent runtime's container");
    let mount = items(agent, "volumeMounts").find(|mount| text(mount, "mountPath") == expected).expect("it is mounted");
    let volume = items(&template["spec"], "volumes").find(|volume| volume["name"] == mount["name"]).expect("a volume");
    assert_eq!((&mount["readOnly"], &volume["configMap"]["name"]), (&json!(true), &json!("team-authorities")));
}

/// Limits of a tool's calls are the sidecar's, in its own units; a tool without them has no field more than before.
#[test]
fn a_sidecar_has_the_limits_of_its_tools() {
    let mut agent_deployment = fixture("full").agent_deployment;
    let tool = &mut agent_deployment.spec.agent.tools[2];
    tool.max_in_flight = Some(8);
    tool.circuit_breaker = Some(CircuitBreaker { failures: 3, pause: "1m".parse().expect("a duration") });
    tool.http.as_mut().expect("it is an HTTP tool").allowed_networks = vec!["Public".to_owned()];
    let objects = Objects::of(&agent_deployment, Layout::CURRENT);
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config = RuntimeConfig::from_json(config.expect("a revision has a configuration").as_bytes());
    let config: Value = serde_json::from_str(&config.expect("the sidecar takes it").to_json()).expect("it is JSON");
    let limits = |tool: &Value| ["maxInFlight", "circuitBreaker", "allowedNetworks"].map(|name| tool[name].clone());
    let breaker = json!({ "failures": 3, "pauseMilliseconds": 60_000 });
    assert_eq!(limits(&config["tools"][2]["kind"]["http"]), [json!(8), breaker, json!(["Public"])]);
    let others = items(&config, "tools").filter(|tool| tool["name"] != config["tools"][2]["name"]);
    others.for_each(|tool| assert_eq!(limits(&tool["kind"]["http"]), [Value::Null, Value::Null, Value::Null]));
}

/// The tools of an MCP server are not known here: the sidecar gets the server, with its Secret, and may reach it.
#[test]
fn a_sidecar_has_the_servers_of_its_tools() {
    let mut agent_deployment = fixture("full").agent_deployment;
    let shop = json!({
        "name": "shop",
        "type": "MCP",
        "mcp": {
            "url": "https://shop.example:8443/mcp",
            "tools": ["search"],
            "headersFrom": { "name": "shop-token" },
            "authoritiesFrom": { "name": "shop-authorities" },
            "allowedNetworks": ["10.0.0.0/8"],
            "trustAnnotations": true,
            "retries": 2,
        },
        "timeout": "3s",
        "maxInFlight": 4,
    });
    let shop: Tool = serde_json::from_value(shop).expect("it is a tool");
    agent_deployment.spec.agent.tools.insert(0, shop);
    let objects = Objects::of(&agent_deployment, Layout::CURRENT);
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config = RuntimeConfig::from_json(config.expect("a revision has a configuration").as_bytes());
    let config: Value = serde_json::from_str(&config.expect("the sidecar takes it").to_json()).expect("it is JSON");
    let expected = json!([{
        "name": "shop",
        "url": "https://shop.example:8443/mcp",
        "prefix": "shop_",
        "tools": ["search"],
        "headersFrom": "/etc/slipway/headers/shop",
        "authoritiesFrom": "/etc/slipway/authorities/shop",
        "allowedNetworks": ["10.0.0.0/8"],
        "maxInFlight": 4,
        "timeoutMilliseconds": 3_000,
        "trustAnnotations": true,
        "retries": 2,
    }]);
    assert_eq!((&config["mcpServers"], items(&config, "tools").count()), (&expected, 3));
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    let template = &deployment["spec"]["template"];
    let agent = containers(template).find(|container| container["name"] == "agent-runtime");
    let mounted: Vec<_> = items(agent.expect("the agent runtime's container"), "volumeMounts").collect();
    for (path, source) in [
        ("/etc/slipway/headers/shop", json!({ "secret": { "secretName": "shop-token" } })),
        ("/etc/slipway/authorities/shop", json!({ "configMap": { "name": "shop-authorities" } })),
    ] {
        let mount = mounted.iter().find(|mount| text(mount, "mountPath") == path).expect("it is mounted");
        let mut volume = items(&template["spec"], "volumes").find(|volume| volume["name"] == mount["name"]).cloned();
        volume.as_mut().and_then(Value::as_object_mut).expect("it has a volume").remove("name");
        assert_eq!(volume, Some(source));
    }
    let policies = objects.network_policies();
    let ports: Vec<_> = items(&policies[0]["spec"]["egress"][0], "ports").map(|port| port["port"].clone()).collect();
    assert!(ports.contains(&json!(8443)), "{ports:?}");
}

/// The first text under a key, at any depth.
fn find(value: &Value, key: &str) -> Option<String> {
    let members = value.as_object()?;
    let own = members.get(key).and_then(Value::as_str).map(str::to_owned);
    own.or_else(|| members.values().find_map(|member| find(member, key)))
}

#[rstest]
fn the_worker_understands_its_tasks(
    #[values(
        "minimal",
        "full",
        "claim",
        "profiled",
        "agent-run",
        "tensorrt-llm-ensemble",
        "tensorrt-llm-pytorch",
        "vllm",
        "vllm-open-ai"
    )]
    fixture_name: &str,
) {
    let objects = fixture(fixture_name);
    let kinds: Vec<_> = objects
        .kind("ConfigMap")
        .filter_map(|object| object["data"].get("task.json")?.as_str())
        .map(|json| {
            Task::parse(json.as_bytes()).map(|task| task.kind().to_lowercase()).map_err(|error| error.to_string())
        })
        .collect();
    let expected: Vec<_> = steps(&objects).into_iter().map(|step| Ok(step.to_owned())).collect();
    assert_eq!(kinds, expected);
}

/// These values are on users' clusters as names of revisions and as annotations. A change here starts every agent of
/// every user again at an upgrade of the operator: a field that comes later is left out where it has its default.
#[test]
fn hashes_of_plans_and_of_their_inputs_never_change() {
    let hashes: Vec<_> = super::FIXTURES
        .into_iter()
        .map(|name| {
            let objects = fixture_of(name, Layout::V1);
            let record = objects.kind("ControllerRevision").next().expect("a revision is recorded");
            let inputs = text(&record["metadata"]["annotations"], "slipway.dev/plan-input-hash").to_owned();
            (name, objects.revision.clone(), inputs)
        })
        .collect();
    super::with_snapshots(|| insta::assert_debug_snapshot!("hashes", hashes));
}
