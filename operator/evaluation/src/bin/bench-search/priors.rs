//! What happens without a prior, and with columns that are wrong or right.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::search::{Cell, MetricKind, Role, Space, Value, prior};
use slipway_evaluation::method::MethodName;
use slipway_evaluation::replay::{Problem, replay};

use super::gates::{Gate, Section};
use super::methods::{Grids, runs};
use super::tables::{mean, median, percent, share, table};

type Change = fn(&Problem, u64) -> Problem;

/// Without roles the analytic prior knows nothing; a wrong one is off by a factor of its own per backend and metric.
pub fn priors(grids: &Grids, seeds: u64) -> Section {
    let sets = [
        ("LLM, dollar", grids.language("dollar")),
        ("LLM, gpu", grids.language("gpu")),
        ("classical", grids.classical.clone()),
    ];
    let changes: [(&str, bool, Change); 4] = [
        ("analytic prior", false, as_it_is),
        ("prior columns right to 10 %", false, right_prior),
        ("no prior", true, without_roles),
        ("prior columns wrong by 0.3-3x", true, wrong_prior),
    ];
    let mut rows = Vec::new();
    let mut gates = Vec::new();
    for (set, problems) in &sets {
        for (change, is_gate, make) in changes {
            if problems.is_empty() {
                continue;
            }
            let (ratios, shares) = measure(problems, make, seeds);
            let (ratio, cost) = (mean(&ratios), median(&shares));
            if is_gate {
                let asked = format!("{set}, {change}: at most half of brute's GPU-seconds, mean ratio at least 0.97");
                let measured = format!("{}, {ratio:.4}", percent(cost));
                gates.push(Gate::new(asked, measured, cost <= 0.5 && ratio >= 0.97));
            }
            rows.push(vec![
                format!("{set}: {change}"),
                format!("{cost:.3}"),
                percent(share(&shares.iter().map(|s| 0.5 - s).collect::<Vec<_>>(), 0.0)),
                format!("{ratio:.4}"),
                percent(share(&ratios, 0.97)),
                percent(share(&ratios, 0.99)),
            ]);
        }
    }
    let header = ["case", "GPU-s over brute, median", "at most half of brute", "mean ratio", ">= 0.97", ">= 0.99"];
    Section { text: format!("## Prior absent, wrong or right, {seeds} seeds\n\n{}", table(&header, &rows)), gates }
}

/// Ratios to the optimum, and GPU-seconds over those of brute force.
fn measure(problems: &BTreeMap<String, Problem>, make: Change, seeds: u64) -> (Vec<f64>, Vec<f64>) {
    let (mut ratios, mut shares) = (Vec::new(), Vec::new());
    for problem in problems.values() {
        let brute = runs(problem, MethodName::Brute, 1)[0].gpu_seconds;
        for seed in 0..seeds {
            let changed = make(problem, seed);
            let strategy = MethodName::Slipway.strategy(changed.space.clone(), seed);
            let result = replay(&changed, "slipway", strategy.as_ref(), seed);
            ratios.extend(result.ratio_to_optimum);
            shares.push(result.gpu_seconds / brute);
        }
    }
    (ratios, shares)
}

fn as_it_is(problem: &Problem, _seed: u64) -> Problem {
    problem.clone()
}

/// The problem of a search that is told nothing.
pub fn without_roles(problem: &Problem, _seed: u64) -> Problem {
    let mut changed = problem.clone();
    changed.space.axes.iter_mut().for_each(|axis| axis.role = None);
    changed
}

/// The GPU product, or what stands first in an arm's identity where there is none.
fn backend(space: &Space, arm: usize) -> String {
    let first = || match space.arms[arm].values.first() {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        None => String::new(),
    };
    space.text(arm, Role::GpuType).map_or_else(first, str::to_owned)
}

/// What is true of each cell, off by a factor that all share and by 10 % of its own: what right columns gain.
fn right_prior(problem: &Problem, seed: u64) -> Problem {
    const SHARED: f64 = 1.5;
    let mut changed = problem.clone();
    let mut rng = Pcg64Mcg::seed_from_u64(2000 + seed);
    let space = &problem.space;
    for (k, metric) in space.metrics.iter().enumerate() {
        if !(metric.kind == MetricKind::Throughput || metric.kind.is_time()) {
            continue;
        }
        let mut value = |arm: usize, level: usize| {
            let value = problem.row(Cell { arm, level })?.values.as_ref()?[k];
            Some(SHARED * value * (0.1 * normal(&mut rng)).exp())
        };
        let levels = 0..space.levels.len();
        changed.space.metrics[k].prior =
            (0..space.arms.len()).map(|arm| levels.clone().map(|level| value(arm, level)).collect()).collect();
    }
    changed
}

/// A draw of N(0, 1) (Box and Muller, 1958).
fn normal(rng: &mut Pcg64Mcg) -> f64 {
    let (u, v) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

fn wrong_prior(problem: &Problem, seed: u64) -> Problem {
    let mut changed = problem.clone();
    let mut rng = Pcg64Mcg::seed_from_u64(1000 + seed);
    let space = &problem.space;
    let mut factors: BTreeMap<(usize, String), f64> = BTreeMap::new();
    for (k, metric) in space.metrics.iter().enumerate() {
        if !(metric.kind == MetricKind::Throughput || metric.kind.is_time()) {
            continue;
        }
        let value = |arm: usize, level: usize, factor: f64| {
            let throughput = prior::log_throughput(space, arm, space.levels[level]).exp();
            Some(
                factor
                    * match metric.kind {
                        MetricKind::Throughput => throughput / prior::divisor(space, arm, &metric.name),
                        _ => space.levels[level] / throughput,
                    },
            )
        };
        let mut table = Vec::new();
        for arm in 0..space.arms.len() {
            let backend = backend(space, arm);
            let factor =
                *factors.entry((k, backend)).or_insert_with(|| (rng.random_range(-1.0..1.0) * 3f64.ln()).exp());
            table.push((0..space.levels.len()).map(|level| value(arm, level, factor)).collect());
        }
        changed.space.metrics[k].prior = table;
    }
    changed
}
