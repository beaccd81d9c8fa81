//! Limits on what is sampled of the GPU: a least utilization, a greatest power.

use std::collections::BTreeMap;

use slipway_analysis::search::Role;
use slipway_evaluation::medians;
use slipway_evaluation::method::MethodName;
use slipway_evaluation::replay::{Problem, ReplayResult};

use super::gates::{Gate, Section};
use super::methods::{Grids, of_one_engine, runs};
use super::tables::{least, mean, mean_ratio, percent, share, share_interval, table};

/// One method on some problems, over all seeds.
struct Row {
    ratios: Vec<f64>,
    /// The mean ratio of each problem.
    means: Vec<f64>,
    runs: Vec<f64>,
    /// Searches that said that nothing is feasible; something always is.
    missed: usize,
}

impl Row {
    /// Of the results of each problem.
    fn of(problems: &[&[ReplayResult]]) -> Self {
        let all = || problems.iter().flat_map(|results| results.iter());
        let ratios = |results: &[ReplayResult]| results.iter().filter_map(|r| r.ratio_to_optimum).collect::<Vec<_>>();
        Self {
            ratios: all().filter_map(|r| r.ratio_to_optimum).collect(),
            means: problems.iter().map(|results| mean(&ratios(results))).collect(),
            runs: all().map(|r| r.runs as f64).collect(),
            missed: all().filter(|r| r.chosen.is_none()).count(),
        }
    }

    fn good(&self) -> String {
        share_interval(&self.ratios, 0.99)
    }

    fn cells(&self, name: String) -> Vec<String> {
        vec![
            name,
            format!("{:.1}", mean(&self.runs)),
            mean_ratio(&self.means),
            format!("{:.3}", least(&self.ratios)),
            self.good(),
            percent(share(&self.ratios, 0.9)),
            self.missed.to_string(),
        ]
    }
}

const HEADER: [&str; 7] =
    ["", "runs", "mean ratio (95 % interval)", "least", ">= 0.99 (95 % interval)", ">= 0.9", "said infeasible"];

/// Both kinds of limits, by every method, and each problem by the search. First each cell is as it was sampled once.
/// Then it is the median of the batch limits, which change nothing in these grids.
pub fn device(grids: &Grids, seeds: u64) -> Section {
    let mut section = Section::default();
    if grids.device.is_empty() {
        return section;
    }
    let median =
        |(name, problem): (&String, &Problem)| (name.clone(), medians::of_repeats(problem.clone(), Role::MaxBatchSize));
    let medians = grids.device.iter().map(median).collect();
    section.text =
        format!("## Limits on what is sampled of the GPU, {} problems, {seeds} seeds\n\n", grids.device.len());
    section.text.push_str("### Each cell sampled once\n\n");
    compare(&mut section, grids, &grids.device, seeds, "each cell sampled once");
    section.text.push_str("\n### Each cell the median of nine that differ in the batch limit\n\n");
    compare(&mut section, grids, &medians, seeds, "medians of nine");
    section
}

fn compare(section: &mut Section, grids: &Grids, all: &BTreeMap<String, Problem>, seeds: u64, cells: &str) {
    let mut detail = Vec::new();
    for (kind, title) in [("utilization", "A minimum of GPU utilization"), ("power", "A maximum of GPU power")] {
        let problems = || all.iter().filter(|(name, _)| name.contains(kind));
        let mut rows = Vec::new();
        for method in of_one_engine(&grids.methods) {
            let by_problem: Vec<(&String, Vec<ReplayResult>)> =
                problems().map(|(name, problem)| (name, runs(problem, method, seeds))).collect();
            let row = Row::of(&by_problem.iter().map(|(_, results)| results.as_slice()).collect::<Vec<_>>());
            rows.push(row.cells(method.name()));
            if method == MethodName::Slipway {
                detail.extend(by_problem.iter().map(|(name, results)| Row::of(&[results]).cells((*name).clone())));
                let asked = format!("{title}, {cells}: at least 0.99 in 95 %, never below 0.9");
                let is_met = share(&row.ratios, 0.99) >= 0.95 && least(&row.ratios) >= 0.9;
                let measured = format!("{}, at least {:.3}", row.good(), least(&row.ratios));
                section.gates.push(Gate::new(asked, measured, is_met));
            }
        }
        section.text.push_str(&format!("{title}:\n\n{}\n", table(&HEADER, &rows)));
    }
    section.text.push_str(&format!("The search, problem by problem:\n\n{}", table(&HEADER, &detail)));
}
