//! The controllers themselves, as watches wake them, where a watch ends, is told that it is too late, is cut off for a
//! while, or loses an event. Their clock is the test's, and runs as fast as everything is done.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use slipway_operator::controllers;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        fault::{BROKEN_WATCHES, Plan},
        kinds::{AGENT_DEPLOYMENTS, CONFIG_MAPS, DEPLOYMENTS},
        store::Key,
    },
    cluster,
    end::{self, End},
    operator,
    stories::prompt,
    story::{AGENT, Act, Commits, NAMESPACE, Scene, stages},
    world::World,
};

/// Seconds in which the agent must be what it was asked to be.
pub const PATIENCE: i64 = 900;

/// Whether an act has come to its end.
type IsDone = fn(&World) -> bool;

/// The outcome of creating, editing and deleting an agent.
struct Told {
    end: End,
    commits: Commits,
    violations: Vec<String>,
    /// Events that watches were sent.
    events: usize,
    has_struck: bool,
    /// Seconds until each act was done.
    took: Vec<i64>,
}

async fn tell(plan: Option<Plan>) -> Told {
    let mut world = World::of(&Scene::first(None), plan).await;
    let stop = CancellationToken::new();
    let context = world.operator.context();
    let running = tokio::spawn(controllers::run(context, stop.clone()));
    // Each with the seconds in which nothing more may happen then.
    let acts: [(Act, IsDone, i64); 3] =
        [(Act::Create, serves, 5), (prompt("Think."), serves, 5), (Act::Delete, is_gone, 60)];
    let mut took = Vec::new();
    for (at, (act, is_done, calm)) in acts.iter().enumerate() {
        world.act(act);
        world.server.wake();
        let seconds = until(&mut world, *is_done).await;
        if seconds >= PATIENCE {
            world.violations.push(format!("act {at} is not done after {PATIENCE} s"));
        }
        took.push(seconds);
        for _ in 0..*calm {
            second(&mut world).await;
        }
    }
    stop.cancel();
    running.await.unwrap();
    let (events, has_struck) = {
        let state = world.server.state();
        (state.faults.events, state.faults.has_struck)
    };
    let mut played = world.played();
    // The record of the store is written at its next look, in a quarter of an hour at the latest.
    played.end.objects.remove(&Key::new(CONFIG_MAPS, NAMESPACE, slipway_crds::store::NAME));
    Told { end: played.end, commits: played.commits, violations: played.violations, events, has_struck, took }
}

pub async fn until(world: &mut World, is_done: impl Fn(&World) -> bool) -> i64 {
    for seconds in 0..PATIENCE {
        if is_done(world) {
            return seconds;
        }
        second(world).await;
    }
    PATIENCE
}

/// A second passes, in which the cluster does its part.
async fn second(world: &mut World) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    operator::pass(1);
    world.check();
    if cluster::step(&mut world.server.state()) {
        world.server.wake();
    }
    world.check();
}

/// Whether what was asked for last serves, and nothing else does.
fn serves(world: &World) -> bool {
    let state = world.server.state();
    let store = &state.store;
    let Some(agent) = store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT)) else { return false };
    let is_seen = agent["status"]["observedGeneration"] == agent["metadata"]["generation"];
    is_seen && agent["status"]["stage"] == "Serving" && store.of_kind(DEPLOYMENTS).count() == 1
}

fn is_gone(world: &World) -> bool {
    let state = world.server.state();
    state.store.of_kind(AGENT_DEPLOYMENTS).count() == 0 && state.store.of_kind(DEPLOYMENTS).count() == 0
}

#[tokio::test(start_paused = true)]
async fn controllers_serve_an_agent_edit_it_and_leave_nothing_behind() {
    let told = tell(None).await;
    assert_eq!((told.violations, stages(&told.end)), (vec![], vec![]));
    println!("{} events, {:?} s", told.events, told.took);
}

/// Breaks each watch at every so manieth of its events.
async fn assert_unharmed_by_watches(every: usize, least_plans: usize) {
    let expected = tell(None).await;
    let (mut plans, mut wrong, mut slowest) = (0, Vec::new(), 0);
    let all = (0..expected.events).flat_map(|at| BROKEN_WATCHES.map(|broken| (at, broken)));
    for (at, broken) in all.step_by(every) {
        let mut told = tell(Some(Plan::Event(at, broken))).await;
        if !told.has_struck {
            continue;
        }
        told.violations.extend(end::differences(&expected.end, &told.end));
        if told.commits != expected.commits {
            told.violations.push(format!("{:?}, not {:?}", told.commits, expected.commits));
        }
        (plans, slowest) = (plans + 1, slowest.max(told.took.into_iter().max().unwrap_or_default()));
        wrong.extend(told.violations.first().map(|line| format!("{broken:?} at event {at}: {line}")));
    }
    println!("watches: {plans} plans, {slowest} s at most");
    assert!(wrong.is_empty(), "{} of {plans} plans:\n{}", wrong.len(), wrong.join("\n"));
    assert!(plans >= least_plans, "only {plans} plans");
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes: make test-faults FAULTS_BY_HAND="]
async fn no_watch_that_breaks_changes_what_becomes_of_an_agent() {
    assert_unharmed_by_watches(1, 300).await;
}

/// Each way to break comes in turn, for their number and this one have no common divisor.
#[tokio::test(start_paused = true)]
#[ignore = "takes seconds: make test-faults"]
async fn a_watch_that_breaks_now_and_then_changes_nothing() {
    assert_unharmed_by_watches(7, 40).await;
}

/// Looks at AgentDeployments until now.
fn looks(world: &World) -> usize {
    let metrics = world.operator.context().metrics.encode();
    let of_agents = |line: &&str| line.contains("reconciliations_total{kind=\"AgentDeployment\"");
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
    metrics.lines().filter(of_agents).filter_map(count).sum()
}

/// Its objective is looked at every half minute: by the API server's requests that would be more than a thousand.
#[tokio::test(start_paused = true)]
async fn an_agent_at_rest_is_looked_at_for_the_price_of_a_few_lists() {
    let mut world = World::of(&Scene::first(None), None).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(controllers::run(world.operator.context(), stop.clone()));
    let objective = json!({"name": "answer", "metric": "AgentRunLatency", "percentile": "p95", "max": "5s"});
    for act in [Act::Create, Act::Edit(json!({"slo": {"objectives": [objective]}}))] {
        world.act(&act);
        world.server.wake();
        assert!(until(&mut world, serves).await < PATIENCE);
    }
    let (settles, rests) = (120, 1_200);
    for _ in 0..settles {
        second(&mut world).await;
    }
    let requests = |world: &World| world.server.state().faults.requests.clone();
    let (before, looked) = (requests(&world).len(), looks(&world));
    for _ in 0..rests {
        second(&mut world).await;
    }
    stop.cancel();
    running.await.unwrap();
    let asked = requests(&world).split_off(before);
    let looked = looks(&world) - looked;
    assert!(looked >= rests / 40, "only {looked} looks in {rests} s");
    let writes = asked.iter().filter(|request| request.is_write).count();
    println!("at rest: {} requests, of them {writes} writes, in {rests} s", asked.len());
    // Fourteen kinds are listed four times, and what kinds there are is asked for: none of that grows with agents.
    assert!(asked.len() < 200 && writes < 10, "{} requests, of them {writes} writes, in twenty minutes", asked.len());
    assert_eq!(world.violations, Vec::<String>::new());
}

/// How often an agent is looked at on the API server until it serves, and by how many requests in all. Another look is
/// a dozen reads.
#[tokio::test(start_paused = true)]
async fn an_agent_begins_for_so_many_requests() {
    const LOOKS: usize = 9;
    const REQUESTS: usize = 180;
    let mut world = World::of(&Scene::first(None), None).await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(controllers::run(world.operator.context(), stop.clone()));
    // Watches begin before.
    for _ in 0..30 {
        second(&mut world).await;
    }
    let begun = world.server.state().faults.requests.len();
    world.act(&Act::Create);
    world.server.wake();
    assert!(until(&mut world, serves).await < PATIENCE);
    for _ in 0..5 {
        second(&mut world).await;
    }
    stop.cancel();
    running.await.unwrap();
    let asked = world.server.state().faults.requests.split_off(begun);
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for request in &asked {
        *classes.entry(&request.class).or_default() += 1;
    }
    println!("{} requests: {classes:#?}", asked.len());
    assert!(
        classes["GET agentdeployments"] <= LOOKS && asked.len() <= REQUESTS,
        "{} requests: {classes:#?}",
        asked.len()
    );
    assert_eq!(world.violations, Vec::<String>::new());
}
