//! Drift in the status and in conditions. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::drift::{
    Identity,
    baseline::BASELINE_SECONDS,
    live::{Drift, Family, LiveTest, Signal},
};
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::agent_deployment::{DriftStatus, DriftVerdict},
};

use super::{ALPHA, Advanced, CONTAINERS, ENGINE_CONTAINER, LivePod, MIN_UNITS, Memory, Restart, risk::risk};
use crate::{agent_deployment::world::World, conditions::Draft};

/// Characters of a short text, as the schema has it.
const MAX_SHORT: usize = 256;
/// Signals that are listed, as the schema has it.
const MAX_SIGNALS: usize = 8;
/// What would make pods incomparable and no pod reports.
const NEVER_REPORTED: [&str; 2] = ["driver", "gpu"];

/// The status after another block. Figures are written when they first show something, and stand while the same is
/// shown: a status that followed each block would be a write with each block.
pub fn follow(
    world: &World,
    known: Option<&DriftStatus>,
    advanced: &Advanced,
    restarted: Option<&Restart>,
) -> DriftStatus {
    let Advanced { memory, test, begun_again, left_out } = advanced;
    let baseline_from = time(memory.begun_seconds);
    let same = known.filter(|known| known.baseline_from == baseline_from);
    let begun_again = begun_again.clone().map(Restart::Incomparable);
    let restarted = begun_again.as_ref().or(restarted);
    let kept = same.filter(|_| restarted.is_none());
    let found = Found::of(test.as_ref(), memory, same);
    let stands = same.filter(|same| same.verdict == found.verdict && same.signals == found.signals);
    let has_figures = found.verdict != DriftVerdict::Collecting;
    let message = stands.filter(|_| has_figures).map(|stands| stands.message.clone());
    let since = same.filter(|same| same.verdict == found.verdict).map(|same| same.since.clone());
    DriftStatus {
        revision: memory.revision.clone(),
        verdict: found.verdict,
        since: since.unwrap_or(Time(world.now)),
        message: message.unwrap_or_else(|| found.words(memory)),
        signals: found.signals,
        baseline_from,
        baseline_until: memory.frozen_seconds.map(time),
        restarted: restarted.map(|because| cut(&because.to_string())).or_else(|| kept?.restarted.clone()),
        restarted_by: restarted.map(|because| cut(&because.code())).or_else(|| kept?.restarted_by.clone()),
        left_out: left_out.as_ref().map(|difference| cut(&format!("in other pods {difference}"))),
        unknown: unknown(containers(world), (&world.live, &memory.baseline.identity)),
        risk: test.as_ref().and_then(|test| risk(world, test, found.verdict, same)),
        proposal: None,
        paused: false,
        resumed_at: known.and_then(|known| known.resumed_at.clone()),
    }
}

/// The status of a memory that it does not show yet, with nothing new since.
pub fn shown(world: &World, memory: &Memory) -> DriftStatus {
    let advanced = Advanced { memory: memory.clone(), test: memory.test(), begun_again: None, left_out: None };
    follow(world, None, &advanced, None)
}

/// The status once the baseline is to begin again and no traffic has come since.
pub fn begun_again(world: &World, known: DriftStatus, because: &Restart) -> DriftStatus {
    let restarted_by = Some(cut(&because.code()));
    // A release that recorded no code wrote only a message.
    let is_known = known.restarted_by == restarted_by || (known.restarted_by.is_none() && known.restarted.is_some());
    if is_known && known.baseline_until.is_none() {
        return DriftStatus { restarted_by, ..known };
    }
    DriftStatus {
        verdict: DriftVerdict::Collecting,
        since: Time(world.now),
        message: "the first day begins with the next run".to_owned(),
        signals: Vec::new(),
        baseline_from: Time(world.now),
        baseline_until: None,
        restarted: Some(cut(&because.to_string())),
        restarted_by,
        left_out: None,
        risk: None,
        proposal: None,
        ..known
    }
}

/// Whether what users ask has changed, and whether the same work is done worse; absent until that is known.
pub fn conditions(world: &World, drift: &DriftStatus) -> Vec<Draft> {
    let draft = |condition, (is_true, reason), message: String| Draft { condition, is_true, reason, message };
    let (workload, behavior) = (ConditionType::WorkloadDrift, ConditionType::BehaviorDrift);
    let none = (false, Reason::NoDrift);
    let unchanged = || "users ask for the same work as on the first day".to_owned();
    match drift.verdict {
        DriftVerdict::Collecting | DriftVerdict::NotEnough => Vec::new(),
        DriftVerdict::NoDrift => {
            vec![draft(workload, none, unchanged()), draft(behavior, none, with_risk(drift))]
        }
        DriftVerdict::WorkloadDrift => {
            let message = format!("{}. {}", drift.message, remedy(world, drift));
            vec![draft(workload, (true, Reason::WorkloadChanged), message)]
        }
        DriftVerdict::BehaviorDrift => {
            vec![draft(workload, none, unchanged()), draft(behavior, (true, Reason::BehaviorChanged), with_risk(drift))]
        }
    }
}

fn with_risk(drift: &DriftStatus) -> String {
    let Some(risk) = &drift.risk else { return drift.message.clone() };
    let doubt = risk.blocks_left.map(|left| format!(" ({left} more blocks show whether tools are slower)"));
    format!("{}; at risk: {}{}", drift.message, risk.message, doubt.unwrap_or_default())
}

/// What a person can do about another workload.
fn remedy(world: &World, drift: &DriftStatus) -> String {
    match (&drift.proposal, &world.spec.profiling) {
        (Some(token), _) => format!(
            "Update the data of spec.profiling.workloads. Then run {}, or set spec.profiling.approveReprofiling to \
             {token}, to measure again",
            world.named().command("approve")
        ),
        (None, Some(_)) => {
            "Update spec.profiling.workloads: an edit of the spec is measured, and the next schedule measures changed \
             data"
                .to_owned()
        }
        (None, None) if world.spec.upstream().is_some() => {
            "Another model or prompt may serve this work better: change spec.model.upstream.model or spec.agent"
                .to_owned()
        }
        (None, None) => {
            "Another engine or configuration may serve this work better: add spec.profiling to find out".to_owned()
        }
    }
}

/// What a block has shown.
struct Found {
    verdict: DriftVerdict,
    shown: Vec<(Signal, f64)>,
    signals: Vec<String>,
}

impl Found {
    fn of(test: Option<&LiveTest>, memory: &Memory, before: Option<&DriftStatus>) -> Self {
        let Some(test) = test else {
            return Self { verdict: DriftVerdict::Collecting, shown: Vec::new(), signals: Vec::new() };
        };
        let verdict = verdict(test, memory, before.map(|before| before.verdict));
        let shown = match verdict {
            DriftVerdict::Collecting | DriftVerdict::NotEnough | DriftVerdict::NoDrift => Vec::new(),
            DriftVerdict::WorkloadDrift => test.shown(Family::Workload),
            DriftVerdict::BehaviorDrift => test.shown(Family::Behavior),
        };
        let names: Vec<String> = shown.iter().take(MAX_SIGNALS).map(|(signal, _)| signal.name()).collect();
        // Drift goes on, though less is shown of it than when it was found.
        let kept = before.filter(|before| names.is_empty() && before.verdict == verdict);
        let signals = kept.map_or(names, |before| before.signals.clone());
        Self { verdict, shown, signals }
    }

    fn words(&self, memory: &Memory) -> String {
        let shown = || {
            let limit = -ALPHA.ln();
            let words =
                |(signal, ln_e): &(Signal, f64)| format!("{signal} (log-evidence {ln_e:.1}, shown from {limit:.1} on)");
            self.shown.iter().take(MAX_SIGNALS).map(words).collect::<Vec<_>>().join(", ")
        };
        match self.verdict {
            DriftVerdict::Collecting => collecting(memory),
            DriftVerdict::NotEnough => "too little was counted since the first day".to_owned(),
            DriftVerdict::NoDrift => "comparable work is served as on the first day".to_owned(),
            DriftVerdict::WorkloadDrift => format!("users ask for other work than on the first day: {}", shown()),
            DriftVerdict::BehaviorDrift => {
                format!("comparable work is served worse than on the first day: {}", shown())
            }
        }
    }
}

/// Says when the baseline ends, not how much is in it: that changes with each block.
fn collecting(memory: &Memory) -> String {
    let day_ends = memory.begun_seconds.saturating_add(BASELINE_SECONDS);
    if memory.counted_to < day_ends {
        return format!("the first day lasts until {}; later traffic is compared with it", time(day_ends).0);
    }
    format!("the first day lasts until {MIN_UNITS} runs have finished; later traffic is compared with it")
}

/// What is shown, with hysteresis: drift continues until its evidence is spent, so that it does not flap at the limit.
fn verdict(test: &LiveTest, memory: &Memory, before: Option<DriftVerdict>) -> DriftVerdict {
    let goes_on = |verdict, family| before == Some(verdict) && test.ln_e(family).is_some_and(|ln_e| ln_e >= 0.0);
    let workload_goes_on = goes_on(DriftVerdict::WorkloadDrift, Family::Workload);
    match test.drift(&memory.baseline.identity) {
        // Pods of another identity are left out before.
        Drift::NotEnough | Drift::Incomparable(_) => DriftVerdict::NotEnough,
        Drift::WorkloadDrift { .. } => DriftVerdict::WorkloadDrift,
        Drift::BehaviorDrift { .. } | Drift::NoDrift { .. } if workload_goes_on => DriftVerdict::WorkloadDrift,
        Drift::BehaviorDrift { .. } => DriftVerdict::BehaviorDrift,
        Drift::NoDrift { .. } if goes_on(DriftVerdict::BehaviorDrift, Family::Behavior) => DriftVerdict::BehaviorDrift,
        Drift::NoDrift { .. } => DriftVerdict::NoDrift,
    }
}

/// Containers of what serves whose images are compared. Pods that ask a server elsewhere have no engine.
fn containers(world: &World) -> impl Iterator<Item = &'static str> {
    let serving = world.stable().and_then(|hash| world.revision(hash));
    let is_elsewhere = serving.is_some_and(|known| known.plan.served.upstream().is_some());
    CONTAINERS.into_iter().filter(move |container| !is_elsewhere || *container != ENGINE_CONTAINER)
}

/// What is not known of the pods, by the names of identities. Where no pod was asked, the baseline says what is known.
fn unknown(containers: impl Iterator<Item = &'static str>, (pods, baseline): (&[LivePod], &Identity)) -> Vec<String> {
    let is_missing = |container: &str| match pods {
        [] => !baseline.contains_key(&format!("image.{container}")),
        pods => pods.iter().any(|pod| !pod.images.contains_key(container)),
    };
    let missing = containers.filter(|container| is_missing(container));
    let images = missing.map(|container| format!("image.{container}"));
    NEVER_REPORTED.iter().map(|name| (*name).to_owned()).chain(images).collect()
}

fn time(seconds: u64) -> Time {
    let second = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    Time(second.unwrap_or(Timestamp::UNIX_EPOCH))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_SHORT).collect()
}
