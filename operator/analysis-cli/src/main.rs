//! The command line `slipway-analysis`: one file per verb, JSON on stdout, errors on stderr with exit code 2. Reads
//! and writes files.

mod early_verdict;
mod error;
mod judge;
mod pareto;
mod power;
mod regress;
mod replay;
mod trace;
mod what_if;

use std::io::{BufWriter, Write, stderr, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use slipway_vocabulary::failure::chain;

use self::error::CliError;

/// Exit code of every refused input, as clap uses it for its own usage errors.
const EXIT_BAD_INPUT: u8 = 2;

/// Computes on files what the operator and the worker compute while they run.
#[derive(Debug, Parser)]
#[command(name = "slipway-analysis", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Judge a recorded rollout window by window and print its verdict.
    Judge(judge::JudgeArgs),
    /// Say how long a verdict on a slower canary will take, from recorded traffic, and which schedule is faster.
    Power(power::PowerArgs),
    /// Compare a run with the recorded baseline of its configuration; a first run is recorded.
    Regress(regress::RegressArgs),
    /// Say when recorded runs would have been decided, one JSON line per run.
    EarlyVerdict(early_verdict::EarlyVerdictArgs),
    /// Replay a configuration search on a table of recorded measurements.
    Replay(replay::ReplayArgs),
    /// Print the Pareto front of a table of measurements and its hypervolume.
    Pareto(pareto::ParetoArgs),
    /// Diagnose a GPU trace: what the GPU did, why it was idle, and which manifest field would change that.
    Trace(trace::TraceArgs),
    /// Say what other objectives, prices or traffic would choose of a Profile's rows, without a measurement.
    WhatIf(what_if::WhatIfArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(stdout().lock());
    let result = run(&cli.verb, &mut out).and_then(|()| out.flush().map_err(CliError::Write));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell anyone when stderr itself is closed.
            let _ = writeln!(stderr(), "slipway-analysis: {}", chain(&error));
            ExitCode::from(EXIT_BAD_INPUT)
        }
    }
}

fn run(verb: &Verb, out: &mut dyn Write) -> Result<(), CliError> {
    match verb {
        Verb::Judge(args) => judge::run(args, out),
        Verb::Power(args) => power::run(args, out),
        Verb::Regress(args) => regress::run(args, out),
        Verb::EarlyVerdict(args) => early_verdict::run(args, out),
        Verb::Replay(args) => replay::run(args, out),
        Verb::Pareto(args) => pareto::run(args, out),
        Verb::Trace(args) => trace::run(args, out),
        Verb::WhatIf(args) => what_if::run(args, out),
    }
}
