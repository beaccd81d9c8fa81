//! The analysis' search as the campaign's: a task becomes a space, rows become runs. Pure.

mod throughputs;

use std::collections::BTreeSet;

use slipway_analysis::{
    pareto::Direction,
    search as analysis,
    search::{Conclusion, Ending, Progress, Purpose, SearchStrategy, Skipped, Slipway, Step, WhyNot},
    slo::{self, Bound},
};
use slipway_worker_contract::{
    Arm, Costs, Expected, GpuFigure, GpuLimit, Latency, LatencyMetric, LatencyObjective, MeasurementVerdict,
    NotMeasured, OptimizeFor, OtherEngine, Percentile, ProfileEnd, ProfileTask, Row, WhyNotMeasured, unknown_figure,
};

use self::throughputs::{Replica, Throughput};
use super::{
    Ended, Next, Plan, Search, ToBeat,
    reasons::{self, Why},
};
use crate::profile::{
    drivers,
    judge::{self, Rules},
};

/// Share of a level that an infeasible one runs before it is ended, as seen with chunks that double.
const ABORT_FRACTION: f64 = 0.3;
/// Runs of one cell after which the analysis no longer asks for a confirm run.
const MOST_CONFIRMS: usize = 4;

/// Searches a large space for its best point.
#[derive(Clone, Debug)]
pub struct Guided {
    plan: Plan,
    objectives: Vec<LatencyObjective>,
    /// What is optimised when it is a latency.
    latency: (LatencyMetric, Percentile),
    optimize_for: OptimizeFor,
    target_per_kilosecond: Option<u64>,
    /// Where engines of several prices are compared.
    costs: Option<Costs>,
    rules: Rules,
    gpus: u32,
    others: Vec<OtherEngine>,
    expected: Vec<Expected>,
    /// The point to begin with: an arm and a level.
    first: Option<(usize, u32)>,
}

/// How the analysis' search ended.
struct Over {
    reason: String,
    skipped: Vec<Skipped>,
}

impl Guided {
    /// Prepares a search of a task's space.
    pub fn new(task: &ProfileTask, plan: Plan) -> Self {
        let objectives = drivers::measurable(task);
        let own = (drivers::driver(task).measures()[0], Percentile::P99);
        let first = task.first.as_ref().and_then(|first| {
            let arm = plan.arms.iter().position(|arm| arm.id == first.arm.id)?;
            plan.levels.contains(&first.level).then_some((arm, first.level))
        });
        Self {
            plan,
            latency: objectives.first().map_or(own, |o| (o.metric, o.percentile)),
            objectives,
            optimize_for: task.optimize_for,
            target_per_kilosecond: task.target_per_kilosecond,
            costs: task.costs,
            rules: Rules::of(task),
            gpus: task.gpus.max(1),
            others: task.other_engines.clone(),
            expected: task.expected.clone(),
            first,
        }
    }

    fn step(&self, rows: &[Row]) -> Result<analysis::Cell, Over> {
        let view = View::new(self, rows);
        let strategy = Slipway::new(view.space.clone(), analysis::Settings::default());
        let mut runs = view.runs;
        for _ in 0..=MOST_CONFIRMS {
            match strategy.next(Progress { measurements: &runs, pending: &[] }) {
                Step::Measure { proposals } => match proposals.into_iter().next() {
                    Some(proposal) if proposal.purpose == Purpose::Explore => return Ok(proposal.cell),
                    Some(proposal) => {
                        // A Job of its own confirms the choice: here it is taken as passed, to hear of the rest.
                        let passed = runs.iter().rev().find(|run| run.cell == proposal.cell).cloned();
                        runs.extend(passed.map(|run| analysis::Measurement { purpose: Purpose::Confirm, ..run }));
                    }
                    None => break,
                },
                Step::Wait => break,
                Step::Done { conclusion, skipped } => {
                    let reason = match conclusion {
                        Conclusion::Chosen { reason, .. }
                        | Conclusion::Infeasible { reason, .. }
                        | Conclusion::Unknown { reason, .. } => reason,
                    };
                    return Err(Over { reason, skipped });
                }
            }
        }
        Err(Over { reason: "the best point is too close to a limit for a clear verdict".into(), skipped: Vec::new() })
    }

    /// Every feasible row of the campaign with its throughput as one replica of this engine's size would have it.
    fn rivals<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = ToBeat> + 'a {
        let own = rows.iter().map(|row| (row, Replica::own(self), None));
        let others = self.others.iter();
        let others = others.flat_map(|of| of.rows.iter().map(|row| (row, Replica::other(of), Some(&of.name))));
        let is_rival = |row: &Row, of: Replica| {
            row.verdict == MeasurementVerdict::Feasible && (self.costs.is_none() || self.is_within(row, of))
        };
        own.chain(others).filter(move |(row, of, _)| is_rival(row, *of)).map(|(row, of, name)| {
            let per_kilosecond = match self.optimize_for {
                // Truncation is the meaning: whole requests.
                OptimizeFor::Cost => (row.per_kilosecond as f64 * Replica::own(self).cost() / of.cost()) as u64,
                OptimizeFor::Throughput | OptimizeFor::Latency => row.per_kilosecond,
            };
            let engine = name.map(|name| format!("{name}, ")).unwrap_or_default();
            ToBeat { per_kilosecond, of: format!("{engine}{} at {}", row.arm, row.level) }
        })
    }
}

impl Guided {
    /// Whether a row has the throughputs that are asked for. At one price, a row with less throughput than one that
    /// misses a limit misses it too.
    fn is_within(&self, row: &Row, replica: Replica) -> bool {
        let reaches = |(of, least): (Throughput, f64)| row.per_kilosecond as f64 / of.divisor(replica) >= least;
        Throughput::limits(self).into_iter().all(reaches)
    }
}

impl Search for Guided {
    fn next(&self, rows: &[Row]) -> Next {
        if let Some(ended) = self.plan.ended(rows, &self.rules) {
            return Next::Done(ended);
        }
        if let Some((arm, level)) = self.first.filter(|_| rows.is_empty()) {
            return Next::Measure { arm, level };
        }
        let level = |cell: analysis::Cell| View::levels(self).get(cell.level).copied();
        match self.step(rows).map(|cell| (cell.arm, level(cell))) {
            Ok((arm, Some(level))) if arm < self.plan.arms.len() => Next::Measure { arm, level },
            Ok(_) => Next::Done(Ended::complete("this engine has nothing left to measure")),
            Err(over) => Next::Done(Ended::complete(over.reason)),
        }
    }

    fn not_measured(&self, rows: &[Row], end: ProfileEnd) -> Vec<NotMeasured> {
        if let Some(unknown) = unknown_figure(rows.iter(), &self.rules.gpu_limits) {
            return reasons::all((&self.plan, &self.rules), rows, |_| reasons::of_end(end, &unknown));
        }
        let over = match end {
            ProfileEnd::Complete => self.step(rows).err(),
            ProfileEnd::BudgetUsed | ProfileEnd::Interrupted => None,
        };
        let complete = over.as_ref().map_or("the search ended before it", |over| over.reason.as_str());
        let skipped = over.as_ref().map_or(&[][..], |over| &over.skipped);
        reasons::all((&self.plan, &self.rules), rows, |arm| match skipped.iter().find(|s| s.arm == arm) {
            Some(skipped) => why(&skipped.why),
            None => reasons::of_end(end, complete),
        })
    }

    /// Only where throughput is wanted: a point of lower throughput may have the best latency.
    fn to_beat(&self, rows: &[Row]) -> Option<ToBeat> {
        match self.optimize_for {
            OptimizeFor::Throughput | OptimizeFor::Cost => self.rivals(rows).max_by_key(|rival| rival.per_kilosecond),
            OptimizeFor::Latency => None,
        }
    }
}

fn why(why: &WhyNot) -> Why {
    let percent = |share: f64| (100.0 * share).round();
    match why {
        WhyNot::Infeasible { feasible } => {
            (WhyNotMeasured::Infeasible, format!("feasible with {} % at most", percent(*feasible)))
        }
        WhyNot::Dominated { gain, feasible } => (
            WhyNotMeasured::Dominated,
            format!("expected gain {:.1} %, feasible with {} % at most", 100.0 * gain, percent(*feasible)),
        ),
        WhyNot::Budget { gain, feasible } => (
            WhyNotMeasured::Budget,
            format!("expected gain {:.1} %, feasible with {} % at most", 100.0 * gain, percent(*feasible)),
        ),
        WhyNot::NotVisited => (WhyNotMeasured::Dominated, "the search did not reach it".to_owned()),
    }
}

/// A campaign as the analysis sees it.
struct View {
    space: analysis::Space,
    runs: Vec<analysis::Measurement>,
}

impl View {
    fn new(search: &Guided, rows: &[Row]) -> Self {
        let levels = Self::levels(search);
        // The engine of this Job is the one that is loaded: its rows come last.
        let known: Vec<(usize, &Row)> = other_rows(search).chain(own_rows(search, rows)).collect();
        let position = |level: u32| levels.binary_search(&level).ok();
        let mut space = space(search, &levels);
        let failed: BTreeSet<usize> =
            known.iter().filter(|(_, row)| row.verdict == MeasurementVerdict::Failed).map(|(arm, _)| *arm).collect();
        for (index, arm) in space.arms.iter_mut().enumerate() {
            let ours = index < search.plan.arms.len() && !failed.contains(&index);
            let seen = |level: u32| known.iter().any(|(arm, row)| *arm == index && row.level == level);
            arm.levels = levels.iter().map(|l| seen(*l) || ours && search.plan.levels.contains(l)).collect();
        }
        let mut warm = None;
        let run = |(arm, row): (usize, &Row)| {
            let cell = analysis::Cell { arm, level: position(row.level)? };
            let loaded = warm.replace(arm) == Some(arm);
            Some(measurement(search, &space, cell, (row, loaded)))
        };
        let runs = known.into_iter().map(run).collect::<Vec<_>>().into_iter().flatten().collect();
        Self { space, runs }
    }

    fn levels(search: &Guided) -> Vec<u32> {
        let others = search.others.iter().flat_map(|other| &other.rows).map(|row| row.level);
        search.plan.levels.iter().copied().chain(others).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Rows of arms that the campaign has, with the arm's position.
fn own_rows<'a>(search: &'a Guided, rows: &'a [Row]) -> impl Iterator<Item = (usize, &'a Row)> {
    let position = |row: &Row| search.plan.arms.iter().position(|arm| arm.id == row.arm);
    rows.iter().filter_map(move |row| Some((position(row)?, row)))
}

/// The arms of other engines, after the campaign's own.
fn other_arms(search: &Guided) -> Vec<(usize, &str)> {
    let mut all: Vec<(usize, &str)> = Vec::new();
    for (engine, other) in search.others.iter().enumerate() {
        let ids: BTreeSet<&str> = other.rows.iter().map(|row| row.arm.as_str()).collect();
        all.extend(ids.into_iter().map(|id| (engine, id)));
    }
    all
}

fn other_rows(search: &Guided) -> impl Iterator<Item = (usize, &Row)> {
    let arms = other_arms(search);
    let first = search.plan.arms.len();
    search.others.iter().enumerate().flat_map(move |(engine, other)| {
        let arms = arms.clone();
        let position = move |row: &Row| arms.iter().position(|arm| *arm == (engine, row.arm.as_str()));
        other.rows.iter().filter_map(move |row| Some((first + position(row)?, row)))
    })
}

/// The space without its levels' existence.
fn space(search: &Guided, levels: &[u32]) -> analysis::Space {
    let parameters: BTreeSet<&String> = search.plan.arms.iter().flat_map(|arm| arm.config.parameters.keys()).collect();
    let axis = |name: &str, role| analysis::Axis { name: name.to_owned(), role };
    let mut axes = vec![
        axis("engine", None),
        axis("instances", Some(analysis::Role::Instances)),
        axis("maxBatchSize", Some(analysis::Role::MaxBatchSize)),
        axis("queueDelay", None),
    ];
    axes.extend(parameters.iter().map(|name| axis(name, None)));
    // A table of expectations tells engines apart, and nothing else.
    let columns = analysis::Columns { unit: analysis::ColumnUnit::OtherWork, silent: (1..axes.len()).collect() };
    let arm = |values, of: Replica, engine| analysis::Arm {
        values,
        gpus: f64::from(of.gpus),
        price: of.gpu_price(),
        start_seconds: None,
        engine,
        levels: vec![false; levels.len()],
    };
    let own = search.plan.arms.iter().map(|a| arm(values(a, None, &parameters), Replica::own(search), 0));
    let others = other_arms(search).into_iter().map(|(engine, id)| {
        // Campaigns name equal configurations alike over all engines.
        let like = search.plan.arms.iter().find(|arm| arm.id == id).cloned();
        let like = like.unwrap_or_else(|| Arm { id: id.to_owned(), config: Default::default() });
        let other = &search.others[engine];
        arm(values(&like, Some(&other.name), &parameters), Replica::other(other), engine + 1)
    });
    let (objective, direction) = match search.optimize_for {
        OptimizeFor::Throughput | OptimizeFor::Cost => (0, Direction::Maximize),
        OptimizeFor::Latency => (position(search, search.latency), Direction::Minimize),
    };
    analysis::Space {
        axes,
        arms: own.chain(others).collect(),
        levels: levels.iter().map(|level| f64::from(*level)).collect(),
        run_seconds: None,
        metrics: metrics(search, levels),
        objective,
        direction,
        constraints: constraints(search),
        abort_fraction: ABORT_FRACTION,
        prices_known: search.costs.is_some(),
        columns,
        // Load and instances of one engine do not tell its size.
        model: None,
    }
}

/// What runs show, the throughput first, each with what is expected of it.
fn metrics(search: &Guided, levels: &[u32]) -> Vec<analysis::Metric> {
    let throughput = |of: Throughput| {
        let prior = column(search, levels, |expected, replica| expected.per_kilosecond as f64 / of.divisor(replica));
        analysis::Metric { name: of.name().to_owned(), kind: analysis::MetricKind::Throughput, prior }
    };
    let (first, limited) = Throughput::compared(search);
    let mut metrics = vec![throughput(first)];
    metrics.extend(measured(search).into_iter().map(|(metric, percentile)| {
        let prior = column(search, levels, |expected, _| expected.micros(metric) as f64);
        analysis::Metric { prior, ..latency_metric(metric, percentile) }
    }));
    metrics.extend(search.rules.gpu_limits.iter().map(gpu_metric));
    metrics.extend(limited.map(throughput));
    metrics
}

/// Per arm and level, a figure that is expected: of all configurations of an engine alike. Empty where none is.
fn column(search: &Guided, levels: &[u32], figure: impl Fn(&Expected, Replica) -> f64) -> Vec<Vec<Option<f64>>> {
    let all = || search.expected.iter().chain(search.others.iter().flat_map(|other| &other.expected));
    if all().next().is_none() {
        return Vec::new();
    }
    let row = |expected: &[Expected], replica: Replica| -> Vec<Option<f64>> {
        let at = |level: &u32| expected.iter().find(|of| of.level == *level).map(|of| figure(of, replica));
        levels.iter().map(at).collect()
    };
    let own = search.plan.arms.iter().map(|_| row(&search.expected, Replica::own(search)));
    let others = other_arms(search).into_iter().map(|(engine, _)| {
        let other = &search.others[engine];
        row(&other.expected, Replica::other(other))
    });
    own.chain(others).collect()
}

/// The latencies that are limited or optimised, each once, in the order of the space's metrics after the throughput.
fn measured(search: &Guided) -> Vec<(LatencyMetric, Percentile)> {
    let limited = search.objectives.iter().map(|o| (o.metric, o.percentile));
    limited.chain([search.latency]).collect::<BTreeSet<_>>().into_iter().collect()
}

fn position(search: &Guided, latency: (LatencyMetric, Percentile)) -> usize {
    1 + measured(search).iter().position(|l| *l == latency).unwrap_or(0)
}

fn constraints(search: &Guided) -> Vec<analysis::Constraint> {
    let latency = |o: &LatencyObjective| analysis::Constraint {
        metric: position(search, (o.metric, o.percentile)),
        bound: Bound::AtMost(o.max_microseconds as f64),
    };
    let first = 1 + measured(search).len();
    let (looked_for, _) = Throughput::compared(search);
    let position_of = move |of| if of == looked_for { 0 } else { first + search.rules.gpu_limits.len() };
    let targets = Throughput::limits(search).into_iter();
    let targets =
        targets.map(move |(of, least)| analysis::Constraint { metric: position_of(of), bound: Bound::AtLeast(least) });
    let of_gpus = search.rules.gpu_limits.iter().enumerate().flat_map(move |(at, limit)| {
        let bounds = [limit.min.map(|min| Bound::AtLeast(min.into())), limit.max.map(|max| Bound::AtMost(max.into()))];
        bounds.into_iter().flatten().map(move |bound| analysis::Constraint { metric: first + at, bound })
    });
    search.objectives.iter().map(latency).chain(targets).chain(of_gpus).collect()
}

fn gpu_metric(limit: &GpuLimit) -> analysis::Metric {
    let kind = match limit.figure {
        GpuFigure::Utilization => analysis::MetricKind::Utilization,
        GpuFigure::Power => analysis::MetricKind::Power,
        GpuFigure::Memory => analysis::MetricKind::Memory,
    };
    analysis::Metric { name: limit.figure.limit_name().to_owned(), kind, prior: Vec::new() }
}

fn latency_metric(metric: LatencyMetric, percentile: Percentile) -> analysis::Metric {
    let kind = match metric {
        // A user waits for whole requests before the one that answers: it behaves as the latency of a run.
        LatencyMetric::RequestLatency | LatencyMetric::AgentRunLatency | LatencyMetric::TimeToFirstToken => {
            analysis::MetricKind::Latency
        }
        LatencyMetric::RequestTimeToFirstToken => analysis::MetricKind::FirstToken,
        LatencyMetric::InterTokenLatency => analysis::MetricKind::PerToken,
    };
    analysis::Metric { name: format!("{metric:?} {percentile:?}"), kind, prior: Vec::new() }
}

fn values(arm: &Arm, engine: Option<&str>, parameters: &BTreeSet<&String>) -> Vec<analysis::Value> {
    let config = &arm.config;
    let number = |n: Option<f64>| n.map_or_else(|| text("default"), analysis::Value::Number);
    let mut values = vec![
        // This engine has no name here; no other has an empty one.
        text(engine.unwrap_or_default()),
        number(config.instances.map(f64::from)),
        number(config.max_batch_size.map(f64::from)),
        number(config.queue_delay_micros.map(|micros| micros as f64)),
    ];
    values.extend(parameters.iter().map(|name| match config.parameters.get(*name) {
        Some(value) => value.parse().map_or_else(|_| text(value), analysis::Value::Number),
        None => text("default"),
    }));
    values
}

fn text(name: &str) -> analysis::Value {
    analysis::Value::Text(name.to_owned())
}

/// A row as a run; `loaded` says whether its arm was the one before.
fn measurement(
    search: &Guided,
    space: &analysis::Space,
    cell: analysis::Cell,
    (row, loaded): (&Row, bool),
) -> analysis::Measurement {
    let gpus = space.arms[cell.arm].gpus;
    let total = row.gpu_millis as f64 / 1e3 / gpus;
    let run = if loaded { total } else { total.min(row.millis as f64 / 1e3) };
    let (first, limited) = Throughput::compared(search);
    let replica = Replica::of(search, space.arms[cell.arm].engine);
    let throughput = |of: Throughput| (row.count > 0).then(|| row.per_kilosecond as f64 / of.divisor(replica));
    let mut values = vec![throughput(first)];
    values.extend(measured(search).into_iter().map(|latency| value(search, row, latency)));
    let gpu = |limit: &GpuLimit| Some(f64::from(row.gpu?.figure(limit.figure)?.max(1)));
    values.extend(search.rules.gpu_limits.iter().map(gpu));
    values.extend(limited.map(throughput));
    let mut log_sds = vec![throughput_log_sd(row)];
    log_sds.extend(measured(search).into_iter().map(|latency| latency_log_sd(row, latency)));
    log_sds.extend(search.rules.gpu_limits.iter().map(|_| slo::SAMPLED_LOG_ERROR));
    log_sds.extend(limited.map(|_| throughput_log_sd(row)));
    let ending = match row.verdict {
        MeasurementVerdict::Failed => Ending::Failed,
        MeasurementVerdict::Feasible | MeasurementVerdict::Unbounded => Ending::Whole,
        MeasurementVerdict::Infeasible if judge::leaves_higher_levels_open(row, &search.rules) => Ending::Whole,
        MeasurementVerdict::Infeasible => Ending::CutShort,
    };
    let outcome = analysis::Outcome::of(ending, values, log_sds);
    analysis::Measurement {
        cell,
        purpose: Purpose::Explore,
        start_seconds: (total - run).max(0.0),
        run_seconds: run,
        outcome,
    }
}

/// A percentile of a row. A feasible row that had no room for it still says that it is below its limit.
fn value(search: &Guided, row: &Row, (metric, percentile): (LatencyMetric, Percentile)) -> Option<f64> {
    const BELOW: f64 = 0.8;
    let found = row.latencies.iter().find(|l| (l.metric, l.percentile) == (metric, percentile));
    let limit = || {
        let of = search.objectives.iter().find(|o| (o.metric, o.percentile) == (metric, percentile))?;
        (row.verdict == MeasurementVerdict::Feasible).then_some(of.max_microseconds as f64 * BELOW)
    };
    found.map(|l| l.micros.max(1) as f64).or_else(limit)
}

/// The standard error of a percentile in ln. A percentile that the row has no room for is known least.
fn latency_log_sd(row: &Row, (metric, percentile): (LatencyMetric, Percentile)) -> f64 {
    let found = row.latencies.iter().find(|l| (l.metric, l.percentile) == (metric, percentile));
    slo::latency_log_error(found.map(bounded))
}

fn throughput_log_sd(row: &Row) -> f64 {
    let medians = row.latencies.iter().filter(|l| l.percentile == Percentile::P50);
    slo::throughput_log_error(
        row.shown_throughput_error(),
        u64::from(row.count),
        medians.max_by_key(|l| l.micros).map(bounded),
    )
}

fn bounded(latency: &Latency) -> slo::Bounded {
    let Latency { micros, lower_micros, upper_micros, .. } = latency;
    let upper = upper_micros.map(|upper| upper as f64);
    slo::Bounded { value: *micros as f64, lower: *lower_micros as f64, upper }
}

#[cfg(test)]
mod tests;
