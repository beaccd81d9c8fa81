//! The replay itself. Pure.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::{
    pareto::Direction,
    search::{Cell, Conclusion, Measurement, Outcome, Progress, Proposal, Purpose, SearchStrategy, Step, Value},
};

use super::{Place, Problem, ReplayResult, TraceEntry};

/// Replays a strategy on a problem. The seed draws the noise; the strategy has its own.
#[must_use]
pub fn replay(problem: &Problem, method: &str, strategy: &dyn SearchStrategy, seed: u64) -> ReplayResult {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut measurements: Vec<Measurement> = Vec::new();
    let mut trace = Vec::new();
    let conclusion = loop {
        match strategy.next(Progress { measurements: &measurements, pending: &[] }) {
            Step::Measure { proposals } => {
                // One GPU set: proposals after the first are asked for again with its result.
                let Some(proposal) = proposals.into_iter().next() else { break None };
                let measurement = measure(problem, &proposal, measurements.last(), &mut rng);
                trace.push(entry(problem, &proposal, &measurement));
                measurements.push(measurement);
            }
            Step::Wait => break None,
            Step::Done { conclusion, .. } => break Some(conclusion),
        }
    };
    result(problem, method, &measurements, trace, conclusion.as_ref())
}

fn measure(problem: &Problem, proposal: &Proposal, before: Option<&Measurement>, rng: &mut Pcg64Mcg) -> Measurement {
    let cell = proposal.cell;
    let warm = before.is_some_and(|m| m.cell.arm == cell.arm);
    let Some(row) = problem.row(cell) else {
        // A cell outside the table cannot be proposed by a strategy on its space; it costs nothing and gives nothing.
        return Measurement {
            cell,
            purpose: proposal.purpose,
            start_seconds: 0.0,
            run_seconds: 0.0,
            outcome: Outcome::Failed,
        };
    };
    let (run_seconds, outcome) = match (problem.abort.ends(problem, cell, row), &row.values) {
        (_, None) => (row.run_seconds, Outcome::Failed),
        (Some(ended), Some(_)) => {
            let values =
                ended.values.iter().map(|v| v.map(|v| v * noise(rng, ended.log_sd.hypot(problem.noise_log_sd))));
            let log_sds = vec![ended.log_sd.hypot(problem.noise_log_sd); ended.values.len()];
            (ended.seconds, Outcome::Aborted { values: values.collect(), log_sds })
        }
        (None, Some(values)) => {
            let log_sds = vec![problem.noise_log_sd; values.len()];
            let values = values.iter().map(|v| v * noise(rng, problem.noise_log_sd)).collect();
            (row.run_seconds, Outcome::Measured { values, log_sds })
        }
    };
    let start_seconds = if warm { 0.0 } else { row.start_seconds };
    Measurement { cell, purpose: proposal.purpose, start_seconds, run_seconds, outcome }
}

/// exp(sd z) with z standard normal (Box and Muller, 1958); no draw without noise.
fn noise(rng: &mut Pcg64Mcg, sd: f64) -> f64 {
    if sd <= 0.0 {
        return 1.0;
    }
    let (u, v) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    (sd * (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()).exp()
}

fn gpu_seconds(problem: &Problem, measurement: &Measurement) -> f64 {
    problem.space.arms[measurement.cell.arm].gpus * (measurement.start_seconds + measurement.run_seconds)
}

fn entry(problem: &Problem, proposal: &Proposal, measurement: &Measurement) -> TraceEntry {
    let reason = match proposal.purpose {
        Purpose::Explore => proposal.reason.clone(),
        Purpose::Confirm => format!("confirm: {}", proposal.reason),
    };
    TraceEntry {
        place: place(problem, proposal.cell),
        gpu_seconds: gpu_seconds(problem, measurement),
        feasible: matches!(&measurement.outcome, Outcome::Measured { values, .. } if problem.space.meets(values)),
        aborted: matches!(measurement.outcome, Outcome::Aborted { .. }),
        reason,
    }
}

fn place(problem: &Problem, cell: Cell) -> Place {
    let value = |value: &Value| match value {
        Value::Number(number) => serde_json::Value::from(*number),
        Value::Text(text) => serde_json::Value::from(text.as_str()),
    };
    let arm = &problem.space.arms[cell.arm];
    let named = problem.arm_columns.iter().zip(&arm.values).map(|(name, v)| (name.clone(), value(v)));
    Place { arm: named.collect(), level: problem.space.levels[cell.level] }
}

fn result(
    problem: &Problem,
    method: &str,
    measurements: &[Measurement],
    trace: Vec<TraceEntry>,
    conclusion: Option<&Conclusion>,
) -> ReplayResult {
    let (chosen, gain_left) = match conclusion {
        Some(Conclusion::Chosen { cell, gain_left, .. }) => (Some(*cell), *gain_left),
        Some(Conclusion::Infeasible { .. } | Conclusion::Unknown { .. }) | None => (None, None),
    };
    let values = chosen.and_then(|cell| problem.row(cell)).and_then(|row| row.values.as_ref());
    let feasible = values.is_some_and(|values| problem.space.meets(values));
    let objective = values.map(|values| values[problem.space.objective]);
    let ratio = |best: f64| match objective.filter(|_| feasible) {
        Some(own) => match problem.space.direction {
            Direction::Maximize => own / best,
            Direction::Minimize => best / own,
        },
        None => 0.0,
    };
    ReplayResult {
        method: method.to_owned(),
        runs: measurements.len(),
        starts: measurements.chunk_by(|a, b| a.cell.arm == b.cell.arm).count(),
        gpu_seconds: measurements.iter().map(|m| gpu_seconds(problem, m)).sum(),
        chosen: chosen.map(|cell| place(problem, cell)),
        objective,
        ratio_to_optimum: problem.optimum().map(ratio),
        feasible,
        gain_left,
        trace,
        measurements: measurements.to_vec(),
    }
}
