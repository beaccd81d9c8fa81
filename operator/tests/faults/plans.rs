//! Every fault of a story, one after the other, and what differs from the story without it.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    api::fault::{FAULTS, Lying, Plan, Site},
    end,
    story::{Act, Told, tell},
};

/// What was tried, and what was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Plans, each told once.
    pub plans: usize,
    /// What is wrong, by plan.
    pub wrong: BTreeMap<String, Vec<String>>,
}

impl Findings {
    /// The findings as lines, the first few of each plan.
    pub fn lines(&self) -> String {
        self.wrong.iter().fold(String::new(), |mut text, (plan, wrong)| {
            let more = wrong.len().saturating_sub(8);
            let first: Vec<&str> = wrong.iter().take(8).map(String::as_str).collect();
            write!(text, "{plan}:\n  {}\n  ({more} more)\n", first.join("\n  ")).unwrap();
            text
        })
    }
}

/// Tells a story with each fault of each of its writes and lists.
pub async fn try_all(acts: &[Act]) -> Findings {
    let reference = tell(acts, None).await;
    let mut findings = Findings::default();
    for (at, site) in reference.writes.iter().enumerate() {
        for fault in FAULTS {
            let name = format!("{fault:?} at write {at}, {}", described(site));
            findings.add(name, &reference, &tell(acts, Some(Plan::Write(at, fault))).await);
        }
    }
    for at in 0..reference.lists {
        for lying in [Lying::OneBehind, Lying::FarBehind] {
            let name = format!("{lying:?} at list {at}");
            findings.add(name, &reference, &tell(acts, Some(Plan::List(at, lying))).await);
        }
    }
    findings
}

fn described(site: &Site) -> String {
    let Site { method, key, part } = site;
    format!("{method} {} {} {part}", key.kind.plural, key.name)
}

impl Findings {
    fn add(&mut self, plan: String, reference: &Told, told: &Told) {
        self.plans += 1;
        let mut wrong = told.violations.clone();
        for (act, (expected, found)) in reference.ends.iter().zip(&told.ends).enumerate() {
            let lines = end::differences(expected, found);
            wrong.extend(lines.into_iter().map(|line| format!("after act {act}: {line}")));
        }
        for (what, times) in &told.commits {
            let expected = reference.commits.get(what).copied().unwrap_or_default();
            if *times != expected {
                wrong.push(format!("{:?} {} {}: {times} times, not {expected}", what.0, what.1.kind.kind, what.1.name));
            }
        }
        for (what, times) in reference.commits.iter().filter(|(what, _)| !told.commits.contains_key(*what)) {
            wrong.push(format!("{:?} {} {}: never, not {times} times", what.0, what.1.kind.kind, what.1.name));
        }
        if !wrong.is_empty() {
            self.wrong.insert(plan, wrong);
        }
    }
}
