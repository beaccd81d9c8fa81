//! The replayed suites: Model Analyzer's grid, language models, noise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use slipway_evaluation::method::MethodName;
use slipway_evaluation::problem;
use slipway_evaluation::replay::{Abort, Problem, ReplayResult, replay};

use super::gates::{Gate, Section};
use super::tables::{
    interval, least, mean, mean_ratio, median, median_interval, percent, share, share_interval, table,
};

const METHODS: [MethodName; 9] = [
    MethodName::Slipway,
    MethodName::SlipwayWhenAsked,
    MethodName::SlipwayAll,
    MethodName::Brute,
    MethodName::BruteEarlyExit,
    MethodName::MaQuickSweep,
    MethodName::Bisection,
    MethodName::Tpe,
    MethodName::Random,
];

/// Problems by folder and name.
pub struct Grids {
    pub classical: BTreeMap<String, Problem>,
    language: BTreeMap<String, Problem>,
    pub device: BTreeMap<String, Problem>,
    pub ladder: BTreeMap<String, Problem>,
    pub methods: Vec<MethodName>,
}

impl Grids {
    pub fn read(data: &Path, methods: &[MethodName]) -> Self {
        let folder = |name: &str| -> BTreeMap<String, Problem> {
            let Ok(entries) = std::fs::read_dir(data.join(name)) else { return BTreeMap::new() };
            let paths = entries.map(|entry| entry.unwrap().path());
            let problems = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
            problems
                .map(|path| {
                    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                    (name, problem::read(&path).unwrap_or_else(|e| panic_on(&path, &e)))
                })
                .collect()
        };
        Self {
            classical: folder("resnet50"),
            language: folder("llm_pilot"),
            device: folder("device"),
            ladder: folder("ladder_h200"),
            methods: if methods.is_empty() { METHODS.to_vec() } else { methods.to_vec() },
        }
    }

    pub fn language(&self, unit: &str) -> BTreeMap<String, Problem> {
        let of = |(name, _): &(&String, &Problem)| name.contains(&format!("-{unit}-"));
        self.language.iter().filter(of).map(|(name, problem)| (name.clone(), problem.clone())).collect()
    }
}

/// The methods that differ where all arms are of one engine: there campaigns search all cells at once.
pub fn of_one_engine(methods: &[MethodName]) -> impl Iterator<Item = MethodName> + '_ {
    let is_by_engine = |method: &MethodName| matches!(method, MethodName::SlipwayWhenAsked | MethodName::SlipwayAll);
    methods.iter().copied().filter(move |method| !is_by_engine(method))
}

fn panic_on(path: &Path, error: &dyn std::error::Error) -> ! {
    eprintln!("{}: {error}", path.display());
    std::process::exit(2)
}

fn is_random(method: MethodName) -> bool {
    use MethodName::{Random, Slipway, SlipwayAll, SlipwayWhenAsked, Tpe};
    matches!(method, Slipway | SlipwayWhenAsked | SlipwayAll | Tpe | Random)
}

/// One run per seed; methods without randomness run once on a problem without noise.
pub fn runs(problem: &Problem, method: MethodName, seeds: u64) -> Vec<ReplayResult> {
    let seeds = if is_random(method) || problem.noise_log_sd > 0.0 { seeds } else { 1 };
    (0..seeds)
        .map(|seed| replay(problem, &method.name(), method.strategy(problem.space.clone(), seed).as_ref(), seed))
        .collect()
}

struct Summary {
    runs: f64,
    starts: f64,
    /// Arms that were run. Of language models each is an engine.
    arms: f64,
    seconds: f64,
    ratios: Vec<f64>,
}

fn summary(results: &[ReplayResult]) -> Summary {
    let of = |f: &dyn Fn(&ReplayResult) -> f64| results.iter().map(f).collect::<Vec<f64>>();
    Summary {
        runs: mean(&of(&|r| r.runs as f64)),
        starts: mean(&of(&|r| r.starts as f64)),
        arms: mean(&of(&|r| arms(r) as f64)),
        seconds: mean(&of(&|r| r.gpu_seconds)),
        ratios: results.iter().filter_map(|r| r.ratio_to_optimum).collect(),
    }
}

/// The number of arms that a search has run.
fn arms(result: &ReplayResult) -> usize {
    result.measurements.iter().map(|run| run.cell.arm).collect::<BTreeSet<usize>>().len()
}

fn totals(problems: &BTreeMap<String, Problem>, method: MethodName, seeds: u64) -> BTreeMap<String, Summary> {
    problems.iter().map(|(name, problem)| (name.clone(), summary(&runs(problem, method, seeds)))).collect()
}

fn pooled(by_problem: &BTreeMap<String, Summary>) -> Vec<f64> {
    by_problem.values().flat_map(|s| s.ratios.iter().copied()).collect()
}

fn over(by_problem: &BTreeMap<String, Summary>, f: impl Fn(&Summary) -> f64) -> Vec<f64> {
    by_problem.values().map(f).collect()
}

const GRID_HEADER: [&str; 8] = [
    "method",
    "runs",
    "starts",
    "mean ratio (95 % interval)",
    "least",
    ">= 0.97",
    ">= 0.99 (95 % interval)",
    "GPU-s saved, median (95 % interval)",
];

/// Model Analyzer's own grid.
pub fn grid(grids: &Grids, seeds: u64) -> Section {
    let problems = &grids.classical;
    let mut section = Section::default();
    if problems.is_empty() {
        return section;
    }
    let mut rows = Vec::new();
    let mut detail = Vec::new();
    let brute = totals(problems, MethodName::Brute, 1);
    for method in of_one_engine(&grids.methods) {
        let by_problem = totals(problems, method, seeds);
        let ratios: Vec<f64> = over(&by_problem, |s| mean(&s.ratios));
        let saved: Vec<f64> = by_problem.iter().map(|(name, s)| brute[name].seconds / s.seconds).collect();
        rows.push(vec![
            method.name(),
            format!("{:.1}", mean(&over(&by_problem, |s| s.runs))),
            format!("{:.1}", mean(&over(&by_problem, |s| s.starts))),
            mean_ratio(&ratios),
            format!("{:.3}", least(&pooled(&by_problem))),
            percent(share(&pooled(&by_problem), 0.97)),
            share_interval(&pooled(&by_problem), 0.99),
            median_interval(&saved),
        ]);
        if method == MethodName::Slipway {
            let (runs, ratio) = (mean(&over(&by_problem, |s| s.runs)), mean(&ratios));
            let asked = "Model Analyzer's grid: at most 17 runs, mean ratio at least 0.99";
            let is_met = runs <= 17.0 && ratio >= 0.99;
            section.gates.push(Gate::new(asked, format!("{runs:.1} runs, {ratio:.4}"), is_met));
        }
        if matches!(method, MethodName::Slipway | MethodName::MaQuickSweep) {
            detail.push(by_problem);
        }
    }
    let per_problem: Vec<Vec<String>> = problems
        .keys()
        .map(|name| {
            let mut row = vec![name.clone()];
            for by_problem in &detail {
                let s = &by_problem[name];
                row.extend([
                    format!("{:.1}", s.runs),
                    format!("{:.4}", mean(&s.ratios)),
                    format!("{:.3}", least(&s.ratios)),
                ]);
            }
            row
        })
        .collect();
    section.text = format!(
        "## A classical model: Model Analyzer's grid, {} problems, {seeds} seeds\n\n{}\n{}",
        problems.len(),
        table(&GRID_HEADER, &rows),
        table(
            &["problem", "slipway: runs", "mean ratio", "least", "ma-quick-sweep: runs", "ratio", "least"],
            &per_problem
        ),
    );
    section
}

/// Language models: GPU product, tensor parallelism, users.
pub fn language_models(grids: &Grids, seeds: u64) -> Section {
    let mut section =
        Section { text: "## Language models under TTFT and TPOT limits\n\n".into(), ..Section::default() };
    for unit in ["dollar", "gpu"] {
        let with = grids.language(unit);
        if with.is_empty() {
            continue;
        }
        let mut without = with.clone();
        for problem in without.values_mut() {
            problem.abort = Abort::Never;
            problem.space.abort_fraction = 1.0;
        }
        let text = &mut section.text;
        text.push_str(&format!("### Tokens per second and {unit}, {} problems, {seeds} seeds\n\n", with.len()));
        for (title, problems) in [(EARLY, &with), ("no method aborts early", &without)] {
            let compared = compare(grids, problems, seeds);
            let rows: Vec<Vec<String>> = compared.iter().map(Versus::row).collect();
            text.push_str(&format!("{title}:\n\n{}\n", table(&VERSUS_HEADER, &rows)));
            // The gates are asked of searches that end hopeless runs early.
            let own = compared.iter().filter(|versus| title == EARLY && versus.is_own());
            section.gates.extend(own.flat_map(|own| own.gates(unit)));
        }
        text.push_str(&details(&with, seeds));
    }
    section
}

const EARLY: &str = "every method aborts early";

const VERSUS_HEADER: [&str; 11] = [
    "method",
    "runs",
    "engines",
    "GPU-s",
    "less than brute, median (95 % interval)",
    "less than bisection, median (95 % interval)",
    "mean ratio (95 % interval)",
    "least",
    "problems >= 0.97 (all seeds)",
    ">= 0.99",
    "searches >= 0.99 (95 % interval)",
];

/// A method beside brute force and bisection.
struct Versus {
    method: MethodName,
    runs: f64,
    engines: f64,
    seconds: f64,
    /// How many times fewer GPU-seconds, per problem.
    than_brute: Vec<f64>,
    than_bisection: Vec<f64>,
    /// The mean ratio of each problem's seeds.
    means: Vec<f64>,
    /// The least ratio of each problem's seeds.
    worst: Vec<f64>,
    /// The ratio of every search.
    ratios: Vec<f64>,
}

impl Versus {
    fn at_least(&self, threshold: f64) -> usize {
        self.worst.iter().filter(|ratio| **ratio >= threshold).count()
    }

    fn row(&self) -> Vec<String> {
        let of = |n: usize| format!("{n} of {}", self.worst.len());
        vec![
            self.method.name(),
            format!("{:.1}", self.runs),
            format!("{:.1}", self.engines),
            format!("{:.0}", self.seconds),
            median_interval(&self.than_brute),
            median_interval(&self.than_bisection),
            mean_ratio(&self.means),
            format!("{:.3}", least(&self.worst)),
            of(self.at_least(0.97)),
            of(self.at_least(0.99)),
            share_interval(&self.ratios, 0.99),
        ]
    }

    fn is_own(&self) -> bool {
        matches!(self.method, MethodName::Slipway | MethodName::SlipwayWhenAsked | MethodName::SlipwayAll)
    }

    fn gates(&self, unit: &str) -> [Gate; 2] {
        let (good, all) = (self.at_least(0.99), self.worst.len());
        let what = match self.method {
            MethodName::SlipwayWhenAsked => format!("language models per {unit}, engines when asked"),
            MethodName::SlipwayAll => format!("language models per {unit}, all engines"),
            _ => format!("language models per {unit}"),
        };
        [
            Gate::new(
                format!("{what}: at least 10x below brute, every problem at least 0.99"),
                format!("{}, {good} of {all}", median_interval(&self.than_brute)),
                median(&self.than_brute) >= 10.0 && good == all,
            ),
            Gate::new(
                format!("{what}: at least 4x below bisection"),
                median_interval(&self.than_bisection),
                median(&self.than_bisection) >= 4.0,
            ),
        ]
    }
}

fn compare(grids: &Grids, problems: &BTreeMap<String, Problem>, seeds: u64) -> Vec<Versus> {
    let brute = totals(problems, MethodName::Brute, 1);
    let bisection = totals(problems, MethodName::Bisection, 1);
    let versus = |method: &MethodName| {
        let own = totals(problems, *method, seeds);
        let against = |other: &BTreeMap<String, Summary>| {
            own.iter().map(|(name, s)| other[name].seconds / s.seconds).collect::<Vec<_>>()
        };
        Versus {
            method: *method,
            runs: mean(&over(&own, |s| s.runs)),
            engines: mean(&over(&own, |s| s.arms)),
            seconds: mean(&over(&own, |s| s.seconds)),
            than_brute: against(&brute),
            than_bisection: against(&bisection),
            means: over(&own, |s| mean(&s.ratios)),
            worst: over(&own, |s| least(&s.ratios)),
            ratios: pooled(&own),
        }
    };
    grids.methods.iter().map(versus).collect()
}

fn details(problems: &BTreeMap<String, Problem>, seeds: u64) -> String {
    let brute = totals(problems, MethodName::Brute, 1);
    let bisection = totals(problems, MethodName::Bisection, 1);
    let own = totals(problems, MethodName::Slipway, seeds);
    let asked = totals(problems, MethodName::SlipwayWhenAsked, seeds);
    let rows: Vec<Vec<String>> = own
        .iter()
        .map(|(name, s)| {
            vec![
                name.clone(),
                format!("{:.1}", s.runs),
                format!("{:.0}", s.seconds),
                format!("{:.1}x", brute[name].seconds / s.seconds),
                format!("{:.1}x", bisection[name].seconds / s.seconds),
                format!("{:.3}", mean(&s.ratios)),
                format!("{:.3}", least(&s.ratios)),
                format!("{:.1}x", brute[name].seconds / asked[name].seconds),
                format!("{:.3}", least(&asked[name].ratios)),
            ]
        })
        .collect();
    let header = [
        "problem (early abort)",
        "runs",
        "GPU-s",
        "less than brute",
        "than bisection",
        "mean ratio",
        "least",
        "engines when asked: less than brute",
        "least",
    ];
    format!("{}\n", table(&header, &rows))
}

/// The search sees every value times exp(0.05 N(0, 1)); the truth is the row.
pub fn noise(grids: &Grids, seeds: u64) -> Section {
    let mut problems: BTreeMap<String, Problem> = grids.classical.clone();
    problems.extend(grids.language.clone());
    problems.values_mut().for_each(|problem| problem.noise_log_sd = 0.05);
    let mut rows = Vec::new();
    let mut gates = Vec::new();
    for method in of_one_engine(&grids.methods) {
        let by_problem: Vec<Vec<ReplayResult>> =
            problems.values().map(|problem| runs(problem, method, seeds)).collect();
        let all: Vec<&ReplayResult> = by_problem.iter().flatten().collect();
        let answers = all.iter().filter(|r| r.chosen.is_some()).count();
        let violating = all.iter().filter(|r| r.chosen.is_some() && !r.feasible).count();
        let of_problem = |results: &Vec<ReplayResult>| mean(&summary(results).ratios);
        let ratios: Vec<f64> = by_problem.iter().map(of_problem).collect();
        if method == MethodName::Slipway {
            let asked = "final answers that violate a limit under noise of 5 %: at most 1 %";
            let is_met = violating as f64 <= 0.01 * answers as f64;
            let measured = format!("{violating} of {answers}: {}", interval(violating, answers));
            gates.push(Gate::new(asked, measured, is_met));
        }
        rows.push(vec![
            method.name(),
            format!("{answers} of {}", all.len()),
            interval(violating, answers),
            mean_ratio(&ratios),
            format!("{:.1}", mean(&all.iter().map(|r| r.runs as f64).collect::<Vec<_>>())),
        ]);
    }
    let text = format!(
        "## Noise of 5 % on every value, {} problems, {seeds} seeds\n\n{}",
        problems.len(),
        table(
            &["method", "answers", "violate a constraint (95 % interval)", "mean ratio (95 % interval)", "runs"],
            &rows
        )
    );
    Section { text, gates }
}
