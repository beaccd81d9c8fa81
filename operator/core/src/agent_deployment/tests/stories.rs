//! From nothing to serving, and what people read on the way.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::agent_deployment::{Precision, Stage};
use slipway_worker_contract::FailureClass;

use super::cluster::{Cluster, Ending, lines, name_of, settings, world};
use crate::{
    agent_deployment::at_once,
    jobs::view::{JobPhase, JobView},
    plan::{Child, UNWATCHED},
};

/// Type, status and message of the conditions.
fn conditions(cluster: &Cluster) -> Vec<(String, String, String)> {
    let conditions = cluster.plan().status.conditions;
    conditions.into_iter().map(|c| (c.type_, c.status, c.message)).collect()
}

fn condition(type_: &str, status: &str, message: &str) -> (String, String, String) {
    (type_.to_owned(), status.to_owned(), message.to_owned())
}

const UP_TO_DATE: &str = "nothing is in progress";
const FREE: &str = "nothing blocks progress";

/// What looks failed in one list may have ended well: then another place would be fetched from for nothing.
#[test]
fn a_first_attempt_follows_its_record_at_once_unless_something_looks_failed() {
    let follows = |cluster: &Cluster| at_once::follows(&cluster.world, &cluster.plan());
    let mut fetches = world().resolved();
    // Before its fetch is recorded.
    fetches.world.status.jobs.retain(|job| job.kind != "fetch");
    fetches.world.jobs.retain(|name, _| !name.starts_with("fetch-"));
    let failure = JobPhase::Failed {
        class: FailureClass::Infrastructure,
        failure: "its pod is gone".to_owned(),
        finished_at: None,
    };
    let mut beside = fetches.clone();
    beside.world.jobs.insert("fetch-0-1".to_owned(), JobView::in_phase("fetch-0-1", failure.clone()));
    let mut resolves = world();
    resolves.world.jobs.insert("fetch-0-1".to_owned(), JobView::in_phase("fetch-0-1", failure));
    assert_eq!([&world(), &fetches, &beside, &resolves].map(follows), [true, true, false, true]);
    assert!(!follows(&world().serving()), "nothing is recorded");
}

/// One look after the other, with what happens in between.
#[test]
fn the_path_from_nothing_to_serving() {
    let mut story = Vec::new();
    let mut cluster = world();
    let mut tell = |cluster: &Cluster, event: &str| {
        story.push(format!("== {event}\n{}\n", lines(&cluster.plan()).join("\n")));
    };
    tell(&cluster, "applied");
    cluster.step();
    tell(&cluster, "the first attempt is recorded");
    cluster.settle();
    tell(&cluster, "the resolve Job runs");
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Success);
    tell(&cluster, "the model is known");
    cluster.settle();
    let fetch = cluster.running_jobs().remove(0);
    cluster.end_job(&fetch, Ending::Success);
    tell(&cluster, "the checkpoint lies in the store");
    cluster.settle();
    tell(&cluster, "the engine is being built");
    cluster = cluster.with_engine_built(Precision::FP32);
    tell(&cluster, "the revision is being brought up");
    cluster.ready_pods();
    tell(&cluster, "its pods are ready");
    cluster.settle();
    tell(&cluster, "at rest");
    insta::assert_snapshot!(story.join("\n"));
}

#[test]
fn an_attempt_is_in_the_status_before_its_job_exists() {
    let mut cluster = world();
    let first = cluster.plan();
    assert!(!first.children.iter().any(|child| matches!(child, Child::Job(_))), "{:?}", lines(&first));
    cluster.step();
    let second = cluster.plan();
    let jobs: Vec<_> = second.children.iter().filter(|child| matches!(child, Child::Job(_))).map(name_of).collect();
    let recorded = &first.status.jobs[0];
    assert_eq!(jobs, vec![format!("Job {}-{}-{}", recorded.kind, recorded.input_hash, recorded.attempt)]);
}

#[test]
fn at_rest_nothing_is_written() {
    let cluster = world().serving();
    let plan = cluster.plan();
    assert_eq!(plan.status, cluster.world.status);
    assert_eq!((plan.removals, plan.notes), (vec![], vec![]));
    let mut after = cluster.clone();
    after.settle();
    assert_eq!(format!("{:?}", after.world), format!("{:?}", cluster.world));
}

#[test]
fn the_passing_of_time_alone_changes_no_status() {
    let mut cluster = world().resolved();
    let before = cluster.plan();
    cluster.pass(600);
    assert_eq!(cluster.plan().status, before.status);
}

/// Images of the product are pinned in the plan: another version of the operator restarts nothing.
#[test]
fn an_operator_of_another_version_leaves_what_lives_as_it_is() {
    let cluster = world().serving();
    let mut upgraded = cluster.clone();
    upgraded.world.settings = settings("2");
    assert_eq!(upgraded.plan(), cluster.plan());
    let kinds: Vec<_> = upgraded.plan().children.iter().map(name_of).collect();
    let revision = cluster.stable();
    let expected = [
        format!("ConfigMap support-{revision}"),
        format!("Service support-{revision}"),
        format!("Deployment support-{revision}"),
        "Service support".to_owned(),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_known_cause_of_an_unbound_store_is_named_where_the_store_is_mounted() {
    let mut cluster = world().resolved();
    let words = "pod has unbound immediate PersistentVolumeClaims";
    cluster.world.store_bound = Some(false);
    let fetch = cluster.running_jobs().remove(0);
    let job = cluster.world.jobs.get_mut(&fetch).expect("the fetch Job exists");
    job.phase = JobPhase::unscheduled(words.to_owned());
    let message = "claim slipway-store is not bound, and no storage class is configured: set store.storageClassName of the operator's chart, or mark a class as the cluster's default";
    let expected = [
        condition("Ready", "False", message),
        condition("Reconciling", "True", message),
        condition("Stalled", "False", FREE),
    ];
    assert_eq!(conditions(&cluster), expected);
    assert_eq!(cluster.plan().status.stage, Some(Stage::Fetching));
}

/// A resolve Job mounts the model's own claim and not the store.
#[test]
fn a_claim_of_the_models_that_is_not_bound_is_not_taken_for_the_store() {
    let mut cluster = world().edited(|spec| spec.model.uri = Some("pvc://models/react".to_owned()));
    cluster.settle();
    cluster.world.store_bound = Some(false);
    let resolve = cluster.running_jobs().remove(0);
    let job = cluster.world.jobs.get_mut(&resolve).expect("the resolve Job exists");
    job.phase = JobPhase::unscheduled("pod has unbound immediate PersistentVolumeClaims".to_owned());
    let message = format!("Job {resolve} waits for a node: pod has unbound immediate PersistentVolumeClaims");
    assert_eq!(conditions(&cluster)[1], condition("Reconciling", "True", &message));
}

#[rstest]
#[case(JobPhase::unscheduled("0/1 nodes are available".to_owned()), "waits for a node: 0/1 nodes are available")]
#[case(
    JobPhase::ImageUnavailable("ErrImagePull for example.com/worker:1 of container resolve: not found".to_owned()),
    "waits for an image: ErrImagePull for example.com/worker:1 of container resolve: not found"
)]
#[case(JobPhase::SecretUnavailable("Secret hub must exist".to_owned()), "cannot start: Secret hub must exist")]
#[case(
    JobPhase::PodsRefused("exceeded quota: compute".to_owned()),
    "has no pod, since the API server refuses it: exceeded quota: compute"
)]
fn what_a_job_waits_for_is_in_the_conditions(#[case] phase: JobPhase, #[case] words: &str) {
    let mut cluster = world();
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.world.jobs.get_mut(&resolve).expect("the resolve Job exists").phase = phase;
    let message = format!("Job {resolve} {words}");
    let expected = [
        condition("Ready", "False", &message),
        condition("Reconciling", "True", &message),
        condition("Stalled", "False", FREE),
    ];
    assert_eq!(conditions(&cluster), expected);
}

#[test]
fn a_failure_for_good_stalls_with_its_cause_and_is_told_once() {
    let mut cluster = world();
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Failure(FailureClass::BadModel));
    let message = format!("Job {resolve} failed (BadModel): the disk is full. Delete the Job to try again");
    let expected = [
        condition("Ready", "False", &message),
        condition("Reconciling", "False", UP_TO_DATE),
        condition("Stalled", "True", &message),
    ];
    assert_eq!(conditions(&cluster), expected);
    assert_eq!(cluster.plan().status.stage, Some(Stage::Failed));
    assert_eq!(lines(&cluster.plan()).last(), Some(&format!("Warning JobFailed: {message}")));
    cluster.step();
    assert_eq!(cluster.plan().notes, vec![]);
}

#[test]
fn a_failure_of_the_clusters_is_tried_again_until_the_last_attempt() {
    let mut cluster = world();
    for attempt in 1..=3 {
        cluster.settle();
        let job = cluster.running_jobs().remove(0);
        assert!(job.ends_with(&format!("-{attempt}")), "{job}");
        cluster.end_job(&job, Ending::Failure(FailureClass::Infrastructure));
        cluster.pass(100);
    }
    cluster.settle();
    assert_eq!(cluster.running_jobs(), Vec::<String>::new());
    assert_eq!(cluster.world.status.stage, Some(Stage::Failed));
}

/// As a worker ends when it cannot write (`operator/worker/tests/worker/full_volume.rs`).
pub(super) const FULL_VOLUME: &str = "a volume is full: enlarge it, or remove what it need not hold (/slipway/store \
                                      has 0.1 of 107374.2 MB free): failed to write /slipway/store/checkpoints/1: No \
                                      space left on device (os error 28)";

#[test]
fn a_store_that_a_checkpoint_fills_is_in_the_conditions_with_its_figures() {
    let mut cluster = world().resolved();
    for attempt in 1..=3 {
        cluster.settle();
        let fetch = cluster.running_jobs().remove(0);
        let failure = FULL_VOLUME.to_owned();
        let finished_at = Some(cluster.world.now);
        cluster.world.jobs.get_mut(&fetch).expect("the fetch Job exists").phase =
            JobPhase::Failed { class: FailureClass::Infrastructure, failure, finished_at };
        let message = match attempt {
            3 => {
                let last = format!("Job {fetch} failed (Infrastructure), the last of 3 attempts: {FULL_VOLUME}");
                format!("{last}. Delete the Job to try again")
            }
            _ => format!("Job {fetch} failed ({FULL_VOLUME}); attempt {} of 3 follows", attempt + 1),
        };
        assert_eq!(conditions(&cluster)[0], condition("Ready", "False", &message));
        cluster.pass(100);
    }
}

#[test]
fn a_worker_of_another_release_is_named() {
    let mut cluster = world().resolved();
    let resolve = cluster.world.jobs.keys().find(|name| name.starts_with("resolve-")).cloned();
    let result = cluster.world.jobs[&resolve.expect("the resolve Job exists")].phase.clone();
    let fetch = cluster.running_jobs().remove(0);
    cluster.world.jobs.get_mut(&fetch).expect("the fetch Job exists").phase = result;
    let message = format!(
        "Job {fetch} failed (ImageMismatch): it reported the result of another task: check that example.com/worker:1 is the worker of this release. Delete the Job to try again"
    );
    assert_eq!(conditions(&cluster)[2], condition("Stalled", "True", &message));
}

/// Another agent of the same model was first, and its mirror answers 404.
#[test]
fn a_mirror_that_lost_the_model_stops_nobody_who_takes_it_elsewhere() {
    let mut cluster = world().resolved();
    let of_another = cluster.running_jobs().remove(0);
    let job = cluster.world.jobs.get_mut(&of_another).expect("the fetch Job exists");
    job.fetch.as_mut().expect("a fetch Job says what it fetches").place = "elsewhere".to_owned();
    cluster.end_job(&of_another, Ending::Failure(FailureClass::BadModel));
    cluster.settle();
    let own = cluster.running_jobs();
    assert!(matches!(own.as_slice(), [job] if job.starts_with("fetch-") && *job != of_another), "{own:?}");
    let cluster = cluster.fetched();
    assert_eq!(cluster.world.status.model.map(|model| model.fetched), Some(true));
}

#[test]
fn a_job_without_a_pod_is_looked_at_although_nothing_reports_its_end() {
    let mut cluster = world();
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    let phase = JobPhase::PodsRefused("exceeded quota: compute".to_owned());
    cluster.world.jobs.get_mut(&resolve).expect("the resolve Job exists").phase = phase;
    assert_eq!(cluster.plan().requeue, UNWATCHED);
}

#[test]
fn a_spec_without_its_backends_block_is_refused_by_name() {
    let cluster = world().edited(|spec| spec.engine.as_mut().unwrap().custom = None);
    let message = "spec.engine.custom: is required when engine.backend is Custom";
    assert_eq!(conditions(&cluster)[2], condition("Stalled", "True", message));
    assert_eq!(cluster.plan().status.stage, Some(Stage::Refused));
}

#[test]
fn of_two_engines_the_first_that_builds_is_served() {
    let cluster = world()
        .edited(|spec| spec.search.precision = vec![Precision::FP32, Precision::INT8])
        .resolved()
        .fetched()
        .with_engine_ended(Precision::FP32, Ending::Failure(FailureClass::UnsupportedPrecision));
    let states: Vec<_> = cluster.world.status.engines.iter().map(|engine| engine.state.clone()).collect();
    assert!(states[0].starts_with("failed: Job build-"), "{states:?}");
    let int8 = cluster.world.status.engines[1].name.clone();
    let message = format!("0 of 2 engines are ready; {int8} (int8): Job {}-1 runs", int8.replace("engine-", "build-"));
    assert_eq!(conditions(&cluster)[1], condition("Reconciling", "True", &message));
    let cluster = cluster.with_engine_built(Precision::INT8).with_pods_ready();
    assert_eq!(cluster.world.status.selected.and_then(|selected| selected.engine().cloned()), Some(int8));
}

#[test]
fn without_any_engine_the_first_failure_is_told() {
    let cluster = world()
        .resolved()
        .fetched()
        .with_engine_ended(Precision::FP32, Ending::Failure(FailureClass::InsufficientMemory));
    let engine = &cluster.world.status.engines[0].name;
    let message = format!(
        "none of 1 engines could be built: Job {}-1 failed (InsufficientMemory): the disk is full. \
         Delete the Job to try again",
        engine.replace("engine-", "build-")
    );
    assert_eq!(conditions(&cluster)[2], condition("Stalled", "True", &message));
}

#[test]
fn a_tool_that_no_sidecar_would_take_is_refused_before_any_job() {
    let tools = "[{name: lookup, type: HTTP, http: {url: 'http://facts/{entitie}', arguments: [entity]}}]";
    let mut cluster = world().edited(|spec| spec.agent.tools = serde_norway::from_str(tools).expect("a tool"));
    cluster.settle();
    let problem = "spec.agent: tools[0].http.url: placeholder {entitie} is not an argument; add it to arguments; \
                   tools[0].http.arguments[0]: \"entity\" has no place in the URL of a GET; add {entity} to url, or use \
                   POST to send it in the body";
    assert!(conditions(&cluster).contains(&condition("Stalled", "True", problem)), "{:?}", conditions(&cluster));
    assert_eq!((cluster.running_jobs(), cluster.world.status.stage), (vec![], Some(Stage::Refused)));
}

#[test]
fn a_tool_at_the_metadata_of_a_cloud_is_refused_before_any_job() {
    let tools = "[{name: lookup, type: HTTP, http: {url: 'http://169.254.169.254/latest'}}]";
    let mut cluster = world().edited(|spec| spec.agent.tools = serde_norway::from_str(tools).expect("a tool"));
    cluster.settle();
    let problem = "spec.agent: tools[0].http.url: 169.254.169.254 is the address of a cloud's metadata; name another \
                   host, or add its network to allowedNetworks";
    assert!(conditions(&cluster).contains(&condition("Stalled", "True", problem)), "{:?}", conditions(&cluster));
    assert_eq!(cluster.running_jobs(), Vec::<String>::new());
}

/// Servers are among the tools of a spec, and beside them in the sidecar's file: what is wrong is told at its place.
#[test]
fn a_problem_of_a_tool_is_told_at_its_place_among_servers() {
    let tools = "[{name: shop, type: MCP, mcp: {url: 'http://shop/mcp'}}, \
                 {name: bad, type: MCP, mcp: {url: 'http://[::1]/mcp', allowedNetworks: [x]}, timeout: 2h}, \
                 {name: lookup, type: HTTP, http: {url: 'http://127.0.0.1/'}, maxInFlight: 2000}]";
    let mut cluster = world().edited(|spec| spec.agent.tools = serde_norway::from_str(tools).expect("tools"));
    cluster.settle();
    let problem = "spec.agent: tools[2].maxInFlight: is 2000; must be between 1 and 1024; tools[1].mcp.allowedNetworks: \
                   \"x\" is not a network; write it as 10.0.0.0/8, fd00::/8 or Public; tools[1].timeout: is 2h; must be \
                   between 1ms and 1h; tools[2].http.url: 127.0.0.1 is a loopback address; name another host, or add \
                   its network to allowedNetworks";
    assert!(conditions(&cluster).contains(&condition("Stalled", "True", problem)), "{:?}", conditions(&cluster));
}

/// The volume was exchanged: first a pod misses its engine, then the build that follows misses its checkpoint.
#[test]
fn a_store_that_is_lost_is_filled_again_by_itself() {
    let mut cluster = world().serving();
    let (revision, digest) = (cluster.stable(), cluster.world.engines.values().next().cloned());
    cluster.pass(60);
    cluster.missed_at = Some(cluster.world.now);
    cluster.step();
    cluster.missed_at = None;
    cluster.settle();
    let build = cluster.running_jobs();
    assert!(matches!(build.as_slice(), [job] if job.starts_with("build-") && job.ends_with("-2")), "{build:?}");
    cluster.end_job(&build[0], Ending::Failure(FailureClass::MissingArtifact));
    cluster.pass(60);
    cluster.settle();
    let fetch = cluster.running_jobs();
    assert!(matches!(fetch.as_slice(), [job] if job.starts_with("fetch-") && job.ends_with("-2")), "{fetch:?}");
    assert_eq!(cluster.world.status.model.as_ref().map(|model| model.fetched), Some(false));
    cluster.pass(60);
    cluster.end_job(&fetch[0], Ending::Success);
    cluster.settle();
    let build = cluster.running_jobs();
    assert!(matches!(build.as_slice(), [job] if job.starts_with("build-") && job.ends_with("-3")), "{build:?}");
    cluster.end_job(&build[0], Ending::Success);
    let cluster = cluster.with_pods_ready();
    assert_eq!(cluster.world.status.model.as_ref().map(|model| model.fetched), Some(true));
    assert_eq!(
        (cluster.running_jobs(), cluster.stable() == revision),
        (vec![], false),
        "built again as something else"
    );
    assert_ne!(cluster.world.engines.values().next().cloned(), digest);
}
