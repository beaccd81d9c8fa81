//! An hour of updates that change nothing for users: those that change no plan open no rollout, and no revision that is
//! as good is rolled back.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_e2e::{
    load::pod::Load,
    rollouts::{
        AGENT, Bench, ROLLOUT_LIMIT,
        watch::{Seen, Watch},
    },
};

/// Updates of each sort.
const UPDATES: usize = 5;
/// Time from one update to the next: ten of them are an hour.
const EVERY: Duration = Duration::from_secs(360);

/// What people edit without a thought of a rollout.
fn without_a_new_plan(manifest: &mut Value, number: usize) {
    match number % 3 {
        0 => manifest["metadata"]["labels"] = json!({"team": format!("t{number}")}),
        1 => manifest["spec"]["slo"]["objectives"][0]["max"] = json!(format!("{}s", 5 + number)),
        _ => manifest["spec"]["rollout"]["judge"]["warmUp"] = json!(format!("{}s", 10 + number)),
    }
}

/// A plan of another hash whose engine waits by the same times. Other seeds of the same times would be another engine
/// as well.
fn with_an_equal_plan(manifest: &mut Value, number: usize) {
    manifest["spec"]["agent"]["systemPrompt"] = json!(format!("Wait, then answer ({number})."));
}

/// Looks on until the next update is due.
async fn rest(load: &Load<'_>, since: Instant) {
    while since.elapsed() < EVERY {
        load.next_intervals(1).await.unwrap();
    }
}

#[tokio::test]
async fn an_hour_of_equal_updates_rolls_nothing_back() {
    let bench = Bench::start("equal-updates").await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);
    let (mut manifest, mut served) = (bench.manifest.clone(), vec![bench.stable.clone()]);
    let begun = Instant::now();
    for number in 1..=UPDATES {
        let since = Instant::now();
        without_a_new_plan(&mut manifest, number);
        let applied = bench.apply(&manifest).await.unwrap();
        bench.namespace.wait_until_served(&applied, ROLLOUT_LIMIT).await.unwrap();
        rest(&load, since).await;

        let since = Instant::now();
        with_an_equal_plan(&mut manifest, number);
        bench.apply(&manifest).await.unwrap();
        let canary = bench.wait_for_canary().await.unwrap();
        let promoted = bench.wait_for_promotion(&canary).await.unwrap();
        assert!(promoted.rejected.is_empty(), "{:?}", promoted.rejected);
        println!("update {number}: {canary} took over after {} s", since.elapsed().as_secs());
        served.push(canary);
        rest(&load, since).await;
    }
    let history = watch.stop().await.unwrap();
    // The five that were asked for, each as stable and, but for the first, as a canary before: nothing else came or
    // went.
    assert_eq!(one_after_the_other(&history, |seen| seen.stable.clone()), served);
    assert_eq!(one_after_the_other(&history, |seen| seen.canary.clone()), served[1..]);
    let events = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert!(!events.iter().any(|reason| reason == "RolledBack"), "{events:?}");
    let (_, summary) = load.stop().await.unwrap();
    let minutes = begun.elapsed().as_secs() / 60;
    println!("{} updates in {minutes} min; {} requests, {} failed", 2 * UPDATES, summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// What the status named, one after the other, where it named one.
fn one_after_the_other(history: &[Seen], named: impl Fn(&Seen) -> Option<String>) -> Vec<String> {
    let mut names: Vec<String> = history.iter().filter_map(named).collect();
    names.dedup();
    names
}
