//! The stop rule: what the best further run was expected to gain, against what was truly left.

use std::collections::BTreeMap;

use slipway_evaluation::method::MethodName;
use slipway_evaluation::replay::{Problem, ReplayResult};

use super::gates::Section;
use super::methods::{Grids, runs};
use super::tables::{interval, mean, median, percent, table};

/// A search that stopped with an answer.
struct Stop {
    promised: f64,
    /// ln optimum - ln answer.
    left: f64,
}

impl Stop {
    fn of(result: &ReplayResult) -> Option<Self> {
        let ratio = result.ratio_to_optimum.filter(|ratio| *ratio > 0.0)?;
        Some(Self { promised: result.gain_left?, left: (-ratio.ln()).max(0.0) })
    }
}

fn row(name: &str, stops: &[Stop]) -> Vec<String> {
    let over = |most: f64| interval(stops.iter().filter(|stop| stop.left > most).count(), stops.len());
    let of = |figure: fn(&Stop) -> f64| stops.iter().map(figure).collect::<Vec<f64>>();
    let left = of(|stop| stop.left);
    let most = left.iter().copied().fold(0.0, f64::max);
    let two = |share: f64| format!("{:.2} %", 100.0 * share);
    vec![
        name.to_owned(),
        stops.len().to_string(),
        two(mean(&of(|stop| stop.promised))),
        two(mean(&left)),
        two(median(&left)),
        over(0.01),
        over(0.1),
        percent(most),
    ]
}

/// Every set of problems, and all of them by what was promised. A search without an answer promises nothing.
pub fn calibration(grids: &Grids, seeds: u64) -> Section {
    let noisy = || {
        let mut problems: BTreeMap<String, Problem> = grids.classical.clone();
        problems.extend(["dollar", "gpu"].into_iter().flat_map(|unit| grids.language(unit)));
        problems.values_mut().for_each(|problem| problem.noise_log_sd = 0.05);
        problems
    };
    let of_device = |kind: &str| -> BTreeMap<String, Problem> {
        let all = grids.device.iter().filter(|(name, _)| name.contains(kind));
        all.map(|(name, problem)| (name.clone(), problem.clone())).collect()
    };
    let sets = [
        ("Model Analyzer's grid", grids.classical.clone()),
        ("language models per dollar", grids.language("dollar")),
        ("language models per GPU", grids.language("gpu")),
        ("a minimum of GPU utilization", of_device("utilization")),
        ("a maximum of GPU power", of_device("power")),
        ("grid and language models, noise of 5 %", noisy()),
    ];
    let mut rows = Vec::new();
    let mut all: Vec<Stop> = Vec::new();
    for (name, problems) in sets {
        let results = problems.values().flat_map(|problem| runs(problem, MethodName::Slipway, seeds));
        let stops: Vec<Stop> = results.filter_map(|result| Stop::of(&result)).collect();
        if !stops.is_empty() {
            rows.push(row(name, &stops));
        }
        all.extend(stops);
    }
    if all.is_empty() {
        return Section::default();
    }
    for (name, range) in [
        ("all that promised less than 0.3 %", 0.0..0.003),
        ("all that promised 0.3 to 0.7 %", 0.003..0.007),
        ("all that promised 0.7 % or more", 0.007..f64::INFINITY),
    ] {
        let stops: Vec<Stop> = all.extract_if(.., |stop| range.contains(&stop.promised)).collect();
        if !stops.is_empty() {
            rows.push(row(name, &stops));
        }
    }
    let header = [
        "searches",
        "number",
        "promised, mean",
        "truly left, mean",
        "median",
        "more than 1 % left (95 % interval)",
        "more than 10 %",
        "most",
    ];
    let text = format!(
        "## The stop rule: promised against true regret, {seeds} seeds\n\nA search stops when no further run promises \
         1 % more (in ln objective). Promised is what it expected of the best single run when it stopped, and left is \
         what the best cell of all would have gained.\n\n{}",
        table(&header, &rows)
    );
    Section { text, ..Section::default() }
}
