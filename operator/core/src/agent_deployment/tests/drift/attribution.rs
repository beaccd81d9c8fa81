//! Whether drift is of the model, which another campaign can fix, or of tools, which none can.

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::agent_deployment::{DriftVerdict, LatencyMetric};
use slipway_vocabulary::evidence::Evidence;

use super::{Life, NO_USERS, ProfilePhase, SLOWER, USUAL, Users, ended, message, reprofiling};
use crate::agent_deployment::monitoring::observed_objectives::ObservedObjectives;

/// Runs that are nearly all tools: once these are slow, runs show it as clearly.
const TOOLS: Users = Users { tools: 3_000_000.0, ..USUAL };
const SLOW_TOOLS: Users = Users { slower_tools: 1.5, ..TOOLS };
/// Histories that differ in their noise.
const SEEDS: std::ops::Range<u64> = 0..8;
/// Blocks in which an objective is missed before that is acted upon.
const BLOCKS: i32 = 144;

/// An agent whose runs are to be fast, with so many blocks after its first day, and measured so long ago that another
/// campaign may begin at any time.
fn rested(blocks: i64, users: Users) -> Life {
    let cluster = reprofiling().edited(|spec| {
        spec.slo.objectives[0].metric = LatencyMetric::AgentRunLatency;
        spec.slo.error_rate = Some(serde_norway::from_str("{max: 1%}").expect("a share"));
    });
    let cluster = ended(cluster, ProfilePhase::Chosen).with_pods_ready();
    let mut life = Life::of(cluster).blocks(24 * 6 + blocks, users);
    life.cluster.world.latest_campaign = None;
    life
}

/// The same with other noise from now on.
fn with_noise(life: &Life, seed: u64) -> Life {
    let mut life = life.clone();
    life.dice.0 = seed;
    life
}

/// The same whose runs of the last hour all took ten seconds.
fn missing(mut life: Life) -> Life {
    let metric = json!({"metric": "AgentRunLatency", "unit": "Run", "count": 1_000, "errors": 0});
    let window = json!({"id": 1, "metrics": [metric]});
    let evidence = json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": [window]});
    let mut evidence: Evidence = serde_json::from_value(evidence).expect("evidence of a pod");
    evidence.windows[0].metrics[0].buckets.record_n(10_000_000, 1_000);
    life.cluster.world.observed = ObservedObjectives::of([&evidence]);
    life
}

/// Block by block until a signal is named, with what was named first.
fn until_named(mut life: Life, users: Users, signal: &str) -> (Life, Vec<String>) {
    let mut first = Vec::new();
    for _ in 0..BLOCKS {
        life = life.blocks(1, users);
        let named = life.drift().signals;
        if first.is_empty() {
            first.clone_from(&named);
        }
        if named.iter().any(|named| named == signal) {
            return (life, first);
        }
    }
    panic!("{signal}: {:?}", life.drift());
}

/// The objective at risk, and for how many blocks it is not acted upon.
fn risk(life: &Life) -> Option<(String, Option<i32>)> {
    life.drift().risk.map(|risk| (risk.message, risk.blocks_left))
}

#[test]
fn tools_that_become_slow_start_no_campaign_even_where_runs_show_it_first() {
    let rested = rested(2, TOOLS);
    let mut led_by_runs = 0;
    for seed in SEEDS {
        let (life, first) = until_named(with_noise(&rested, seed), SLOW_TOOLS, "ToolTime is slower");
        led_by_runs += usize::from(first == ["AgentRunLatency is slower"]);
        let seen = (life.drift().verdict, risk(&life), life.campaigns() - rested.campaigns());
        assert_eq!(seen, (DriftVerdict::BehaviorDrift, None, 0), "seed {seed}, found by {first:?}");
    }
    assert!(led_by_runs > 0, "runs show it first in no history");
}

#[test]
fn a_model_that_becomes_slow_starts_a_campaign_once_runs_are_named() {
    let rested = rested(2, USUAL);
    let slower = Users { slower: 1.6, ..USUAL };
    for seed in SEEDS {
        let (life, _) = until_named(with_noise(&rested, seed), slower, "AgentRunLatency is slower");
        let at_risk = Some(("reply: AgentRunLatency is slower than on the first day".to_owned(), None));
        assert_eq!((risk(&life), life.campaigns() - rested.campaigns()), (at_risk, 1), "seed {seed}");
    }
}

#[test]
fn an_objective_that_slow_tools_miss_is_at_risk_until_they_show_it_and_starts_no_campaign() {
    let life = missing(rested(2, TOOLS)).blocks(1, SLOW_TOOLS);
    let missed = "reply: AgentRunLatency p95 is above 500ms, by 1000 of 1000 in the last hour".to_owned();
    assert_eq!((life.drift().verdict, risk(&life)), (DriftVerdict::NoDrift, Some((missed, Some(BLOCKS)))));
    assert_eq!(life.condition("Profiling"), "False ReprofilingAfterDrift");
    let words = "re-profiling after drift waits for 144 more blocks of ten minutes with traffic, which show whether \
                 tools are slower: reply: AgentRunLatency p95 is above 500ms, by 1000 of 1000 in the last hour";
    assert_eq!(message(&life.cluster, "Profiling"), words);
    let told = message(&life.cluster, "BehaviorDrift");
    assert!(told.ends_with(" (144 more blocks show whether tools are slower)"), "{told}");
    let before = life.campaigns();
    let life = life.hours(3, SLOW_TOOLS);
    assert_eq!((risk(&life), life.campaigns() - before), (None, 0));
    assert_eq!(life.condition("Profiling"), "absent");
}

#[test]
fn a_missed_objective_is_acted_upon_after_so_many_blocks_with_traffic_in_which_tools_are_not_slower() {
    let life = missing(rested(2, TOOLS));
    let before = life.campaigns();
    let left = |life: &Life| risk(life).map(|(_, left)| left);
    let life = life.blocks(10, TOOLS).blocks(6, NO_USERS);
    assert_eq!(left(&life), Some(Some(BLOCKS - 9)), "blocks without traffic show nothing");
    let life = life.blocks(i64::from(BLOCKS) - 10, TOOLS);
    assert_eq!((left(&life), life.campaigns() - before), (Some(Some(1)), 0));
    let life = life.blocks(1, TOOLS);
    assert_eq!((left(&life), life.campaigns() - before), (Some(None), 1));
}

#[test]
fn a_missed_objective_of_a_slower_model_is_acted_upon_once_the_model_shows_it() {
    let rested = missing(rested(2, USUAL));
    let mut life = rested.clone();
    while risk(&life).is_none_or(|(_, left)| left.is_some_and(|left| left > 1)) {
        life = life.blocks(1, SLOWER);
    }
    assert_eq!((risk(&life).map(|(_, left)| left), life.campaigns() - rested.campaigns()), (Some(None), 1));
}

#[test]
fn what_some_pods_have_not_told_yet_changes_no_risk() {
    let mut life = missing(rested(2, TOOLS)).blocks(1, TOOLS);
    let before = risk(&life);
    assert!(before.is_some());
    life.cluster.world.are_all_heard = false;
    assert_eq!(risk(&life.blocks(1, TOOLS)), before);
}

#[test]
fn more_failures_wait_as_long_for_tools_to_show_that_they_are_slower() {
    let failing = Users { failures: 80, ..TOOLS };
    let rested = rested(2, TOOLS);
    let (life, _) = until_named(rested.clone(), failing, "RunSuccess has more errors");
    let fails = "slo.errorRate: more runs fail than on the first day".to_owned();
    assert_eq!((risk(&life), life.campaigns() - rested.campaigns()), (Some((fails, Some(BLOCKS))), 0));
    let with_slow_tools = Users { failures: 80, ..SLOW_TOOLS };
    let (life, _) = until_named(rested.clone(), with_slow_tools, "ToolTime is slower");
    assert_eq!((risk(&life), life.campaigns() - rested.campaigns()), (None, 0));
}
