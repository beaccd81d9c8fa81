//! How long it takes to find a canary slower, from the deployment's own traffic, before a rollout starts. Pure.
//!
//! Stable's own values are compared with themselves made slower, by the splits that the judge uses. That says how much
//! evidence a unit brings to lane F and to lane S. Both are then added up along the schedule, at a twentieth of luck:
//! a time is one by which 95 of 100 such canaries are rolled back. Excess and variance of the splits are taken for a
//! normal law (the score test's; Wald, Ann. Math. Statist. 16, 1945). Errors and hanging units are not counted in.

mod units;

use std::collections::BTreeMap;

use slipway_vocabulary::evidence::{Histogram, Metric, WINDOW_SECONDS, bucket};

use super::{
    config::{Config, Step, is_latency},
    expected::{Expectation, Reference},
    guard::{CHAIN_SHARES, FAST_MARGIN_FACTOR, FAST_SHARE, SLOW_SHARE, ln_mean},
    observation::{Arm, Window},
    process::{Direction, ln_add, ln_sequential_t},
    role::Role,
    rollout::{BLOCK_SECONDS, Judge, OVERLOAD_BINS},
    split::{CHAINS, MIXTURE, Split, TILTS},
    strata::Stratum,
};
use crate::slo::ERRORS_TO_BOUND;

pub use units::{UnitsAtPercentile, units_at_percentiles};

/// The part of stable's units that a canary's are held against where the loads of their pods are unlike: those of the
/// fullest band.
const IN_ONE_BAND: f64 = 0.5;

/// The part of a guard's weight that slowness has, beside errors and units that hang.
const SLOWNESS: f64 = 0.48;

/// Stable's traffic, as its pods counted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Windows that were read.
    windows: u64,
    values: BTreeMap<Metric, Histogram>,
    /// Units that all pods started.
    started: BTreeMap<Metric, u64>,
    pods: u64,
    /// Units in flight, summed over windows.
    in_flight: u64,
}

/// A schedule to be tried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its steps.
    pub steps: Vec<Step>,
    /// Pods of stable.
    pub stable_pods: usize,
    /// Pods of the canary.
    pub canary_pods: CanaryPods,
    /// What the canary is compared with.
    pub reference: Reference,
}

/// How many pods a canary has at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryPods {
    /// The same number at each.
    Fixed(usize),
    /// As many as make one carry what a pod of stable carries, at most as many as stable has: the operator's rule.
    ByWeight,
}

impl CanaryPods {
    /// The number at a weight, a share of the traffic below 1, beside so many pods of stable.
    #[must_use]
    pub fn at(self, weight: f64, stable_pods: usize) -> usize {
        match self {
            Self::Fixed(pods) => pods.max(1),
            Self::ByWeight => {
                let alike = (stable_pods as f64 * weight / (1.0 - weight) - 1e-9).ceil() as usize;
                alike.clamp(1, stable_pods.max(1))
            }
        }
    }
}

impl Plan {
    /// The schedule, and it without its first steps, as long as a comparison is left.
    fn shortened(&self) -> impl Iterator<Item = Self> + '_ {
        let compared = self.steps.iter().filter(|step| step.weight_percent < 100.0).count();
        (0..compared.max(1)).map(move |first| Self { steps: self.steps[first..].to_vec(), ..self.clone() })
    }
}

/// What a schedule finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The schedule.
    pub plan: Plan,
    /// Seconds from its opening by which 95 of 100 canaries are rolled back; `None` where that is not within its
    /// shortest soaks.
    pub seconds: Option<u64>,
}

impl Forecast {
    /// Whether such a canary is found before the schedule may end.
    #[must_use]
    pub const fn is_decidable(&self) -> bool {
        self.seconds.is_some()
    }
}

/// What is to be expected of a schedule before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// The schedule.
    pub plan: Plan,
    /// The time to the promotion of a canary that equals stable.
    pub promotion: Expectation,
    /// Seconds by which 95 of 100 slower canaries are rolled back; `None` where that is not within the shortest soaks.
    pub rollback_seconds: Option<u64>,
}

/// What stable's windows say of a schedule and of it without its first steps, in this order. A slower canary's model
/// calls take `ratio` times as long. Observations of a canary are left out.
#[must_use]
pub fn outlooks(config: &Config, windows: &[Window], plan: &Plan, ratio: f64) -> Vec<Outlook> {
    let (mut traffic, mut judge) = (Traffic::default(), Judge::new(seen_from_stable(config)));
    for window in windows {
        let window = only_stable(window);
        traffic.observe(&window);
        judge.consume(&window);
    }
    let outlook = |plan: Plan| Outlook {
        promotion: judge.expected_under(&plan.steps, plan.reference),
        rollback_seconds: traffic.forecast(config, &plan, ratio).seconds,
        plan,
    };
    plan.shortened().map(outlook).collect()
}

fn only_stable(window: &Window) -> Window {
    let mut window = window.clone();
    window.observations.retain(|observation| observation.arm == Arm::Stable);
    window
}

/// Pods of stable that are read for the first time are not young.
fn seen_from_stable(config: &Config) -> Config {
    Config { warm_up_seconds: 0, is_first_revision: false, ..config.clone() }
}

impl Traffic {
    /// Takes in what stable's pods counted in a window; the canary's units tell how much traffic there is.
    pub fn observe(&mut self, window: &Window) {
        self.windows += 1;
        let mut in_flight = BTreeMap::<Metric, u64>::new();
        for observation in &window.observations {
            let started = self.started.entry(observation.metric).or_default();
            *started = started.saturating_add(observation.started.unwrap_or(observation.count));
            if observation.arm == Arm::Stable {
                self.values.entry(observation.metric).or_default().merge(&observation.buckets);
                let old = observation.in_flight_ages.iter().flatten().map(|(_, units)| *units);
                let sum = in_flight.entry(observation.metric).or_default();
                *sum = old.fold(*sum, u64::saturating_add);
            }
        }
        self.in_flight = self.in_flight.saturating_add(in_flight.into_values().max().unwrap_or(0));
        let mut pods: Vec<&str> =
            window.observations.iter().filter(|of| of.arm == Arm::Stable).map(|of| of.pod.as_str()).collect();
        pods.sort_unstable();
        pods.dedup();
        self.pods = self.pods.max(pods.len() as u64);
    }

    /// Units that start in a second, of the metric that counts most.
    #[must_use]
    pub fn units_per_second(&self) -> f64 {
        let most = self.started.values().max().copied().unwrap_or(0);
        most as f64 / (self.windows.max(1) * WINDOW_SECONDS) as f64
    }

    /// The most pods of stable that reported at once.
    #[must_use]
    pub const fn stable_pods(&self) -> usize {
        self.pods as usize
    }

    /// Units of stable that are in flight for longer than a window, on average.
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        self.in_flight as f64 / self.windows.max(1) as f64
    }

    /// The spread of a metric's values: the standard deviation of their logarithm, from the quartiles.
    #[must_use]
    pub fn spread(&self, metric: Metric) -> Option<f64> {
        let values = self.values.get(&metric).filter(|values| values.count() >= 4)?;
        let stratum = Stratum::learn_first(0, values);
        let octaves = (f64::from(stratum.edge(2)) - f64::from(stratum.edge(0))) / BUCKETS_PER_OCTAVE;
        // The quartiles of a normal law are 1.349 standard deviations apart.
        Some(octaves * std::f64::consts::LN_2 / 1.349)
    }

    /// When a canary whose model calls take `ratio` times as long is found. Runs as a whole are left out: how much of
    /// them is the model's is not known. Where no metric of the model is counted, all latencies are made slower.
    #[must_use]
    pub fn forecast(&self, config: &Config, plan: &Plan, ratio: f64) -> Forecast {
        let slower = self.slower(config, ratio);
        let weight = 0.95 / self.weighed(config).max(1) as f64;
        let (mut seconds, mut walks) = (0, vec![Walk::default(); slower.len()]);
        for step in plan.steps.iter().filter(|step| step.weight_percent < 100.0) {
            let rate = self.units_per_second() * BLOCK_SECONDS as f64;
            let compared = Compared::new(step.weight_percent / 100.0, plan, rate);
            for _ in 0..step.min_soak_seconds / BLOCK_SECONDS {
                seconds += BLOCK_SECONDS;
                for (walk, (values, slow)) in walks.iter_mut().zip(&slower) {
                    walk.advance(config, compared, (values, slow));
                }
                let sum = walks.iter().fold(f64::NEG_INFINITY, |sum, walk| ln_add(sum, walk.ln_e()));
                if sum + weight.ln() >= -config.alpha.ln() {
                    return Forecast { plan: plan.clone(), seconds: Some(seconds) };
                }
            }
        }
        Forecast { plan: plan.clone(), seconds: None }
    }

    /// The schedule, and simple changes of it: without its first steps, and with as many pods as stable has where the
    /// number is fixed. The fastest stands first; of equally fast ones the one that is nearest to the schedule.
    #[must_use]
    pub fn schedules(&self, config: &Config, plan: &Plan, ratio: f64) -> Vec<Forecast> {
        let more_pods = match plan.canary_pods {
            CanaryPods::Fixed(pods) => CanaryPods::Fixed(plan.stable_pods.max(pods)),
            CanaryPods::ByWeight => CanaryPods::ByWeight,
        };
        let mut forecasts = Vec::<Forecast>::new();
        for canary_pods in [plan.canary_pods, more_pods] {
            for plan in (Plan { canary_pods, ..plan.clone() }).shortened() {
                if forecasts.iter().all(|forecast| forecast.plan != plan) {
                    forecasts.push(self.forecast(config, &plan, ratio));
                }
            }
        }
        forecasts.sort_by_key(|forecast| forecast.seconds.unwrap_or(u64::MAX));
        forecasts
    }

    /// Values of the metrics that a slower model moves, as they are and slower.
    fn slower(&self, config: &Config, ratio: f64) -> Vec<(Histogram, Histogram)> {
        let is_guard = |metric: Metric| is_latency(metric) && config.role(metric) == Some(Role::Guard);
        let guards = || self.values.iter().filter(|(metric, values)| is_guard(**metric) && !values.is_empty());
        let of_model = |metric: Metric| metric != Metric::AgentRunLatency;
        let has_model = guards().any(|(metric, _)| of_model(*metric));
        let bins = (ratio.max(1e-3).log2() * BUCKETS_PER_OCTAVE).round();
        let moved = guards().filter(|(metric, _)| !has_model || of_model(**metric));
        moved.map(|(_, values)| (values.clone(), shifted(values, bins))).collect()
    }

    fn weighed(&self, config: &Config) -> usize {
        let roles = self.started.keys().filter_map(|metric| config.role(*metric));
        roles.filter(|role| *role != Role::Diagnostic).count()
    }
}

/// Buckets in which a value doubles.
const BUCKETS_PER_OCTAVE: f64 = 32.0;

fn shifted(values: &Histogram, bins: f64) -> Histogram {
    let mut shifted = Histogram::new();
    for (index, count) in values.pairs() {
        let index = (f64::from(index) + bins).max(0.0) as u16;
        shifted.record_n(bucket::lower_edge(index).unwrap_or(u64::MAX), count);
    }
    shifted
}

/// How a step compares units.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Compared {
    /// `n m / (n + m)` of the units `n` and `m` of a block.
    units: f64,
    is_overloaded: bool,
}

impl Compared {
    fn new(weight: f64, plan: &Plan, units_per_block: f64) -> Self {
        let stable = match plan.reference {
            Reference::Rest => 1.0 - weight,
            // As much traffic on as many pods: the loads are alike.
            Reference::Baseline => return Self { units: units_per_block * weight / 2.0, is_overloaded: false },
        };
        let canary_pods = plan.canary_pods.at(weight, plan.stable_pods);
        let ratio = weight / canary_pods as f64 / (stable / plan.stable_pods.max(1) as f64);
        let is_alike = (0.75..=4.0 / 3.0).contains(&ratio);
        let stable = stable * if is_alike { 1.0 } else { IN_ONE_BAND };
        let units = units_per_block * weight * stable / (weight + stable);
        Self { units, is_overloaded: ratio > 4.0 / 3.0 }
    }
}

/// The evidence of one metric along a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
struct Walk {
    /// Mean and variance of the log e-value of lane F, per chain and tilt.
    fast: [[[f64; 2]; TILTS.len()]; CHAINS.len()],
    blocks: u16,
    /// Sums of lane S's standardized means, per chain.
    sums: [[f64; 2]; 2],
}

impl Walk {
    fn advance(&mut self, config: &Config, compared: Compared, (values, slow): (&Histogram, &Histogram)) {
        let stratum = Stratum::learn_first(0, values);
        let scale = compared.units / (values.count() as f64 / 2.0);
        let overload = if compared.is_overloaded { OVERLOAD_BINS } else { 0 };
        let fast = Split::new(&stratum, slow, values, FAST_MARGIN_FACTOR * config.margin_bins + overload);
        for (chain, tilts) in self.fast.iter_mut().enumerate() {
            let (excess, variance) = fast.excess(chain);
            for ([mean, spread], psi) in tilts.iter_mut().zip(TILTS) {
                let theta = psi.ln();
                *mean += scale * (theta * excess - theta * theta / 2.0 * variance);
                *spread += scale * theta * theta * variance;
            }
        }
        let slow = Split::new(&stratum, slow, values, config.margin_bins + overload);
        for (chain, [sum, squares]) in self.sums.iter_mut().enumerate() {
            let (excess, variance) = slow.excess(chain);
            let z = if variance > 0.0 { excess / variance.sqrt() * scale.sqrt() } else { 0.0 };
            *sum += z;
            *squares += z * z + 1.0;
        }
        self.blocks = self.blocks.saturating_add(1);
    }

    /// The part of the log of the guard's e-value that slowness has, when luck is bad.
    fn ln_e(&self) -> f64 {
        let components = self.fast.iter().flatten().zip(MIXTURE.weights);
        let fast = components.fold(f64::NEG_INFINITY, |sum, ([mean, variance], weight)| {
            ln_add(sum, mean - ERRORS_TO_BOUND * variance.sqrt() + weight.ln())
        });
        let n = f64::from(self.blocks);
        let slow = self.sums.map(|[sum, squares]| {
            ln_sequential_t(self.blocks, sum - ERRORS_TO_BOUND * n.sqrt(), squares, Direction::Above)
        });
        let slow = ln_mean(&[(CHAIN_SHARES[0], slow[0]), (CHAIN_SHARES[1], slow[1])]);
        // The restart that begins at the opening has half of the weight.
        ln_mean(&[(FAST_SHARE, fast), (SLOW_SHARE, slow)]) + SLOWNESS.ln() - std::f64::consts::LN_2
    }
}

#[cfg(test)]
mod tests;
