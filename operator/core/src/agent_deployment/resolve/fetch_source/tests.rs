use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_worker_contract::FailureClass;

use super::*;

const A: Option<&str> = Some("secret-of-a");
const B: Option<&str> = Some("secret-of-b");

fn content() -> Digest {
    "a".repeat(64).parse().unwrap()
}

/// What `support` wants, with a Secret that tells its place from others.
fn wanted<'a>(content: &'a Digest, secret: Option<&'a str>) -> Wanted<'a> {
    Wanted { content, uri: "hf://org/model@1", secret, agent_deployment: "support", lost_at: None }
}

fn shared() -> String {
    content_hash(&content()).unwrap().short().to_owned()
}

fn own(secret: Option<&str>) -> String {
    let content = content();
    let place = wanted(&content, secret).place().unwrap();
    content_hash(&OwnJob { content: &content, place: place.short() }).unwrap().short().to_owned()
}

/// The first attempt under a hash, which takes the content from the place of a Secret.
fn job(hash: &str, secret: Option<&str>, phase: JobPhase) -> JobView {
    let content = content();
    let place = wanted(&content, secret).place().unwrap().short().to_owned();
    let fetch = Some(FetchView { content: content.to_string(), place });
    JobView { fetch, ..JobView::in_phase(format!("fetch-{hash}-1"), phase) }
}

fn failed() -> JobPhase {
    JobPhase::Failed { class: FailureClass::BadModel, failure: "404".to_owned(), finished_at: None }
}

fn running() -> JobPhase {
    JobPhase::Running { started_at: None }
}

fn succeeded(of: &str) -> JobPhase {
    let source_digest = of.repeat(64).parse().unwrap();
    let result = FetchResult { source_digest, files: 4, bytes: 9, transferred_bytes: 9, millis: 1 };
    JobPhase::Succeeded { outcome: Box::new(Outcome::Fetch(result)), milliseconds: 7 }
}

/// What the one with a Secret goes by, in a word, with these Jobs and attempts in its status.
fn source(secret: Option<&str>, jobs: &[JobView], recorded: &[&str]) -> String {
    let jobs = jobs.iter().map(|job| (job.name.clone(), job.clone())).collect();
    let content = content();
    let recorded = |hash: &str| i32::from(recorded.contains(&hash));
    match wanted(&content, secret).source(&jobs, recorded).unwrap() {
        Source::Fetched { milliseconds, .. } => format!("fetched in {milliseconds} ms"),
        Source::Elsewhere(why) => why.to_string(),
        Source::Own(hash) => format!("own {}", hash.short()),
    }
}

#[test]
fn the_first_to_ask_fetches_under_the_name_that_all_share() {
    assert_eq!(source(A, &[], &[]), format!("own {}", shared()));
}

#[test]
fn whoever_takes_the_same_from_elsewhere_waits_for_a_fetch_at_work() {
    let of_a = job(&shared(), A, running());
    assert_eq!(source(B, std::slice::from_ref(&of_a), &[]), format!("Job {} runs", of_a.name));
    assert_eq!(source(A, &[of_a], &[&shared()]), format!("own {}", shared()), "A has its own words for it");
}

#[rstest]
#[case::failed(failed())]
#[case::without_its_secret(JobPhase::SecretUnavailable("Secret secret-of-a must exist".to_owned()))]
#[case::without_its_claim(JobPhase::unscheduled("persistentvolumeclaim \"a\" not found".to_owned()))]
fn what_stops_one_place_stops_no_other(#[case] phase: JobPhase) {
    let of_a = job(&shared(), A, phase);
    assert_eq!(source(B, std::slice::from_ref(&of_a), &[]), format!("own {}", own(B)));
    assert_eq!(source(B, std::slice::from_ref(&of_a), &[&own(B)]), format!("own {}", own(B)), "and it stays so");
    assert_eq!(source(A, &[of_a], &[&shared()]), format!("own {}", shared()));
}

#[test]
fn a_success_is_everybodys_even_of_those_who_failed() {
    let jobs = [job(&shared(), A, failed()), job(&own(B), B, succeeded("a"))];
    assert_eq!(source(A, &jobs, &[&shared()]), "fetched in 7 ms");
    assert_eq!(source(B, &jobs, &[&own(B)]), "fetched in 7 ms");
}

#[test]
fn who_failed_waits_while_another_place_is_tried() {
    let jobs = [job(&shared(), A, failed()), job(&own(B), B, running())];
    assert_eq!(source(A, &jobs, &[&shared()]), format!("Job {} runs", jobs[1].name));
    let jobs = [job(&shared(), A, failed()), job(&own(B), B, failed())];
    assert_eq!(source(A, &jobs, &[&shared()]), format!("own {}", shared()), "it stops with its own failure");
}

#[test]
fn a_success_of_other_content_is_no_success() {
    assert_eq!(source(A, &[job("b", B, succeeded("b"))], &[]), format!("own {}", shared()));
}

/// Jobs of older releases say nothing of content and place.
#[rstest]
#[case::at_work_it_is_shared(running(), Some("other"), None)]
#[case::its_own_failure_is_its_own(failed(), Some("support"), None)]
#[case::anothers_failure_is_not(failed(), Some("other"), A)]
fn a_job_of_an_older_release_is_of_whom_it_was_created_for(
    #[case] phase: JobPhase,
    #[case] of: Option<&str>,
    #[case] own_job: Option<&str>,
) {
    let view = JobView { agent_deployment: of.map(str::to_owned), fetch: None, ..job(&shared(), B, phase) };
    let hash = own_job.map_or_else(shared, |secret| own(Some(secret)));
    assert_eq!(source(A, &[view], &[&shared()]), format!("own {hash}"));
}

#[test]
fn a_job_of_an_older_release_that_succeeded_is_not_repeated() {
    let view = JobView { fetch: None, ..job(&shared(), B, succeeded("a")) };
    assert_eq!(source(A, &[view], &[&shared()]), "fetched in 7 ms");
}

#[test]
fn what_was_brought_before_the_store_lost_it_is_brought_again() {
    let content = content();
    let at = |second| Some(Timestamp::from_second(second).unwrap());
    let brought = JobView { ended_at: at(100), ..job(&shared(), B, succeeded("a")) };
    let jobs = BTreeMap::from([(brought.name.clone(), brought)]);
    let source = |lost_at| Wanted { lost_at, ..wanted(&content, A) }.source(&jobs, |_| 0);
    assert!(matches!(source(at(99)), Ok(Source::Fetched { .. })));
    assert!(matches!(source(at(100)), Ok(Source::Own(_))));
}
