//! The structured surrogate: every metric's law at every cell, from the runs so far. Pure.
//!
//! ln throughput is the prior's expectation plus a Gaussian process T. By Little's law a closed loop of c requests has
//! mean time c / throughput, so the logarithm of a time is ln c - ln throughput + ln k, and only the slowly varying ln k
//! gets a process of its own: one run informs the whole load axis of throughput and of every percentile. Metrics that
//! load does not tie to throughput (memory, utilization, error rates) get processes of their own.

use super::gp::{Normal, Process, Site};
use super::kernel::Amplitudes;
use super::model::Model;
use super::{Cell, Measurement, Outcome};

/// Standard error of ln value that a guess for a pending run is given.
const BELIEF_SD: f64 = 0.05;

/// The laws of all latent quantities.
#[derive(Debug, Clone)]
pub(super) struct Surrogate<'a> {
    model: &'a Model,
    processes: Vec<Process>,
    failure: Option<Process>,
}

/// What is believed of one cell.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    /// The driver's deviation from its prior.
    pub throughput: Normal,
    /// Per metric, ln value given T.
    pub metrics: Vec<MetricBelief>,
    /// The chance that a run does not fail.
    pub runs: f64,
}

/// ln (value + floor) = known + coupling * T + own.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricBelief {
    pub known: f64,
    pub coupling: f64,
    pub own: Normal,
    pub floor: f64,
}

impl<'a> Surrogate<'a> {
    pub(super) fn fit(model: &'a Model, measurements: &[Measurement], pending: &[Cell]) -> Self {
        let failure = failure(model, measurements);
        let mut runs: Vec<Run> = measurements.iter().filter_map(Run::of).collect();
        let fitted = Self { model, processes: processes(model, &runs), failure };
        if pending.is_empty() {
            return fitted;
        }
        // Kriging believer: a pending run is taken to give what is expected of it.
        runs.extend(pending.iter().map(|cell| fitted.believe(*cell)));
        Self { processes: processes(model, &runs), ..fitted }
    }

    pub(super) fn at(&self, cell: Cell) -> Belief {
        let kernel = &self.model.kernel;
        let zero = Normal { mean: 0.0, variance: 0.0 };
        let own: Vec<Normal> = self.processes.iter().map(|process| process.at(kernel, cell)).collect();
        let throughput = self.model.driver.map_or(zero, |driver| own[driver]);
        let metric = |(metric, (own, link)): (usize, (&Normal, &super::model::Link))| MetricBelief {
            known: link.known(cell),
            coupling: link.coupling,
            own: if Some(metric) == self.model.driver { zero } else { *own },
            floor: link.floor,
        };
        let metrics = own.iter().zip(&self.model.links).enumerate().map(metric).collect();
        let failing = self.failure.as_ref().map_or(0.0, |process| process.at(kernel, cell).mean.clamp(0.0, 1.0));
        Belief { throughput, metrics, runs: 1.0 - failing }
    }

    fn believe(&self, cell: Cell) -> Run {
        let belief = self.at(cell);
        let value = |m: &MetricBelief| (m.known + m.coupling * belief.throughput.mean + m.own.mean).exp() - m.floor;
        Run { cell, values: belief.metrics.iter().map(|m| Some(value(m))).collect(), log_sd: BELIEF_SD }
    }
}

/// Values of a run, full or cut short.
struct Run {
    cell: Cell,
    values: Vec<Option<f64>>,
    log_sd: f64,
}

impl Run {
    fn of(measurement: &Measurement) -> Option<Self> {
        let (values, log_sd) = match &measurement.outcome {
            Outcome::Measured { values, log_sd } => (values.iter().copied().map(Some).collect(), *log_sd),
            Outcome::Aborted { values, log_sd } => (values.clone(), *log_sd),
            Outcome::Failed => return None,
        };
        Some(Self { cell: measurement.cell, values, log_sd })
    }
}

fn processes(model: &Model, runs: &[Run]) -> Vec<Process> {
    let sites = |metric: usize| runs.iter().filter_map(|run| site(model, run, metric)).collect();
    let fit = |metric: usize| Process::fit(&model.kernel, model.links[metric].amplitudes, sites(metric));
    (0..model.links.len()).map(fit).collect()
}

fn site(model: &Model, run: &Run, metric: usize) -> Option<Site> {
    let deviation = |metric: usize| {
        let value = run.values[metric]? + model.links[metric].floor;
        (value > 0.0 && value.is_finite()).then(|| value.ln() - model.links[metric].known(run.cell))
    };
    let (own, noise) = (deviation(metric)?, run.log_sd * run.log_sd);
    let coupling = model.links[metric].coupling;
    Some(match model.driver {
        // Couplings are 1 or -1, so that their own inverse.
        Some(driver) if driver == metric => Site { cell: run.cell, residual: coupling * own, noise },
        Some(driver) if coupling != 0.0 => {
            let throughput = model.links[driver].coupling * deviation(driver)?;
            Site { cell: run.cell, residual: own - coupling * throughput, noise: 2.0 * noise }
        }
        Some(_) | None => Site { cell: run.cell, residual: own, noise },
    })
}

/// The chance that a cell fails, once one has: a process on 0 and 1, for want of runs to fit a richer one.
fn failure(model: &Model, measurements: &[Measurement]) -> Option<Process> {
    let failed = |m: &Measurement| m.outcome == Outcome::Failed;
    if !measurements.iter().any(failed) {
        return None;
    }
    let site = |m: &Measurement| Site { cell: m.cell, residual: if failed(m) { 1.0 } else { 0.0 }, noise: 0.01 };
    let amplitudes = Amplitudes { offset: 0.02, arm: 0.2, slope: 0.05, arm_slope: 0.05, level: 0.2, arm_level: 0.3 };
    Some(Process::fit(&model.kernel, amplitudes, measurements.iter().map(site).collect()))
}
