//! How a replayed run ends early: on its recorded request stream, or at a stated fraction of its time. Pure.

use std::collections::BTreeMap;

use slipway_analysis::{
    early::{EarlyRule, EarlyVerdict, EarlyWatch},
    search::Cell,
    slo::quantile,
};
use slipway_vocabulary::evidence::Quantile;

use super::{Problem, Row};
use crate::requests::{Request, RequestSlo, Signal, observations};

/// A worst metric farther from its limit than this factor is far.
const FAR: f64 = 1.3;
/// Standard error of ln value of estimates from a run cut short: some sixty requests instead of a thousand.
const PARTIAL_LOG_SD: f64 = 0.1;
/// Warm-up that the early verdict leaves out of a recorded stream.
const DISCARD_MS: f64 = 10_000.0;

/// How runs that prove infeasible are cut short.
#[derive(Debug, Clone)]
pub enum Abort {
    /// Every run is paid in full.
    Never,
    /// An infeasible run is charged a fraction of its time.
    Fractions(Fractions),
    /// The early verdict runs on the recorded requests; rows without a stream are paid in full, or by fractions.
    Streams {
        /// The streams.
        streams: Streams,
        /// What is charged where there is no stream.
        otherwise: Option<Fractions>,
    },
}

/// Charges of an infeasible run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fractions {
    /// Share of a run that is far from feasible.
    pub far: f64,
    /// Share of a run whose worst metric is within 0.77 to 1.3 of its limit.
    pub near: f64,
    /// Least seconds.
    pub floor_seconds: f64,
}

/// Recorded requests by cell, and the constraints that can be read from them.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// Requests of each run that has any.
    pub requests: BTreeMap<Cell, Vec<Request>>,
    /// Constraints that a stream can decide.
    pub slos: Vec<RequestSlo>,
    /// The metric of each of them.
    pub metrics: Vec<usize>,
}

/// A run that ended early.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    /// Seconds it ran.
    pub seconds: f64,
    /// Estimates from the part that ran, before noise.
    pub values: Vec<Option<f64>>,
    pub log_sd: f64,
}

impl Abort {
    /// The expected share of a run that is infeasible, for the search's own planning.
    #[must_use]
    pub fn expected_fraction(&self) -> f64 {
        match self {
            Self::Never => 1.0,
            Self::Fractions(fractions) => f64::midpoint(fractions.far, fractions.near),
            Self::Streams { .. } => 0.2,
        }
    }

    /// When the run of a cell is ended, if it is.
    pub(super) fn ends(&self, problem: &Problem, cell: Cell, row: &Row) -> Option<Ended> {
        match self {
            Self::Never => None,
            Self::Fractions(fractions) => fractions.ends(problem, row),
            Self::Streams { streams, otherwise } => match streams.requests.get(&cell) {
                Some(requests) => streams.ends(problem, row, requests),
                None => otherwise.as_ref().and_then(|fractions| fractions.ends(problem, row)),
            },
        }
    }
}

impl Fractions {
    fn ends(&self, problem: &Problem, row: &Row) -> Option<Ended> {
        let values = row.values.as_ref()?;
        if problem.space.meets(values) {
            return None;
        }
        let share = if problem.space.worst_excess(values) > FAR { self.far } else { self.near };
        Some(Ended {
            seconds: (share * row.run_seconds).max(self.floor_seconds).min(row.run_seconds),
            values: values.iter().copied().map(Some).collect(),
            log_sd: PARTIAL_LOG_SD,
        })
    }
}

impl Streams {
    fn ends(&self, problem: &Problem, row: &Row, requests: &[Request]) -> Option<Ended> {
        let quantiles: Vec<Quantile> = self.slos.iter().map(|slo| slo.quantile).collect();
        let mut watch = EarlyWatch::new(EarlyRule::default(), &quantiles);
        for seen in observations(requests, &self.slos, DISCARD_MS) {
            watch.observe(seen.objective, u64::from(seen.exceeds), u64::from(!seen.exceeds));
            if let EarlyVerdict::Infeasible { .. } = watch.verdict() {
                let seconds = (seen.at_ms / 1000.0).min(row.run_seconds);
                return Some(Ended {
                    seconds,
                    values: self.estimates(problem, row, requests, seen.at_ms),
                    log_sd: PARTIAL_LOG_SD,
                });
            }
        }
        None
    }

    /// What the stream has shown by `until_ms`: percentiles of finished requests, and throughput in the objective's
    /// unit.
    fn estimates(&self, problem: &Problem, row: &Row, requests: &[Request], until_ms: f64) -> Vec<Option<f64>> {
        let mut values = vec![None; problem.space.metrics.len()];
        let kept = || requests.iter().filter(|r| r.start_ms >= DISCARD_MS && r.start_ms <= until_ms);
        for (slo, metric) in self.slos.iter().zip(&self.metrics) {
            let signal = |r: &Request| match slo.signal {
                // A request that still waits has waited at least until now.
                Signal::Ttft => r.ttft_ms.map(|v| v.min(until_ms - r.start_ms)),
                Signal::Tpot => r.tpot_ms.filter(|_| r.end_ms <= until_ms),
                Signal::Latency => Some((r.end_ms - r.start_ms).min(until_ms - r.start_ms)),
            };
            let mut seen: Vec<f64> = kept().filter_map(signal).collect();
            seen.sort_by(f64::total_cmp);
            values[*metric] = quantile(&seen, slo.quantile);
        }
        // Tokens stream: a request counts for its share inside the window, in flight or not.
        let rate = |until: f64| {
            let overlap = |r: &Request| (r.end_ms.min(until) - r.start_ms.max(DISCARD_MS)).max(0.0);
            let inside = |r: &Request| r.tokens * overlap(r) / (r.end_ms - r.start_ms).max(1.0);
            requests.iter().map(inside).sum::<f64>() / (until - DISCARD_MS).max(1.0)
        };
        let (part, full) = (rate(until_ms), rate(row.run_seconds * 1000.0));
        // The ratio of the row to its stream is the unit (dollars, GPUs), which is known beforehand; values are not.
        let objective = row.values.as_ref().map(|values| values[problem.space.objective]);
        values[problem.space.objective] = objective.filter(|_| part > 0.0 && full > 0.0).map(|o| o / full * part);
        values
    }
}
