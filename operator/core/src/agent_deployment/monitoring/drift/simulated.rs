//! Users of a simulation: more by day than by night, and slower for it.

use slipway_vocabulary::evidence::{Histogram, Metric, MetricWindow, Unit, WINDOW_SECONDS, Window};

/// What users send, and how it is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Users {
    /// Runs of a pod in a window by day; a third of it by night.
    pub(crate) runs: u64,
    /// How much slower the model is than it was.
    pub(crate) slower: f64,
    /// The median time that tools take of a run before they are slower, in microseconds.
    pub(crate) tools: f64,
    /// How much slower tools are.
    pub(crate) slower_tools: f64,
    /// How much longer answers are.
    pub(crate) longer: f64,
    /// Failures among 1,000 runs.
    pub(crate) failures: u64,
}

pub(crate) const USUAL: Users =
    Users { runs: 40, slower: 1.0, tools: 40_000.0, slower_tools: 1.0, longer: 1.0, failures: 5 };
pub(crate) const SLOWER: Users = Users { slower: 1.3, ..USUAL };

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers from a seed everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly lognormal, about a median.
    fn values(&mut self, median: f64, n: u64) -> Histogram {
        let mut value = || (median * (0.7 * ((0..4).map(|_| self.uniform()).sum::<f64>() - 2.0)).exp()) as u64;
        (0..n).map(|_| value()).collect()
    }
}

impl Users {
    /// What a pod counts of them in a window.
    pub(crate) fn window(&self, dice: &mut Dice, id: u64) -> Window {
        let hour = id * WINDOW_SECONDS / 3_600 % 24;
        let (band, runs) = if (8..20).contains(&hour) { (2, self.runs) } else { (0, self.runs / 3) };
        // What all runs of a window share is noise between windows, not within.
        let load = 1.0 + 0.3 * f64::from(band) + 0.05 * dice.uniform();
        let chance = (self.failures * runs) as f64 / 1_000.0;
        let failed = (chance + dice.uniform()) as u64;
        let (model, tools) = (150_000.0 * load * self.slower, self.tools * self.slower_tools);
        let row = |metric, buckets: Histogram| MetricWindow {
            metric,
            unit: Unit::Run,
            stratum: format!("miss/p9/f{band}"),
            started: runs,
            new_sessions: 0,
            in_flight: 0,
            oldest_in_flight_microseconds: 0,
            in_flight_ages: None,
            count: runs,
            errors: failed.min(runs),
            sum_microseconds: 0,
            buckets,
        };
        let succeeded = runs.saturating_sub(failed);
        let rows = vec![
            row(Metric::RequestLatency, dice.values(model, succeeded)),
            row(Metric::ToolTime, dice.values(tools, succeeded)),
            row(Metric::AgentRunLatency, dice.values(2.0 * model + tools, succeeded)),
            row(Metric::OutputTokensPerRun, dice.values(120.0 * self.longer, succeeded)),
            row(Metric::RunSuccess, Histogram::new()),
            row(Metric::Shed, Histogram::new()),
        ];
        Window { id, metrics: if runs == 0 { Vec::new() } else { rows }, load: None, gpus: Vec::new() }
    }
}
