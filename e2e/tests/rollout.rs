//! Rollouts behind a real gateway, with clients that never pause: what is good takes over, what does harm goes back,
//! and clients of the serving revision notice neither.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Instant;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_e2e::{
    agents::namespace_with_servers,
    load::report::{NO_REVISION, Report, typical},
    operator::{Mark, Operator, Write},
    rollouts::{
        AGENT, Bench, kill_operator,
        watch::{Seen, Watch, first_seen, shares_of, unready_with_traffic, verdicts},
    },
};

/// Intervals of ten seconds before a rollout, with which those within it are compared.
const BEFORE: usize = 3;

/// From a share in the route to the clients: the first answer of a canary with a share, and the last of a revision
/// without one. That last answer may have been requested a while before.
fn print_delays(history: &[Seen], summary: &Report, stable: &str, canary: &str) {
    let answered = |revision: &str| summary.revisions.get(revision).and_then(|counts| counts.answered_unix_millis);
    let after = |at: Option<u64>, since: Option<u64>| Some(at? as i64 - since? as i64);
    let first = after(answered(canary).map(|(first, _)| first), first_seen(history, canary, 20));
    let last = after(answered(stable).map(|(_, last)| last), first_seen(history, canary, 100));
    println!(
        "ms from a share seen in the route to the first answer of the canary {first:?}, to stable's last {last:?}"
    );
}

/// Writes to the objects of a scenario; events apart.
fn writes_here(operator: &Operator, since: Mark, bench: &Bench) -> Vec<Write> {
    let is_here = |write: &Write| {
        let object = write.object_ref.clone().unwrap_or_default();
        object.namespace == bench.namespace.name() && object.resource != "events"
    };
    operator.writes_since(since).unwrap().into_iter().filter(is_here).collect()
}

/// A bench on which a revision that is as good is shown to be so in half the time.
async fn bench_with_wider_margin(name: &str) -> Bench {
    let namespace = namespace_with_servers(name).await.unwrap();
    let widen = |manifest: &mut Value| manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    Bench::start_in(namespace, widen).await.unwrap()
}

#[tokio::test]
async fn a_revision_that_is_as_good_takes_over_and_no_request_fails() {
    let bench = bench_with_wider_margin("rollout-promotion").await;
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let operator = Operator::find().await.unwrap();
    let (begun, mark) = (Instant::now(), operator.mark().unwrap());
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods, "a canary restarts no stable pod");
    bench.wait_for_promotion(&canary).await.unwrap();
    let (writes, taken) = (writes_here(&operator, mark, &bench), begun.elapsed());
    let promoted = bench.pod_uids(&canary).await.unwrap();
    load.next_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100], "{:?}", verdicts(&history));
    assert_eq!(shares_of(&history, &bench.stable), [100, 80, 50, 0]);
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    assert_eq!(bench.pod_uids(&canary).await.unwrap(), promoted, "promotion restarts no pod");
    let events = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert!(events.iter().any(|reason| reason == "RevisionPromoted"), "{events:?}");

    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    assert!(summary.ok_of(&bench.stable) > 0 && summary.ok_of(&canary) > 0, "{summary:?}");
    println!("promoted in {} s with {} writes; {} requests, none failed", taken.as_secs(), writes.len(), summary.ok());
    print_delays(&history, &summary, &bench.stable, &canary);
    // The canary comes, has 20, 50 and 100 %.
    let most = 4 * 6 + taken.as_secs().div_ceil(60);
    assert!(writes.len() as u64 <= most, "{} writes, at most {most}: {writes:?}", writes.len());
}

#[tokio::test]
async fn slower_revisions_are_rolled_back_and_the_serving_one_never_gets_slower() {
    let bench = Bench::start("rollout-slower").await.unwrap();
    let load = bench.start_load().await.unwrap();
    let before = load.next_intervals(BEFORE).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "300")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();
    let begun = Instant::now();
    let rolled_back = bench.wait_for_rejection(&canary).await.unwrap();
    let taken = begun.elapsed();
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    let shares = shares_of(&history, &canary);
    assert!([[0, 20, 0].as_slice(), &[0, 20, 50, 0]].contains(&shares.as_slice()), "{shares:?}");
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    assert_eq!(rolled_back.stable.as_deref(), Some(bench.stable.as_str()));
    let reason = &rolled_back.rejected[0].reason;
    assert!(
        reason.contains("RelativeHarm") && reason.contains("blame Engine"),
        "the reason names what got worse: {reason}"
    );
    let events = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert!(events.iter().any(|reason| reason == "RolledBack"), "{events:?}");

    let (intervals, summary) = load.stop().await.unwrap();
    println!("rolled back {} s after its first traffic; {} requests, none failed", taken.as_secs(), summary.ok());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    let p95 = |intervals: &[Report], revision: &str| typical(intervals, revision, |latency| latency.p95).unwrap();
    let within = &intervals[intervals.len().min(BEFORE + 1)..];
    let (alone, beside) = (p95(&before, &bench.stable), p95(within, &bench.stable));
    assert!(beside < alone * 2, "p95 of the serving revision: {alone} us before, {beside} us beside the canary");
    let (of_stable, of_canary) = (
        typical(within, &bench.stable, |latency| latency.p50).unwrap(),
        typical(within, &canary, |latency| latency.p50).unwrap(),
    );
    assert!(of_canary > of_stable * 6 / 5, "clients saw {of_canary} us of the canary, {of_stable} us of the other");
}

#[tokio::test]
async fn revisions_that_fail_requests_are_rolled_back() {
    let bench = Bench::start("rollout-errors").await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("errorPercent", "5")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let rolled_back = bench.wait_for_rejection(&canary).await.unwrap();
    let after = load.settled_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    let shares = shares_of(&history, &canary);
    assert!([[0, 20, 0].as_slice(), &[0, 20, 50, 0]].contains(&shares.as_slice()), "{shares:?}");
    let reason = &rolled_back.rejected[0].reason;
    assert!(reason.to_lowercase().contains("error"), "the reason names what got worse: {reason}");

    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed_of(&bench.stable), summary.failed_of(NO_REVISION)), (0, 0), "{summary:?}");
    assert!(summary.failed_of(&canary) > 0, "{summary:?}");
    for interval in &after {
        assert_eq!((interval.failed(), interval.ok_of(&canary)), (0, 0), "{interval:?}");
    }
}

#[tokio::test]
async fn an_operator_that_dies_at_every_step_brings_the_same_about() {
    let bench = bench_with_wider_margin("rollout-killed").await;
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    kill_operator().unwrap();
    for weight in [20, 50] {
        bench.wait_for(&format!("{weight} %"), |rollout| rollout.weight == Some(weight)).await.unwrap();
        kill_operator().unwrap();
        // Once more while it judges.
        load.next_intervals(2).await.unwrap();
        kill_operator().unwrap();
    }
    bench.wait_for_promotion(&canary).await.unwrap();
    // What was promoted is seen by the watch too, which is another connection.
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100], "{:?}", verdicts(&history));
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}
