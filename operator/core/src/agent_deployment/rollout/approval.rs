//! Between choice and rollout: a new choice waits for a person, where `spec.profiling.approval` says so. Pure.
//!
//! Only a choice needs approval: engine, configuration and runs in flight. An edited prompt with the serving choice
//! does not, nor does a return to a kept revision, because a person has just asked for it. Approved plans stay
//! approved: they are recorded.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use slipway_crds::v1alpha1::agent_deployment::{Approval, ProposedPlan, SelectedConfiguration};

use super::{
    prediction,
    revision::{PlanInputs, Revision, RevisionPlan, Target},
};
use crate::{
    agent_deployment::{
        parts::{Found, Parts, Planned},
        status,
        world::World,
    },
    plan::Note,
    why::{Blocked, Proposed, Step, Why},
};

/// Lines of a proposal, as the schema has it.
const MAX_CHANGES: usize = 24;
/// Characters of a line, as the schema has it.
const MAX_LINE: usize = 256;
/// Characters of a value in a line.
const MAX_VALUE: usize = 80;
/// Members of a plan that make the choice; the others follow from the spec.
const CHOICE: [&str; 4] = ["engine", "upstream", "configuration", "maxInFlight"];

/// A plan, and the choice that led to it.
pub(in crate::agent_deployment) struct Chosen {
    pub(in crate::agent_deployment) target: Target,
    pub(in crate::agent_deployment) selected: SelectedConfiguration,
    /// The event of the choice, if it is new. It is published once the plan is approved.
    pub(in crate::agent_deployment) news: Option<Note>,
}

/// The outcome for a plan.
#[derive(Debug)]
pub(in crate::agent_deployment) struct Asked {
    /// The plan, or the wait for a person.
    pub(in crate::agent_deployment) target: Step<Target>,
    /// What is waited with.
    pub(in crate::agent_deployment) proposal: Option<ProposedPlan>,
}

/// Admits a plan and its choice, or parks it.
pub(in crate::agent_deployment) fn ask(world: &World, chosen: Chosen) -> Planned<Asked> {
    let Chosen { target, selected, news } = chosen;
    let Some(stable) = needs_approval(world, &target) else {
        let found = Found { selected: Some(selected), ..Found::default() };
        let asked = Asked { target: Ok(target), proposal: None };
        return Parts::of_notes(news).and(Parts::of_found(found)).with(asked);
    };
    let changes = Changes::between(stable.plan(), &target.plan);
    let proposal = propose(world, stable.plan(), &target, (&changes, &selected));
    let why = Why::AwaitingApproval(Box::new(Proposed {
        named: world.named(),
        revision: target.hash.clone(),
        stable: stable.hash().to_owned(),
        choice: changes.choice.clone(),
        is_of_edit: PlanInputs::read(&target.input_hash).repetition == 0,
    }));
    // While it waits, the choice that serves is the one that is selected, and the new one is shown as a proposal.
    let found = Found { selected: status::configuration_of(world, stable.hash()), ..Found::default() };
    let is_known = known(world, &target).is_some();
    let note = (!is_known).then(|| Note::normal(why.reason(), why.to_string()).of_plan(&target.hash));
    let asked = Asked { target: Err(Blocked::Waiting(why)), proposal: Some(proposal) };
    Parts::of_notes(note).and(Parts::of_found(found)).with(asked)
}

/// What serves, as far as there is a record of it.
enum Stable<'a> {
    Recorded(&'a Revision),
    Unrecorded(&'a str),
}

impl Stable<'_> {
    fn hash(&self) -> &str {
        match self {
            Self::Recorded(revision) => &revision.hash,
            Self::Unrecorded(hash) => hash,
        }
    }

    fn plan(&self) -> Option<&RevisionPlan> {
        match self {
            Self::Recorded(revision) => Some(&revision.plan),
            Self::Unrecorded(_) => None,
        }
    }
}

/// The serving plan, if a person must approve the target.
fn needs_approval<'a>(world: &'a World, target: &Target) -> Option<Stable<'a>> {
    match world.spec.profiling.as_ref()?.approval {
        Approval::Automatic => return None,
        Approval::Manual => {}
    }
    let stable = world.stable().filter(|stable| *stable != target.hash)?;
    let rollout = world.status.rollout.as_ref()?;
    let is_approved = world.commands().approves(&target.hash);
    // A plan that was rolled out before, or is being rolled out, was approved then. The rollout decides whether it may
    // return.
    let is_known = world.revision(&target.hash).is_some()
        || rollout.canary.as_ref() == Some(&target.hash)
        || rollout.rejected.iter().any(|rejected| rejected.plan == target.hash);
    if is_approved || is_known {
        return None;
    }
    let Some(revision) = world.revision(stable) else { return Some(Stable::Unrecorded(stable)) };
    let choice = |plan: &RevisionPlan| {
        let artifact = plan.served.artifact().map(|of| (of.engine.clone(), of.configuration.clone()));
        (artifact, plan.served.upstream().cloned(), plan.max_in_flight)
    };
    (choice(&revision.plan) != choice(&target.plan)).then_some(Stable::Recorded(revision))
}

fn known<'a>(world: &'a World, target: &Target) -> Option<&'a ProposedPlan> {
    let proposed = world.status.rollout.as_ref()?.proposed.as_ref()?;
    (proposed.plan_hash == target.hash).then_some(proposed)
}

fn propose(
    world: &World,
    stable: Option<&RevisionPlan>,
    target: &Target,
    (changes, selected): (&Changes, &SelectedConfiguration),
) -> ProposedPlan {
    let Changes { choice, others } = changes;
    let predictions = prediction::changes(world, stable, &target.plan);
    let mut lines: Vec<String> =
        choice.iter().chain(&predictions).chain(others).map(|line| cut(line, MAX_LINE)).collect();
    let surplus = lines.len().saturating_sub(MAX_CHANGES);
    if surplus > 0 {
        lines.truncate(MAX_CHANGES - 1);
        lines.push(format!("{} more", surplus + 1));
    }
    ProposedPlan {
        plan_hash: target.hash.clone(),
        since: known(world, target).map_or(Time(world.now), |known| known.since.clone()),
        why: selected.why.clone(),
        changes: lines,
    }
}

/// Members of two plans that differ, as `field: from -> to`.
struct Changes {
    choice: Vec<String>,
    others: Vec<String>,
}

impl Changes {
    fn between(before: Option<&RevisionPlan>, after: &RevisionPlan) -> Self {
        let (before, after) = (before.map(members).unwrap_or_default(), members(after));
        let fields: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let value = |of: &BTreeMap<String, String>, field: &String| {
            of.get(field).map_or_else(|| "not set".to_owned(), |value| cut(value, MAX_VALUE))
        };
        let differing = fields.into_iter().filter(|field| before.get(*field) != after.get(*field));
        let (mut choice, others): (Vec<&String>, Vec<&String>) =
            differing.partition(|field| CHOICE.contains(&field.split('.').next().unwrap_or_default()));
        let place = |field: &str| CHOICE.iter().position(|member| field.starts_with(member));
        // The name that people know first.
        choice.sort_by_key(|field| (place(field), *field != "engine.displayName", field.to_owned()));
        let line = |field: &String| format!("{field}: {} -> {}", value(&before, field), value(&after, field));
        Self { choice: choice.into_iter().map(line).collect(), others: others.into_iter().map(line).collect() }
    }
}

/// The members of a plan by their paths.
fn members(plan: &RevisionPlan) -> BTreeMap<String, String> {
    let json = serde_json::to_value(plan).expect("a plan holds only texts, integers and lists");
    let mut found = BTreeMap::new();
    flatten(&json, String::new(), &mut found);
    found
}

fn flatten(value: &Value, path: String, found: &mut BTreeMap<String, String>) {
    let below = |member: &str| if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| flatten(value, below(name), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| flatten(value, below(&at.to_string()), found));
        }
        Value::String(text) => {
            found.insert(path, text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => {
            found.insert(path, value.to_string());
        }
    }
}

/// The text, with a mark where it was cut.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some(_) => text.chars().take(characters - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
