//! Whether the judge keeps its promise on an agent's own pods and traffic: an A/A test on history. Pure.
//!
//! All pods of stable serve the same plan, so dealt into two arms neither arm is worse. Whatever the judge rolls back
//! among them is rolled back falsely. If pods are alike, every shuffle is called harm with at most the promised
//! probability. Pods that differ for long, as on a slower node, show here before a rollout meets them.
//!
//! Shuffles of the same hour share their evidence, so their number proves little. Hours are independent: under the
//! promise the share of an hour has at most the promised expectation, whatever was before. A bet on larger shares is
//! then an e-process (Waudby-Smith and Ramdas, arXiv 2010.09686). It begins again whenever it is spent.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_vocabulary::evidence::WINDOW_SECONDS;

use super::{
    config::{Change, Config, OnInconclusive, Step},
    observation::{Arm, Observation, Window},
    rollout::{Judge, MIN_UNITS},
    verdict::Verdict,
};

/// Fewest pods: with three, one arm is always a single pod.
pub const MIN_PODS: usize = 4;

/// Most pods that are dealt.
pub const MAX_PODS: usize = 16;

/// Most observations that are judged in a check, of all shuffles together. It bounds the time of a check: half a second
/// of one core was measured with so many, of three runs a second on sixteen pods.
pub const MAX_OBSERVATIONS: usize = 250_000;

/// Shuffles that a check has at least, if need be of fewer windows.
const MIN_SHUFFLES: usize = 4;

/// Most shuffles of a check. Four pods have ten.
pub const MAX_SHUFFLES: usize = 16;

/// Draws after which no new shuffle is looked for.
const MAX_DRAWS: usize = 64 * MAX_SHUFFLES;

/// The evidence from which a promise is called broken: if it is kept, that happens once in a thousand checks at most.
const BROKEN_E_VALUE: f64 = 1_000.0;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Pods that were dealt.
    pub pods: usize,
    /// Ways in which they were dealt, each judged once.
    pub shuffles: u32,
    /// Those of them that were called harm.
    pub harms: u32,
    /// Seconds of evidence.
    pub seconds: u64,
}

/// Why nothing can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There are fewer than [`MIN_PODS`] pods.
    TooFewPods {
        /// How many there are.
        pods: usize,
    },
    /// So few units have finished that the judge would not judge either.
    TooFewUnits {
        /// Pods that there are.
        pods: usize,
        /// How many units have finished.
        finished: u64,
        /// How many are needed.
        needed: u64,
    },
}

/// Deals stable's pods into two arms, again and again, and judges each deal by the rule of a configuration. Its steps,
/// change and predictions do not matter: the canary has the share that its pods had, and everything guards. The same
/// seed gives the same result. Observations of a canary are left out.
///
/// # Errors
/// [`Unfit`], with what there is and what it takes.
pub fn self_check(config: &Config, windows: &[Window], seed: u64) -> Result<Checked, Unfit> {
    let all = pods(windows);
    if all.len() < MIN_PODS {
        return Err(Unfit::TooFewPods { pods: all.len() });
    }
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let dealt: Vec<&str> = drawn(&mut rng, all.len(), all.len().min(MAX_PODS)).iter().map(|pod| all[*pod]).collect();
    let (windows, observations) = latest(windows, &dealt);
    let (finished, needed) = (finished(windows, &dealt), MIN_UNITS * dealt.len() as u64);
    if finished < needed {
        return Err(Unfit::TooFewUnits { pods: dealt.len(), finished, needed });
    }
    let shuffles = (MAX_OBSERVATIONS / observations.max(1)).min(MAX_SHUFFLES);
    let mut deals = BTreeSet::new();
    for _ in 0..MAX_DRAWS {
        if deals.len() == shuffles {
            break;
        }
        let canaries = rng.random_range(1..=dealt.len() / 2);
        deals.insert(drawn(&mut rng, dealt.len(), canaries));
    }
    let arms = deals.iter().map(|deal| deal.iter().map(|pod| dealt[*pod]).collect::<BTreeSet<&str>>());
    let harms = arms.filter(|canaries| is_called_harm(config, windows, (&dealt, canaries))).count();
    Ok(Checked {
        pods: dealt.len(),
        shuffles: u32::try_from(deals.len()).unwrap_or(u32::MAX),
        harms: u32::try_from(harms).unwrap_or(u32::MAX),
        seconds: windows.len() as u64 * WINDOW_SECONDS,
    })
}

/// What several checks say of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No more shuffles were called harm than is promised.
    Kept,
    /// More were, but chance explains that.
    Unclear,
    /// More were than chance explains.
    Broken,
}

/// Whether a promised probability of a false rollback is kept; `None` without a check. Checks come in the order of
/// time, each with its shuffles and with those of them that were called harm.
#[must_use]
pub fn promise(alpha: f64, checks: &[(u32, u32)]) -> Option<Promise> {
    let sums = |of: fn(&(u32, u32)) -> u32| checks.iter().map(|check| u64::from(of(check))).sum::<u64>() as f64;
    let (shuffles, harms) = (sums(|check| check.0), sums(|check| check.1));
    if shuffles < 1.0 {
        return None;
    }
    let limit = BROKEN_E_VALUE.ln();
    let ln_e = checks.iter().filter(|(shuffles, _)| *shuffles > 0).fold(0.0_f64, |ln_e, (shuffles, harms)| {
        let share = f64::from(*harms) / f64::from(*shuffles);
        let bet = 1.0 + (share - alpha) / (2.0 * alpha);
        // More evidence than it takes would only make it last.
        (ln_e.max(0.0) + bet.ln()).min(limit)
    });
    Some(match harms <= alpha * shuffles {
        _ if ln_e >= limit => Promise::Broken,
        true => Promise::Kept,
        false => Promise::Unclear,
    })
}

/// Pods of stable, without what follows an `@`: another process of a pod runs on the same node.
fn pods(windows: &[Window]) -> Vec<&str> {
    let observed = windows.iter().flat_map(|window| &window.observations);
    let of_stable = observed.filter(|of| of.arm == Arm::Stable).map(|of| pod(&of.pod)).filter(|pod| !pod.is_empty());
    of_stable.collect::<BTreeSet<_>>().into_iter().collect()
}

fn pod(process: &str) -> &str {
    process.split_once('@').map_or(process, |(pod, _)| pod)
}

/// What these pods of stable observed in a window.
fn observed<'a>(window: &'a Window, dealt: &[&str]) -> impl Iterator<Item = &'a Observation> {
    window.observations.iter().filter(|of| of.arm == Arm::Stable && dealt.contains(&pod(&of.pod)))
}

/// The latest windows that [`MIN_SHUFFLES`] can be judged by, with the number of their observations.
fn latest<'a>(windows: &'a [Window], dealt: &[&str]) -> (&'a [Window], usize) {
    let (mut first, mut observations) = (windows.len(), 0);
    for window in windows.iter().rev() {
        let more = observations + observed(window, dealt).count();
        if more > MAX_OBSERVATIONS / MIN_SHUFFLES {
            break;
        }
        (first, observations) = (first - 1, more);
    }
    (&windows[first..], observations)
}

/// Finished units of the metric that has most of them.
fn finished(windows: &[Window], dealt: &[&str]) -> u64 {
    let mut finished = BTreeMap::new();
    for observation in windows.iter().flat_map(|window| observed(window, dealt)) {
        let units: &mut u64 = finished.entry(observation.metric).or_default();
        *units = units.saturating_add(observation.count);
    }
    finished.into_values().max().unwrap_or(0)
}

/// So many of the first numbers, each set equally likely.
fn drawn(rng: &mut Pcg64Mcg, of: usize, take: usize) -> BTreeSet<usize> {
    let mut numbers: Vec<usize> = (0..of).collect();
    for at in 0..take {
        let other = rng.random_range(at..of);
        numbers.swap(at, other);
    }
    numbers.into_iter().take(take).collect()
}

/// Whether the judge would have rolled back these pods, had they been a canary beside the others.
fn is_called_harm(config: &Config, windows: &[Window], (dealt, canaries): (&[&str], &BTreeSet<&str>)) -> bool {
    let weight_percent = 100.0 * canaries.len() as f64 / dealt.len() as f64;
    // A step that never ends is never passed: all of the evidence counts.
    let step = Step { weight_percent, min_soak_seconds: u64::MAX, max_soak_seconds: u64::MAX };
    let mut judge = Judge::new(Config {
        steps: vec![step],
        on_inconclusive: OnInconclusive::Pause,
        predictions: Vec::new(),
        change: Change::Any,
        is_first_revision: false,
        ..config.clone()
    });
    windows.iter().any(|window| {
        let observations = observed(window, dealt).cloned().map(|mut observation| {
            observation.arm = if canaries.contains(pod(&observation.pod)) { Arm::Canary } else { Arm::Stable };
            observation
        });
        let shuffled = Window {
            end_seconds: window.end_seconds,
            weight_percent: Some(weight_percent),
            reference_percent: None,
            observations: observations.collect(),
            ended_pods: window.ended_pods.clone(),
        };
        judge.consume(&shuffled).is_some_and(|judgement| judgement.verdict == Verdict::Rollback)
    })
}

#[cfg(test)]
mod tests;
