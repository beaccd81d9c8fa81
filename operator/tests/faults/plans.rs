//! Every fault of a story, one after the other, and what differs from the story without it.
//!
//! A fault is played from the look in which it strikes, with an operator that has just started. It is played to the
//! end of its act, or to a moment that the act has without the fault, two looks later at the earliest. From there on
//! the same happens. Moments are alike when nothing differs but times and versions. Where an act may come to several
//! ends, the rest of the story is played from each that a fault leads to.

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
    outcomes::{self, Outcome, unlike_all},
    stories::Story,
    story::{Commits, Continued, Played, Round, Scene, since, sum, tell_with},
};

/// How many plans are played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// Every fault at every request.
    #[default]
    All,
    /// Every fault once at each kind of request: the first one.
    EachKind,
}

/// What was tried, and what was found.
#[derive(Debug, Default)]
pub struct Findings {
    depth: Depth,
    /// Plans, each played once.
    pub plans: usize,
    /// The kinds of writes that were disturbed, each with its faults.
    pub pairs: BTreeSet<(String, Name)>,
    /// All that there are.
    pub all_pairs: BTreeSet<(String, Name)>,
    /// Kinds of requests with their faults.
    kinds: BTreeSet<String>,
    /// Moments with their faults.
    seen: BTreeSet<u64>,
    /// Other ends that are possible, and that faults have come to: the rest of the story was played from each of them.
    pub others: Vec<Outcome>,
    /// What is wrong, by plan.
    pub wrong: BTreeMap<String, Vec<String>>,
}

/// Lines that are shown of a plan.
const SHOWN: usize = 8;

impl Findings {
    /// None yet.
    pub fn at(depth: Depth) -> Self {
        Self { depth, ..Self::default() }
    }

    /// Requests that were disturbed before are disturbed again, as in another story.
    pub fn begin_again(&mut self) {
        self.kinds.clear();
    }

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

/// An act of a story, as it goes without a fault.
pub struct Undisturbed<'a> {
    story: &'a Story,
    before: &'a [Played],
    pub played: &'a Played,
    /// What it may come to with a fault, first of all what it comes to without one.
    possible: Vec<Outcome>,
}

impl<'a> Undisturbed<'a> {
    /// The act of a story that was told.
    pub async fn of(story: &'a Story, told: &'a [Played], at: usize, bug: Option<Bug>) -> Self {
        let (before, played) = (&told[..at], &told[at]);
        let scene = before.last().map_or_else(|| Scene::first(bug), |before| before.after.clone());
        let other_ways = outcomes::other_ways(&scene, &story.acts[at]).await;
        Self { story, before, played, possible: outcomes::possible(played, &other_ways) }
    }

    /// The only act of a story, which has one end.
    pub fn alone(story: &'a Story, played: &'a Played) -> Self {
        Self { story, before: &[], played, possible: vec![Outcome::of(played)] }
    }
}

/// Plays the rest of a story after an act that ended otherwise. Gives what must not be, or must be and is not.
pub async fn rest(story: &Story, before: &[Played], otherwise: Played) -> Vec<String> {
    let mut from_here = vec![otherwise];
    for act in &story.acts[before.len() + 1..] {
        let next = from_here[from_here.len() - 1].after.play(act).await;
        from_here.push(next);
    }
    let told: Vec<&Played> = before.iter().chain(&from_here).collect();
    story.unmet(&told)
}

/// Plays each act of a story, from one on: with each fault of each of its writes, and with each list that shows the
/// past. At each write, and right before it, the operator also stands still.
pub async fn try_all(story: &Story, depth: Depth) -> Findings {
    try_all_with(story, depth, None).await
}

/// The same of an operator with a defect.
pub async fn try_all_with(story: &Story, depth: Depth, bug: Option<Bug>) -> Findings {
    let (mut findings, told) = (Findings::at(depth), tell_with(&story.acts, bug).await);
    for at in story.from..told.len() {
        let act = Undisturbed::of(story, &told, at, bug).await;
        findings.add_all(&format!("act {at}"), &act).await;
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

/// A plan by what it strikes, wherever in an act that is.
fn kind(reference: &Played, plan: Plan) -> String {
    match plan {
        Plan::Write(at, fault) => format!("{fault:?} at {}", reference.writes[at].class()),
        Plan::List(at, lying) => {
            let mut lists = reference.requests.iter().filter(|request| request.class.starts_with("LIST"));
            format!("{lying:?} at {}", lists.nth(at).unwrap().class)
        }
        Plan::Event(_, broken) => format!("{broken:?}"),
        Plan::Stop(at) => format!("another leads after {}", reference.requests[at].class),
    }
}

impl Findings {
    /// Plays the plans of an act.
    pub async fn add_all(&mut self, name: &str, act: &Undisturbed<'_>) {
        let classes = act.played.writes.iter().map(Site::class);
        self.all_pairs.extend(classes.flat_map(|class| FAULTS.map(|fault| (class.clone(), fault))));
        for (plan, of_plan) in plans(act.played) {
            let is_new = self.kinds.insert(kind(act.played, plan));
            if is_new || self.depth == Depth::All {
                self.add(format!("{name}: {of_plan}"), act, plan).await;
            }
        }
    }

    /// Plays a plan, unless it was played from a moment like this one.
    pub async fn add(&mut self, name: String, act: &Undisturbed<'_>, planned: Plan) {
        let reference = act.played;
        let (from, plan) = start(reference, planned);
        let begun = &reference.rounds[from];
        if !self.seen.insert(moment(begun, plan)) {
            return;
        }
        self.plans += 1;
        if let Plan::Write(at, fault) = planned {
            self.pairs.insert((reference.writes[at].class(), fault));
        }
        let Continued { rejoined, mut played } = begun.scene.go_on(plan, (reference, from)).await;
        let mut wrong = std::mem::take(&mut played.violations);
        match plan {
            _ if rejoined.is_some() => {}
            // No server shows so old a state to those who ask for the present: nothing is to be harmed by it.
            Plan::List(_, Lying::FarBehind) => {
                wrong.extend(end::harm(&reference.end, &played.end));
                wrong.extend(costs(&since(&reference.commits, &begun.commits), &played.commits));
            }
            Plan::Write(..) | Plan::List(_, Lying::OneBehind) | Plan::Stop(_) | Plan::Event(..) => {
                played.commits = sum(&begun.commits, &played.commits);
                wrong.extend(self.ended(act, played).await);
            }
        }
        if !wrong.is_empty() {
            self.wrong.insert(name, wrong);
        }
    }

    /// What is wrong with the end of an act: it is not possible, or it is another one, and the rest of the story fails.
    async fn ended(&mut self, act: &Undisturbed<'_>, played: Played) -> Vec<String> {
        let found = Outcome::of(&played);
        if !act.possible.contains(&found) {
            return unlike_all(&act.possible, &found);
        }
        if found == act.possible[0] || self.others.contains(&found) {
            return Vec::new();
        }
        self.others.push(found);
        rest(act.story, act.before, played).await.into_iter().map(|line| format!("afterwards: {line}")).collect()
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
