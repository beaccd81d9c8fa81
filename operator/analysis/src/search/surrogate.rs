//! The structured surrogate: every metric's law at every cell, from the runs so far. Pure.
//!
//! ln throughput is the prior's expectation plus a Gaussian process T. By Little's law a closed loop of c requests has
//! mean time c / throughput, so the logarithm of a time is ln c - ln throughput + ln k. Only the slowly varying ln k
//! gets a process of its own: one run informs the whole load axis of throughput and of every percentile. Metrics that
//! load does not tie to throughput (memory, utilization, error rates) get processes of their own.

use smallvec::SmallVec;

use super::gp::{Glance, Normal, Process, Site};
use super::kernel::Amplitudes;
use super::model::{Contradicted, Model};
use super::{Cell, Measurement, Outcome};

/// Standard error of ln value that a guess for a pending run is given.
const BELIEF_SD: f64 = 0.05;

/// Difference of two arms' mean deviations from the prior, in natural logarithms, that contradicts it: a factor of 2.5.
const CONTRADICTION: f64 = 0.9;

/// The laws of all latent quantities.
#[derive(Debug, Clone)]
pub(super) struct Surrogate<'a> {
    model: &'a Model,
    processes: Vec<Process>,
    failure: Option<Process>,
}

/// Belief about one cell.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    /// The driver's deviation from its prior.
    pub throughput: Normal,
    /// Per metric, ln value given T. Beliefs are made by the ten thousand; few metrics need no allocation.
    pub metrics: SmallVec<[MetricBelief; 4]>,
    /// The chance that a run does not fail.
    pub runs: f64,
}

/// ln (value + floor) = known + coupling * T + own.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricBelief {
    pub known: f64,
    pub coupling: f64,
    pub own: Normal,
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
        runs.extend(pending.iter().filter_map(|cell| fitted.believe(*cell)));
        Self { processes: processes(model, &runs), ..fitted }
    }

    /// Beliefs about some cells.
    pub(super) fn at(&self, cells: &[Cell]) -> Vec<Belief> {
        let kernel = &self.model.kernel;
        let laws: Vec<Vec<Normal>> = self.processes.iter().map(|process| process.at(kernel, cells)).collect();
        let failure = self.failure.as_ref().map(|process| process.at(kernel, cells));
        let belief = |(k, cell): (usize, &Cell)| {
            let failing = failure.as_ref().map_or(0.0, |laws| laws[k].mean.clamp(0.0, 1.0));
            Belief { runs: 1.0 - failing, ..self.belief(*cell, |metric| laws[metric][k]) }
        };
        cells.iter().enumerate().map(belief).collect()
    }

    /// Whether arms deviate from the prior so differently that it cannot be trusted to tell them apart: the driver's
    /// mean deviations of two arms differ by [`CONTRADICTION`].
    pub(super) fn contradicts_prior(&self) -> Contradicted {
        let Some(driver) = self.model.driver else { return Contradicted::No };
        let deviations = self.processes[driver].deviations();
        let most = deviations.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = deviations.iter().copied().fold(f64::INFINITY, f64::min);
        if most - least > CONTRADICTION { Contradicted::Yes } else { Contradicted::No }
    }

    /// Looks at many cells: every law is that of its process's likeliest fit, with at least its variance. Failures are
    /// left out.
    pub(super) fn outlook(&self) -> Outlook<'_> {
        let kernel = &self.model.kernel;
        Outlook { surrogate: self, glances: self.processes.iter().map(|p| Glance::new(p, kernel)).collect() }
    }

    /// The belief of a cell that runs, from the law of each metric's process.
    fn belief(&self, cell: Cell, own: impl Fn(usize) -> Normal) -> Belief {
        let zero = Normal { mean: 0.0, variance: 0.0 };
        let metric = |(metric, link): (usize, &super::model::Link)| MetricBelief {
            known: link.known(cell),
            coupling: link.coupling,
            own: if Some(metric) == self.model.driver { zero } else { own(metric) },
        };
        let metrics = self.model.links.iter().enumerate().map(metric).collect();
        Belief { throughput: self.model.driver.map_or(zero, own), metrics, runs: 1.0 }
    }

    fn believe(&self, cell: Cell) -> Option<Run> {
        let belief = self.at(&[cell]).pop()?;
        let expected = |m: &MetricBelief| (m.known + m.coupling * belief.throughput.mean + m.own.mean).exp();
        let values = belief.metrics.iter().zip(&self.model.links).map(|(m, link)| Some(expected(m) - link.floor));
        let log_sds = vec![BELIEF_SD; self.model.links.len()];
        Some(Run { cell, values: values.collect(), log_sds })
    }
}

/// A look at many cells.
pub(super) struct Outlook<'a> {
    surrogate: &'a Surrogate<'a>,
    glances: Vec<Glance<'a>>,
}

impl Outlook<'_> {
    /// Beliefs about some cells.
    pub(super) fn at(&self, cells: &[Cell]) -> Vec<Belief> {
        let laws: Vec<Vec<Normal>> = self.glances.iter().map(|glance| glance.at(cells)).collect();
        let belief = |(k, cell): (usize, &Cell)| self.surrogate.belief(*cell, |metric| laws[metric][k]);
        cells.iter().enumerate().map(belief).collect()
    }
}

/// Values of a run, full or cut short.
struct Run {
    cell: Cell,
    values: Vec<Option<f64>>,
    log_sds: Vec<f64>,
}

impl Run {
    fn of(measurement: &Measurement) -> Option<Self> {
        let (values, log_sds) = match &measurement.outcome {
            Outcome::Measured { values, log_sds } => (values.iter().copied().map(Some).collect(), log_sds.clone()),
            Outcome::Aborted { values, log_sds } => (values.clone(), log_sds.clone()),
            Outcome::Failed => return None,
        };
        Some(Self { cell: measurement.cell, values, log_sds })
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
    let variance = |metric: usize| run.log_sds[metric] * run.log_sds[metric];
    let (own, noise) = (deviation(metric)?, variance(metric));
    let coupling = model.links[metric].coupling;
    Some(match model.driver {
        // Couplings are 1 or -1, so that their own inverse.
        Some(driver) if driver == metric => Site { cell: run.cell, residual: coupling * own, noise },
        Some(driver) if coupling != 0.0 => {
            let throughput = model.links[driver].coupling * deviation(driver)?;
            Site { cell: run.cell, residual: own - coupling * throughput, noise: noise + variance(driver) }
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
    let amplitudes =
        Amplitudes { offset: 0.02, arm: 0.2, slope: 0.05, arm_slope: 0.05, level: 0.2, arm_level: 0.3, fault: 0.0 };
    Some(Process::fit(&model.kernel, amplitudes, measurements.iter().map(site).collect()))
}
