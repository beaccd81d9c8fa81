//! The judge of one rollout: reads windows, keeps evidence, decides. Pure.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use slipway_vocabulary::evidence::{LATEST_WINDOW, WINDOW_SECONDS, window_end};

use super::{
    config::Config,
    guard::{Comparison, Evidence, Guard},
    hypergeometric::Table,
    load::{Load, Loading},
    observation::{Arm, Arms, Key, Observation, Taken, Window, has_in_flight_band, is_cold, without_in_flight_band},
    pods::{Pods, Seen, is_served, unit_index},
    process::{ln_add, restarts_due},
    role::Role,
    sessions::{LN_SPLIT_ALARM, LN_SPLIT_KEPT, Sessions},
    strata::hash,
    verdict::{Blame, Judgement, Verdict, blame},
};

/// Finished units of the canary that a step needs.
pub const MIN_UNITS: u64 = 50;

/// One over the probability of promoting a canary at the margin: `alpha_p` = 5 %.
pub const PROMOTION_E_VALUE: f64 = 20.0;

/// Length of a block of lane S in seconds.
pub const BLOCK_SECONDS: u64 = 60;

/// Seconds of silence after which there is no evidence, or no traffic.
pub const SILENCE_SECONDS: u64 = 60;

/// Extra buckets for lane F when canary pods carry more load than stable's, and stable does not show what that does.
/// Within an in-flight band of one octave, latency can still grow by about its square root, 16 buckets.
pub const OVERLOAD_BINS: u16 = 16;

/// The most metrics that are judged; each metric has one unit in practice, and eleven have a role. What clients say
/// comes after everything else.
pub const MAX_GUARDS: usize = 11;

/// The share of weight that the metrics of the first window share; later ones halve what is left.
const FIRST_SHARE: f32 = 0.95;

/// The judge of one rollout. Its whole memory is [`encode`](Self::encode)d in a few KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Judge {
    pub(super) config: Config,
    pub(super) opened_seconds: Option<u64>,
    pub(super) last_seconds: u64,
    pub(super) step: usize,
    pub(super) step_opened_seconds: u64,
    pub(super) weight_percent: f64,
    /// Whether windows tell the weight: the step then follows traffic, not the judge's own advances.
    pub(super) is_weight_told: bool,
    /// Finished units of the canary at this step, per unit kind.
    pub(super) step_units: [u64; 3],
    pub(super) canary_reported_seconds: u64,
    pub(super) canary_active_seconds: u64,
    pub(super) left_share: f32,
    pub(super) guards: Vec<Guard>,
    pub(super) pods: Pods,
    pub(super) load: Load,
    pub(super) sessions: Sessions,
    /// The final verdict, once there is one.
    pub(super) decided: Option<(Verdict, u64)>,
}

impl Judge {
    /// Opens a rollout.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let weight_percent = config.steps[0].weight_percent;
        Self {
            config,
            opened_seconds: None,
            last_seconds: 0,
            step: 0,
            step_opened_seconds: 0,
            weight_percent,
            is_weight_told: false,
            step_units: [0; 3],
            canary_reported_seconds: 0,
            canary_active_seconds: 0,
            left_share: 1.0,
            guards: Vec::new(),
            pods: Pods::default(),
            load: Load::default(),
            sessions: Sessions::new(),
            decided: None,
        }
    }

    /// Reads a window and judges. `None` when the window was read before, or the rollout is decided: a window counts
    /// once. What no pod can have counted is left out, and a window that no clock can have ended is not read.
    pub fn consume(&mut self, window: &Window) -> Option<Judgement> {
        let is_read = self.opened_seconds.is_some() && window.end_seconds <= self.last_seconds;
        if self.decided.is_some() || is_read || window.end_seconds > window_end(LATEST_WINDOW) {
            return None;
        }
        let plausible = plausible(window);
        let window = &*plausible;
        self.follow_step(window);
        let seen = self.pods.update(window, self.config.warm_up_seconds);
        self.note_activity(window);
        self.weigh_guards(window);
        self.judge_window(window, &seen);
        if let Some(lost) = seen.lost {
            self.lose_pods(lost);
        }
        self.last_seconds = window.end_seconds;
        let judgement = self.decide();
        if matches!(judgement.verdict, Verdict::Rollback | Verdict::Promote) {
            self.decided = Some((judgement.verdict, window.end_seconds));
        }
        Some(judgement)
    }

    /// Takes a promotion back: the canary is held where it is, and what it does from here on counts. A rollback stays.
    pub fn hold(&mut self) {
        self.decided = self.decided.filter(|(verdict, _)| *verdict != Verdict::Promote);
    }

    /// The final verdict and when it was given.
    #[must_use]
    pub const fn decided(&self) -> Option<(Verdict, u64)> {
        self.decided
    }

    /// Every e-value.
    #[must_use]
    pub fn evidence(&self) -> Vec<Evidence> {
        self.guards.iter().flat_map(|guard| guard.evidence(&self.config)).collect()
    }

    /// The log of the weighted mean of e-values, which is compared with `ln(1 / alpha)`.
    ///
    /// The mean of e-values under any dependence is an e-value (Vovk and Wang, arXiv 1912.06116).
    #[must_use]
    pub fn ln_combined(&self) -> f64 {
        ln_combined(&self.evidence())
    }

    /// Per guard, the log e-value of non-inferiority.
    pub fn non_inferiority(&self) -> impl Iterator<Item = (Key, f64)> + '_ {
        self.promotion_guards().map(|guard| (guard.key, guard.ln_non_inferior()))
    }

    /// Who made the canary worse, from the evidence as it stands; a slowdown of both arms is nobody's.
    #[must_use]
    pub fn blame(&self) -> Vec<Blame> {
        blame(&self.evidence(), self.config.alpha)
    }

    /// The log e-value against the declared split, and whether it alarms.
    #[must_use]
    pub fn split_mismatch(&self) -> (f64, bool) {
        let ln_e = self.sessions.ln_e();
        (ln_e, ln_e >= LN_SPLIT_ALARM)
    }

    /// Whether some windows, which need not have been consumed, speak for the declared split: a wrong one stands in the
    /// evidence for ever, also after somebody has fixed it. False without sessions enough to tell.
    #[must_use]
    pub fn is_split_kept(&self, windows: &[Window]) -> bool {
        let mut sessions = Sessions::new();
        for window in windows {
            let (canary, stable, weight_percent) = self.new_sessions(window);
            sessions.update(canary, stable, weight_percent, 0);
        }
        sessions.ln_e() <= LN_SPLIT_KEPT
    }

    /// The second at which the latest window ended; windows up to it are not read again.
    #[must_use]
    pub const fn consumed_to(&self) -> u64 {
        self.last_seconds
    }

    /// Guards whose non-inferiority a promotion needs. A metric may have no value although stable has finished many
    /// units: answers of one token have no time between tokens. It has nothing to be compared with, so waiting for it
    /// would never end. Nor would it where the canary alone has no value: sidecars that ask engines for whole answers
    /// see no first token. With an objective on a metric they do, so the canary is held for it.
    pub(super) fn promotion_guards(&self) -> impl Iterator<Item = &Guard> + '_ {
        let most = |successes: fn(&Guard) -> u64| self.guards.iter().map(successes).max().unwrap_or(0);
        let (of_stable, of_canary) = (most(Guard::stable_successes), most(canary_successes));
        let is_compared = |guard: &&Guard| self.config.role(guard.key.metric) == Some(Role::Guard);
        let is_shown = move |guard: &&Guard| {
            let is_counted = !guard.absolutes.is_empty() || canary_successes(guard) > 0 || of_canary < MIN_UNITS;
            (guard.has_reference() || of_stable < MIN_UNITS) && is_counted
        };
        self.guards.iter().filter(is_compared).filter(is_shown)
    }

    /// Follows the weight that traffic really had; without one, the judge's own advances.
    fn follow_step(&mut self, window: &Window) {
        let start = window.end_seconds.saturating_sub(WINDOW_SECONDS);
        if self.opened_seconds.is_none() {
            self.opened_seconds = Some(start);
            self.step_opened_seconds = start;
            self.canary_reported_seconds = start;
            self.canary_active_seconds = start;
        }
        let Some(weight) = window.weight_percent else { return };
        (self.weight_percent, self.is_weight_told) = (weight, true);
        let reached = self.config.steps.iter().rposition(|step| step.weight_percent <= weight + 1e-9).unwrap_or(0);
        if reached != self.step {
            self.enter(reached, start);
        }
    }

    pub(super) fn enter(&mut self, step: usize, at_seconds: u64) {
        self.step = step;
        self.step_opened_seconds = at_seconds;
        self.step_units = [0; 3];
        self.load = Load::default();
        for guard in &mut self.guards {
            guard.close_block();
            guard.drop_block();
        }
    }

    fn note_activity(&mut self, window: &Window) {
        let mut finished = BTreeMap::<Key, u64>::new();
        for observation in window.observations.iter().filter(|observation| observation.arm == Arm::Canary) {
            self.canary_reported_seconds = window.end_seconds;
            if observation.started.unwrap_or(0) > 0 || observation.count > 0 {
                self.canary_active_seconds = window.end_seconds;
            }
            add(finished.entry(key(observation)).or_default(), observation.count);
        }
        let mut most = [0; 3];
        for (key, count) in finished {
            let of_unit = &mut most[unit_index(key.unit)];
            *of_unit = count.max(*of_unit);
        }
        for (units, most) in self.step_units.iter_mut().zip(most) {
            add(units, most);
        }
    }

    /// Gives every new metric its weight before its first evidence counts.
    fn weigh_guards(&mut self, window: &Window) {
        let known: BTreeSet<Key> = self.guards.iter().map(|guard| guard.key).collect();
        let new: BTreeSet<Key> = window
            .observations
            .iter()
            .map(key)
            .filter(|key| self.config.role(key.metric).is_some() && !known.contains(key))
            .collect();
        let is_weighed = |key: &Key| {
            let has_objective = self.config.objectives.iter().any(|objective| objective.metric == key.metric);
            has_objective || self.config.role(key.metric) != Some(Role::Diagnostic)
        };
        let weighed = new.iter().filter(|key| is_weighed(key)).count();
        let share = if self.guards.is_empty() { FIRST_SHARE } else { self.left_share / 2.0 };
        let each = share / weighed.max(1) as f32;
        for key in new.into_iter().take(MAX_GUARDS.saturating_sub(self.guards.len())) {
            let weight = if is_weighed(&key) { each } else { 0.0 };
            self.guards.push(Guard::new(key, weight, &self.config));
        }
        if weighed > 0 {
            self.left_share -= share;
        }
    }

    fn judge_window(&mut self, window: &Window, seen: &Seen<'_>) {
        let loading = self.load.loading();
        let mut by_key = BTreeMap::<Key, Arms>::new();
        let mut left = BTreeMap::<(Key, &str), u64>::new();
        let mut is_banded = false;
        for observation in &window.observations {
            let stratum = match (loading, is_cold(&observation.stratum)) {
                (_, true) => None,
                (Loading::Alike, false) => Some(without_in_flight_band(&observation.stratum)),
                (Loading::Unknown | Loading::Underloaded | Loading::Overloaded, false) => {
                    Some(observation.stratum.clone())
                }
            };
            is_banded |= has_in_flight_band(&observation.stratum);
            let pod = observation.pod.as_str();
            if seen.warming.contains(pod) {
                continue;
            }
            let oldest_counted = seen.oldest_counted.get(pod).copied();
            let admitted = seen.admitted.get(pod).filter(|_| is_served(observation.metric));
            let errors = admitted.map_or(observation.errors, |admitted| {
                let left = left.entry((key(observation), pod)).or_insert(*admitted);
                let errors = observation.errors.min(*left);
                *left -= errors;
                errors
            });
            let is_bounded = self.config.objectives.iter().any(|objective| objective.metric == observation.metric);
            let of_pod = (is_bounded && !pod.is_empty()).then(|| hash(pod));
            let taken = Taken { stratum: stratum.as_deref(), errors, oldest_counted, pod: of_pod };
            by_key.entry(key(observation)).or_default().add(observation, taken);
        }
        let elapsed = self.elapsed(window.end_seconds).saturating_sub(WINDOW_SECONDS);
        let step_elapsed = window.end_seconds.saturating_sub(self.step_opened_seconds);
        let since_last = window.end_seconds.saturating_sub(self.last_seconds) / WINDOW_SECONDS;
        let comparison = Comparison {
            due: restarts_due(elapsed),
            // Without bands nobody says under how much load a unit was admitted.
            loading: if is_banded { loading } else { Loading::Alike },
            skipped: if self.last_seconds == 0 { 0 } else { since_last.saturating_sub(1) },
            ends_block: step_elapsed.is_multiple_of(BLOCK_SECONDS),
            share: self.compared_share(window) as f32,
            sharing: seen.sharing,
        };
        let idle = Arms::default();
        for guard in &mut self.guards {
            guard.consume(&self.config, by_key.get(&guard.key).unwrap_or(&idle), comparison);
        }
        self.update_load(window);
        let (canary, stable, weight_percent) = self.new_sessions(window);
        self.sessions.update(canary, stable, weight_percent, elapsed);
    }

    /// Adds the starts of the metric that reports most of them: several metrics count the same units.
    fn update_load(&mut self, window: &Window) {
        let mut started = BTreeMap::<(Key, Arm), u64>::new();
        for observation in &window.observations {
            add(started.entry((key(observation), observation.arm)).or_default(), observation.started.unwrap_or(0));
        }
        let most = |arm: Arm| started.iter().filter(|((_, of), _)| *of == arm).map(|(_, n)| *n).max().unwrap_or(0);
        // Lines without a pod's name do not tell how many pods there are: the load stays unknown.
        let pods = |arm: Arm| pods_of(window, arm).into_iter().filter(|pod| !pod.is_empty()).count();
        self.load.update([most(Arm::Canary), most(Arm::Stable)], [pods(Arm::Canary), pods(Arm::Stable)]);
    }

    /// New sessions of canary and stable, and the canary's share of those that both are to have.
    fn new_sessions(&self, window: &Window) -> (u64, u64, f64) {
        let mut sessions = BTreeMap::<(Key, Arm), u64>::new();
        for observation in &window.observations {
            add(sessions.entry((key(observation), observation.arm)).or_default(), observation.new_sessions);
        }
        let most = |arm: Arm| sessions.iter().filter(|((_, of), _)| *of == arm).map(|(_, n)| *n).max().unwrap_or(0);
        (most(Arm::Canary), most(Arm::Stable), self.weight_percent / self.compared_share(window))
    }

    /// The share of all traffic that the two sides of the comparison have together, at most 1.
    fn compared_share(&self, window: &Window) -> f64 {
        window.reference_percent.map_or(1.0, |reference| ((self.weight_percent + reference) / 100.0).clamp(0.01, 1.0))
    }

    /// Whatever ran on a lost pod is lost: it is evidence of errors in each metric of serving.
    fn lose_pods(&mut self, lost: Table) {
        for guard in self.guards.iter_mut().filter(|guard| is_served(guard.key.metric)) {
            guard.lose_pods(lost);
        }
    }

    fn elapsed(&self, end_seconds: u64) -> u64 {
        end_seconds.saturating_sub(self.opened_seconds.unwrap_or(end_seconds))
    }
}

fn key(observation: &Observation) -> Key {
    Key { metric: observation.metric, unit: observation.unit }
}

fn pods_of(window: &Window, arm: Arm) -> BTreeSet<&str> {
    window
        .observations
        .iter()
        .filter(|observation| observation.arm == arm)
        .map(|observation| observation.pod.as_str())
        .collect()
}

fn add(sum: &mut u64, units: u64) {
    *sum = sum.saturating_add(units);
}

/// The window without what nobody can have counted.
fn plausible(window: &Window) -> Cow<'_, Window> {
    let is_share = |percent: f64| (0.0..=100.0).contains(&percent);
    let shares = [window.weight_percent, window.reference_percent];
    if shares.into_iter().flatten().all(is_share) && window.observations.iter().all(Observation::is_plausible) {
        return Cow::Borrowed(window);
    }
    let mut kept = window.clone();
    kept.weight_percent = kept.weight_percent.filter(|percent| is_share(*percent));
    kept.reference_percent = kept.reference_percent.filter(|percent| is_share(*percent));
    kept.observations.retain(Observation::is_plausible);
    Cow::Owned(kept)
}

/// The log of the weighted mean; weight that no metric has taken counts as an e-value of one.
pub(super) fn ln_combined(evidence: &[Evidence]) -> f64 {
    let taken: f64 = evidence.iter().map(|evidence| evidence.weight).sum();
    let rest = (1.0 - taken).max(0.0).ln();
    evidence
        .iter()
        .filter(|evidence| evidence.weight > 0.0)
        .fold(rest, |sum, evidence| ln_add(sum, evidence.weight.ln() + evidence.ln_e))
}

/// Units of the canary that finished well.
fn canary_successes(guard: &Guard) -> u64 {
    u64::from(guard.canary.count.saturating_sub(guard.canary.errors))
}
