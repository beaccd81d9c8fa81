//! The roofline against rows of a real engine: point by point, and what it saves the search.

use std::collections::BTreeMap;

use slipway_analysis::search::{Cell, Space, Value, prior};
use slipway_evaluation::method::MethodName;
use slipway_evaluation::replay::{Problem, ReplayResult, replay};

use super::gates::Section;
use super::methods::{Grids, runs};
use super::priors::without_roles;
use super::tables::{mean, mean_interval, percent, share, table};

/// A problem as a search sees it that knows more or less of the model.
type Variant = fn(&Problem) -> Problem;

/// What the search knows of a model before it measures.
const VARIANTS: [(&str, Variant); 3] = [
    ("the model's own size", Problem::clone),
    ("a typical size", typical),
    ("no prior", |problem| without_roles(problem, 0)),
];

/// Both tables.
pub fn roofline(grids: &Grids, seeds: u64) -> Section {
    let Some(problem) = grids.ladder.values().next() else { return Section::default() };
    let text = format!(
        "## The roofline against vLLM on one GPU\n\nThe rows are of [a shape of 8 B parameters on an H200]\
         (../benchmarks.md#from-transformers-to-vllm-and-to-slipways-choice). A search learns the scale from its first run, so \
         every column has one factor of its own, which brings its ratios around 1.\n\n{}\nGPU-seconds of a search over those \
         with the model's own size, {} limits on the p95, {seeds} seeds, paired by seed.\n\n{}",
        points(problem),
        grids.ladder.len(),
        savings(&grids.ladder, seeds),
    );
    Section { text, ..Section::default() }
}

/// Each measured point, and what is expected of it.
fn points(problem: &Problem) -> String {
    let cells: Vec<(Cell, f64)> =
        problem.space.cells().filter_map(|cell| Some((cell, measured(problem, cell)?))).collect();
    let own = expected(&problem.space, &cells);
    let typical = expected(&typical(problem).space, &cells);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, (cell, measured)) in cells.iter().enumerate() {
        rows.push(vec![
            name(&problem.space, cell.arm),
            problem.space.levels[cell.level].to_string(),
            format!("{measured:.2}"),
            format!("{:.2}", own[index]),
            format!("{:.2}", own[index] / measured),
            format!("{:.2}", typical[index]),
            format!("{:.2}", typical[index] / measured),
        ]);
    }
    let off = |expected: &[f64]| {
        let logs = expected.iter().zip(&cells).map(|(expected, (_, measured))| (expected / measured).ln().powi(2));
        format!("{:.0} %", 100.0 * (mean(&logs.collect::<Vec<_>>()).sqrt().exp() - 1.0))
    };
    let header = ["engine", "agents", "runs/s", "own size", "ratio", "typical size", "ratio"];
    format!(
        "{}\nOff by, root mean square: {} with the model's own size, {} with a typical one.\n",
        table(&header, &rows),
        off(&own),
        off(&typical)
    )
}

fn measured(problem: &Problem, cell: Cell) -> Option<f64> {
    problem.row(cell)?.values.as_ref().map(|values| values[problem.space.objective])
}

/// What the roofline expects of some cells, times the factor that brings it nearest to what was measured.
fn expected(space: &Space, cells: &[(Cell, f64)]) -> Vec<f64> {
    let logs: Vec<f64> =
        cells.iter().map(|(cell, _)| prior::log_throughput(space, cell.arm, space.levels[cell.level])).collect();
    let factor = mean(&cells.iter().zip(&logs).map(|((_, measured), log)| measured.ln() - log).collect::<Vec<_>>());
    logs.into_iter().map(|log| (log + factor).exp()).collect()
}

fn name(space: &Space, arm: usize) -> String {
    let of = |(axis, value): (&slipway_analysis::search::Axis, &Value)| match value {
        Value::Text(text) => Some(text.clone()).filter(|_| axis.name != "gpu"),
        Value::Number(number) => Some(number.to_string()),
    };
    let parts: Vec<String> = space.axes.iter().zip(&space.arms[arm].values).filter_map(of).collect();
    parts.join(", ")
}

fn typical(problem: &Problem) -> Problem {
    let mut changed = problem.clone();
    changed.space.model = None;
    changed
}

/// What each variant costs over the first, by problem and seed, and over brute force.
fn savings(problems: &BTreeMap<String, Problem>, seeds: u64) -> String {
    let all = VARIANTS.map(|(name, change)| (name, searches(problems, change, seeds)));
    let brute: Vec<f64> = problems
        .values()
        .flat_map(|problem| {
            let seconds = runs(problem, MethodName::Brute, 1)[0].gpu_seconds;
            (0..seeds).map(move |_| seconds)
        })
        .collect();
    let seconds = |results: &[ReplayResult]| results.iter().map(|result| result.gpu_seconds).collect::<Vec<f64>>();
    let first = seconds(&all[0].1);
    let over = |seconds: &[f64]| {
        let factors: Vec<f64> = seconds.iter().zip(&first).map(|(own, first)| own / first).collect();
        mean_interval(&factors)
    };
    let row = |name: &str, seconds: &[f64], ratios: Option<Vec<f64>>| {
        let good = ratios.map_or_else(String::new, |ratios| percent(share(&ratios, 0.99)));
        vec![name.to_owned(), format!("{:.0}", mean(seconds)), over(seconds), good]
    };
    let mut rows: Vec<Vec<String>> = all
        .iter()
        .map(|(name, results)| {
            let ratios = results.iter().filter_map(|result| result.ratio_to_optimum).collect();
            row(name, &seconds(results), Some(ratios))
        })
        .collect();
    rows.push(row("brute force", &brute, None));
    table(&["the search knows", "GPU-s, mean", "over the first, mean (95 % interval)", "finds 0.99 of the best"], &rows)
}

fn searches(problems: &BTreeMap<String, Problem>, change: fn(&Problem) -> Problem, seeds: u64) -> Vec<ReplayResult> {
    let of = |problem: &Problem| {
        let changed = change(problem);
        let one = |seed| {
            let strategy = MethodName::Slipway.strategy(changed.space.clone(), seed);
            replay(&changed, "slipway", strategy.as_ref(), seed)
        };
        (0..seeds).map(one).collect::<Vec<_>>()
    };
    problems.values().flat_map(of).collect()
}
