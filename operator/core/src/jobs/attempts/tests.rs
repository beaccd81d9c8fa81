use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_worker_contract::{FailureClass, FetchResult};

use super::*;

/// Seconds since some moment.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("a time of this century")
}

fn fetch(name: &str) -> JobRef {
    JobRef { kind: JobKind::Fetch, name: name.to_owned() }
}

/// A task that may be attempted three times; its latest attempt, if it failed, failed at 0 s.
struct Task {
    recorded: i32,
    job: Option<JobView>,
}

fn task(recorded: i32) -> Task {
    Task { recorded, job: None }
}

impl Task {
    fn with_job(self, phase: JobPhase) -> Self {
        let name = job_name("fetch-1f", self.recorded);
        Self { job: Some(JobView::in_phase(name, phase)), ..self }
    }

    fn failed(self, class: FailureClass) -> Self {
        let failure = "connection reset".to_owned();
        self.with_job(JobPhase::Failed { class, failure, finished_at: Some(at(0)) })
    }

    fn next(&self, seconds: i64) -> AttemptStep {
        decide(Attempts {
            kind: JobKind::Fetch,
            job_prefix: "fetch-1f",
            recorded: self.recorded,
            max_attempts: 3,
            job: self.job.as_ref(),
            now: at(seconds),
        })
    }
}

#[test]
fn an_attempt_is_recorded_before_its_job_is_created() {
    assert_eq!([task(0).next(0), task(1).next(0)], [AttemptStep::Record(1), AttemptStep::Create(1)]);
}

#[rstest]
#[case::no_node(
    JobPhase::unscheduled("0/1 nodes are available".to_owned()),
    Why::JobUnscheduled { job: fetch("fetch-1f-1"), scheduler: "0/1 nodes are available".to_owned() },
    "Job fetch-1f-1 waits for a node: 0/1 nodes are available"
)]
#[case::no_image(
    JobPhase::ImageUnavailable("ErrImagePull for w:1".to_owned()),
    Why::ImageUnavailable { job: fetch("fetch-1f-1"), message: "ErrImagePull for w:1".to_owned() },
    "Job fetch-1f-1 waits for an image: ErrImagePull for w:1"
)]
#[case::no_secret(
    JobPhase::SecretUnavailable("Secret hub must exist".to_owned()),
    Why::SecretUnavailable { job: fetch("fetch-1f-1"), message: "Secret hub must exist".to_owned() },
    "Job fetch-1f-1 cannot start: Secret hub must exist"
)]
#[case::no_pod(
    JobPhase::PodsRefused("exceeded quota: compute".to_owned()),
    Why::PodsRefused { job: fetch("fetch-1f-1"), message: "exceeded quota: compute".to_owned() },
    "Job fetch-1f-1 has no pod, since the API server refuses it: exceeded quota: compute"
)]
#[case::at_work(
    JobPhase::Running { started_at: Some(at(-30)) },
    Why::JobRunning { job: fetch("fetch-1f-1"), seconds: 30 },
    "Job fetch-1f-1 runs"
)]
fn a_job_that_has_not_ended_is_waited_for(#[case] phase: JobPhase, #[case] why: Why, #[case] message: &str) {
    assert_eq!((task(1).with_job(phase).next(0), why.to_string().as_str()), (AttemptStep::Wait(why), message));
}

#[test]
fn a_result_is_handed_on() {
    let outcome = slipway_worker_contract::Outcome::Fetch(FetchResult {
        source_digest: "ab".repeat(32).parse().expect("64 digits"),
        files: 1,
        bytes: 2,
        transferred_bytes: 2,
        millis: 3,
    });
    let phase = JobPhase::Succeeded { outcome: Box::new(outcome.clone()), milliseconds: 1_500 };
    let expected = AttemptStep::Succeeded { outcome: Box::new(outcome), milliseconds: 1_500 };
    assert_eq!(task(1).with_job(phase).next(0), expected);
}

#[test]
fn a_failure_of_the_clusters_is_tried_again_after_a_while() {
    let failed = task(1).failed(FailureClass::Infrastructure);
    let why = Why::JobRetrying {
        job: fetch("fetch-1f-1"),
        next_attempt: 2,
        max_attempts: 3,
        failure: "connection reset".to_owned(),
    };
    assert_eq!(why.to_string(), "Job fetch-1f-1 failed (connection reset); attempt 2 of 3 follows");
    assert_eq!([failed.next(9), failed.next(10)], [AttemptStep::Wait(why), AttemptStep::Record(2)]);
}

/// A score or a measurement that found no engine in the store: the engine is built again meanwhile.
#[test]
fn what_the_store_lost_is_looked_for_again() {
    assert_eq!(task(1).failed(FailureClass::MissingArtifact).next(10), AttemptStep::Record(2));
}

#[rstest]
#[case(1, 10)]
#[case(2, 20)]
#[case(3, 40)]
#[case(7, 640)]
#[case(9, 640)]
fn the_waiting_time_doubles_up_to_a_limit(#[case] attempt: i32, #[case] seconds: i64) {
    assert_eq!(back_off(attempt), SignedDuration::from_secs(seconds));
}

#[test]
fn the_last_attempt_is_the_last() {
    let why = Why::JobFailed {
        job: fetch("fetch-1f-3"),
        class: "Infrastructure",
        failure: "connection reset".to_owned(),
        attempts: Some(3),
    };
    let message = "Job fetch-1f-3 failed (Infrastructure), the last of 3 attempts: connection reset. Delete the Job \
                   to try again";
    assert_eq!(why.to_string(), message);
    assert_eq!(task(3).failed(FailureClass::Infrastructure).next(3_600), AttemptStep::GivenUp(why));
}

#[rstest]
#[case(FailureClass::InsufficientMemory, "InsufficientMemory")]
#[case(FailureClass::UnsupportedPrecision, "UnsupportedPrecision")]
#[case(FailureClass::BadModel, "BadModel")]
#[case(FailureClass::ImageMismatch, "ImageMismatch")]
fn what_no_repetition_mends_is_not_repeated(#[case] class: FailureClass, #[case] name: &'static str) {
    let failure = "connection reset".to_owned();
    let why = Why::JobFailed { job: fetch("fetch-1f-1"), class: name, failure, attempts: None };
    assert_eq!(task(1).failed(class).next(3_600), AttemptStep::GivenUp(why));
}

#[test]
fn whoever_deletes_the_failed_job_asks_for_its_attempt_once_more() {
    let given_up = task(3).failed(FailureClass::Infrastructure);
    let deleted = Task { job: None, ..given_up };
    assert_eq!(deleted.next(3_600), AttemptStep::Create(3));
}

#[test]
fn a_failure_without_a_time_is_not_waited_for() {
    let phase =
        JobPhase::Failed { class: FailureClass::Infrastructure, failure: "evicted".to_owned(), finished_at: None };
    assert_eq!(task(1).with_job(phase).next(0), AttemptStep::Record(2));
}
