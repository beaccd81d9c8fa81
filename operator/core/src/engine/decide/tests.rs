use std::sync::Arc;

use jiff::Timestamp;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_crds::v1alpha1::engine::{BuildAttempt, LostArtifact};
use slipway_worker_contract::{Digest, FailureClass, FetchResult};

use super::*;
use crate::{engine::world::Use, plan::Removal};

const SPEC: &str = "
build:
  backend: Custom
  sourceDigest: 5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592
  builderImageDigest: sha256:2e
  precision: INT8
  options: {variant: small}
placement:
  builderImage: example.com/builder:1
";

/// An Engine of which nothing has been built yet.
struct Fixture(EngineWorld);

fn engine() -> Fixture {
    let settings = "images: {worker: 'example.com/worker:1', agentRuntime: 'example.com/agent-runtime:1'}";
    Fixture(EngineWorld {
        now: Timestamp::from_second(1_767_225_600).expect("a time of this century"),
        settings: Arc::new(serde_norway::from_str(settings).expect("valid settings")),
        name: "engine-0f1e2d3c4b".to_owned(),
        namespace: "team".to_owned(),
        generation: 1,
        owner: Default::default(),
        spec: serde_norway::from_str(SPEC).expect("a valid spec"),
        status: EngineStatus::default(),
        jobs: BTreeMap::new(),
        resource_version: "1".to_owned(),
        used: Use::Used,
        missed_at: None,
        fetched_at: None,
    })
}

impl Fixture {
    fn plan(&self) -> Plan<EngineStatus> {
        decide(&self.0)
    }

    /// Carries the status out, and creates what is to be created.
    fn stepped(mut self) -> Self {
        let plan = self.plan();
        self.0.status = plan.status;
        for child in plan.children {
            if let Child::Job(job) = child {
                let view = JobView::new(&job, &[]);
                self.0.jobs.insert(view.name.clone(), view);
            }
        }
        self
    }

    /// With the Job of the first attempt at work.
    fn building(self) -> Self {
        self.stepped().stepped()
    }

    /// With the Job of the latest attempt in this phase.
    fn with_job(mut self, phase: JobPhase) -> Self {
        let name = self.0.status.attempts.last().map(|attempt| attempt.job.clone()).expect("an attempt is recorded");
        self.0.jobs.insert(name.clone(), JobView::in_phase(name, phase));
        self
    }

    fn with_failure(self, class: FailureClass) -> Self {
        let finished_at = Some(self.0.now);
        self.with_job(JobPhase::Failed {
            class,
            failure: "builder exited with code 3: no such layer".to_owned(),
            finished_at,
        })
    }

    fn after(mut self, seconds: i64) -> Self {
        self.0.now += jiff::SignedDuration::from_secs(seconds);
        self
    }
}

fn manifest_digest() -> Digest {
    "ab".repeat(32).parse().expect("64 digits")
}

fn built() -> JobPhase {
    let result = BuildResult {
        manifest_digest: manifest_digest(),
        files: 7,
        bytes: 17_400_000,
        durations_millis: BTreeMap::from([("export".to_owned(), 29_000), ("hash".to_owned(), 400)]),
        versions: BTreeMap::from([("onnxruntime".to_owned(), "1.31".to_owned())]),
        quality: None,
    };
    JobPhase::Succeeded { outcome: Box::new(Outcome::Build(result)), milliseconds: 31_200 }
}

fn children(plan: &Plan<EngineStatus>) -> Vec<String> {
    let name = |child: &Child| match child {
        Child::ConfigMap(object) => format!("ConfigMap {}", object.metadata.name.clone().unwrap_or_default()),
        Child::Job(object) => format!("Job {}", object.metadata.name.clone().unwrap_or_default()),
        other => format!("{other:?}"),
    };
    plan.children.iter().map(name).collect()
}

fn conditions(plan: &Plan<EngineStatus>) -> Vec<String> {
    let line = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)
    };
    plan.status.conditions.iter().map(line).collect()
}

fn attempt(number: i32, failure: Option<AttemptFailure>) -> BuildAttempt {
    BuildAttempt { number, job: format!("build-0f1e2d3c4b-{number}"), failure }
}

#[test]
fn an_attempt_is_recorded_before_its_job_is_created() {
    let first = engine().plan();
    assert_eq!((children(&first), first.status.attempts), (vec![], vec![attempt(1, None)]));
    let second = engine().stepped().plan();
    let job = "build-0f1e2d3c4b-1";
    assert_eq!(children(&second), [format!("ConfigMap {job}-e193cd883f"), format!("Job {job}")]);
    let message = format!("JobStarting: Job {job} is about to start");
    let expected = [
        format!("Ready=False {message}"),
        format!("Reconciling=True {message}"),
        "Stalled=False UpToDate: nothing is in progress".to_owned(),
    ];
    assert_eq!(conditions(&second), expected);
}

#[test]
fn a_built_engine_knows_its_artifact_and_tells_of_it_once() {
    let done = engine().building().with_job(built());
    let plan = done.plan();
    let digest = "ab".repeat(32);
    let artifact = EngineArtifact {
        manifest_digest: digest.clone(),
        location: format!("engines/engine-0f1e2d3c4b/{digest}"),
        size_bytes: 17_400_000,
        recorded_at: Some(Time(done.0.now)),
        build_milliseconds: 31_200,
        step_milliseconds: BTreeMap::from([("export".to_owned(), 29_000), ("hash".to_owned(), 400)]),
        versions: BTreeMap::from([("onnxruntime".to_owned(), "1.31".to_owned())]),
    };
    let note = "engine-0f1e2d3c4b INT8: 17.4 MB in 31.2 s, manifest abababababab";
    assert_eq!(plan.status.artifact, Some(artifact));
    assert_eq!(plan.notes, [Note::normal(Reason::EngineBuilt, note)]);
    assert_eq!(conditions(&plan)[0], "Ready=True Available: the artifact is in the store");
    let after = done.stepped().plan();
    assert_eq!((after.notes, after.status, after.children), (vec![], plan.status, vec![]));
}

/// Jobs are kept for an hour or so, artifacts for as long as someone needs them.
#[test]
fn a_built_engine_needs_its_job_no_longer() {
    let mut done = engine().building().with_job(built()).stepped();
    let before = done.plan();
    done.0.jobs.clear();
    assert_eq!(done.plan(), before);
}

#[test]
fn a_failure_of_the_clusters_is_recorded_and_tried_again() {
    let failed = engine().building().with_failure(FailureClass::Infrastructure);
    let waiting = failed.plan();
    let message = "builder exited with code 3: no such layer";
    let expected =
        format!("Reconciling=True JobRetrying: Job build-0f1e2d3c4b-1 failed ({message}); attempt 2 of 3 follows");
    assert_eq!(conditions(&waiting)[1], expected);
    let failure = AttemptFailure { class: FailureClass::Infrastructure, message: message.to_owned() };
    let again = failed.stepped().after(10).stepped();
    assert_eq!(again.0.status.attempts, [attempt(1, Some(failure)), attempt(2, None)]);
    assert_eq!(children(&again.plan())[1], "Job build-0f1e2d3c4b-2");
}

#[test]
fn a_store_that_an_engine_fills_is_in_the_conditions_with_its_figures() {
    let failure = "a volume is full: enlarge it, or remove what it need not hold (/slipway/store has 0.1 of 107374.2 MB \
                   free): failed to publish the artifact: No space left on device (os error 28)";
    let failed = engine().building();
    let finished_at = Some(failed.0.now);
    let class = FailureClass::Infrastructure;
    let failed = failed.with_job(JobPhase::Failed { class, failure: failure.to_owned(), finished_at });
    let expected =
        format!("Reconciling=True JobRetrying: Job build-0f1e2d3c4b-1 failed ({failure}); attempt 2 of 3 follows");
    assert_eq!(conditions(&failed.plan())[1], expected);
}

/// A list of pods that lacks the one that ended well makes its Job look like one whose result is lost.
#[test]
fn a_failure_that_one_look_alone_has_seen_begins_no_other_attempt() {
    let failed = engine().building().with_failure(FailureClass::Infrastructure).after(60);
    let plan = failed.plan();
    assert_eq!((plan.status.attempts.len(), plan.requeue, children(&plan)), (1, AT_ONCE, vec![]));
    let seen_again = failed.stepped().with_job(built()).stepped();
    assert_eq!(seen_again.0.status.attempts, [attempt(1, None)]);
    assert!(seen_again.0.status.artifact.is_some());
}

#[rstest]
#[case(FailureClass::BadModel, "BadModel")]
#[case(FailureClass::InsufficientMemory, "InsufficientMemory")]
#[case(FailureClass::UnsupportedPrecision, "UnsupportedPrecision")]
#[case(FailureClass::ImageMismatch, "ImageMismatch")]
fn what_no_repetition_mends_stalls_and_is_told_once(#[case] class: FailureClass, #[case] name: &str) {
    let failed = engine().building().with_failure(class).after(3_600);
    let plan = failed.plan();
    let message = format!(
        "Job build-0f1e2d3c4b-1 failed ({name}): builder exited with code 3: no such layer. Delete the Job to try again"
    );
    let expected = [
        format!("Ready=False JobFailed: {message}"),
        "Reconciling=False UpToDate: nothing is in progress".to_owned(),
        format!("Stalled=True JobFailed: {message}"),
    ];
    assert_eq!(conditions(&plan), expected);
    assert_eq!(plan.notes, [Note::warning(Reason::EngineFailed, message)]);
    assert_eq!(failed.stepped().plan().notes, []);
}

#[test]
fn whoever_deletes_the_failed_job_asks_for_its_attempt_once_more() {
    let mut failed = engine().building().with_failure(FailureClass::BadModel).stepped();
    failed.0.jobs.clear();
    let again = failed.stepped();
    assert_eq!(again.0.jobs.keys().collect::<Vec<_>>(), ["build-0f1e2d3c4b-1"]);
    assert_eq!(again.0.status.attempts, [attempt(1, None)]);
    let plan = again.plan();
    assert_eq!(conditions(&plan)[1], "Reconciling=True JobRunning: Job build-0f1e2d3c4b-1 runs");
}

#[test]
fn a_result_of_another_task_points_to_the_workers_release() {
    let fetched = FetchResult { source_digest: manifest_digest(), files: 1, bytes: 1, transferred_bytes: 1, millis: 1 };
    let phase = JobPhase::Succeeded { outcome: Box::new(Outcome::Fetch(fetched)), milliseconds: 1 };
    let plan = engine().building().with_job(phase).plan();
    let expected = "Stalled=True JobFailed: Job build-0f1e2d3c4b-1 failed (ImageMismatch): it reported the result of another task: check that example.com/worker:1 is the worker of this release. Delete the Job to try again";
    assert_eq!(conditions(&plan)[2], expected);
}

#[test]
fn a_source_that_is_no_digest_is_refused_by_name() {
    let mut broken = engine().stepped();
    broken.0.spec.build.source_digest = "latest".to_owned();
    let expected = "Stalled=True SpecRefused: spec.build.sourceDigest: not a SHA-256 digest: \"latest\" \
                    (64 hexadecimal digits, with or without the prefix sha256:)";
    assert_eq!(conditions(&broken.plan())[2], expected);
}

#[test]
fn an_engine_removes_nothing() {
    let plans = [engine().plan(), engine().building().plan(), engine().building().with_job(built()).plan()];
    let removals: Vec<Removal> = plans.into_iter().flat_map(|plan| plan.removals).collect();
    assert_eq!(removals, []);
}

fn built_as(digits: &str) -> JobPhase {
    let JobPhase::Succeeded { outcome, milliseconds } = built() else { unreachable!("it is built") };
    let Outcome::Build(result) = *outcome else { unreachable!("it is a build") };
    let result = BuildResult { manifest_digest: digits.repeat(32).parse().expect("64 digits"), ..result };
    JobPhase::Succeeded { outcome: Box::new(Outcome::Build(result)), milliseconds }
}

/// Built, and then lost: a pod missed it ten seconds later.
fn lost() -> Fixture {
    let mut fixture = engine().building().with_job(built()).stepped().after(10);
    fixture.0.missed_at = Some(fixture.0.now);
    fixture
}

impl Fixture {
    /// The loss is seen once: what is observed of an artifact that is not there is nothing.
    fn noticed(self) -> Self {
        let mut fixture = self.stepped();
        fixture.0.missed_at = None;
        fixture
    }
}

#[test]
fn an_artifact_that_the_store_lost_is_built_again_and_told() {
    let fixture = lost();
    let plan = fixture.plan();
    let lost = LostArtifact { manifest_digest: "ab".repeat(32), at: Time(fixture.0.now), attempts_before: 1 };
    assert_eq!((plan.status.artifact.as_ref(), plan.status.lost.as_ref()), (None, Some(&lost)));
    assert_eq!(plan.status.attempts, [attempt(1, None), attempt(2, None)]);
    let note = "the store has lost artifact abababababab of engine-0f1e2d3c4b: it is built again";
    assert_eq!(plan.notes, [Note::warning(Reason::ArtifactLost, note)]);
    let message = "Reconciling=True ArtifactLost: the store has lost artifact abababababab, and it is built again: Job \
                   build-0f1e2d3c4b-2 is about to start";
    assert_eq!(conditions(&plan)[1], message);
    let next = fixture.noticed().plan();
    assert!(children(&next).contains(&"Job build-0f1e2d3c4b-2".to_owned()), "{:?}", children(&next));
    assert_eq!(next.notes, []);
}

#[test]
fn the_same_artifact_settles_the_loss_and_another_is_told_apart() {
    let rebuilt = |phase: JobPhase| lost().noticed().stepped().with_job(phase).plan().status;
    let same = rebuilt(built());
    assert_eq!((same.artifact.map(|artifact| artifact.manifest_digest), same.lost), (Some("ab".repeat(32)), None));
    let other = rebuilt(built_as("cd"));
    let known = other.lost.map(|lost| lost.manifest_digest);
    let artifact = other.artifact.map(|artifact| artifact.manifest_digest);
    assert_eq!(
        (artifact, known),
        (Some("cd".repeat(32)), Some("ab".repeat(32))),
        "plans with the old one cannot start"
    );
}

/// Attempts before the loss leave as many for what comes after.
#[test]
fn a_build_after_a_loss_has_all_its_attempts() {
    let failed = lost().noticed().stepped().with_failure(FailureClass::Infrastructure).after(60);
    assert_eq!(failed.stepped().plan().status.attempts.last().map(|attempt| attempt.number), Some(3));
}

#[test]
fn a_build_without_its_checkpoint_waits_until_it_is_fetched_again() {
    let mut waiting = engine().building().with_failure(FailureClass::MissingArtifact).after(60);
    let plan = waiting.plan();
    let message = "ArtifactLost: Job build-0f1e2d3c4b-1 found no checkpoint (builder exited with code 3: no such layer); it is built \
                   once that has been fetched again";
    assert_eq!(conditions(&plan)[1], format!("Reconciling=True {message}"));
    assert_eq!((plan.status.attempts.len(), plan.requeue), (1, UNWATCHED));
    waiting.0.fetched_at = Some(waiting.0.now);
    let plan = waiting.plan();
    assert_eq!(plan.status.attempts.last(), Some(&attempt(2, None)));
}

impl Fixture {
    fn unused(mut self) -> Self {
        self.0.used = Use::Unused;
        self
    }
}

#[test]
fn an_engine_that_nobody_names_is_removed_after_a_week() {
    let fixture = engine().building().with_job(built()).stepped().unused();
    let plan = fixture.plan();
    assert_eq!((plan.status.unused_since.clone(), plan.removals), (Some(Time(fixture.0.now)), vec![]));
    let almost = fixture.stepped().after(7 * 24 * 3600 - 1);
    let plan = almost.plan();
    assert_eq!((plan.removals, plan.requeue), (vec![], std::time::Duration::from_secs(1)));
    let over = almost.after(1);
    let removal = Removal {
        kind: crate::plan::RemovalKind::Engine,
        name: over.0.name.clone(),
        uid: over.0.owner.uid.clone(),
        resource_version: "1".to_owned(),
    };
    assert_eq!(over.plan().removals, [removal]);
}

#[test]
fn an_engine_that_somebody_names_again_stays() {
    let mut fixture = engine().building().with_job(built()).stepped().unused().stepped().after(7 * 24 * 3600);
    fixture.0.used = Use::Used;
    let plan = fixture.plan();
    assert_eq!((plan.status.unused_since, plan.removals), (None, vec![]));
    fixture.0.used = Use::Unknown;
    assert_eq!(fixture.plan().removals, [], "an AgentDeployment of a newer version may name it");
}

/// Its Jobs are its own, so a deleted AgentDeployment's build ends.
#[test]
fn a_build_that_nobody_waits_for_any_more_ends_after_a_minute_and_none_begins() {
    let running = engine().building().unused().stepped();
    assert_eq!(running.plan().removals, []);
    let names: Vec<_> = running.after(60).plan().removals.into_iter().map(|removal| removal.name).collect();
    assert_eq!(names, ["engine-0f1e2d3c4b"]);
    let recorded = engine().unused().stepped().after(60);
    let plan = recorded.plan();
    assert_eq!((children(&plan).len(), plan.removals.len()), (0, 1));
}

/// Input of the health check of Argo CD, which `e2e/tools/argocd-lua` runs.
#[test]
fn what_gitops_tools_see() {
    let seen = |name: &str, fixture: Fixture| {
        let status = fixture.plan().status;
        json!({
            "name": name,
            "object": {
                "apiVersion": "slipway.dev/v1alpha1",
                "kind": "Engine",
                "metadata": {"name": fixture.0.name, "generation": fixture.0.generation},
                "status": {"observedGeneration": status.observed_generation, "conditions": status.conditions},
            },
        })
    };
    let retried = engine().building().with_failure(FailureClass::Infrastructure).stepped();
    insta::assert_json_snapshot!(
        "engines",
        [
            seen("its build starts", engine()),
            seen("it is built", engine().building()),
            seen("its build is tried again", retried),
            seen("its build failed", engine().building().with_failure(FailureClass::BadModel)),
            seen("it is in the store", engine().building().with_job(built())),
        ]
    );
}
