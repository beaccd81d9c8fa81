//! An hour of updates that change nothing for users: those that change no plan open no rollout, and no revision that is as good is
//! rolled back.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Instant;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_e2e::{
    load::pod::Load,
    rollouts::{
        AGENT, Bench, ROLLOUT_LIMIT,
        watch::{Watch, shares_of},
    },
};

/// Updates of each sort.
const UPDATES: usize = 5;

/// What people edit without a thought of a rollout.
fn without_a_new_plan(manifest: &mut Value, number: usize) {
    match number % 3 {
        0 => manifest["metadata"]["labels"] = json!({"team": format!("t{number}")}),
        1 => manifest["spec"]["slo"]["objectives"][0]["max"] = json!(format!("{}s", 5 + number)),
        _ => manifest["spec"]["rollout"]["judge"]["warmUp"] = json!(format!("{}s", 10 + number)),
    }
}

/// A plan of another hash whose engine waits by the same times. Other seeds of the same times would be another engine as well.
fn with_an_equal_plan(manifest: &mut Value, number: usize) {
    manifest["spec"]["agent"]["systemPrompt"] = json!(format!("Wait, then answer ({number})."));
}

/// Applies an edit that is to open no rollout, and looks for a minute.
async fn stays(bench: &Bench, load: &Load<'_>, (manifest, stable): (&Value, &str)) {
    let applied = bench.apply(manifest).await.unwrap();
    let watch = Watch::start(&bench.namespace);
    bench.namespace.wait_until_served(&applied, ROLLOUT_LIMIT).await.unwrap();
    load.next_intervals(6).await.unwrap();
    let history = watch.stop().await.unwrap();
    assert!(history.iter().all(|seen| seen.canary.is_none()), "{history:?}");
    assert_eq!(shares_of(&history, stable), [100]);
}

#[tokio::test]
async fn an_hour_of_equal_updates_rolls_nothing_back() {
    let bench = Bench::start("equal-updates").await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let begun = Instant::now();
    let (mut manifest, mut stable) = (bench.manifest.clone(), bench.stable.clone());
    for number in 1..=UPDATES {
        without_a_new_plan(&mut manifest, number);
        stays(&bench, &load, (&manifest, stable.as_str())).await;
        with_an_equal_plan(&mut manifest, number);
        let opened = Instant::now();
        bench.apply(&manifest).await.unwrap();
        stable = bench.wait_for_canary().await.unwrap();
        let promoted = bench.wait_for_promotion(&stable).await.unwrap();
        assert!(promoted.rejected.is_empty(), "{:?}", promoted.rejected);
        println!("update {number}: {stable} took over after {} s", opened.elapsed().as_secs());
    }
    let events = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert!(!events.iter().any(|reason| reason == "RolledBack"), "{events:?}");
    let (_, summary) = load.stop().await.unwrap();
    let minutes = begun.elapsed().as_secs() / 60;
    println!("{} updates in {minutes} min; {} requests, {} failed", 2 * UPDATES, summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}
