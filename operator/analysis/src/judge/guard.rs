//! Everything the judge knows about one metric: lanes F and S, errors, hanging units, objectives. Pure.

use slipway_vocabulary::{
    Percentile,
    evidence::{Histogram, Quantile, bucket},
};

use super::{
    absolute::{Absolute, Margins, Pair, ln_bernoulli},
    at_percentile::Contrast,
    bands::{self, Held},
    config::{Config, CountedObjective},
    hang::{self, Compared, Hang, Hung},
    hypergeometric::Table,
    load::Loading,
    non_inferior::{NonInferior, compared_at},
    observation::{Arms, Key},
    pods::{Sharing, is_served},
    process::{Direction, Mixture, RestartProduct, SequentialT, ln_add},
    role::Role,
    rollout::{OVERLOAD_BINS, PROMOTION_E_VALUE},
    split::{self, CHAINS, COMPONENTS, Split},
    strata::{LEVELS, Strata},
    tasks::{NotMoreFailures, ln_more},
};

/// The odds ratios at which errors are judged.
pub(super) const ERROR_TILTS: [f64; 4] = [1.5, 2.5, 5.0, 20.0];

/// Their weights. Errors that a revision brings are mostly there from its start.
pub(super) const ERROR_MIXTURE: Mixture = Mixture { weights: &[0.1, 0.35, 0.4, 0.15], unrestarted: 0.6 };

/// How many times lane S's margin lane F's is: units share their pod's noise, which lane F does not see.
pub const FAST_MARGIN_FACTOR: u16 = 3;

/// Lane S waits for at least this much information before it ends a block: with less, a difference is far from normal.
pub(super) const SMALLEST_VARIANCE: f32 = 1.0;

/// Shares of a guard's weight. Errors are few and need the most.
const ERRORS_SHARE: f64 = 0.43;
pub(super) const FAST_SHARE: f64 = 0.17;
pub(super) const SLOW_SHARE: f64 = 0.28;
const ABSOLUTE_SHARE: f64 = 0.06;
const HANG_SHARE: f64 = 0.06;

/// Weights of lane S's chains: the whole distribution, the tail.
pub(super) const CHAIN_SHARES: [f64; 2] = [0.7, 0.3];

/// The kind of harm that a piece of evidence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Slower than the reference by more than the margin.
    Relative,
    /// Breaks an objective that stable breaks less; the position of the objective in the configuration.
    Absolute(usize),
    /// More errors than stable.
    Errors,
    /// Units that are accepted and not answered.
    Hanging,
}

/// One e-value of a guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The guard.
    pub key: Key,
    /// The harm.
    pub harm: Harm,
    /// Natural logarithm of the e-value.
    pub ln_e: f64,
    /// Its weight in the mean that decides a rollback; 0 for what only explains.
    pub weight: f64,
}

/// Finished units of one arm since the rollout opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub count: u32,
    pub errors: u32,
}

/// What would be seen of an equal canary, learned from stable: how fast the evidence for a promotion grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub excess: f32,
    pub variance: f32,
    /// The same at the percentile.
    pub excess_at: f32,
    pub variance_at: f32,
    pub units: f32,
    pub windows: u32,
}

/// The state of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guard {
    pub key: Key,
    /// Its weight among all guards.
    pub weight: f32,
    pub strata: Strata,
    pub fast: RestartProduct,
    pub slow: [SequentialT; 2],
    /// Excess and variance of the current block, per lane-S chain.
    pub block: [[f32; 2]; 2],
    pub errors: RestartProduct,
    /// Errors against `errorRateMax`, for a first revision.
    pub errors_above_limit: RestartProduct,
    pub hang: Hang,
    pub hanging: RestartProduct,
    pub absolutes: Vec<Absolute>,
    pub canary: Totals,
    pub stable: Totals,
    pub non_inferior: NonInferior,
    /// That failures are not more than tolerated, where a margin is.
    pub not_more_failures: NotMoreFailures,
    pub pace: Pace,
}

/// Units that a comparison at a percentile has, as if both arms had as many, and those that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortfall {
    pub finished: u64,
    /// None where no number would do: the pods of an arm differ too much.
    pub needed: Option<u64>,
}

/// How a window is to be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// Restarts that are due.
    pub due: u16,
    /// How the loads of the arms' pods relate.
    pub loading: Loading,
    /// Windows before this one that nobody has read.
    pub skipped: u64,
    /// Whether a block of lane S ends with this window.
    pub ends_block: bool,
    /// The share of all traffic that the arms have together.
    pub share: f32,
    /// How errors are shared out among the arms.
    pub sharing: Sharing,
}

impl Guard {
    pub fn new(key: Key, weight: f32, config: &Config) -> Self {
        let objectives = config.objectives.iter().filter(|objective| objective.metric == key.metric).count();
        Self {
            key,
            weight,
            strata: Strata::default(),
            fast: RestartProduct::new(&split::MIXTURE),
            slow: [SequentialT::new(), SequentialT::new()],
            block: [[0.0; 2]; 2],
            errors: RestartProduct::new(&ERROR_MIXTURE),
            errors_above_limit: RestartProduct::new(&ERROR_MIXTURE),
            hang: Hang::default(),
            hanging: RestartProduct::new(&hang::MIXTURE),
            absolutes: (0..objectives).map(|_| Absolute::new()).collect(),
            canary: Totals::default(),
            stable: Totals::default(),
            non_inferior: NonInferior::default(),
            not_more_failures: NotMoreFailures::default(),
            pace: Pace::default(),
        }
    }

    /// Reads a window.
    pub fn consume(&mut self, config: &Config, arms: &Arms, comparison: Comparison) {
        self.restart(config, comparison.due);
        self.consume_errors(config, arms, comparison.sharing);
        if config.role(self.key.metric) == Some(Role::Errors) {
            return;
        }
        let hung = self.consume_hanging(config, arms, comparison.skipped);
        self.consume_latencies(config, arms, comparison, hung);
        if comparison.ends_block {
            self.close_block();
        }
        for (stratum, histogram) in &arms.stable.strata {
            self.strata.learn(stratum, histogram);
        }
    }

    /// Ends a block of lane S; one with too little information goes on.
    pub fn close_block(&mut self) {
        for (slow, block) in self.slow.iter_mut().zip(&mut self.block) {
            if block[1] >= SMALLEST_VARIANCE {
                let [excess, variance] = block.map(f64::from);
                slow.update(excess / variance.sqrt());
                *block = [0.0; 2];
            }
        }
        self.non_inferior.close_block();
        for absolute in &mut self.absolutes {
            absolute.close_block(SMALLEST_VARIANCE);
        }
    }

    /// Forgets the current block: its windows and the next ones have different weights.
    pub fn drop_block(&mut self) {
        self.block = [[0.0; 2]; 2];
        self.non_inferior.drop_block();
        for absolute in &mut self.absolutes {
            absolute.block = [0.0; 2];
        }
    }

    /// Takes in which pods were lost. The units that a pod had in flight are lost together: the pod is what is counted.
    pub fn lose_pods(&mut self, pods: Table) {
        self.errors.update(ERROR_TILTS.map(|psi| pods.ln_e_value(psi)));
    }

    /// Starts what is due, of the processes that this guard uses: unused ones stay empty and cost no state.
    fn restart(&mut self, config: &Config, due: u16) {
        self.errors.restart(due);
        if config.is_first_revision {
            self.errors_above_limit.restart(due);
        }
        if config.role(self.key.metric) != Some(Role::Errors) {
            self.fast.restart(due);
            self.slow.iter_mut().for_each(|slow| slow.restart(due));
            if hang::has_cohorts(self.key) {
                self.hanging.restart(due);
            }
            self.absolutes.iter_mut().for_each(|absolute| absolute.restart(due));
        }
    }

    fn add_totals(&mut self, arms: &Arms) {
        for (totals, sum) in [(&mut self.canary, &arms.canary), (&mut self.stable, &arms.stable)] {
            let all = |sum_of: u64| sum_of.saturating_add(sum.left_out);
            totals.count = saturate(u64::from(totals.count).saturating_add(all(sum.count)));
            totals.errors = saturate(u64::from(totals.errors).saturating_add(all(sum.errors)));
        }
    }

    fn consume_errors(&mut self, config: &Config, arms: &Arms, sharing: Sharing) {
        self.add_totals(arms);
        let (canary, stable) = (arms.canary.count, arms.stable.count);
        let table = Table {
            // What clients say of a task afterwards does not come together on a pod.
            canary: if is_served(self.key.metric) { sharing.exposed(canary, stable) } else { canary },
            stable,
            events: arms.canary.errors.saturating_add(arms.stable.errors),
            canary_events: arms.canary.errors,
        };
        let tolerated = config.tolerated_odds(self.key.metric);
        self.errors.update(ERROR_TILTS.map(|psi| ln_more(table, psi, tolerated)));
        if let Some(tolerated) = tolerated {
            self.not_more_failures.update(table, tolerated);
        }
        if let Some(rate) = config.error_rate_max.filter(|_| config.is_first_revision) {
            let (n, x) = (arms.canary.count, arms.canary.errors);
            self.errors_above_limit.update(ERROR_TILTS.map(|psi| ln_bernoulli(n, x, rate, psi)));
        }
    }

    /// Returns the canary's units that became too old in this window.
    fn consume_hanging(&mut self, config: &Config, arms: &Arms, skipped: u64) -> Hung {
        if !hang::has_cohorts(self.key) {
            return Hung::default();
        }
        let limit = self.objectives(config).map(|(_, objective)| objective.max_microseconds).max().unwrap_or(0);
        let margin =
            FAST_MARGIN_FACTOR * config.margin_bins_of(self.key.metric) + config.predicted_bins(self.key.metric);
        let slowest = self.strata.highest_edge().and_then(|edge| bucket::upper_edge(edge.saturating_add(margin)));
        let slow = slowest.or((limit > 0).then_some(limit)).map(|slow| slow.max(limit));
        self.hang.skip(skipped);
        let Compared { tables, canary } = self.hang.update(arms, slow.and_then(hang::age_in_windows));
        for table in tables {
            self.hanging.update(hang::TILTS.map(|psi| table.ln_e_value(psi)));
        }
        canary
    }

    fn consume_latencies(&mut self, config: &Config, arms: &Arms, comparison: Comparison, hung: Hung) {
        let margins = self.margins(config, arms, comparison.loading);
        let is_underloaded = comparison.loading == Loading::Underloaded;
        let held = if is_underloaded { bands::or_busier(arms) } else { bands::alike(arms) };
        let mut sums = [0.0; COMPONENTS];
        for Held { stratum, canary, stable } in &held {
            let Some(stratum) = self.strata.get(stratum) else { continue };
            Split::new(stratum, canary, stable, margins.fast).add_ln_e_values(&mut sums);
            if let Some(margin) = margins.slow {
                let split = Split::new(stratum, canary, stable, margin);
                self.block.iter_mut().enumerate().for_each(|(chain, block)| add(block, split.excess(chain)));
            }
        }
        self.fast.update(sums);
        self.consume_non_inferiority(config, arms);
        self.learn_pace(config, arms, comparison.share);
        self.consume_objectives(config, (arms, &held), margins, hung);
    }

    /// Whatever the loads, only units that were admitted under alike ones say that the canary is not slower.
    fn consume_non_inferiority(&mut self, config: &Config, arms: &Arms) {
        if config.role(self.key.metric) != Some(Role::Guard) {
            return;
        }
        let level = nearest_level(Quantile::from(self.percentile(config)));
        let margin = config.margin_bins_of(self.key.metric) + config.predicted_bins(self.key.metric);
        let has_objective = !self.absolutes.is_empty();
        for Held { stratum, canary, stable } in bands::alike(arms) {
            if let Some(stratum) = self.strata.get(stratum) {
                let stratum = compared_at(config, self.key.metric, stratum);
                self.non_inferior.add(&Split::new(&stratum, &canary, stable, margin), level, has_objective);
            }
        }
        if has_objective {
            self.non_inferior.at.compare_pods(arms, &self.strata, (level, margin));
        }
    }

    fn consume_objectives(
        &mut self,
        config: &Config,
        (arms, held): (&Arms, &[Held<'_>]),
        margins: Margins,
        hung: Hung,
    ) {
        if self.absolutes.is_empty() {
            return;
        }
        let mut canary = Histogram::new();
        arms.canary.strata.values().for_each(|histogram| canary.merge(histogram));
        let pairs: Vec<Pair<'_>> = held.iter().map(|of| (&*of.canary, of.stable)).collect();
        let objectives = config.objectives.iter().filter(|objective| objective.metric == self.key.metric);
        for (absolute, objective) in self.absolutes.iter_mut().zip(objectives) {
            absolute.update_one_sample(objective, &canary, hung);
            absolute.update_two_sample(objective, &pairs, margins);
        }
    }

    /// Learns from stable how far an equal canary would lie below the margin.
    fn learn_pace(&mut self, config: &Config, arms: &Arms, share: f32) {
        let level = nearest_level(Quantile::from(self.percentile(config)));
        for (name, stable) in &arms.stable.strata {
            if let Some(stratum) = self.strata.get(name) {
                let stratum = compared_at(config, self.key.metric, stratum);
                let split = Split::new(&stratum, stable, stable, config.margin_bins_of(self.key.metric));
                let (excess, variance) = split.excess(0);
                self.pace.excess += excess as f32;
                self.pace.variance += variance as f32;
                let at = split.table_at(level);
                self.pace.excess_at += at.excess() as f32;
                self.pace.variance_at += at.variance() as f32;
            }
        }
        self.pace.units += (arms.stable.count + arms.canary.count) as f32 / share;
        self.pace.windows = self.pace.windows.saturating_add(1);
    }

    /// The margins of the harm lanes. Where pods of the canary carry more load, they are wider by what stable shows
    /// that this does; where it shows nothing, or too much, lane S rests.
    fn margins(&self, config: &Config, arms: &Arms, loading: Loading) -> Margins {
        let predicted = config.predicted_bins(self.key.metric);
        let margin = config.margin_bins_of(self.key.metric);
        let (fast, slow) = (FAST_MARGIN_FACTOR * margin + predicted, margin + predicted);
        match loading {
            Loading::Unknown | Loading::Underloaded | Loading::Alike => {
                Margins { fast, slow: Some(slow), is_load_alike: true }
            }
            Loading::Overloaded => {
                let shown = bands::bins_of_an_octave(arms, &self.strata).filter(|bins| *bins < OVERLOAD_BINS);
                let fast = fast + shown.unwrap_or(OVERLOAD_BINS);
                Margins { fast, slow: shown.map(|bins| slow + bins), is_load_alike: false }
            }
        }
    }

    /// The objectives on this metric, with their positions in the configuration.
    fn objectives<'a>(&self, config: &'a Config) -> impl Iterator<Item = (usize, &'a CountedObjective)> + use<'a> {
        let metric = self.key.metric;
        config.objectives.iter().enumerate().filter(move |(_, objective)| objective.metric == metric)
    }

    /// The percentile whose own evidence must not contradict a promotion: the strictest objective's, else p95.
    pub fn percentile(&self, config: &Config) -> Percentile {
        let strictest = self.objectives(config).map(|(_, objective)| objective.percentile).max();
        strictest.unwrap_or(Percentile::P95)
    }

    /// Every e-value of the guard, with its weight in the mean.
    pub fn evidence(&self, config: &Config) -> Vec<Evidence> {
        let Some(role) = config.role(self.key.metric) else { return Vec::new() };
        let guards = |roles: &[Role]| roles.contains(&role);
        let first = config.is_first_revision;
        let mut evidence = Vec::new();
        let mut push = |harm, ln_e, share: f64, counts| {
            evidence.push(Evidence { key: self.key, harm, ln_e, weight: if counts { share } else { 0.0 } });
        };
        if role != Role::Errors && !first {
            let relative = ln_mean(&[(FAST_SHARE, self.fast.ln_e()), (SLOW_SHARE, self.slow_ln_e())]);
            push(Harm::Relative, relative, FAST_SHARE + SLOW_SHARE, guards(&[Role::Guard]));
        }
        if hang::has_cohorts(self.key) && !first {
            push(Harm::Hanging, self.hanging.ln_e(), HANG_SHARE, guards(&[Role::Guard, Role::Absolute]));
        }
        let share = ABSOLUTE_SHARE / self.absolutes.len().max(1) as f64;
        for (absolute, (position, _)) in self.absolutes.iter().zip(self.objectives(config)) {
            push(Harm::Absolute(position), absolute.ln_e(first), share, true);
        }
        let errors = if first { self.errors_above_limit.ln_e() } else { self.errors.ln_e() };
        push(Harm::Errors, errors, ERRORS_SHARE, guards(&[Role::Guard, Role::Absolute, Role::Errors]));
        let total: f64 = evidence.iter().map(|evidence| evidence.weight).sum();
        for evidence in &mut evidence {
            evidence.weight *= f64::from(self.weight) / total.max(f64::MIN_POSITIVE);
        }
        evidence
    }

    /// The log e-value of non-inferiority: over the whole distribution and the tail, and with an objective on the
    /// metric also at the objective's own percentile. A promotion needs both, so the smaller counts.
    pub fn ln_non_inferior(&self) -> f64 {
        let whole = self.non_inferior.ln_whole();
        if self.absolutes.is_empty() { whole } else { whole.min(self.non_inferior.at.ln_below()) }
    }

    /// What is missing of the units from which an equal canary is expected to be shown at its objective's percentile;
    /// `None` where there are enough, or where no objective asks.
    pub fn shortfall_at_percentile(&self) -> Option<Shortfall> {
        if self.absolutes.is_empty() {
            return None;
        }
        let at = &self.non_inferior.at;
        let contrast = self.contrast()?;
        let needed = contrast.needed_information(PROMOTION_E_VALUE.ln(), at.clustering());
        let information = f64::from(at.information);
        needed.is_none_or(|needed| information < needed).then(|| Shortfall {
            finished: contrast.units(information) as u64,
            needed: needed.map(|needed| contrast.units(needed).ceil() as u64),
        })
    }

    /// How far an equal canary lies below the margin at the percentile, as far as stable has shown.
    pub fn contrast(&self) -> Option<Contrast> {
        let [excess, variance] = [self.pace.excess_at, self.pace.variance_at].map(f64::from);
        Contrast::new(excess, variance, self.stable_successes() as f64)
    }

    /// Units of stable that finished well.
    pub fn stable_successes(&self) -> u64 {
        u64::from(self.stable.count.saturating_sub(self.stable.errors))
    }

    /// Whether stable has shown a value.
    pub fn has_reference(&self) -> bool {
        !self.strata.known.is_empty()
    }

    /// Whether the objective's own percentile lies within the margin as far as the data go.
    pub fn is_within_margin_at_percentile(&self) -> bool {
        self.non_inferior.at.excess <= 0.0
    }

    fn slow_ln_e(&self) -> f64 {
        let [whole, tail] = self.slow.each_ref().map(|slow| slow.ln_e(Direction::Above));
        ln_mean(&[(CHAIN_SHARES[0], whole), (CHAIN_SHARES[1], tail)])
    }

    /// The log e-value of more errors if each unit failed on its own, over the whole rollout at once.
    pub fn ln_errors_by_unit(&self) -> f64 {
        let events = u64::from(self.canary.errors).saturating_add(u64::from(self.stable.errors));
        let (canary, stable) = (u64::from(self.canary.count), u64::from(self.stable.count));
        let table = Table { canary, stable, events, canary_events: u64::from(self.canary.errors) };
        let [mild, plain] = [ERROR_TILTS[1], ERROR_TILTS[2]].map(|psi| table.ln_e_value(psi));
        ln_mean(&[(0.5, mild), (0.5, plain)])
    }

    /// The share of the canary's finished units that failed, and how many finished.
    pub fn canary_error_rate(&self) -> Option<(f64, u32)> {
        let Totals { count, errors } = self.canary;
        (count > 0).then(|| (f64::from(errors) / f64::from(count), count))
    }
}

/// The log of a weighted mean of e-values given by their logs.
pub(super) fn ln_mean(parts: &[(f64, f64)]) -> f64 {
    let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let sum = parts.iter().filter(|(weight, _)| *weight > 0.0);
    sum.fold(f64::NEG_INFINITY, |sum, (weight, ln_e)| ln_add(sum, (weight / total).ln() + ln_e))
}

fn nearest_level(quantile: Quantile) -> usize {
    let parts = quantile.parts_per_ten_thousand();
    LEVELS.iter().position(|level| *level >= parts).unwrap_or(LEVELS.len() - 1)
}

pub(super) fn add(sums: &mut [f32; 2], (excess, variance): (f64, f64)) {
    sums[0] = (f64::from(sums[0]) + excess) as f32;
    sums[1] = (f64::from(sums[1]) + variance) as f32;
}

fn saturate(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Lane S's chains are the first two of lane F's: the whole distribution and the tail.
const _: () = assert!(CHAINS.len() >= 2);
