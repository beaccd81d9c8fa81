//! Every fault of a story, one after the other, and what differs from the story without it.
//!
//! A fault is played in its act alone: where the act comes to the end that it has without the fault, the next one
//! begins where it always begins.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    api::fault::{FAULTS, Lying, Plan, Site},
    end,
    story::{Act, Played, Scene, tell},
};

/// What was tried, and what was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Plans, each played once.
    pub plans: usize,
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

/// Plays each act of a story with each fault of each of its writes, and with each list that shows the past.
pub async fn try_all(acts: &[Act]) -> Findings {
    let mut findings = Findings::default();
    let mut scene = Scene::first();
    for (at, (act, reference)) in acts.iter().zip(tell(acts).await).enumerate() {
        for (plan, name) in plans(&reference) {
            let played = scene.play(act, Some(plan)).await;
            findings.add(format!("act {at}: {name}"), &reference, &played);
        }
        scene = reference.after;
    }
    findings
}

fn plans(reference: &Played) -> Vec<(Plan, String)> {
    let of_write = |(at, site)| FAULTS.map(|fault| (Plan::Write(at, fault), format!("{fault:?} at write {at}, {}", described(site))));
    let of_list = |at| [Lying::OneBehind, Lying::FarBehind].map(|lying| (Plan::List(at, lying), format!("{lying:?} at list {at}")));
    reference.writes.iter().enumerate().flat_map(of_write).chain((0..reference.lists).flat_map(of_list)).collect()
}

fn described(site: &Site) -> String {
    let Site { method, key, part } = site;
    format!("{method} {} {} {part}", key.kind.plural, key.name)
}

impl Findings {
    fn add(&mut self, plan: String, reference: &Played, played: &Played) {
        self.plans += 1;
        let mut wrong = played.violations.clone();
        wrong.extend(end::differences(&reference.end, &played.end));
        for (what, times) in &played.commits {
            let expected = reference.commits.get(what).copied().unwrap_or_default();
            if *times != expected {
                wrong.push(format!("{:?} {} {}: {times} times, not {expected}", what.0, what.1.kind.kind, what.1.name));
            }
        }
        for (what, times) in reference.commits.iter().filter(|(what, _)| !played.commits.contains_key(*what)) {
            wrong.push(format!("{:?} {} {}: never, not {times} times", what.0, what.1.kind.kind, what.1.name));
        }
        if !wrong.is_empty() {
            self.wrong.insert(plan, wrong);
        }
    }
}
