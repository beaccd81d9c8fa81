//! The replayed suites: Model Analyzer's grid, language models, noise, wrong priors.

use std::collections::BTreeMap;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::cli::problem;
use slipway_analysis::cli::replay::MethodName;
use slipway_analysis::replay::{Abort, Problem, ReplayResult, replay};
use slipway_analysis::search::{MetricKind, Role, prior};

use super::tables::{least, mean, median, percent, share, table};

const METHODS: [MethodName; 7] = [
    MethodName::Slipway,
    MethodName::Brute,
    MethodName::BruteEarlyExit,
    MethodName::MaQuickSweep,
    MethodName::Bisection,
    MethodName::Tpe,
    MethodName::Random,
];

/// Problems by folder and name.
pub struct Grids {
    classical: BTreeMap<String, Problem>,
    language: BTreeMap<String, Problem>,
    methods: Vec<MethodName>,
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
            methods: if methods.is_empty() { METHODS.to_vec() } else { methods.to_vec() },
        }
    }

    fn language(&self, unit: &str) -> BTreeMap<String, Problem> {
        let of = |(name, _): &(&String, &Problem)| name.contains(&format!("-{unit}-"));
        self.language.iter().filter(of).map(|(name, problem)| (name.clone(), problem.clone())).collect()
    }
}

fn panic_on(path: &Path, error: &dyn std::error::Error) -> ! {
    eprintln!("{}: {error}", path.display());
    std::process::exit(2)
}

fn is_random(method: MethodName) -> bool {
    matches!(method, MethodName::Slipway | MethodName::Tpe | MethodName::Random)
}

/// One run per seed; methods without randomness run once on a problem without noise.
fn runs(problem: &Problem, method: MethodName, seeds: u64) -> Vec<ReplayResult> {
    let seeds = if is_random(method) || problem.noise_log_sd > 0.0 { seeds } else { 1 };
    (0..seeds)
        .map(|seed| replay(problem, &method.name(), method.strategy(problem.space.clone(), seed).as_ref(), seed))
        .collect()
}

struct Summary {
    runs: f64,
    starts: f64,
    seconds: f64,
    ratios: Vec<f64>,
}

fn summary(results: &[ReplayResult]) -> Summary {
    let of = |f: &dyn Fn(&ReplayResult) -> f64| results.iter().map(f).collect::<Vec<f64>>();
    Summary {
        runs: mean(&of(&|r| r.runs as f64)),
        starts: mean(&of(&|r| r.starts as f64)),
        seconds: mean(&of(&|r| r.gpu_seconds)),
        ratios: results.iter().filter_map(|r| r.ratio_to_optimum).collect(),
    }
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

/// Model Analyzer's own grid.
pub fn grid(grids: &Grids, seeds: u64) -> String {
    let problems = &grids.classical;
    let mut rows = Vec::new();
    let mut detail = Vec::new();
    let brute = totals(problems, MethodName::Brute, 1);
    for method in grids.methods.iter().copied() {
        let by_problem = totals(problems, method, seeds);
        let ratios: Vec<f64> = over(&by_problem, |s| mean(&s.ratios));
        let saved: Vec<f64> = by_problem.iter().map(|(name, s)| brute[name].seconds / s.seconds).collect();
        rows.push(vec![
            method.name(),
            format!("{:.1}", mean(&over(&by_problem, |s| s.runs))),
            format!("{:.1}", mean(&over(&by_problem, |s| s.starts))),
            format!("{:.4}", mean(&ratios)),
            format!("{:.3}", least(&pooled(&by_problem))),
            percent(share(&pooled(&by_problem), 0.97)),
            percent(share(&pooled(&by_problem), 0.99)),
            format!("{:.1}x", median(&saved)),
        ]);
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
    format!(
        "## A classical model: Model Analyzer's grid, {} problems, {seeds} seeds\n\n{}\n{}",
        problems.len(),
        table(&["method", "runs", "starts", "mean ratio", "least", ">= 0.97", ">= 0.99", "GPU-s saved, median"], &rows),
        table(
            &["problem", "slipway: runs", "mean ratio", "least", "ma-quick-sweep: runs", "ratio", "least"],
            &per_problem
        ),
    )
}

/// Language models: GPU product, tensor parallelism, users.
pub fn language_models(grids: &Grids, seeds: u64) -> String {
    let mut text = String::from("## Language models under TTFT and TPOT limits\n\n");
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
        text.push_str(&format!("### Tokens per second and {unit}, {} problems, {seeds} seeds\n\n", with.len()));
        for (title, problems) in [("every method aborts early", &with), ("no method aborts early", &without)] {
            text.push_str(&format!("{title}:\n\n{}\n", compare(grids, problems, seeds)));
        }
        text.push_str(&details(&with, seeds));
    }
    text
}

fn compare(grids: &Grids, problems: &BTreeMap<String, Problem>, seeds: u64) -> String {
    let brute = totals(problems, MethodName::Brute, 1);
    let bisection = totals(problems, MethodName::Bisection, 1);
    let rows: Vec<Vec<String>> = grids
        .methods
        .iter()
        .map(|method| {
            let own = totals(problems, *method, seeds);
            let against = |other: &BTreeMap<String, Summary>| {
                median(&own.iter().map(|(name, s)| other[name].seconds / s.seconds).collect::<Vec<_>>())
            };
            let ratios = over(&own, |s| mean(&s.ratios));
            let worst = over(&own, |s| least(&s.ratios));
            let at_least = |threshold: f64| worst.iter().filter(|r| **r >= threshold).count();
            vec![
                method.name(),
                format!("{:.1}", mean(&over(&own, |s| s.runs))),
                format!("{:.0}", mean(&over(&own, |s| s.seconds))),
                format!("{:.1}x", against(&brute)),
                format!("{:.1}x", against(&bisection)),
                format!("{:.4}", mean(&ratios)),
                format!("{:.3}", least(&worst)),
                format!("{} of {}", at_least(0.97), worst.len()),
                format!("{} of {}", at_least(0.99), worst.len()),
            ]
        })
        .collect();
    let header = [
        "method",
        "runs",
        "GPU-s",
        "less than brute, median",
        "less than bisection, median",
        "mean ratio",
        "least",
        "problems >= 0.97 (all seeds)",
        ">= 0.99",
    ];
    table(&header, &rows)
}

fn details(problems: &BTreeMap<String, Problem>, seeds: u64) -> String {
    let brute = totals(problems, MethodName::Brute, 1);
    let bisection = totals(problems, MethodName::Bisection, 1);
    let own = totals(problems, MethodName::Slipway, seeds);
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
            ]
        })
        .collect();
    let header = ["problem (early abort)", "runs", "GPU-s", "less than brute", "than bisection", "mean ratio", "least"];
    format!("{}\n", table(&header, &rows))
}

/// The search sees every value times exp(0.05 N(0, 1)); the truth is the row.
pub fn noise(grids: &Grids, seeds: u64) -> String {
    let mut problems: BTreeMap<String, Problem> = grids.classical.clone();
    problems.extend(grids.language.clone());
    problems.values_mut().for_each(|problem| problem.noise_log_sd = 0.05);
    let mut rows = Vec::new();
    for method in grids.methods.iter().copied() {
        let all: Vec<ReplayResult> = problems.values().flat_map(|problem| runs(problem, method, seeds)).collect();
        let answers = all.iter().filter(|r| r.chosen.is_some()).count();
        let violating = all.iter().filter(|r| r.chosen.is_some() && !r.feasible).count();
        let ratios: Vec<f64> = all.iter().filter_map(|r| r.ratio_to_optimum).collect();
        rows.push(vec![
            method.name(),
            format!("{answers} of {}", all.len()),
            percent(violating as f64 / answers.max(1) as f64),
            format!("{:.3}", mean(&ratios)),
            format!("{:.1}", mean(&all.iter().map(|r| r.runs as f64).collect::<Vec<_>>())),
        ]);
    }
    format!(
        "## Noise of 5 % on every value, {} problems, {seeds} seeds\n\n{}",
        problems.len(),
        table(&["method", "answers", "violate a constraint", "mean ratio", "runs"], &rows)
    )
}

/// Without roles the analytic prior knows nothing; a wrong one is off by a factor of its own per GPU product and metric.
pub fn priors(grids: &Grids, seeds: u64) -> String {
    let mut rows = Vec::new();
    let mut case = |name: &str, make: &dyn Fn(&Problem, u64) -> Problem, problems: &BTreeMap<String, Problem>| {
        let mut ratios = Vec::new();
        let mut shares = Vec::new();
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
        rows.push(vec![
            name.to_owned(),
            format!("{:.3}", median(&shares)),
            percent(share(&shares.iter().map(|s| 0.5 - s).collect::<Vec<_>>(), 0.0)),
            format!("{:.4}", mean(&ratios)),
            percent(share(&ratios, 0.97)),
            percent(share(&ratios, 0.99)),
        ]);
    };
    for unit in ["dollar", "gpu"] {
        let problems = grids.language(unit);
        case(&format!("LLM, {unit}: analytic prior"), &|p, _| p.clone(), &problems);
        case(&format!("LLM, {unit}: no prior"), &|p, _| without_roles(p), &problems);
        case(&format!("LLM, {unit}: prior columns wrong by 0.3-3x"), &wrong_prior, &problems);
    }
    case("classical: analytic prior", &|p, _| p.clone(), &grids.classical);
    case("classical: no prior", &|p, _| without_roles(p), &grids.classical);
    let header = ["case", "GPU-s over brute, median", "at most half of brute", "mean ratio", ">= 0.97", ">= 0.99"];
    format!("## Prior absent or wrong, {seeds} seeds\n\n{}", table(&header, &rows))
}

fn without_roles(problem: &Problem) -> Problem {
    let mut changed = problem.clone();
    changed.space.axes.iter_mut().for_each(|axis| axis.role = None);
    changed
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
            let backend = space.text(arm, Role::GpuType).unwrap_or("").to_owned();
            let factor =
                *factors.entry((k, backend)).or_insert_with(|| (rng.random_range(-1.0..1.0) * 3f64.ln()).exp());
            table.push((0..space.levels.len()).map(|level| value(arm, level, factor)).collect());
        }
        changed.space.metrics[k].prior = table;
    }
    changed
}
