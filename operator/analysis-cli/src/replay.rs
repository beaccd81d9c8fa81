//! `slipway-analysis replay`: a search on a table of recorded measurements. Reads files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use slipway_evaluation::{method::MethodName, problem, replay::replay};

use super::CliError;

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The problem: a JSON file beside its table
    #[arg(long, value_name = "FILE.json")]
    problem: PathBuf,
    /// The search
    #[arg(long, value_enum)]
    method: MethodName,
    /// Seed of the noise and of random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the result as one JSON line; without it, a summary for people
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let problem = problem::read(&args.problem).map_err(CliError::Input)?;
    let strategy = args.method.strategy(problem.space.clone(), args.seed);
    let result = replay(&problem, &args.method.name(), strategy.as_ref(), args.seed);
    if args.json {
        serde_json::to_writer(&mut *out, &result).map_err(|e| CliError::Write(e.into()))?;
        return out.write_all(b"\n").map_err(CliError::Write);
    }
    for entry in &result.trace {
        let verdict = match (entry.feasible, entry.aborted) {
            (true, _) => "feasible",
            (false, true) => "aborted",
            (false, false) => "infeasible",
        };
        let (arm, level, spent) =
            (serde_json::Value::from(entry.place.arm.clone()), entry.place.level, entry.gpu_seconds);
        writeln!(out, "{arm} at {level}: {verdict}, {spent:.0} GPU-s; {}", entry.reason).map_err(CliError::Write)?;
    }
    let answer = match &result.chosen {
        Some(place) => format!("{} at {}", serde_json::Value::from(place.arm.clone()), place.level),
        None => "nothing".to_owned(),
    };
    let ratio =
        result.ratio_to_optimum.map_or_else(|| "nothing is feasible".to_owned(), |r| format!("{r:.3} of the optimum"));
    let (runs, starts, spent) = (result.runs, result.starts, result.gpu_seconds);
    writeln!(out, "chosen: {answer}; {ratio}; {runs} runs, {starts} starts, {spent:.0} GPU-s").map_err(CliError::Write)
}
