//! The ends that an act may come to.
//!
//! Two agents that need the same at once have it fetched by one of them, and a fault may let the other one be first.
//! So an act that creates both may come to each end that it has without a fault while one is created some looks after
//! the other. Every end is compared as a whole: nothing is left out, and nothing is renamed.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use slipway_crds::labels::{APP_COMPONENT, Component};

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, CONFIG_MAPS},
        store::{Happened, Key},
    },
    end::{self, End},
    story::{Act, Commits, NAMESPACE, Played, Scene, sum},
};

/// An end, and what was created and deleted on the way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub end: End,
    pub commits: Commits,
}

impl Outcome {
    pub fn of(played: &Played) -> Self {
        Self { end: played.end.clone(), commits: played.commits.clone() }
    }

    /// Lines that say in what another one differs.
    fn differences(&self, found: &Self) -> Vec<String> {
        let mut lines = end::differences(&self.end, &found.end);
        lines.extend(differences(&self.commits, &found.commits));
        lines
    }
}

/// Lines that say in what an outcome differs from the one of these that it is most like.
pub fn unlike_all(expected: &[Outcome], found: &Outcome) -> Vec<String> {
    let differences = expected.iter().map(|outcome| outcome.differences(found));
    differences.min_by_key(Vec::len).expect("an act has an outcome")
}

/// Other ways to play an act without a fault: where it creates two agents, one of them some looks after the other.
pub async fn other_ways(before: &Scene, act: &Act) -> Vec<Played> {
    let orders = if matches!(act, Act::CreateBoth) { &ORDERS[..] } else { &[] };
    let mut ways: Vec<Played> = Vec::new();
    for [first, second] in orders {
        let alone = before.play(first).await;
        // Once the first one has brought it, there is nothing left to be first at.
        for round in alone.rounds.iter().take_while(|round| round.end.volume.is_empty()) {
            let mut played = round.scene.play(second).await;
            played.commits = sum(&round.commits, &played.commits);
            if ways.iter().all(|known| Outcome::of(known) != Outcome::of(&played)) {
                ways.push(played);
            }
        }
    }
    ways
}

const ORDERS: [[Act; 2]; 2] = [[Act::Create, Act::CreateOther], [Act::CreateOther, Act::Create]];

/// What an act may come to with a fault: what it comes to without one, first of all as the story has it. Then also
/// those outcomes with an attempt, or its task, that was written too early.
pub fn possible(told: &Played, other_ways: &[Played]) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = std::iter::once(told).chain(other_ways).map(Outcome::of).collect();
    let with = |some: &[Outcome], early: fn(&Outcome, &Outcome) -> Vec<Outcome>| -> Vec<Outcome> {
        let pairs = some.iter().flat_map(|outcome| outcomes.iter().map(move |other| (outcome, other)));
        some.iter().cloned().chain(pairs.flat_map(|(outcome, other)| early(outcome, other))).collect()
    };
    with(&with(&outcomes, with_early_attempt), with_early_task)
}

/// An agent records its attempt first. Where the Job of that name is another agent's then, the attempt stays in its
/// status. It is the one that this agent has in the outcome in which the Job is its own. It harms nobody. By it the
/// agent waits for that Job (`observe::is_waited_for`). Once that Job cannot go on, the agent gets one of its own
/// (`resolve/fetch_source.rs`).
fn with_early_attempt(outcome: &Outcome, other: &Outcome) -> Vec<Outcome> {
    let agents = outcome.end.objects.iter().filter(|(key, _)| key.kind == AGENT_DEPLOYMENTS);
    let with = |(key, agent): (&Key, &Value)| {
        let recorded = other.end.objects.get(key).filter(|recorded| has_fetched(recorded) && !has_fetched(agent))?;
        let (mut outcome, mut agent) = (outcome.clone(), agent.clone());
        agent["status"]["jobs"] = recorded["status"]["jobs"].clone();
        let owners = agent["metadata"]["managedFields"].as_array_mut().into_iter().flatten();
        for (owner, recorded) in owners.zip(recorded["metadata"]["managedFields"].as_array().into_iter().flatten()) {
            if let Some(fields) = recorded.pointer(FIELDS_OF_JOBS) {
                owner["fieldsV1"]["f:status"]["f:jobs"] = fields.clone();
            }
        }
        outcome.end.objects.insert(key.clone(), agent);
        Some(outcome)
    };
    agents.filter_map(with).collect()
}

/// Where an entry of `managedFields` has the attempts that its manager owns.
const FIELDS_OF_JOBS: &str = "/fieldsV1/f:status/f:jobs";

/// An agent writes the task of a Job first. Where the Job of that name is another agent's then, the task stays until
/// its own agent goes. It is the one that this agent has in the outcome in which the Job is its own.
fn with_early_task(outcome: &Outcome, other: &Outcome) -> Vec<Outcome> {
    let tasks = other.end.objects.iter().filter(|(key, object)| is_task_of_fetch(key, object));
    let early = tasks.filter(|(key, task)| !outcome.end.objects.contains_key(key) && was_asked_for(&outcome.end, task));
    let with = |(key, task): (&Key, &Value)| {
        let mut outcome = outcome.clone();
        outcome.end.objects.insert(key.clone(), task.clone());
        outcome.commits.insert((Happened::Created, key.clone()), 1);
        outcome
    };
    early.map(with).collect()
}

fn is_task_of_fetch(key: &Key, object: &Value) -> bool {
    key.kind == CONFIG_MAPS && object["metadata"]["labels"][APP_COMPONENT] == Component::Fetch.as_str()
}

/// Whether the agent of a task has the attempt in its status: that comes before the task.
fn was_asked_for(end: &End, task: &Value) -> bool {
    let owner = task["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
    end.objects.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, owner)).is_some_and(has_fetched)
}

/// Whether an agent has an attempt of a fetch in its status.
fn has_fetched(agent: &Value) -> bool {
    let attempts = agent["status"]["jobs"].as_array().into_iter().flatten();
    attempts.map(|attempt| &attempt["kind"]).any(|kind| *kind == json!(Component::Fetch.as_str()))
}

/// Lines that say what was created and deleted more often, or less.
fn differences(expected: &Commits, found: &Commits) -> Vec<String> {
    let times = |commits: &Commits, what| commits.get(what).copied().unwrap_or_default();
    let all: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = all.into_iter().filter(|what| times(expected, what) != times(found, what));
    differ
        .map(|what| {
            let (happened, key) = what;
            let (found, expected) = (times(found, what), times(expected, what));
            format!("{happened:?} {} {}: {found} times, not {expected}", key.kind.kind, key.name)
        })
        .collect()
}
