//! `slipway-analysis replay`: a search on a table of recorded measurements. Reads files.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CliError;
use super::problem;
use crate::replay::replay;
use crate::search::baseline::{Baseline, Method};
use crate::search::{SearchStrategy, Settings, Slipway};

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

/// A search by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The product's search
    Slipway,
    /// Every cell
    Brute,
    /// Model Analyzer's brute search with its early exit
    BruteEarlyExit,
    /// Model Analyzer's quick search and concurrency sweep
    MaQuickSweep,
    /// A tenth of the cells at random
    Random,
    /// A tree-structured Parzen estimator
    Tpe,
    /// Bisection of the load for every arm
    Bisection,
}

impl MethodName {
    /// The strategy of this name on a space.
    #[must_use]
    pub fn strategy(self, space: crate::search::Space, seed: u64) -> Box<dyn SearchStrategy> {
        let baseline = |space, method| Box::new(Baseline::new(space, method, seed)) as Box<dyn SearchStrategy>;
        match self {
            Self::Slipway => Box::new(Slipway::new(space, Settings { seed, ..Settings::default() })),
            Self::Brute => baseline(space, Method::Brute),
            Self::BruteEarlyExit => baseline(space, Method::BruteEarlyExit),
            Self::MaQuickSweep => baseline(space, Method::MaQuickSweep),
            Self::Random => baseline(space, Method::Random),
            Self::Tpe => baseline(space, Method::Tpe),
            Self::Bisection => baseline(space, Method::Bisection),
        }
    }

    /// The name as it is typed.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

pub(super) fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let problem = problem::read(&args.problem)?;
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
