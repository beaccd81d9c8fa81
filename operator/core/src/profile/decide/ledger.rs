//! One search over all engines, configurations and levels: which engine it asks for next, or why for none. Pure.
//!
//! The rows of the status are the ledger, and the search is a function of them. A Job walks the cells of one engine and
//! knows the rows of all others. Here the same search looks at the cells of the engines that were not asked for.

use std::collections::BTreeSet;

use slipway_analysis::{
    pareto::Direction,
    search::{
        Arm, Axis, Cell, ColumnUnit, Columns, Conclusion, Constraint, Ending, Measurement as Run, Metric, MetricKind,
        ModelSize, Outcome, Progress, Purpose, Role, SearchStrategy, Settings, Skipped, Slipway, Space, Step, Value,
        WhyNot,
    },
    slo::{self, Bound},
};
use slipway_crds::{
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{GpuFigure, LatencyMetric, OptimizeFor},
        profile::{
            EngineAxes, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, NamedConfiguration,
            ProfileInputs, ProfiledEngine, ProfiledModel,
        },
    },
    values::Percentile,
};
use slipway_selection::{
    bounds,
    cost::gpus,
    judged::{gpu_limits, judged},
    natural,
    target::driver_for,
};
use slipway_worker_contract::{
    Expected, Judged, LatencyObjective, Row, RuledOutBy, unknown_figure as unknown_figure_of,
};

use super::throughputs::{self, Throughput};
use crate::profile::rows;

/// Share of a level that an infeasible one runs before it is ended.
const ABORT_FRACTION: f64 = 0.3;
/// Confirm runs that are taken as passed to hear of the rest.
const MOST_CONFIRMS: usize = 4;

/// What the search says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// It asks for an engine, by its position among the open ones.
    Ask {
        /// The position.
        engine: usize,
        /// Why, in words.
        why: String,
    },
    /// It asks for no other. One reason for each open engine.
    Done {
        /// The reasons, in words.
        reasons: Vec<String>,
    },
}

/// Asks the search, which may choose among these open engines.
pub(super) fn next(inputs: &ProfileInputs, status: &ProfileStatus, open: &[&ProfiledEngine]) -> Next {
    let view = View::new(inputs, status, open);
    let strategy = Slipway::new(view.space.clone(), Settings::default());
    let mut runs = view.runs.clone();
    for _ in 0..=MOST_CONFIRMS {
        match strategy.next(Progress { measurements: &runs, pending: &[] }) {
            Step::Measure { proposals } => match proposals.into_iter().next() {
                Some(proposal) if proposal.purpose == Purpose::Explore => {
                    let name = &inputs.engines[view.space.arms[proposal.cell.arm].engine].name;
                    let engine = open.iter().position(|engine| engine.name == *name).unwrap_or_default();
                    return Next::Ask { engine, why: proposal.reason };
                }
                Some(proposal) => {
                    let passed = runs.iter().rev().find(|run| run.cell == proposal.cell).cloned();
                    runs.extend(passed.map(|run| Run { purpose: Purpose::Confirm, ..run }));
                }
                None => break,
            },
            Step::Wait => break,
            Step::Done { conclusion, skipped } => return view.done(inputs, open, &conclusion, &skipped),
        }
    }
    let words = "the best point is too close to a limit for a clear verdict";
    Next::Done { reasons: open.iter().map(|_| words.to_owned()).collect() }
}

/// What the search says of the cells of the measured engines that have no row, where no row meets the objectives.
pub(super) fn of_the_rest(inputs: &ProfileInputs, status: &ProfileStatus) -> String {
    let has_rows = |engine: &&ProfiledEngine| status.measurements.iter().any(|row| row.engine == engine.name);
    let measured: Vec<&ProfiledEngine> = inputs.engines.iter().filter(has_rows).collect();
    let View { space, runs } = View::new(inputs, status, &measured);
    let settings = Settings::default();
    let most = 100.0 * settings.infeasible_below;
    match Slipway::new(space, settings).next(Progress { measurements: &runs, pending: &[] }) {
        Step::Done { conclusion: Conclusion::Infeasible { .. }, .. } => {
            format!("the search gives each a chance of {most:.0} % at most")
        }
        Step::Measure { proposals } => match proposals.first() {
            Some(next) => format!("of the likeliest the search says: {}", next.reason),
            None => SEE.to_owned(),
        },
        Step::Wait | Step::Done { .. } => SEE.to_owned(),
    }
}

/// Where the reasons are.
const SEE: &str = "status.notMeasured says why";

/// The ledger as the search sees it.
struct View {
    space: Space,
    runs: Vec<Run>,
}

impl View {
    fn new(inputs: &ProfileInputs, status: &ProfileStatus, open: &[&ProfiledEngine]) -> Self {
        let is_open = |engine: &ProfiledEngine| open.iter().any(|open| open.name == engine.name);
        let rows: Vec<&Measurement> =
            status.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Explore).collect();
        let mut space = space(inputs);
        let cell = |row: &Measurement| {
            let engine = inputs.engines.iter().position(|engine| engine.name == row.engine)?;
            let configuration = inputs.configurations.iter().position(|named| named.name == row.configuration)?;
            let level = inputs.levels.iter().position(|level| *level == row.level)?;
            Some(Cell { arm: engine * inputs.configurations.len() + configuration, level })
        };
        let known: Vec<(Cell, &Measurement)> = rows.iter().filter_map(|row| Some((cell(row)?, *row))).collect();
        let seen: BTreeSet<Cell> = known.iter().map(|(cell, _)| *cell).collect();
        for (index, arm) in space.arms.iter_mut().enumerate() {
            let is_open = is_open(&inputs.engines[arm.engine]);
            let exists = |level| is_open || seen.contains(&Cell { arm: index, level });
            arm.levels = (0..inputs.levels.len()).map(exists).collect();
        }
        let mut warm = None;
        let runs = known.into_iter().map(|(cell, row)| {
            let is_loaded = warm.replace(cell.arm) == Some(cell.arm);
            run(inputs, cell, (row, is_loaded))
        });
        Self { runs: runs.collect(), space }
    }

    /// Why the search asks for none of the open engines.
    fn done(
        &self,
        inputs: &ProfileInputs,
        open: &[&ProfiledEngine],
        conclusion: &Conclusion,
        skipped: &[Skipped],
    ) -> Next {
        let (Conclusion::Chosen { reason, .. }
        | Conclusion::Infeasible { reason, .. }
        | Conclusion::Unknown { reason, .. }) = conclusion;
        let of = |engine: &&ProfiledEngine| {
            let is_its = |s: &&Skipped| inputs.engines[self.space.arms[s.arm].engine].name == engine.name;
            let most = skipped.iter().filter(is_its).map(|s| bound(&s.why)).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
            match most {
                Some((gain, feasible)) => {
                    format!("{reason}; of it a gain of {gain:.1} % at most, feasible with {feasible:.0} % at most")
                }
                None => reason.clone(),
            }
        };
        Next::Done { reasons: open.iter().map(of).collect() }
    }
}

/// What an arm may be at most, in percent: its gain, and the chance that it is feasible.
fn bound(why: &WhyNot) -> (f64, f64) {
    match why {
        WhyNot::Infeasible { feasible } => (0.0, 100.0 * feasible),
        WhyNot::Dominated { gain, feasible } | WhyNot::Budget { gain, feasible } => (100.0 * gain, 100.0 * feasible),
        WhyNot::NotVisited => (100.0, 100.0),
    }
}

/// The space of all engines, without its levels' existence.
fn space(inputs: &ProfileInputs) -> Space {
    let parameters: BTreeSet<&String> =
        inputs.configurations.iter().flat_map(|named| named.settings.parameters.keys()).collect();
    let axis = |name: &str, role| Axis { name: name.to_owned(), role };
    let is_split = inputs.engines.iter().any(|e| e.axes.as_ref().is_some_and(|axes| axes.tensor_parallel.is_some()));
    // Only these two make the analytic prior that of a language model.
    let parallel = is_split.then_some(Role::TensorParallel);
    let product = is_split.then_some(Role::GpuType);
    let mut axes = vec![
        axis("variant", None),
        axis("precision", Some(Role::Precision)),
        axis("kvCachePrecision", None),
        axis("tensorParallel", parallel),
        axis("pipelineParallel", None),
        axis("maxBatchSize", Some(Role::MaxBatchSize)),
        axis("maxNumTokens", None),
        axis("gpuProduct", product),
        axis("instances", Some(Role::Instances)),
        axis("queueDelay", None),
    ];
    axes.extend(parameters.iter().map(|name| axis(name, None)));
    let gpus = f64::from(gpus(inputs).max(1));
    let arms = inputs.engines.iter().enumerate().flat_map(|(engine, of)| {
        let parameters = &parameters;
        let price = throughputs::gpu_price(inputs, &of.name);
        inputs.configurations.iter().map(move |named| Arm {
            values: values(inputs, of, named, parameters),
            gpus,
            price,
            start_seconds: None,
            engine,
            levels: Vec::new(),
        })
    });
    let columns = Columns { unit: ColumnUnit::OtherWork, silent: silent(&axes) };
    let (objective, direction) = match inputs.optimize_for {
        OptimizeFor::Throughput | OptimizeFor::Cost => (0, Direction::Maximize),
        OptimizeFor::Latency => (position(inputs, looked_for(inputs)), Direction::Minimize),
    };
    Space {
        axes,
        arms: arms.collect(),
        levels: inputs.levels.iter().map(|level| f64::from(*level)).collect(),
        run_seconds: None,
        metrics: metrics(inputs),
        objective,
        direction,
        constraints: constraints(inputs),
        abort_fraction: ABORT_FRACTION,
        prices_known: !inputs.prices.is_empty(),
        columns,
        model: inputs.model.as_ref().map(size),
    }
}

fn size(model: &ProfiledModel) -> ModelSize {
    ModelSize { parameters: natural(model.parameters) as f64, active: natural(model.active_parameters) as f64 }
}

/// Axes that no table of expectations has: engines that differ only there have equal rows.
fn silent(axes: &[Axis]) -> Vec<usize> {
    const TOLD: [&str; 5] = ["precision", "kvCachePrecision", "tensorParallel", "pipelineParallel", "gpuProduct"];
    (0..axes.len()).filter(|axis| !TOLD.contains(&axes[*axis].name.as_str())).collect()
}

/// What runs show, the throughput first, each with what is expected of it.
fn metrics(inputs: &ProfileInputs) -> Vec<Metric> {
    let throughput = |of: Throughput| {
        let divided = |engine: &ProfiledEngine, expected: &Expected| {
            expected.per_kilosecond as f64 / of.divisor(inputs, &engine.name)
        };
        Metric { name: of.name().to_owned(), kind: MetricKind::Throughput, prior: column(inputs, divided) }
    };
    let (first, limited) = throughputs::compared(inputs);
    let mut metrics = vec![throughput(first)];
    metrics.extend(measured(inputs).into_iter().map(|(metric, percentile)| {
        let prior = column(inputs, |_, expected| expected.micros(metric) as f64);
        Metric { prior, ..latency_metric(metric, percentile) }
    }));
    metrics.extend(inputs.gpu.iter().map(|limit| gpu_metric(limit.figure)));
    metrics.extend(limited.map(throughput));
    metrics
}

/// Per arm and level, a figure that is expected: of all configurations of an engine alike. Empty where none is.
fn column(inputs: &ProfileInputs, figure: impl Fn(&ProfiledEngine, &Expected) -> f64) -> Vec<Vec<Option<f64>>> {
    if inputs.engines.iter().all(|engine| engine.expected.is_empty()) {
        return Vec::new();
    }
    let of_engine = |engine: &ProfiledEngine| {
        let known = rows::expected(engine);
        let at = |level: &i32| known.iter().find(|of| of.level == rows::unsigned(*level)).map(|of| figure(engine, of));
        let row: Vec<Option<f64>> = inputs.levels.iter().map(at).collect();
        vec![row; inputs.configurations.len()]
    };
    inputs.engines.iter().flat_map(of_engine).collect()
}

fn values(
    inputs: &ProfileInputs,
    engine: &ProfiledEngine,
    named: &NamedConfiguration,
    parameters: &BTreeSet<&String>,
) -> Vec<Value> {
    let text = |name: &str| Value::Text(name.to_owned());
    let number = |n: Option<i32>| n.map_or_else(|| text("default"), |n| Value::Number(f64::from(n)));
    let of = |axis: fn(&EngineAxes) -> Option<i32>| number(engine.axes.as_ref().and_then(axis));
    let precision = engine.axes.as_ref().map_or(engine.display_name.as_str(), |axes| axes.precision.as_str());
    let cache = engine.axes.as_ref().and_then(|axes| axes.kv_cache_precision);
    let settings = &named.settings;
    let mut values = vec![
        text(engine.axes.as_ref().map_or("", |axes| axes.variant.as_str())),
        text(precision),
        text(&cache.map_or_else(|| "default".to_owned(), |cache| format!("{cache:?}"))),
        of(|axes| axes.tensor_parallel),
        of(|axes| axes.pipeline_parallel),
        of(|axes| axes.max_batch_size),
        of(|axes| axes.max_num_tokens),
        text(inputs.gpu_product_of(engine).unwrap_or_default()),
        number(settings.instances),
        number(settings.queue_delay_microseconds),
    ];
    values.extend(parameters.iter().map(|name| match settings.parameters.get(*name) {
        Some(value) => value.parse().map_or_else(|_| text(value), Value::Number),
        None => text("default"),
    }));
    values
}

/// The latency that is looked for where latency is: that of the first objective which the driver measures.
fn looked_for(inputs: &ProfileInputs) -> (LatencyMetric, Percentile) {
    let own = (driver_for(inputs, MeasurementPurpose::Explore).measures()[0], Percentile::P99);
    judged(inputs, MeasurementPurpose::Explore).first().map_or(own, |o| (o.metric, o.percentile))
}

/// The latencies that are limited or looked for, each once, in the order of the metrics after the throughput.
fn measured(inputs: &ProfileInputs) -> Vec<(LatencyMetric, Percentile)> {
    let limited = judged(inputs, MeasurementPurpose::Explore).into_iter().map(|o| (o.metric, o.percentile));
    limited.chain([looked_for(inputs)]).collect::<BTreeSet<_>>().into_iter().collect()
}

fn position(inputs: &ProfileInputs, latency: (LatencyMetric, Percentile)) -> usize {
    1 + measured(inputs).iter().position(|l| *l == latency).unwrap_or(0)
}

fn constraints(inputs: &ProfileInputs) -> Vec<Constraint> {
    let objectives = judged(inputs, MeasurementPurpose::Explore);
    let latencies = objectives.iter().map(|o| Constraint {
        metric: position(inputs, (o.metric, o.percentile)),
        bound: Bound::AtMost(o.max.microseconds() as f64),
    });
    let first = 1 + measured(inputs).len();
    let (looked_for, _) = throughputs::compared(inputs);
    let position_of = move |of| if of == looked_for { 0 } else { first + inputs.gpu.len() };
    let targets = throughputs::limits(inputs).into_iter();
    let targets = targets.map(move |(of, bound)| Constraint { metric: position_of(of), bound });
    let of_gpus = inputs.gpu.iter().enumerate().flat_map(move |(at, limit)| {
        let bounds = [limit.min.map(|min| Bound::AtLeast(min.into())), limit.max.map(|max| Bound::AtMost(max.into()))];
        bounds.into_iter().flatten().map(move |bound| Constraint { metric: first + at, bound })
    });
    latencies.chain(targets).chain(of_gpus).collect()
}

fn latency_metric(metric: LatencyMetric, percentile: Percentile) -> Metric {
    let kind = match metric {
        // A user waits for whole requests before the one that answers: it behaves as the latency of a run.
        LatencyMetric::RequestLatency | LatencyMetric::AgentRunLatency | LatencyMetric::TimeToFirstToken => {
            MetricKind::Latency
        }
        LatencyMetric::RequestTimeToFirstToken => MetricKind::FirstToken,
        LatencyMetric::InterTokenLatency => MetricKind::PerToken,
    };
    Metric { name: format!("{metric} {percentile}"), kind, prior: Vec::new() }
}

fn gpu_metric(figure: GpuFigure) -> Metric {
    let kind = match figure {
        GpuFigure::Utilization => MetricKind::Utilization,
        GpuFigure::Power => MetricKind::Power,
        GpuFigure::Memory => MetricKind::Memory,
    };
    Metric { name: figure.limit_name().to_owned(), kind, prior: Vec::new() }
}

/// A row as a run; `is_loaded` says whether its arm was the one before.
fn run(inputs: &ProfileInputs, cell: Cell, (row, is_loaded): (&Measurement, bool)) -> Run {
    let total = natural(row.gpu_milliseconds) as f64 / 1e3 / f64::from(gpus(inputs).max(1));
    let run = if is_loaded { total } else { total.min(natural(row.milliseconds) as f64 / 1e3) };
    let (first, limited) = throughputs::compared(inputs);
    let divided = |of: Throughput| natural(row.per_kilosecond) as f64 / of.divisor(inputs, &row.engine);
    let throughput = |of: Throughput| (row.count > 0).then(|| divided(of));
    let latencies = measured(inputs).into_iter().map(|of| latency(row, of).map(|l| l.value.max(1.0)));
    let of_gpus = inputs.gpu.iter().map(|limit| Some(f64::from(row.gpu?.figure(limit.figure)?.max(1))));
    let values: Vec<Option<f64>> =
        std::iter::once(throughput(first)).chain(latencies).chain(of_gpus).chain(limited.map(throughput)).collect();
    let errors = measured(inputs).into_iter().map(|of| slo::latency_log_error(latency(row, of)));
    let log_sds: Vec<f64> = std::iter::once(bounds::throughput_error(row))
        .chain(errors)
        .chain(inputs.gpu.iter().map(|_| slo::SAMPLED_LOG_ERROR))
        .chain(limited.map(|_| bounds::throughput_error(row)))
        .collect();
    let ending = match row.verdict {
        MeasurementVerdict::Failed => Ending::Failed,
        MeasurementVerdict::Feasible | MeasurementVerdict::Unbounded => Ending::Whole,
        MeasurementVerdict::Infeasible if leaves_higher_levels_open(inputs, row) => Ending::Whole,
        MeasurementVerdict::Infeasible => Ending::CutShort,
    };
    let outcome = Outcome::of(ending, values, log_sds);
    Run { cell, purpose: Purpose::Explore, start_seconds: (total - run).max(0.0), run_seconds: run, outcome }
}

/// The words for a limited figure of GPUs that no engine's rows have.
pub(super) fn unknown_figure(inputs: &ProfileInputs, status: &ProfileStatus) -> Option<String> {
    let is_explored = |row: &&Measurement| row.purpose == MeasurementPurpose::Explore;
    let known: Vec<Row> = status.measurements.iter().filter(is_explored).map(rows::row).collect();
    unknown_figure_of(known.iter(), &gpu_limits(inputs, MeasurementPurpose::Explore))
}

/// As the worker asks of its own rows.
fn leaves_higher_levels_open(inputs: &ProfileInputs, row: &Measurement) -> bool {
    by_its_limits(inputs, row, |row, by| row.leaves_higher_levels_open(by))
}

/// What an infeasible row was ruled out by.
pub(super) fn ruled_out_by(inputs: &ProfileInputs, row: &Measurement) -> Option<RuledOutBy> {
    by_its_limits(inputs, row, |row, by| row.ruled_out_by(by))
}

fn by_its_limits<T>(inputs: &ProfileInputs, row: &Measurement, of: impl FnOnce(&Row, Judged<'_>) -> T) -> T {
    let objectives: Vec<_> = judged(inputs, row.purpose).iter().map(LatencyObjective::from).collect();
    let error_rate_max_ppm = inputs.error_rate.as_ref().map(|rate| rate.max.parts_per_million());
    let gpu_limits = &gpu_limits(inputs, row.purpose);
    of(&rows::row(row), Judged { objectives: &objectives, error_rate_max_ppm, gpu_limits })
}

fn latency(row: &Measurement, (metric, percentile): (LatencyMetric, Percentile)) -> Option<slo::Bounded> {
    row.latencies.iter().find(|l| (l.metric, l.percentile) == (metric, percentile)).map(bounded)
}

fn bounded(latency: &MeasuredLatency) -> slo::Bounded {
    let upper = latency.upper.map(|upper| natural(upper) as f64);
    slo::Bounded { value: natural(latency.microseconds) as f64, lower: natural(latency.lower) as f64, upper }
}
