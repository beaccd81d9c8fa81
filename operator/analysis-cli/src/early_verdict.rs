//! `slipway-analysis early-verdict`: when recorded runs would have been decided. Reads files.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use slipway_evaluation::{
    early_verdict::{Decision, RUN_KEY, by_run, decide},
    requests::{RequestSlo, Signal},
    table::Table,
};
use slipway_vocabulary::evidence::Quantile;

use super::CliError;

/// Arguments of `early-verdict`.
#[derive(Debug, Args)]
pub struct EarlyVerdictArgs {
    /// CSV of requests: gpu_type, n_gpus, users, start_ms, end_ms, ttft_ms, tpot_ms
    #[arg(long, value_name = "FILE.csv")]
    requests: PathBuf,
    /// Objectives: SIGNAL:PER_MILLE:MAX_MS, for example ttft:950:1000,tpot:950:100; signals are ttft, tpot, latency
    #[arg(long, value_name = "SLO,...", value_delimiter = ',', required = true)]
    slo: Vec<String>,
    /// Leave out requests that start before this many seconds of a run
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    discard_seconds: f64,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    gpu_type: &'a str,
    n_gpus: &'a str,
    users: &'a str,
    #[serde(flatten)]
    decision: Decision,
}

pub(super) fn run(args: &EarlyVerdictArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let slos = args.slo.iter().map(|text| slo(text)).collect::<Result<Vec<_>, _>>()?;
    if !(args.discard_seconds.is_finite() && args.discard_seconds >= 0.0) {
        return Err(CliError::Argument {
            argument: "--discard-seconds".into(),
            problem: format!("{} is not a duration", args.discard_seconds),
            remedy: "give seconds, 0 or more".into(),
        });
    }
    let table = Table::read(&args.requests).map_err(CliError::Input)?;
    let [gpu_type, n_gpus, users] = RUN_KEY.map(|column| table.texts(column).map_err(CliError::Input));
    let (gpu_type, n_gpus, users) = (gpu_type?, n_gpus?, users?);
    for (row, requests) in by_run(&table).map_err(CliError::Input)? {
        let decision = decide(&requests, &slos, args.discard_seconds * 1000.0);
        let line = Line { gpu_type: gpu_type[row], n_gpus: n_gpus[row], users: users[row], decision };
        serde_json::to_writer(&mut *out, &line).map_err(|e| CliError::Write(e.into()))?;
        out.write_all(b"\n").map_err(CliError::Write)?;
    }
    Ok(())
}

fn slo(text: &str) -> Result<RequestSlo, CliError> {
    let refuse = |problem: String| CliError::Argument {
        argument: format!("--slo {text}"),
        problem,
        remedy: "write SIGNAL:PER_MILLE:MAX_MS, for example ttft:950:1000 for p95 of TTFT at most 1000 ms".into(),
    };
    let parts: Vec<&str> = text.split(':').collect();
    let [signal, per_mille, max] = parts[..] else { return Err(refuse("not three parts".into())) };
    let signal = match signal {
        "ttft" => Signal::Ttft,
        "tpot" => Signal::Tpot,
        "latency" => Signal::Latency,
        other => return Err(refuse(format!("{other:?} is not ttft, tpot or latency"))),
    };
    let per_mille: u16 =
        per_mille.parse().map_err(|_| refuse(format!("{per_mille:?} is not a number of thousandths")))?;
    let quantile = per_mille.checked_mul(10).and_then(Quantile::from_parts).ok_or_else(|| {
        refuse(format!("percentile of {per_mille} per mille is not between 1 and 999; write 950 for p95"))
    })?;
    let max_ms = max.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
    let max_ms = max_ms.ok_or_else(|| refuse(format!("{max:?} is not a positive number of milliseconds")))?;
    Ok(RequestSlo { signal, quantile, max_ms })
}
