//! A simulator of rollouts: Poisson arrivals, lognormal latencies, pods with queues and noise. Pure, from a seed.

use std::collections::{BTreeMap, BinaryHeap};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use slipway_analysis::judge::{Arm, Observation, Window};
use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

pub const WINDOW_SECONDS: f64 = 10.0;

/// Median latency of a healthy unit without load or drift, microseconds.
pub const MEDIAN_MICROSECONDS: f64 = 200_000.0;

/// Standard deviation of the logarithm of latencies.
pub const SIGMA: f64 = 0.7;

/// Units a pod takes at once; more are shed, as the sidecar does, and are not part of any latency.
const MAX_IN_FLIGHT: usize = 64;

/// How many pods each arm has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pods {
    /// Four of stable; as many of the canary as give every pod like load: `ceil(4 w / (1 - w))`.
    ByWeight,
    /// Four of stable, one of the canary, whatever the weight.
    FourToOne,
}

/// One simulated world.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub requests_per_second: f64,
    pub minutes: [f64; 3],
    pub latency_ratio: f64,
    pub error_rates: [f64; 2],
    /// Standard deviation of the logarithm of each pod's own slow noise.
    pub pod_noise: f64,
    /// Amplitude of the drift that both arms share.
    pub drift: f64,
    /// Whether shared bursts double latencies and raise errors tenfold for half a minute, once in five minutes.
    pub has_bursts: bool,
    /// Latency grows by this share per unit in flight at admission; units then carry an in-flight stratum.
    pub load_slope: f64,
    pub pods: Pods,
    /// The canary accepts units and never answers.
    pub hangs: bool,
}

impl Scenario {
    /// Twenty requests a second, 5/20/50 % for ten minutes each, half a percent of errors, nothing wrong.
    pub const HEALTHY: Self = Self {
        requests_per_second: 20.0,
        minutes: [10.0; 3],
        latency_ratio: 1.0,
        error_rates: [0.005; 2],
        pod_noise: 0.0,
        drift: 0.0,
        has_bursts: false,
        load_slope: 0.0,
        pods: Pods::ByWeight,
        hangs: false,
    };

    /// The world in which detection is measured: shared drift and pods that differ by 5 %.
    pub const NOISY: Self = Self { pod_noise: 0.05, drift: 0.2, ..Self::HEALTHY };
}

pub const WEIGHTS: [f64; 3] = [5.0, 20.0, 50.0];

struct Pod {
    arm: Arm,
    name: String,
    noise: f64,
    /// Completion times in milliseconds, negated for a min-heap, with the start.
    in_flight: BinaryHeap<(std::cmp::Reverse<u64>, u64, Outcome)>,
    hung: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    microseconds: u64,
    band: u8,
    is_error: bool,
}

/// Runs one rollout window by window.
pub struct Simulation {
    scenario: Scenario,
    rng: Pcg64Mcg,
    pods: Vec<Pod>,
    window: u64,
    phase: f64,
    shared_noise: f64,
    burst_windows: u32,
}

impl Simulation {
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::new(u128::from(seed) << 64 | 0x5eed);
        let phase = rng.random::<f64>();
        Self { scenario, rng, pods: Vec::new(), window: 0, phase, shared_noise: 0.0, burst_windows: 0 }
    }

    /// The next window, or `None` when the schedule has ended.
    pub fn next_window(&mut self) -> Option<Window> {
        let start = self.window as f64 * WINDOW_SECONDS;
        let weight = self.weight_at(start / 60.0)?;
        self.window += 1;
        self.scale_pods(weight);
        let (shared, is_burst) = self.advance_shared(start);
        let mut observations = Vec::new();
        let canaries = self.pods.iter().filter(|pod| pod.arm == Arm::Canary).count() as f64;
        let stables = self.pods.len() as f64 - canaries;
        for index in 0..self.pods.len() {
            let share = match self.pods[index].arm {
                Arm::Canary => weight / 100.0 / canaries,
                Arm::Stable => (1.0 - weight / 100.0) / stables,
            };
            let rate = self.scenario.requests_per_second * share;
            observations.extend(self.run_pod(index, start, rate, shared, is_burst));
        }
        let end_seconds = (start + WINDOW_SECONDS) as u64;
        Some(Window { end_seconds, weight_percent: Some(weight), observations, ..Window::default() })
    }

    fn weight_at(&self, minute: f64) -> Option<f64> {
        let mut end = 0.0;
        self.scenario.minutes.iter().zip(WEIGHTS).find_map(|(minutes, weight)| {
            end += minutes;
            (minute < end).then_some(weight)
        })
    }

    fn scale_pods(&mut self, weight: f64) {
        let share = weight / 100.0;
        let wanted = match self.scenario.pods {
            Pods::ByWeight => (4.0 * share / (1.0 - share)).ceil() as usize,
            Pods::FourToOne => 1,
        };
        let have = self.pods.iter().filter(|pod| pod.arm == Arm::Canary).count();
        if self.pods.is_empty() {
            (0..4).for_each(|i| self.add_pod(Arm::Stable, format!("s{i}")));
        }
        (have..wanted).for_each(|i| self.add_pod(Arm::Canary, format!("c{i}")));
    }

    fn add_pod(&mut self, arm: Arm, name: String) {
        let noise = self.scenario.pod_noise * self.normal();
        self.pods.push(Pod { arm, name, noise, in_flight: BinaryHeap::new(), hung: Vec::new() });
    }

    /// The factor on latencies that both arms share, and whether there is a burst.
    fn advance_shared(&mut self, start: f64) -> (f64, bool) {
        const MEMORY: f64 = 0.9;
        let fresh = self.normal() * 0.05 * (1.0 - MEMORY * MEMORY).sqrt();
        self.shared_noise = MEMORY * self.shared_noise + fresh;
        for index in 0..self.pods.len() {
            let fresh = self.normal() * self.scenario.pod_noise * (1.0 - MEMORY * MEMORY).sqrt();
            self.pods[index].noise = MEMORY * self.pods[index].noise + fresh;
        }
        if self.scenario.has_bursts && self.burst_windows == 0 && self.rng.random::<f64>() < 1.0 / 30.0 {
            self.burst_windows = 3;
        }
        let is_burst = self.burst_windows > 0;
        self.burst_windows = self.burst_windows.saturating_sub(1);
        let wave = (std::f64::consts::TAU * (start / 1_800.0 + self.phase)).sin();
        let drift = if self.scenario.drift > 0.0 { self.scenario.drift * wave + self.shared_noise } else { 0.0 };
        (drift.exp() * if is_burst { 2.0 } else { 1.0 }, is_burst)
    }

    fn run_pod(&mut self, index: usize, start: f64, rate: f64, shared: f64, is_burst: bool) -> Vec<Observation> {
        let scenario = self.scenario;
        let mut sums: BTreeMap<u8, (u64, u64, u64, Histogram)> = BTreeMap::new();
        let (mut arrival, end) = (start, start + WINDOW_SECONDS);
        loop {
            arrival += -(1.0 - self.rng.random::<f64>()).ln() / rate;
            self.finish(index, arrival.min(end), &mut sums);
            if arrival >= end {
                break;
            }
            let draw = (SIGMA * self.normal()).exp();
            let is_canary = self.pods[index].arm == Arm::Canary;
            let uniform = self.rng.random::<f64>();
            let pod = &mut self.pods[index];
            if pod.in_flight.len() >= MAX_IN_FLIGHT {
                continue;
            }
            let ahead = pod.in_flight.len() as f64;
            let band = if scenario.load_slope > 0.0 { (ahead + 1.0).log2() as u8 } else { 0 };
            sums.entry(band).or_default().0 += 1;
            if is_canary && scenario.hangs {
                pod.hung.push(arrival);
                continue;
            }
            let ratio = if is_canary { scenario.latency_ratio } else { 1.0 };
            let load = 1.0 + scenario.load_slope * ahead;
            let microseconds = MEDIAN_MICROSECONDS * draw * ratio * load * shared * pod.noise.exp();
            let burst = if is_burst { 10.0 } else { 1.0 };
            let is_error = uniform < scenario.error_rates[usize::from(is_canary)] * burst;
            let done = ((arrival + microseconds / 1e6) * 1e6) as u64;
            let outcome = Outcome { microseconds: microseconds as u64, band, is_error };
            pod.in_flight.push((std::cmp::Reverse(done), (arrival * 1e6) as u64, outcome));
        }
        self.report(index, end, sums)
    }

    fn finish(&mut self, index: usize, now: f64, sums: &mut BTreeMap<u8, (u64, u64, u64, Histogram)>) {
        let now = (now * 1e6) as u64;
        let heap = &mut self.pods[index].in_flight;
        while heap.peek().is_some_and(|(done, ..)| done.0 <= now) {
            if let Some((_, _, outcome)) = heap.pop() {
                let sum = sums.entry(outcome.band).or_default();
                sum.1 += 1;
                if outcome.is_error { sum.2 += 1 } else { sum.3.record(outcome.microseconds) }
            }
        }
    }

    fn report(&self, index: usize, end: f64, mut sums: BTreeMap<u8, (u64, u64, u64, Histogram)>) -> Vec<Observation> {
        let pod = &self.pods[index];
        sums.entry(0).or_default();
        let starts = pod.in_flight.iter().map(|(_, start, _)| *start as f64 / 1e6).chain(pod.hung.iter().copied());
        let mut ages: BTreeMap<u16, u64> = BTreeMap::new();
        for start in starts {
            *ages.entry(((end - start - 1e-6).max(0.0) / WINDOW_SECONDS) as u16).or_default() += 1;
        }
        let ages: Vec<(u16, u64)> = ages.into_iter().filter(|(age, _)| *age > 0).collect();
        let observation = |(band, (started, count, errors, buckets)): (u8, (u64, u64, u64, Histogram))| Observation {
            arm: pod.arm,
            pod: pod.name.clone(),
            metric: Metric::RequestLatency,
            unit: Unit::Request,
            stratum: if self.scenario.load_slope > 0.0 { format!("miss/p9/f{band}") } else { String::new() },
            started: Some(started),
            new_sessions: 0,
            in_flight_ages: Some(if band == 0 { ages.clone() } else { Vec::new() }),
            count,
            errors,
            buckets,
        };
        sums.into_iter().map(observation).collect()
    }

    /// A standard normal draw (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.random::<f64>()).cos()
    }
}
