//! `slipway-analysis early-verdict`: when recorded runs would have been decided. Reads files.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::CliError;
use super::table::Table;
use crate::early::{EarlyRule, EarlyVerdict, EarlyWatch, Request, RequestSlo, Signal, observations};
use crate::slo::{Percentile, quantile};

/// The columns that name a run.
pub(super) const RUN_KEY: [&str; 3] = ["gpu_type", "n_gpus", "users"];

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

/// What the early verdict says of a recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Milliseconds from the run's start; `None` when undecided.
    pub decided_at_ms: Option<f64>,
    /// Feasible, Infeasible or Undecided.
    pub verdict: &'static str,
    /// Infeasible when more than 1 - p of all kept requests exceed some limit, else Feasible.
    pub full_verdict: &'static str,
    /// Kept requests that had started when it was decided, or all of them.
    pub requests: usize,
    /// The greatest ratio of a kept sample's percentile to its limit; `None` without kept requests.
    #[serde(skip)]
    pub worst_excess: Option<f64>,
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
    let table = Table::read(&args.requests)?;
    let [gpu_type, n_gpus, users] = RUN_KEY.map(|column| table.texts(column));
    let (gpu_type, n_gpus, users) = (gpu_type?, n_gpus?, users?);
    for (row, requests) in by_run(&table)? {
        let decision = decide(&requests, &slos, args.discard_seconds * 1000.0);
        let line = Line { gpu_type: gpu_type[row], n_gpus: n_gpus[row], users: users[row], decision };
        serde_json::to_writer(&mut *out, &line).map_err(|e| CliError::Write(e.into()))?;
        out.write_all(b"\n").map_err(CliError::Write)?;
    }
    Ok(())
}

/// Reads the recorded runs of a requests file, in the order of their first rows.
///
/// # Errors
/// [`CliError`] naming the file, the column and the remedy.
pub fn runs(path: &Path) -> Result<Vec<Vec<Request>>, CliError> {
    Ok(by_run(&Table::read(path)?)?.into_values().collect())
}

/// The requests of each run by the row it begins at.
fn by_run(table: &Table) -> Result<BTreeMap<usize, Vec<Request>>, CliError> {
    let keys = RUN_KEY.iter().map(|column| table.texts(column)).collect::<Result<Vec<_>, _>>()?;
    let mut runs: BTreeMap<usize, Vec<Request>> = BTreeMap::new();
    let mut first: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for (row, request) in requests(table)?.into_iter().enumerate() {
        let run = *first.entry(keys.iter().map(|column| column[row]).collect()).or_insert(row);
        runs.entry(run).or_default().push(request);
    }
    Ok(runs)
}

/// Runs the early verdict over a recorded run; requests that start before `discard_ms` are left out.
#[must_use]
pub fn decide(requests: &[Request], slos: &[RequestSlo], discard_ms: f64) -> Decision {
    let seen = observations(requests, slos, discard_ms);
    let percentiles: Vec<Percentile> = slos.iter().map(|slo| slo.percentile).collect();
    let mut watch = EarlyWatch::new(EarlyRule::default(), &percentiles);
    let mut decided_at_ms = None;
    let mut verdict = EarlyVerdict::Undecided;
    for observation in &seen {
        watch.observe(observation.objective, u64::from(observation.exceeds), u64::from(!observation.exceeds));
        verdict = watch.verdict();
        if verdict != EarlyVerdict::Undecided {
            decided_at_ms = Some(observation.at_ms);
            break;
        }
    }
    let until = decided_at_ms.unwrap_or(f64::INFINITY);
    Decision {
        decided_at_ms,
        verdict: match verdict {
            EarlyVerdict::Feasible => "Feasible",
            EarlyVerdict::Infeasible { .. } => "Infeasible",
            EarlyVerdict::Undecided => "Undecided",
        },
        full_verdict: if violates(&seen, slos) { "Infeasible" } else { "Feasible" },
        requests: requests.iter().filter(|r| (discard_ms..=until).contains(&r.start_ms)).count(),
        worst_excess: worst_excess(requests, slos, discard_ms),
    }
}

/// The greatest factor by which a percentile of the kept requests misses its limit.
fn worst_excess(requests: &[Request], slos: &[RequestSlo], discard_ms: f64) -> Option<f64> {
    let of = |slo: &RequestSlo| {
        let signal = |r: &Request| match slo.signal {
            Signal::Ttft => r.ttft_ms,
            Signal::Tpot => r.tpot_ms,
            Signal::Latency => Some(r.end_ms - r.start_ms),
        };
        let mut values: Vec<f64> = requests.iter().filter(|r| r.start_ms >= discard_ms).filter_map(signal).collect();
        values.sort_by(f64::total_cmp);
        Some(quantile(&values, slo.percentile)? / slo.max_ms)
    };
    slos.iter().filter_map(of).reduce(f64::max)
}

/// Whether more than 1 - p of all kept requests exceed some objective.
fn violates(seen: &[crate::early::Observation], slos: &[RequestSlo]) -> bool {
    slos.iter().enumerate().any(|(k, slo)| {
        let own = || seen.iter().filter(|o| o.objective == k);
        own().filter(|o| o.exceeds).count() as f64 > slo.percentile.exceedance() * own().count() as f64
    })
}

/// Reads the records of a request stream; TTFT and TPOT cells may be empty.
pub(super) fn requests(table: &Table) -> Result<Vec<Request>, CliError> {
    let (start, end) = (table.filled("start_ms")?, table.filled("end_ms")?);
    let (ttft, tpot) = (table.numbers("ttft_ms")?, table.numbers("tpot_ms")?);
    let tokens = if table.has("n_out") { table.filled("n_out")? } else { vec![1.0; table.len()] };
    let rows = start.into_iter().zip(end).zip(ttft.into_iter().zip(tpot)).zip(tokens);
    let request =
        |(((start_ms, end_ms), (ttft_ms, tpot_ms)), tokens)| Request { start_ms, end_ms, ttft_ms, tpot_ms, tokens };
    Ok(rows.map(request).collect())
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
    let percentile = Percentile::from_per_mille(per_mille).map_err(|e| refuse(e.to_string()))?;
    let max_ms = max.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
    let max_ms = max_ms.ok_or_else(|| refuse(format!("{max:?} is not a positive number of milliseconds")))?;
    Ok(RequestSlo { signal, percentile, max_ms })
}
