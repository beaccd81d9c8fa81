//! The operator's own reconciliations against a strict API server in memory, with a fault at every write.
//!
//! A story is told once undisturbed. Then each of its acts is played again for every write and every fault, and for
//! every list that shows the past. It must come to the same end, create and delete the same objects as often, and never
//! let users down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod api;
mod cluster;
mod end;
mod operator;
mod plans;
mod server;
mod story;
mod users;
mod world;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use story::{Act, Played, tell};

fn prompt(words: &str) -> Act {
    Act::Edit(json!({"agent": {"systemPrompt": words}}))
}

/// All at once: each edit takes over once its pods are ready, or never does.
fn blue_green() -> Vec<Act> {
    let minutes = |minutes: i64| Act::Wait(minutes * 60);
    let broken = prompt(cluster::BROKEN);
    vec![Act::Create, prompt("Think."), broken, minutes(12), prompt("Think twice."), Act::Delete, minutes(8 * 24 * 60)]
}

/// Step by step, judged by what users meet: one canary takes over, a slower one is rolled back.
fn canary() -> Vec<Act> {
    let rollout = json!({
        "traffic": {"type": "GatewayAPI", "gatewayAPI": {"parentRefs": [{"name": "agents"}]}},
        "steps": [{"weight": 50, "minSoak": "1m", "maxSoak": "30m"}], "judge": {"warmUp": "0s"},
    });
    let routed = Act::Edit(json!({"rollout": rollout, "serving": {"replicas": 2}}));
    vec![Act::Create, routed, prompt("Think."), prompt(users::SLOW), Act::Delete]
}

/// Stages and violations after each act.
fn seen(told: &[Played]) -> (Vec<String>, Vec<String>) {
    let stages = told.iter().map(|played| story::stages(&played.end).join(" ")).collect();
    (stages, told.iter().flat_map(|played| played.violations.clone()).collect())
}

#[tokio::test]
async fn an_agent_is_edited_refused_and_deleted_without_a_trace() {
    let told = tell(&blue_green()).await;
    let (stages, violations) = seen(&told);
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(stages, ["Serving", "Serving", "RollingOut", "Stalled", "Serving", "", ""]);
    let left = told.last().unwrap().end.objects.keys();
    let left: Vec<String> = left.map(|key| format!("{} {}", key.kind.kind, key.name)).collect();
    assert_eq!(left, ["PersistentVolumeClaim slipway-store"], "the store is the namespace's");
}

#[tokio::test]
async fn a_canary_takes_over_and_a_slower_one_is_rolled_back() {
    let told = tell(&canary()).await;
    let (stages, violations) = seen(&told);
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(stages, ["Serving", "Serving", "Serving", "RolledBack", ""]);
}

/// Plays every fault of the acts from one on.
async fn assert_unharmed(acts: &[Act], from: usize, least_plans: usize) {
    let findings = plans::try_all(acts, from).await;
    println!("{} plans", findings.plans);
    assert!(findings.wrong.is_empty(), "{} of {} plans:\n{}", findings.wrong.len(), findings.plans, findings.lines());
    assert!(findings.plans >= least_plans, "only {} plans", findings.plans);
}

#[tokio::test]
async fn no_fault_on_the_way_from_creation_to_deletion_changes_what_becomes_of_an_agent() {
    assert_unharmed(&blue_green(), 0, 1_500).await;
}

#[tokio::test]
async fn no_fault_of_a_canary_changes_what_becomes_of_it() {
    assert_unharmed(&canary(), 1, 1_000).await;
}
