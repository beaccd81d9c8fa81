//! The scenarios, their gates, and the loop that measures them.

use slipway_analysis::judge::{Config, CountedObjective, Judge, Prediction, Step, Verdict};
use slipway_vocabulary::{
    Percentile,
    evidence::{Metric, Quantile},
};

use crate::{
    rules::{Rule, Rules, objective, to_be_tuned},
    simulate::{Pods, Scenario, Simulation, WEIGHTS},
};

/// What a gate asks of the judge.
#[derive(Clone, Copy, Debug)]
pub enum Gate {
    /// At most this many rollbacks per thousand.
    RollbacksPerThousand(f64),
    /// At least this share rolled back, with the median no later than these minutes.
    Caught { share: f64, minutes: f64 },
    /// Every one rolled back within these minutes.
    AllWithin(f64),
    /// At most this share promoted.
    PromotedAtMost(f64),
    /// At least this share promoted.
    PromotedAtLeast(f64),
}

/// One row of the table.
pub struct Row {
    pub name: &'static str,
    pub scenario: Scenario,
    pub config: Config,
    pub gate: Option<Gate>,
}

/// What happened to the rollouts of a row.
pub struct Outcome {
    pub rollouts: u64,
    /// Minutes at which each rollback came, sorted.
    pub rolled_back: Vec<f64>,
    /// Minutes at which each promotion came, sorted.
    pub promoted: Vec<f64>,
    /// The same per fixed-threshold rule.
    pub rules: Vec<Vec<f64>>,
    /// Most bytes a state took.
    pub state_bytes: usize,
}

const fn row(name: &'static str, scenario: Scenario, config: Config, gate: Gate) -> Row {
    Row { name, scenario, config, gate: Some(gate) }
}

/// Every row.
pub fn rows() -> Vec<Row> {
    let rows = [healthy(), harmed(), promotions(), loaded()];
    rows.into_iter().flatten().collect()
}

fn healthy() -> Vec<Row> {
    let gate = Gate::RollbacksPerThousand(10.0);
    let slow = Scenario { requests_per_second: 2.0, ..Scenario::HEALTHY };
    let bursts = Scenario { has_bursts: true, ..Scenario::HEALTHY };
    let with_objective = config_with_objective(objective(Quantile::P95));
    vec![
        row("no difference, iid", Scenario::HEALTHY, Config::default(), gate),
        row("no difference, drift + 5 % pod noise", Scenario::NOISY, Config::default(), gate),
        row("no difference, bursts", bursts, Config::default(), gate),
        row("no difference, 2 requests/s", slow, Config::default(), gate),
        row("no difference, drift + 5 % pod noise, stable at its objective", Scenario::NOISY, with_objective, gate),
        Row {
            name: "no difference, drift + 15 % pod noise",
            scenario: Scenario { pod_noise: 0.15, ..Scenario::NOISY },
            config: Config::default(),
            gate: None,
        },
    ]
}

fn harmed() -> Vec<Row> {
    let slower = |latency_ratio| Scenario { latency_ratio, ..Scenario::NOISY };
    let failing = Scenario { error_rates: [0.005, 0.02], ..Scenario::NOISY };
    let hanging = Scenario { hangs: true, ..Scenario::NOISY };
    let caught = |share, minutes| Gate::Caught { share, minutes };
    vec![
        row("+20 % latency", slower(1.2), Config::default(), caught(0.9, 25.0)),
        row("+50 % latency", slower(1.5), Config::default(), caught(1.0, 9.0)),
        row("errors 0.5 % -> 2 %", failing, Config::default(), caught(1.0, 9.0)),
        row("accepts and never answers", hanging, Config::default(), Gate::AllWithin(2.0)),
        row(
            "accepts and never answers, 2 requests/s",
            Scenario { requests_per_second: 2.0, ..hanging },
            Config::default(),
            Gate::AllWithin(2.0),
        ),
        Row { name: "+10 % latency", scenario: slower(1.1), config: Config::default(), gate: None },
        Row {
            name: "the demo's regression: +200 % latency at 50 %, 50 requests/s",
            scenario: Scenario { requests_per_second: 50.0, minutes: [0.0, 0.0, 10.0], ..slower(3.0) },
            // As the operator configures it where a spec says nothing.
            config: Config { warm_up_seconds: 30, ..Config::default() },
            gate: None,
        },
        Row {
            name: "the scenario in the cluster: +50 % latency at 20 %, 50 requests/s",
            scenario: Scenario { requests_per_second: 50.0, minutes: [0.0, 10.0, 10.0], ..slower(1.5) },
            config: Config { warm_up_seconds: 10, ..Config::default() },
            gate: None,
        },
        Row {
            name: "+50 % latency, 2 requests/s",
            scenario: Scenario { requests_per_second: 2.0, ..slower(1.5) },
            config: Config::default(),
            gate: None,
        },
    ]
}

fn promotions() -> Vec<Row> {
    let clean = |scenario: Scenario| Scenario { error_rates: [0.0; 2], ..scenario };
    let slow = Scenario { requests_per_second: 2.0, minutes: [10.0, 10.0, 100.0], ..clean(Scenario::NOISY) };
    let regressed = |scenario: Scenario| Scenario { latency_ratio: 1.1, ..clean(scenario) };
    let cheaper = Config {
        predictions: vec![Prediction { metric: Metric::RequestLatency, ratio_percent: 200 }],
        ..config_with_objective(2.5 * objective(Quantile::P95))
    };
    vec![
        row("A/A, zero errors, iid", clean(Scenario::HEALTHY), Config::default(), Gate::PromotedAtLeast(0.95)),
        row("A/A, zero errors", clean(Scenario::NOISY), Config::default(), Gate::PromotedAtLeast(0.95)),
        row("A/A, zero errors, 2 requests/s, 2 h", slow, Config::default(), Gate::PromotedAtLeast(0.8)),
        row("+10 % at margin 9 %, iid", regressed(Scenario::HEALTHY), Config::default(), Gate::PromotedAtMost(0.05)),
        row("+10 % at margin 9 %", regressed(Scenario::NOISY), Config::default(), Gate::PromotedAtMost(0.05)),
        row(
            "+10 % at margin 9 %, 2 requests/s, 2 h",
            Scenario { latency_ratio: 1.1, ..slow },
            Config::default(),
            Gate::PromotedAtMost(0.05),
        ),
        row(
            "a cheaper plan, predicted 2x slower, within its objective",
            Scenario { latency_ratio: 2.0, ..Scenario::NOISY },
            cheaper,
            Gate::RollbacksPerThousand(10.0),
        ),
    ]
}

fn loaded() -> Vec<Row> {
    let loaded = Scenario { load_slope: 0.25, ..Scenario::NOISY };
    let lopsided = Scenario { pods: Pods::FourToOne, ..loaded };
    vec![
        row("load-dependent, pods 4:1", lopsided, Config::default(), Gate::RollbacksPerThousand(10.0)),
        row(
            "load-dependent, pods 4:1, +50 % latency",
            Scenario { latency_ratio: 1.5, ..lopsided },
            Config::default(),
            Gate::Caught { share: 0.9, minutes: 30.0 },
        ),
        row("load-dependent, pods by weight", loaded, Config::default(), Gate::RollbacksPerThousand(10.0)),
        row(
            "load-dependent, pods by weight, +20 % latency",
            Scenario { latency_ratio: 1.2, ..loaded },
            Config::default(),
            Gate::Caught { share: 0.9, minutes: 30.0 },
        ),
    ]
}

fn config_with_objective(max_microseconds: f64) -> Config {
    let objectives = vec![CountedObjective {
        metric: Metric::RequestLatency,
        percentile: Percentile::P95,
        max_microseconds: max_microseconds as u64,
    }];
    Config { objectives, ..Config::default() }
}

/// Most rollbacks of a healthy canary that a careful user accepts.
const TUNED_TO: f64 = 0.01;

/// The rules as a careful user tunes them, on traffic that most rows have. Each gets the most sensitive threshold that
/// rolls back at most 1 % of the healthy canaries there. A rule that no threshold helps is left out.
pub fn tuned(rollouts: u64, seed: u64) -> Vec<Rule> {
    let candidates = to_be_tuned();
    let all: Vec<Rule> = candidates.concat();
    let mut fired = vec![0_u64; all.len()];
    for rollout in 0..rollouts {
        let mut simulation = Simulation::new(Scenario::NOISY, seed_of(seed, "tuning", rollout));
        let mut rules = Rules::new(&all);
        while let Some(window) = simulation.next_window() {
            rules.consume(&window);
        }
        fired.iter_mut().zip(&rules.fired_seconds).for_each(|(fired, at)| *fired += u64::from(at.is_some()));
    }
    let mut fired = fired.into_iter();
    let is_fine = |fired: u64| fired as f64 <= TUNED_TO * rollouts as f64;
    let first = |rules: Vec<Rule>| {
        let fired: Vec<u64> = fired.by_ref().take(rules.len()).collect();
        rules.into_iter().zip(fired).find(|(_, fired)| is_fine(*fired)).map(|(rule, _)| rule)
    };
    candidates.into_iter().filter_map(first).collect()
}

/// Rows share no rollouts: their errors are independent.
fn seed_of(seed: u64, row: &str, rollout: u64) -> u64 {
    let of_row = row.bytes().fold(seed, |hash, byte| hash.wrapping_mul(1_000_003) ^ u64::from(byte));
    of_row.wrapping_mul(1_000_003).wrapping_add(rollout)
}

/// Runs the rollouts of a row.
pub fn run(row: &Row, rivals: &[Rule], rollouts: u64, seed: u64) -> Outcome {
    let mut outcome = Outcome {
        rollouts,
        rolled_back: Vec::new(),
        promoted: Vec::new(),
        rules: vec![Vec::new(); rivals.len()],
        state_bytes: 0,
    };
    for rollout in 0..rollouts {
        run_one(row, rivals, seed_of(seed, row.name, rollout), &mut outcome);
    }
    for minutes in outcome.rules.iter_mut().chain([&mut outcome.rolled_back, &mut outcome.promoted]) {
        minutes.sort_by(f64::total_cmp);
    }
    outcome
}

fn run_one(row: &Row, rivals: &[Rule], seed: u64, outcome: &mut Outcome) {
    let steps = row.scenario.minutes.iter().zip(WEIGHTS).map(|(minutes, weight_percent)| {
        let soak = (minutes * 60.0) as u64;
        Step { weight_percent, min_soak_seconds: soak.min(600), max_soak_seconds: soak }
    });
    let mut judge = Judge::new(Config { steps: steps.collect(), ..row.config.clone() });
    let mut simulation = Simulation::new(row.scenario, seed);
    let mut rules = Rules::new(rivals);
    while let Some(window) = simulation.next_window() {
        rules.consume(&window);
        judge.consume(&window);
    }
    outcome.state_bytes = outcome.state_bytes.max(judge.encode().len());
    match judge.decided() {
        Some((Verdict::Rollback, seconds)) => outcome.rolled_back.push(seconds as f64 / 60.0),
        Some((Verdict::Promote, seconds)) => outcome.promoted.push(seconds as f64 / 60.0),
        _ => {}
    }
    for (minutes, fired) in outcome.rules.iter_mut().zip(rules.fired_seconds) {
        minutes.extend(fired.map(|seconds| seconds as f64 / 60.0));
    }
}
