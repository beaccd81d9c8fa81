//! How a space's metrics depend on load, on each other and on the prior: what the surrogate knows before any run. Pure.

use super::kernel::{Amplitudes, Kernel, Values};
use super::{Cell, ColumnUnit, Constraint, Metric, MetricKind, Space, prior};
use crate::slo::Bound;

/// Error of a given prior column for an arm, or for all arms with some value of an axis. It is a standard deviation:
/// that of a factor between 0.3 and 3.
const GIVEN_PRIOR: f64 = 0.6;
/// Share of its limit that is added to an error rate before the logarithm, for most are exactly zero.
const ERROR_FLOOR: f64 = 0.1;
/// What an error rate is compared with when nothing limits it.
const USUAL_ERROR_LIMIT: f64 = 0.01;

/// ln value = known(cell) + coupling * T + an own process, T the driver's deviation from its prior.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// -1 for times, 1 for throughputs, 0 for what is not tied to throughput.
    pub coupling: f64,
    /// Added to the value before the logarithm.
    pub floor: f64,
    pub amplitudes: Amplitudes,
    /// Per arm and level: the part of ln value that needs no data (units, load, prior).
    known: Vec<Vec<f64>>,
}

/// Whether runs contradict a prior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contradicted {
    Yes,
    No,
}

/// A space prepared for the surrogate. Built once per search.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub kernel: Kernel,
    pub links: Vec<Link>,
    /// The metric that shows throughput.
    pub driver: Option<usize>,
    /// Axes, as positions in the kernel, whose values no prior tells apart.
    untold: Vec<usize>,
    /// Axes whose values only a rule of thumb tells apart.
    pub guessed: Vec<usize>,
    /// All axes, where prior columns are given.
    given: Vec<usize>,
}

impl Model {
    pub(super) fn new(space: &Space) -> Self {
        let driver = driver(space);
        let undivided = undivided(space, driver);
        let links = (0..space.metrics.len()).map(|metric| link(space, metric, driver, &undivided)).collect();
        let kernel = Kernel::new(space);
        let all: Vec<usize> = (0..kernel.axes()).collect();
        let role = |axis: &usize| space.axes[kernel.values()[*axis].axis].role;
        let is_told = |axis: &usize| role(axis).is_some_and(|role| prior::tells(space, role));
        let is_given = space.metrics.iter().any(|metric| !metric.prior.is_empty());
        let is_guessed = |axis: &usize| role(axis).is_some_and(prior::guesses);
        // Given columns stand in place of a rule of thumb.
        let is_known = |axis: &usize| match is_given {
            true => columns_tell(space, &kernel.values()[*axis]) || is_told(axis) && !is_guessed(axis),
            false => is_told(axis),
        };
        let untold = all.iter().copied().filter(|axis| !is_known(axis)).collect();
        let guessed = all.iter().copied().filter(|axis| !is_given && is_told(axis) && is_guessed(axis)).collect();
        let given = if is_given { all } else { Vec::new() };
        Self { kernel, links, driver, untold, guessed, given }
    }

    /// Axes, as positions in the kernel, on which only runs tell values apart: those without a prior, and those of
    /// prior columns that the runs contradict.
    pub(super) fn untold(&self, contradicted: Contradicted) -> &[usize] {
        match contradicted {
            Contradicted::Yes if !self.given.is_empty() => &self.given,
            Contradicted::Yes | Contradicted::No => &self.untold,
        }
    }
}

impl Link {
    pub(super) fn known(&self, cell: Cell) -> f64 {
        self.known[cell.arm][cell.level]
    }
}

/// The metric that shows throughput: the objective if it is one, else the first that is. Where its unit divides by a
/// price that is not known here, a time per token shows it better, because the price would be mistaken for speed.
fn driver(space: &Space) -> Option<usize> {
    let of = |kind: MetricKind| (0..space.metrics.len()).find(|metric| space.metrics[*metric].kind == kind);
    let is = |metric: &usize| space.metrics[*metric].kind == MetricKind::Throughput;
    let throughput = Some(space.objective).filter(is).or_else(|| of(MetricKind::Throughput))?;
    let timed = || of(MetricKind::PerToken).or_else(|| of(MetricKind::Latency));
    let is_priced = prior::is_priced(&space.metrics[throughput].name) && !space.prices_known;
    let has_prior = !space.metrics[throughput].prior.is_empty();
    timed().filter(|_| is_priced && !has_prior).or(Some(throughput))
}

/// Per arm and level, the expected ln throughput of one engine, whatever unit the driver has.
fn undivided(space: &Space, driver: Option<usize>) -> Vec<Vec<f64>> {
    let throughput = driver.filter(|driver| space.metrics[*driver].kind == MetricKind::Throughput);
    let given = |cell: Cell| {
        let driver = throughput?;
        Some(given(space, driver, cell)? + prior::divisor(space, cell.arm, &space.metrics[driver].name).ln())
    };
    completed(space, given, |cell| prior::log_throughput(space, cell.arm, space.levels[cell.level]))
}

/// Per arm and level, what is given in ln, and what is expected where nothing is. Both may have different units. So
/// what is expected is moved: by what the nearest given level of its arm differs from it, or by the mean of all cells.
fn completed(space: &Space, given: impl Fn(Cell) -> Option<f64>, expected: impl Fn(Cell) -> f64) -> Vec<Vec<f64>> {
    let levels = 0..space.levels.len();
    let difference = |cell: Cell| Some(given(cell)? - expected(cell));
    let of_arm = |arm: usize| levels.clone().map(move |level| Cell { arm, level });
    let differences: Vec<Vec<Option<f64>>> =
        (0..space.arms.len()).map(|arm| of_arm(arm).map(difference).collect()).collect();
    let all: Vec<f64> = differences.iter().flatten().flatten().copied().collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let moved = |cell: Cell| {
        let known = differences[cell.arm].iter().enumerate().filter_map(|(level, known)| Some((level, (*known)?)));
        let nearest = known.min_by_key(|(level, _)| level.abs_diff(cell.level));
        expected(cell) + nearest.map_or(mean, |(_, difference)| difference)
    };
    let value = |cell: Cell| given(cell).unwrap_or_else(|| moved(cell));
    (0..space.arms.len()).map(|arm| of_arm(arm).map(value).collect()).collect()
}

/// Whether prior columns describe an axis, and have something for each of its values.
fn columns_tell(space: &Space, values: &Values) -> bool {
    let is_given = |arm: usize| {
        let mut levels = (0..space.levels.len()).map(|level| Cell { arm, level });
        levels.any(|cell| (0..space.metrics.len()).any(|metric| given(space, metric, cell).is_some()))
    };
    let has_some = |value: usize| (0..space.arms.len()).any(|arm| values.of[arm] == value && is_given(arm));
    !space.columns.silent.contains(&values.axis) && (0..values.examples.len()).all(has_some)
}

fn given(space: &Space, metric: usize, cell: Cell) -> Option<f64> {
    let value = space.metrics[metric].prior.get(cell.arm)?.get(cell.level).copied()??;
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

fn link(space: &Space, metric: usize, driver: Option<usize>, undivided: &[Vec<f64>]) -> Link {
    let Metric { kind, name, prior } = &space.metrics[metric];
    let coupling = match kind {
        MetricKind::Throughput => 1.0,
        MetricKind::Latency | MetricKind::FirstToken | MetricKind::PerToken if driver.is_some() => -1.0,
        MetricKind::Latency | MetricKind::FirstToken | MetricKind::PerToken => 0.0,
        MetricKind::Memory
        | MetricKind::Utilization
        | MetricKind::Power
        | MetricKind::ErrorRate
        | MetricKind::Other => 0.0,
    };
    let floor = match kind {
        MetricKind::ErrorRate => ERROR_FLOOR * tightest(space, metric),
        _ => 0.0,
    };
    let mut amplitudes = match (driver == Some(metric), kind) {
        (true, _) => amplitudes(MetricKind::Throughput, true),
        (false, MetricKind::Throughput) => UNIT,
        (false, kind) => amplitudes(*kind, coupling != 0.0),
    };
    if !prior.is_empty() {
        amplitudes.offset = match space.columns.unit {
            ColumnUnit::Same => amplitudes.offset.min(1.0),
            ColumnUnit::OtherWork => amplitudes.offset,
        };
        amplitudes.arm = amplitudes.arm.max(GIVEN_PRIOR);
        amplitudes.fault = GIVEN_PRIOR;
    }
    let expected = |Cell { arm, level }: Cell| match kind {
        MetricKind::Throughput => undivided[arm][level] - prior::divisor(space, arm, name).ln(),
        MetricKind::Latency | MetricKind::FirstToken | MetricKind::PerToken => {
            space.levels[level].max(1e-9).ln() - undivided[arm][level]
        }
        MetricKind::ErrorRate => floor.ln(),
        MetricKind::Memory | MetricKind::Utilization | MetricKind::Power | MetricKind::Other => 0.0,
    };
    let known = completed(space, |cell| given(space, metric, cell), expected);
    Link { coupling, floor, amplitudes, known }
}

fn tightest(space: &Space, metric: usize) -> f64 {
    let limit = |c: &Constraint| match c.bound {
        Bound::AtMost(limit) | Bound::AtLeast(limit) => limit.abs(),
    };
    let limits = space.constraints.iter().filter(|c| c.metric == metric).map(limit).filter(|limit| *limit > 0.0);
    let tightest = limits.fold(f64::INFINITY, f64::min);
    if tightest.is_finite() { tightest } else { USUAL_ERROR_LIMIT }
}

/// What a unit adds to throughput: mostly a factor per arm, such as its price.
const UNIT: Amplitudes =
    Amplitudes { offset: 3.0, arm: 0.3, slope: 0.05, arm_slope: 0.05, level: 0.1, arm_level: 0.1, fault: 0.0 };

/// Prior standard deviations in natural logarithms, set on the tuning tables and rounded.
fn amplitudes(kind: MetricKind, tied: bool) -> Amplitudes {
    let of = |[offset, arm, slope, arm_slope, level, arm_level]: [f64; 6]| Amplitudes {
        offset,
        arm,
        slope,
        arm_slope,
        level,
        arm_level,
        fault: 0.0,
    };
    of(match kind {
        MetricKind::Throughput => [3.0, 0.35, 0.2, 0.2, 0.25, 0.25],
        MetricKind::Latency | MetricKind::PerToken if tied => [3.0, 0.2, 0.1, 0.05, 0.15, 0.1],
        MetricKind::FirstToken if tied => [3.0, 0.4, 0.2, 0.1, 0.3, 0.25],
        MetricKind::Latency | MetricKind::PerToken | MetricKind::FirstToken => [3.0, 0.4, 0.3, 0.15, 0.4, 0.3],
        MetricKind::Memory => [3.0, 0.4, 0.02, 0.02, 0.02, 0.05],
        MetricKind::Utilization => [3.0, 0.3, 0.2, 0.1, 0.25, 0.2],
        MetricKind::ErrorRate => [0.5, 0.5, 0.3, 0.2, 0.3, 0.5],
        MetricKind::Power | MetricKind::Other => [3.0, 0.4, 0.2, 0.1, 0.3, 0.2],
    })
}
