//! What a search saves that begins with what another one measured under another load.

use std::collections::BTreeMap;

use slipway_analysis::search::{
    Cell, ColumnUnit, Columns, Measurement, MetricKind, Outcome, Progress, Proposal, Purpose, SearchStrategy, Step,
    prior,
};
use slipway_evaluation::method::MethodName;
use slipway_evaluation::replay::{Problem, ReplayResult, replay};

use super::gates::Section;
use super::methods::{Grids, runs};
use super::tables::{mean, mean_interval, share_interval, table};

/// Problems that differ in their load alone, by the load.
type Loads<'a> = BTreeMap<u32, &'a Problem>;

/// What a search takes of another one.
#[derive(Clone, Copy)]
enum Taken {
    /// Its choice is measured first: a campaign's warm start.
    Choice,
    /// All of its figures are expected.
    Figures,
}

const TAKEN: [(&str, Taken); 2] = [("its choice first", Taken::Choice), ("its figures expected", Taken::Figures)];

/// A search by itself, and with what it takes of another.
struct Pair {
    cold: ReplayResult,
    warm: ReplayResult,
}

/// The table, where a set has problems of several loads.
pub fn loads(grids: &Grids, seeds: u64) -> Section {
    let problems = grids.language("gpu");
    let mut families: BTreeMap<(&str, &str), Loads<'_>> = BTreeMap::new();
    for (name, problem) in &problems {
        if let Some((set, load, limit)) = parts(name) {
            families.entry((set, limit)).or_default().insert(load, problem);
        }
    }
    families.retain(|_, loads| loads.len() > 1);
    let mut rows = Vec::new();
    for source in ["argonne", "inferencex"] {
        for (name, taken) in TAKEN {
            let of_source = families.iter().filter(|((set, _), _)| set.starts_with(source));
            let pairs: Vec<Pair> = of_source.flat_map(|(_, loads)| pairs(loads, taken, seeds)).collect();
            if !pairs.is_empty() {
                rows.push(row(&format!("{source}, {name}"), &pairs));
            }
        }
    }
    if rows.is_empty() {
        return Section::default();
    }
    let header = [
        "of another load",
        "searches",
        "runs without, with",
        "GPU-seconds over those without, mean (95 %)",
        "cost more",
        "mean ratio without, with",
        "finds 0.99 without",
        "finds 0.99 with",
    ];
    let text = format!(
        "## Beginning with another load\n\nEvery ordered pair of loads of one set under one limit, {seeds} seeds, paired \
         by seed. What the earlier search cost is not counted.\n\n{}",
        table(&header, &rows)
    );
    Section { text, ..Section::default() }
}

/// `argonne-qwen2-7b-512-gpu-25`: set, load and limit. Sets of one load have no number there.
fn parts(name: &str) -> Option<(&str, u32, &str)> {
    let (stem, limit) = name.split_once("-gpu-")?;
    let (set, load) = stem.rsplit_once('-')?;
    Some((set, load.parse().ok()?, limit))
}

fn pairs(loads: &Loads<'_>, taken: Taken, seeds: u64) -> Vec<Pair> {
    let played: Vec<_> = loads.values().map(|problem| (*problem, runs(problem, MethodName::Slipway, seeds))).collect();
    let mut pairs = Vec::new();
    for (to, (now, cold)) in played.iter().enumerate() {
        for (_, (then, before)) in played.iter().enumerate().filter(|(from, _)| *from != to) {
            for (seed, cold) in (0..seeds).zip(cold) {
                // The earlier search has a seed of its own.
                let before = &before[(seed as usize + 1) % before.len()];
                pairs.push(Pair { cold: cold.clone(), warm: warm(now, (then, before), taken, seed) });
            }
        }
    }
    pairs
}

fn warm(now: &Problem, (then, before): (&Problem, &ReplayResult), taken: Taken, seed: u64) -> ReplayResult {
    let search = |problem: &Problem| MethodName::Slipway.strategy(problem.space.clone(), seed);
    match taken {
        Taken::Choice => {
            let strategy = Beginning { first: choice(now, (then, before)), search: search(now) };
            replay(now, "slipway", &strategy, seed)
        }
        Taken::Figures => {
            let changed = expecting(now, then, &before.measurements);
            replay(&changed, "slipway", search(&changed).as_ref(), seed)
        }
    }
}

/// What the earlier search confirmed last, where the other problem has it.
fn choice(now: &Problem, (then, before): (&Problem, &ReplayResult)) -> Option<Cell> {
    let confirmed = before.measurements.iter().rev().find(|run| run.purpose == Purpose::Confirm)?.cell;
    let arm = now.space.arms.iter().position(|arm| arm.values == then.space.arms[confirmed.arm].values)?;
    let level = then.space.levels[confirmed.level];
    let level = now.space.levels.iter().position(|of| of.total_cmp(&level).is_eq())?;
    Some(Cell { arm, level }).filter(|cell| now.space.has(*cell))
}

/// A search whose first run is given.
struct Beginning {
    first: Option<Cell>,
    search: Box<dyn SearchStrategy>,
}

impl SearchStrategy for Beginning {
    fn next(&self, progress: Progress<'_>) -> Step {
        match self.first.filter(|_| progress.measurements.is_empty()) {
            Some(cell) => {
                let reason = "the choice under another load".to_owned();
                Step::Measure { proposals: vec![Proposal { cell, purpose: Purpose::Explore, reason }] }
            }
            None => self.search.next(progress),
        }
    }
}

/// A problem whose search expects what runs under another load showed. The latency of requests is by Little's law, and
/// times of tokens are as they were.
fn expecting(now: &Problem, then: &Problem, runs: &[Measurement]) -> Problem {
    let mut changed = now.clone();
    let space = &now.space;
    let value = |metric: usize, cell: Cell| {
        let known = |of: usize| runs.iter().filter(|run| is_of(now, then, (cell, run))).find_map(|run| shown(run, of));
        let unit = || prior::divisor(space, cell.arm, &space.metrics[space.objective].name);
        let throughput = || Some(known(space.objective)? * unit());
        match space.metrics[metric].kind {
            MetricKind::Throughput | MetricKind::FirstToken | MetricKind::PerToken => known(metric),
            MetricKind::Latency => throughput().map(|throughput| space.levels[cell.level] / throughput),
            MetricKind::Memory
            | MetricKind::Utilization
            | MetricKind::Power
            | MetricKind::ErrorRate
            | MetricKind::Other => None,
        }
    };
    for metric in 0..space.metrics.len() {
        let of_arm = |arm| (0..space.levels.len()).map(|level| value(metric, Cell { arm, level })).collect();
        let column: Vec<Vec<Option<f64>>> = (0..space.arms.len()).map(of_arm).collect();
        let is_known = column.iter().flatten().any(Option::is_some);
        changed.space.metrics[metric].prior = if is_known { column } else { Vec::new() };
    }
    changed.space.columns = Columns { unit: ColumnUnit::OtherWork, silent: Vec::new() };
    changed
}

/// Whether a run explored the same engine at the same level.
fn is_of(now: &Problem, then: &Problem, (cell, run): (Cell, &Measurement)) -> bool {
    run.purpose == Purpose::Explore
        && then.space.arms[run.cell.arm].values == now.space.arms[cell.arm].values
        && then.space.levels[run.cell.level].total_cmp(&now.space.levels[cell.level]).is_eq()
}

fn shown(run: &Measurement, metric: usize) -> Option<f64> {
    match &run.outcome {
        Outcome::Measured { values, .. } => values.get(metric).copied(),
        Outcome::Aborted { values, .. } => values.get(metric).copied().flatten(),
        Outcome::Failed => None,
    }
}

fn row(name: &str, pairs: &[Pair]) -> Vec<String> {
    let of = |figure: fn(&Pair) -> f64| pairs.iter().map(figure).collect::<Vec<f64>>();
    let ratios = |of: fn(&Pair) -> &ReplayResult| {
        pairs.iter().filter_map(|pair| of(pair).ratio_to_optimum).collect::<Vec<f64>>()
    };
    let factors = of(|pair| pair.warm.gpu_seconds / pair.cold.gpu_seconds);
    let (cold, warm) = (ratios(|pair| &pair.cold), ratios(|pair| &pair.warm));
    vec![
        name.to_owned(),
        pairs.len().to_string(),
        format!("{:.1}, {:.1}", mean(&of(|pair| pair.cold.runs as f64)), mean(&of(|pair| pair.warm.runs as f64))),
        mean_interval(&factors),
        share_interval(&factors, 1.0 + 1e-9),
        format!("{:.4}, {:.4}", mean(&cold), mean(&warm)),
        share_interval(&cold, 0.99),
        share_interval(&warm, 0.99),
    ]
}
