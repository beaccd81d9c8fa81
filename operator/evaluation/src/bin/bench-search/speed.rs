//! Decision time in a large space.

use std::time::Instant;

use slipway_analysis::pareto::Direction;
use slipway_analysis::search::{
    Arm, Axis, Cell, Columns, Constraint, Measurement, Metric, MetricKind, Outcome, Progress, Purpose, Role,
    SearchStrategy, Settings, Slipway, Space, Step, Value,
};
use slipway_analysis::slo::Bound;

use super::gates::{Gate, Section};
use super::tables::{median, table};

/// 5,000 arms of five axes at ten levels.
fn space() -> Space {
    let gpus = ["T4", "A10", "A100", "H100", "H200"];
    let role = |name: &str, role| Axis { name: name.into(), role };
    let mut arms = Vec::new();
    for k in 0..5000usize {
        let parallel = f64::from(1 << (k / 5 % 4));
        let values = vec![
            Value::Text(gpus[k % 5].into()),
            Value::Number(parallel),
            Value::Number(f64::from(1 << (k / 20 % 10))),
            Value::Number((k / 200 % 5) as f64),
            Value::Text(format!("policy-{}", k / 1000)),
        ];
        let levels = vec![true; 10];
        arms.push(Arm { values, gpus: parallel, price: None, start_seconds: Some(120.0), engine: k, levels });
    }
    let metric = |name: &str, kind| Metric { name: name.into(), kind, prior: Vec::new() };
    Space {
        axes: vec![
            role("gpu", Some(Role::GpuType)),
            role("tensor parallel", Some(Role::TensorParallel)),
            role("batch limit", Some(Role::MaxBatchSize)),
            role("queue delay", None),
            role("policy", None),
        ],
        arms,
        levels: (0..10).map(|level| f64::from(1 << level)).collect(),
        run_seconds: Some(120.0),
        metrics: vec![
            metric("tok_per_s_per_gpu", MetricKind::Throughput),
            metric("ttft_p95_ms", MetricKind::FirstToken),
            metric("tpot_p95_ms", MetricKind::PerToken),
        ],
        objective: 0,
        direction: Direction::Maximize,
        constraints: vec![
            Constraint { metric: 1, bound: Bound::AtMost(1000.0) },
            Constraint { metric: 2, bound: Bound::AtMost(60.0) },
        ],
        abort_fraction: 0.2,
        prices_known: false,
        columns: Columns::default(),
        model: None,
    }
}

/// A smooth truth with a cliff, so that the search has something to learn.
fn truth(space: &Space, cell: Cell) -> Vec<f64> {
    let load = space.levels[cell.level];
    let per_gpu =
        slipway_analysis::search::prior::log_throughput(space, cell.arm, load).exp() / space.arms[cell.arm].gpus;
    let wiggle = 1.0 + 0.1 * ((cell.arm % 97) as f64).sin();
    let throughput = 900.0 * per_gpu * wiggle;
    let tpot = 900.0 * load / (throughput * space.arms[cell.arm].gpus);
    vec![throughput, 6.0 * tpot, tpot]
}

pub fn speed() -> Section {
    let mut text = "## Decision time, 5,000 arms x 10 levels, 3 metrics\n\n".to_owned();
    let header = ["runs known", "decision in ms, median", "most"];
    let mut slowest = 0.0_f64;
    for (title, space) in
        [("no prior columns", space()), ("prior columns wrong for each product", with_columns(space()))]
    {
        let (rows, most) = steps(&space);
        text.push_str(&format!("{title}:\n\n{}\n", table(&header, &rows)));
        slowest = slowest.max(most);
    }
    let asked = "decision in 50,000 cells, the last step too: at most 50 ms";
    Section { text, gates: vec![Gate::new(asked, format!("at most {slowest:.1} ms"), slowest <= 50.0)] }
}

/// Columns for every metric that are off by a factor of its own for each GPU product.
fn with_columns(mut space: Space) -> Space {
    const OFF: [f64; 5] = [1.0, 2.5, 0.5, 1.6, 0.35];
    let column = |metric: usize| -> Vec<Vec<Option<f64>>> {
        let value = |arm: usize, level: usize| OFF[arm % OFF.len()] * truth(&space, Cell { arm, level })[metric];
        let levels = 0..space.levels.len();
        (0..space.arms.len()).map(|arm| levels.clone().map(|level| Some(value(arm, level))).collect()).collect()
    };
    let columns: Vec<_> = (0..space.metrics.len()).map(column).collect();
    space.metrics.iter_mut().zip(columns).for_each(|(metric, column)| metric.prior = column);
    space
}

/// A row for every ten runs and for the last step, and the most milliseconds of all.
fn steps(space: &Space) -> (Vec<Vec<String>>, f64) {
    let mut rows = Vec::new();
    let strategy = Slipway::new(space.clone(), Settings { stop_gain: 0.0, ..Settings::default() });
    let mut measurements: Vec<Measurement> = Vec::new();
    let mut times: Vec<f64> = Vec::new();
    let mut slowest = 0.0_f64;
    for run in 1..=40 {
        let (step, ms) = timed(&strategy, &measurements);
        times.push(ms);
        let Step::Measure { proposals } = step else { break };
        let cell = proposals[0].cell;
        let values = truth(space, cell);
        let outcome = Outcome::Measured { log_sds: vec![0.02; values.len()], values };
        measurements.push(Measurement {
            cell,
            purpose: Purpose::Explore,
            start_seconds: 120.0,
            run_seconds: 120.0,
            outcome,
        });
        if run % 10 == 0 {
            let last = &times[times.len() - 10..];
            let most = last.iter().copied().fold(0.0, f64::max);
            slowest = slowest.max(most);
            rows.push(vec![
                format!("{} to {}", run - 10, run - 1),
                format!("{:.1}", median(last)),
                format!("{most:.1}"),
            ]);
        }
    }
    let last = last_step(space, &measurements);
    let most = last.iter().copied().fold(slowest, f64::max);
    let slowest_last = last.iter().copied().fold(0.0, f64::max);
    rows.push(vec![
        format!("{}, the last step", measurements.len()),
        format!("{:.1}", median(&last)),
        format!("{slowest_last:.1}"),
    ]);
    (rows, most)
}

/// Milliseconds of the step that ends a search: nothing is promising enough for it to go on, so it looks at every cell.
fn last_step(space: &Space, measurements: &[Measurement]) -> Vec<f64> {
    let never = Settings { stop_gain: f64::INFINITY, infeasible_below: f64::INFINITY, ..Settings::default() };
    let strategy = Slipway::new(space.clone(), never);
    (0..9).map(|_| timed(&strategy, measurements).1).collect()
}

/// A step and the least of three times in milliseconds: it is always the same step, and other work shares the machine.
fn timed(strategy: &Slipway, measurements: &[Measurement]) -> (Step, f64) {
    let once = || {
        let started = Instant::now();
        let step = strategy.next(Progress { measurements, pending: &[] });
        (step, started.elapsed().as_secs_f64() * 1000.0)
    };
    let (step, first) = once();
    (step, [first, once().1, once().1].into_iter().fold(f64::INFINITY, f64::min))
}
