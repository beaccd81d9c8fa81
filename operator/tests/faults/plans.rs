//! Every fault of a story, one after the other, and what differs from the story without it.
//!
//! A fault is played from the look in which it strikes, with an operator that has just started. It is played to the
//! end of its act, or to a moment that the act has without the fault, two looks later at the earliest. From there on
//! the same happens. Moments are alike when nothing differs but times and versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    api::{
        fault::{FAULTS, Lying, Name, Plan, Site},
        kinds::{ENGINES, JOBS},
        store::{Happened, Key},
    },
    bugs::Bug,
    end,
    story::{Act, Commits, Continued, Played, Round, tell_with},
    world::since,
};

/// What was tried, and what was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Plans, each played once.
    pub plans: usize,
    /// The kinds of writes that were disturbed, each with its faults.
    pub pairs: BTreeSet<(String, Name)>,
    /// Moments with their faults.
    seen: BTreeSet<u64>,
    /// What is wrong, by plan.
    pub wrong: BTreeMap<String, Vec<String>>,
}

/// Lines that are shown of a plan.
const SHOWN: usize = 8;

impl Findings {
    /// The findings as lines, the first few of each plan.
    pub fn lines(&self) -> String {
        self.wrong.iter().fold(String::new(), |mut text, (plan, wrong)| {
            let more = wrong.len().saturating_sub(SHOWN);
            let first: Vec<&str> = wrong.iter().take(SHOWN).map(String::as_str).collect();
            write!(text, "{plan}:\n  {}\n  ({more} more)\n", first.join("\n  ")).unwrap();
            text
        })
    }
}

/// Plays each act of a story, from one on: with each fault of each of its writes, and with each list that shows the
/// past. At each write, and right before it, the operator also stands still.
pub async fn try_all(acts: &[Act], from: usize) -> Findings {
    try_all_with(acts, from, None).await
}

/// The same of an operator with a defect.
pub async fn try_all_with(acts: &[Act], from: usize, bug: Option<Bug>) -> Findings {
    let mut findings = Findings::default();
    for (at, reference) in tell_with(acts, bug).await.iter().enumerate().skip(from) {
        findings.add_all(&format!("act {at}"), reference).await;
    }
    findings
}

/// All plans of an act.
pub fn plans(reference: &Played) -> Vec<(Plan, String)> {
    let of_write = |(at, site)| {
        FAULTS.map(|fault| (Plan::Write(at, fault), format!("{fault:?} at write {at}, {}", described(site))))
    };
    let of_list = |at| {
        [Lying::OneBehind, Lying::FarBehind].map(|lying| (Plan::List(at, lying), format!("{lying:?} at list {at}")))
    };
    let is_write = |at: usize| reference.requests.get(at).is_some_and(|request| request.is_write);
    let stops = (0..reference.requests.len()).filter(|at| is_write(*at) || is_write(at + 1));
    let of_stop = stops.map(|at| (Plan::Stop(at), format!("another leads after request {at}")));
    let of_writes = reference.writes.iter().enumerate().flat_map(of_write);
    of_writes.chain((0..reference.lists).flat_map(of_list)).chain(of_stop).collect()
}

/// The round in which a fault strikes, and the plan as it is counted from there.
fn start(reference: &Played, plan: Plan) -> (usize, Plan) {
    let last = |is_before: &dyn Fn(&Round) -> bool| reference.rounds.iter().rposition(is_before).unwrap_or_default();
    match plan {
        Plan::Write(at, fault) => {
            let from = last(&|round| round.writes <= at);
            (from, Plan::Write(at - reference.rounds[from].writes, fault))
        }
        Plan::List(at, lying) => {
            let from = last(&|round| round.lists <= at);
            (from, Plan::List(at - reference.rounds[from].lists, lying))
        }
        // Of controllers that run by themselves: from the beginning.
        Plan::Event(..) => (0, plan),
        Plan::Stop(at) => {
            let from = last(&|round| round.requests <= at);
            (from, Plan::Stop(at - reference.rounds[from].requests))
        }
    }
}

fn described(site: &Site) -> String {
    let Site { method, key, part, component: _ } = site;
    format!("{method} {} {} {part}", key.kind.plural, key.name)
}

impl Findings {
    /// Plays all plans of an act.
    pub async fn add_all(&mut self, act: &str, reference: &Played) {
        for (plan, name) in plans(reference) {
            self.add(format!("{act}: {name}"), reference, plan).await;
        }
    }

    /// Plays a plan, unless it was played from a moment like this one.
    pub async fn add(&mut self, name: String, reference: &Played, planned: Plan) {
        let (from, plan) = start(reference, planned);
        let begun = &reference.rounds[from];
        if !self.seen.insert(moment(begun, plan)) {
            return;
        }
        self.plans += 1;
        if let Plan::Write(at, fault) = planned {
            self.pairs.insert((reference.writes[at].class(), fault));
        }
        let Continued { rejoined, played } = begun.scene.go_on(plan, (reference, from)).await;
        let mut wrong = played.violations;
        match plan {
            _ if rejoined.is_some() => {}
            // No server shows so old a state to those who ask for the present: nothing is to be harmed by it.
            Plan::List(_, Lying::FarBehind) => {
                wrong.extend(end::harm(&reference.end, &played.end));
                wrong.extend(costs(&since(&reference.commits, &begun.commits), &played.commits));
            }
            Plan::Write(..) | Plan::List(_, Lying::OneBehind) | Plan::Stop(_) | Plan::Event(..) => {
                wrong.extend(end::differences(&reference.end, &played.end));
                wrong.extend(differences(&since(&reference.commits, &begun.commits), &played.commits));
            }
        }
        if !wrong.is_empty() {
            self.wrong.insert(name, wrong);
        }
    }
}

/// What tells a plan from others: how everything is when it begins, and what goes wrong then.
fn moment(begun: &Round, plan: Plan) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Round { end, commits, .. } = begun;
    format!("{end:?} {commits:?} {plan:?}").hash(&mut hasher);
    hasher.finish()
}

/// Lines that say what costs a GPU or a transfer and was made more often. A sweep costs neither.
fn costs(expected: &Commits, found: &Commits) -> Vec<String> {
    let is_dear = |(happened, key): &(Happened, Key)| {
        let is_sweep = key.name.starts_with(slipway_crds::store::NAME);
        *happened == Happened::Created && [ENGINES, JOBS].contains(&key.kind) && !is_sweep
    };
    let more = found.iter().filter(|(what, times)| is_dear(what) && **times > expected.get(what).copied().unwrap_or(0));
    more.map(|((_, key), times)| format!("{} {} is made {times} times", key.kind.kind, key.name)).collect()
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
