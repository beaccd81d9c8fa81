use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{JobCondition, JobStatus},
        core::v1::{
            ConfigMapVolumeSource, Container, ContainerState, ContainerStateRunning, ContainerStateWaiting,
            PodCondition, PodSpec, PodStatus, SecretVolumeSource, Volume,
        },
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_worker_contract::{FetchResult, Message};

use super::*;

/// Seconds since the pod was created.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("a time of this century")
}

fn job() -> Job {
    Job { metadata: ObjectMeta { name: Some("fetch-1f-1".to_owned()), ..Default::default() }, ..Default::default() }
}

fn with_condition(type_: &str, reason: &str, message: &str) -> Job {
    let condition = JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(at(60))),
        ..Default::default()
    };
    Job { status: Some(JobStatus { conditions: Some(vec![condition]), ..Default::default() }), ..job() }
}

fn complete() -> Job {
    with_condition("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
}

fn failed() -> Job {
    with_condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
}

/// A pod of two init containers and ours, as the kubelet reports it.
#[derive(Clone)]
struct PodFixture(Pod);

fn pod() -> PodFixture {
    PodFixture(Pod {
        metadata: ObjectMeta { creation_timestamp: Some(Time(at(0))), ..Default::default() },
        spec: Some(PodSpec { active_deadline_seconds: Some(14_400), ..Default::default() }),
        status: Some(PodStatus { start_time: Some(Time(at(2))), ..Default::default() }),
    })
}

impl PodFixture {
    fn status(mut self, change: impl FnOnce(&mut PodStatus)) -> Self {
        change(self.0.status.get_or_insert_default());
        self
    }

    fn created_at(mut self, seconds: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(Time(at(seconds)));
        self.status(|status| status.start_time = Some(Time(at(seconds + 2))))
    }

    fn condition(self, type_: &str, status: &str, message: &str) -> Self {
        let condition = PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            message: Some(message.to_owned()),
            ..Default::default()
        };
        self.status(|pod| pod.conditions.get_or_insert_default().push(condition))
    }

    fn container(self, init: Init, name: &str, state: ContainerState) -> Self {
        let status = ContainerStatus {
            name: name.to_owned(),
            image: format!("example.com/{name}:1"),
            state: Some(state),
            ..Default::default()
        };
        self.status(|pod| match init {
            Init::Yes => pod.init_container_statuses.get_or_insert_default().push(status),
            Init::No => pod.container_statuses.get_or_insert_default().push(status),
        })
    }

    fn waiting(self, name: &str, reason: &str, message: &str) -> Self {
        let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: Some(message.to_owned()) };
        self.container(Init::Yes, name, ContainerState { waiting: Some(waiting), ..Default::default() })
    }

    fn running(self, name: &str) -> Self {
        let running = ContainerStateRunning { started_at: Some(Time(at(5))) };
        self.container(Init::No, name, ContainerState { running: Some(running), ..Default::default() })
    }

    fn ended(self, init: Init, name: &str, end: End<'_>) -> Self {
        let terminated = ContainerStateTerminated {
            exit_code: end.code,
            reason: Some(end.reason.to_owned()),
            message: Some(end.message.to_owned()),
            finished_at: Some(Time(at(59))),
            ..Default::default()
        };
        self.container(init, name, ContainerState { terminated: Some(terminated), ..Default::default() })
    }
}

#[derive(Clone, Copy)]
enum Init {
    Yes,
    No,
}

#[derive(Clone, Copy)]
struct End<'a> {
    code: i32,
    reason: &'a str,
    message: &'a str,
}

const fn end<'a>(code: i32, reason: &'a str, message: &'a str) -> End<'a> {
    End { code, reason, message }
}

fn phase(job: &Job, pods: Vec<PodFixture>) -> JobPhase {
    let pods: Vec<Pod> = pods.into_iter().map(|pod| pod.0).collect();
    JobView::new(job, &pods).phase
}

fn failure(class: FailureClass, failure: &str) -> JobPhase {
    JobPhase::Failed { class, failure: failure.to_owned(), finished_at: Some(at(60)) }
}

fn fetched() -> Outcome {
    Outcome::Fetch(FetchResult {
        source_digest: "ab".repeat(32).parse().expect("64 digits"),
        files: 3,
        bytes: 1_000,
        transferred_bytes: 400,
        millis: 900,
    })
}

fn message(message: &Message) -> String {
    String::from_utf8(message.encode(4_096).expect("a short message")).expect("JSON is UTF-8")
}

#[test]
fn a_job_without_a_pod_is_at_work() {
    let view = JobView::new(&job(), &[]);
    assert_eq!(view, JobView::in_phase("fetch-1f-1", JobPhase::Running { started_at: None }));
}

#[test]
fn a_pod_without_a_node_has_the_schedulers_words() {
    let words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    let pending = pod().condition("PodScheduled", "False", words);
    assert_eq!(phase(&job(), vec![pending]), JobPhase::unscheduled(words.to_owned()));
}

#[rstest]
#[case::not_found(
    "ErrImagePull",
    "not found",
    "ErrImagePull for example.com/builder:1 of container builder: not found"
)]
#[case::backing_off(
    "ImagePullBackOff",
    "Back-off pulling image",
    "ImagePullBackOff for example.com/builder:1 of container builder: Back-off pulling image"
)]
#[case::never_pulled(
    "ErrImageNeverPull",
    "Container image is not present with pull policy of Never",
    "ErrImageNeverPull for example.com/builder:1 of container builder: \
     Container image is not present with pull policy of Never"
)]
fn a_container_without_its_image_has_the_kubelets_words(
    #[case] reason: &str,
    #[case] words: &str,
    #[case] expected: &str,
) {
    let waiting = pod().waiting("builder", reason, words);
    assert_eq!(phase(&job(), vec![waiting]), JobPhase::ImageUnavailable(expected.to_owned()));
}

#[test]
fn a_pod_that_waits_for_its_volumes_names_a_users_config_map_and_not_our_own() {
    let volume = |name: &str, config_map: &str| Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: config_map.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let mut waiting = with_secrets(&["hub"]);
    let volumes = waiting.0.spec.get_or_insert_default().volumes.get_or_insert_default();
    volumes.extend([volume("config", "support-1"), volume("authorities-0", "team-authorities")]);
    let message = "its volumes cannot be mounted: create Secret hub, ConfigMap team-authorities in this namespace";
    let phase = phase(&job(), vec![waiting.waiting("fetch", "PodInitializing", "")]);
    assert_eq!(phase, JobPhase::SecretUnavailable(message.to_owned()));
}

/// A pod that mounts Secrets, on a node that has not yet made its sandbox.
fn with_secrets(names: &[&str]) -> PodFixture {
    let mut fixture = pod().condition("PodScheduled", "True", "").condition("PodReadyToStartContainers", "False", "");
    let secret = |name: &&str| SecretVolumeSource { secret_name: Some((*name).to_owned()), ..Default::default() };
    let volumes = names.iter().map(|name| Volume { secret: Some(secret(name)), ..Default::default() }).collect();
    fixture.0.spec.get_or_insert_default().volumes = Some(volumes);
    fixture
}

#[rstest]
#[case::none(&[], JobPhase::Running { started_at: Some(at(2)) })]
#[case::one(
    &["hub"],
    JobPhase::SecretUnavailable("its volumes cannot be mounted: create Secret hub in this namespace".to_owned())
)]
#[case::two(
    &["hub", "crm"],
    JobPhase::SecretUnavailable("its volumes cannot be mounted: create Secrets hub, crm in this namespace".to_owned())
)]
fn a_pod_that_waits_for_its_volumes_names_the_secrets_among_them(#[case] secrets: &[&str], #[case] expected: JobPhase) {
    assert_eq!(phase(&job(), vec![with_secrets(secrets).waiting("fetch", "PodInitializing", "")]), expected);
}

#[test]
fn a_container_that_is_being_created_has_no_image_problem() {
    let creating = pod().waiting("builder", "ContainerCreating", "");
    assert_eq!(phase(&job(), vec![creating]), JobPhase::Running { started_at: Some(at(2)) });
}

#[test]
fn a_pod_at_work_tells_since_when() {
    assert_eq!(phase(&job(), vec![pod().running("fetch")]), JobPhase::Running { started_at: Some(at(2)) });
}

#[test]
fn a_result_is_read_from_the_last_container() {
    let text = message(&Message::Succeeded { result: fetched() });
    let done = pod().ended(Init::Yes, "install-worker", end(0, "Completed", "")).ended(
        Init::No,
        "fetch",
        end(0, "Completed", &text),
    );
    let expected = JobPhase::Succeeded { outcome: Box::new(fetched()), milliseconds: 57_000 };
    assert_eq!(phase(&complete(), vec![done]), expected);
}

#[rstest]
#[case::its_pod_is_gone(vec![], "the Job succeeded but its pod, which holds the result, is gone")]
#[case::nothing_ended(vec![pod()], "the Job succeeded but its pod reports no ended container")]
#[case::no_message(
    vec![pod().ended(Init::No, "fetch", end(0, "Completed", ""))],
    "the container ended without a termination message: it was killed"
)]
#[case::a_later_worker(
    vec![pod().ended(Init::No, "fetch", end(0, "Completed", r#"{"formatVersion":9}"#))],
    "the termination message has formatVersion 9; this operator reads 1"
)]
fn a_result_that_is_lost_is_worth_another_attempt(#[case] pods: Vec<PodFixture>, #[case] expected: &str) {
    assert_eq!(phase(&complete(), pods), failure(FailureClass::Infrastructure, expected));
}

#[test]
fn a_failure_that_the_worker_knows_keeps_its_class_and_words() {
    let text = "config.json has no hidden_size: is this a transformer?".to_owned();
    let message = message(&Message::Failed { class: FailureClass::BadModel, text: text.clone() });
    let ended = pod().ended(Init::No, "resolve", end(12, "Error", &message));
    assert_eq!(phase(&failed(), vec![ended]), failure(FailureClass::BadModel, &text));
}

#[rstest]
#[case::vendors_tool(
    end(3, "Error", "loading weights\nValueError: unknown precision INT4\n\n"),
    FailureClass::BadModel,
    "builder exited with code 3: ValueError: unknown precision INT4"
)]
#[case::error_before_its_traceback(
    end(
        1,
        "Error",
        "loading\nerror: creating server: parameter max_batch: got 'none'\n\nAt:\n  model.py(70): initialize\n;\n"
    ),
    FailureClass::BadModel,
    "builder exited with code 1: error: creating server: parameter max_batch: got 'none'"
)]
#[case::a_line_of_marks_alone(
    end(3, "Error", "ValueError: unknown precision INT4\n;\n+---+\n"),
    FailureClass::BadModel,
    "builder exited with code 3: ValueError: unknown precision INT4"
)]
#[case::vendors_tool_that_says_nothing(end(1, "Error", ""), FailureClass::BadModel, "builder exited with code 1")]
#[case::out_of_memory(
    end(137, "OOMKilled", ""),
    FailureClass::InsufficientMemory,
    "builder was killed for using more memory than its limit"
)]
#[case::no_such_program(
    end(128, "StartError", "exec: \"/build\": no such file or directory"),
    FailureClass::ImageMismatch,
    "builder could not be started: exec: \"/build\": no such file or directory"
)]
#[case::killed_without_a_word(end(137, "Error", ""), FailureClass::Infrastructure, "builder exited with code 137")]
#[case::told_to_end(end(143, "Error", ""), FailureClass::Infrastructure, "builder exited with code 143")]
fn the_first_container_that_failed_is_named(
    #[case] end_of_builder: End<'_>,
    #[case] class: FailureClass,
    #[case] expected: &str,
) {
    let ended = pod()
        .ended(Init::Yes, "install-worker", end(0, "Completed", ""))
        .ended(Init::Yes, "builder", end_of_builder)
        .container(Init::No, "finish-build", ContainerState::default());
    assert_eq!(phase(&failed(), vec![ended]), failure(class, expected));
}

#[test]
fn a_sidecar_that_was_ended_with_the_worker_is_not_the_culprit() {
    let text = "config.json has no hidden_size: is this a transformer?".to_owned();
    let message = message(&Message::Failed { class: FailureClass::BadModel, text: text.clone() });
    let within_a_second =
        pod().ended(Init::Yes, "triton", end(143, "Error", "")).ended(Init::No, "profile", end(12, "Error", &message));
    assert_eq!(phase(&failed(), vec![within_a_second]), failure(FailureClass::BadModel, &text));
}

#[test]
fn a_sidecar_that_failed_first_is_the_culprit_whatever_the_worker_made_of_it() {
    let message = message(&Message::Failed { class: FailureClass::Infrastructure, text: "Triton is gone".to_owned() });
    let a_second_later = Some(Time(at(60)));
    let ended = pod()
        .ended(Init::Yes, "triton", end(137, "OOMKilled", ""))
        .ended(Init::No, "profile", end(14, "Error", &message))
        .status(|status| {
            let worker = status.container_statuses.iter_mut().flatten().next().unwrap();
            worker.state.as_mut().unwrap().terminated.as_mut().unwrap().finished_at = a_second_later;
        });
    let expected = "triton was killed for using more memory than its limit";
    assert_eq!(phase(&failed(), vec![ended]), failure(FailureClass::InsufficientMemory, expected));
}

#[test]
fn a_long_last_line_is_cut() {
    let line = "x".repeat(1_000);
    let ended = pod().ended(Init::Yes, "builder", end(1, "Error", &line));
    let expected = format!("builder exited with code 1: {}", "x".repeat(400));
    assert_eq!(phase(&failed(), vec![ended]), failure(FailureClass::BadModel, &expected));
}

#[test]
fn a_pod_past_its_deadline_says_so_whatever_its_container_said() {
    let stopped = pod()
        .ended(Init::No, "fetch", end(137, "Error", "42 of 90 GB"))
        .status(|status| status.reason = Some("DeadlineExceeded".to_owned()));
    let expected = failure(FailureClass::Infrastructure, "fetch ran past the deadline of 14400 s: 42 of 90 GB");
    assert_eq!(phase(&failed(), vec![stopped]), expected);
}

#[test]
fn a_job_whose_pod_is_gone_has_the_words_of_its_controller() {
    let expected = failure(FailureClass::Infrastructure, "Job has reached the specified backoff limit");
    assert_eq!(phase(&failed(), vec![]), expected);
}

#[test]
fn the_pod_that_replaces_a_disrupted_one_counts() {
    let disrupted = pod().condition("DisruptionTarget", "True", "preempted by a pod of higher priority").ended(
        Init::No,
        "fetch",
        end(143, "Error", ""),
    );
    let replacement = pod().created_at(30).running("fetch");
    let expected = JobPhase::Running { started_at: Some(at(32)) };
    assert_eq!(phase(&job(), vec![replacement, disrupted]), expected);
}

#[test]
fn a_disrupted_pod_is_no_failure_before_its_replacement_exists() {
    let disrupted = pod().condition("DisruptionTarget", "True", "the node is drained").ended(
        Init::No,
        "fetch",
        end(143, "Error", ""),
    );
    assert_eq!(phase(&job(), vec![disrupted]), JobPhase::Running { started_at: Some(at(2)) });
}

#[rstest]
#[case("example.com:5000/triton:24.11", "example.com:5000/triton@sha256:2e", Some("example.com:5000/triton@sha256:2e"))]
#[case(
    "nvcr.io/nvidia/tritonserver:24.11-py3",
    "nvcr.io/nvidia/tritonserver@sha256:2e",
    Some("nvcr.io/nvidia/tritonserver@sha256:2e")
)]
#[case("triton", "docker.io/library/triton@sha256:2e", Some("triton@sha256:2e"))]
#[case("team/triton:1", "docker-pullable://docker.io/team/triton@sha256:2e", Some("team/triton@sha256:2e"))]
#[case::known_by_another_name("example.com/triton:1", "mirror.example/triton@sha256:2e", None)]
#[case::imported("example.com/triton:1", "sha256:3d", None)]
fn an_image_is_pinned_where_every_node_can_pull_it_so(
    #[case] reference: &str,
    #[case] image_id: &str,
    #[case] pinned: Option<&str>,
) {
    let mut fixture = pod().ended(Init::Yes, "builder", end(0, "Completed", ""));
    if let Some(spec) = fixture.0.spec.as_mut() {
        let (name, image) = ("builder".to_owned(), Some(reference.to_owned()));
        spec.init_containers = Some(vec![Container { name, image, ..Default::default() }]);
    }
    let fixture = fixture.status(|status| {
        status.init_container_statuses.iter_mut().flatten().for_each(|c| c.image_id = image_id.to_owned());
    });
    let expected = pinned.map(|pinned| (reference.to_owned(), pinned.to_owned())).into_iter().collect();
    assert_eq!(JobView::new(&job(), &[fixture.0]).pinned_images, expected);
}

#[rstest]
#[case::from_a_registry("example.com/builder@sha256:2e", "sha256:2e")]
#[case::imported("sha256:3d", "sha256:3d")]
fn images_are_known_by_their_content(#[case] image_id: &str, #[case] digest: &str) {
    let mut fixture = pod().ended(Init::Yes, "builder", end(0, "Completed", ""));
    if let Some(spec) = fixture.0.spec.as_mut() {
        let container =
            Container { name: "builder".to_owned(), image: Some("builder:dev".to_owned()), ..Default::default() };
        spec.init_containers = Some(vec![container]);
    }
    let fixture = fixture.status(|status| {
        status.init_container_statuses.iter_mut().flatten().for_each(|c| c.image_id = image_id.to_owned());
    });
    let digests = JobView::new(&job(), &[fixture.0]).image_digests;
    assert_eq!(digests, BTreeMap::from([("builder:dev".to_owned(), digest.to_owned())]));
}

#[test]
fn a_serving_container_that_crashed_before_is_still_a_crash_while_it_waits() {
    let mut fixture = pod().waiting("triton", "CrashLoopBackOff", "back-off 10s restarting failed container");
    let terminated = ContainerStateTerminated {
        exit_code: 1,
        message: Some("failed to load 'agent'".to_owned()),
        ..Default::default()
    };
    fixture = fixture.status(|status| {
        for container in status.init_container_statuses.iter_mut().flatten() {
            container.last_state = Some(ContainerState { terminated: Some(terminated.clone()), ..Default::default() });
        }
    });
    assert_eq!(crash(&fixture.0), Some("triton exited with code 1: failed to load 'agent'".to_owned()));
}

#[test]
fn a_pod_without_room_says_since_when_and_one_behind_a_gate_is_not_asked_for_yet() {
    let pod = |reason: &str| {
        pod().status(|status| {
            status.conditions.get_or_insert_default().push(PodCondition {
                type_: "PodScheduled".to_owned(),
                status: "False".to_owned(),
                reason: Some(reason.to_owned()),
                message: Some("0/1 nodes are available".to_owned()),
                last_transition_time: Some(Time(at(7))),
                ..Default::default()
            });
        })
    };
    assert_eq!(no_room(&pod("Unschedulable").0), Some((at(7), "0/1 nodes are available".to_owned())));
    assert_eq!(no_room(&pod("SchedulingGated").0), None);
}

/// The pod of a node whose GPUs are refused, and one whose checks end without a report.
#[test]
fn refused_gpus_are_told_in_their_figures_and_blame_nothing_that_the_pod_runs() {
    let report = r#"{"formatVersion":1,"refusals":[{"kind":"OldDriver","driver":"535.1","needed":"580.65.06"},
        {"kind":"TooFew","seen":1,"asked":2}],"omittedRefusals":3,"gpus":[],"millis":4}"#;
    let refused = pod().ended(Init::Yes, "preflight", end(1, "Error", report)).0;
    let problems = "driver 535.1 is older than 580.65.06, which spec.serving.preflight.minDriver asks for: update it, or \
                    choose other nodes; the container sees 1 of 2 GPUs: check the node's device plugin; and 3 further \
                    problems";
    assert_eq!(refused_gpus(&refused).as_deref(), Some(problems));
    assert_eq!(crash(&refused), Some(format!("preflight: {problems}")));
    assert_eq!(latest_crash(&refused), None);
    let broken = pod().ended(Init::Yes, "preflight", end(1, "Error", "error: the argument is not a task in JSON")).0;
    let text = "preflight exited with code 1: error: the argument is not a task in JSON".to_owned();
    assert_eq!((refused_gpus(&broken), latest_crash(&broken)), (None, Some((at(59), text))));
    let of_another = pod().ended(Init::Yes, "materialize", end(1, "Error", report)).0;
    assert_eq!(refused_gpus(&of_another), None);
}
