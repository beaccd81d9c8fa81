//! When recorded runs would have been decided. Reads files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use slipway_analysis::{
    early::{EarlyRule, EarlyVerdict, EarlyWatch},
    slo::quantile,
};
use slipway_vocabulary::evidence::Quantile;

use crate::{
    InputError,
    requests::{Observation, Request, RequestSlo, Signal, observations},
    table::Table,
};

/// The columns that name a run.
pub const RUN_KEY: [&str; 3] = ["gpu_type", "n_gpus", "users"];

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

/// Reads the recorded runs of a requests file, in the order of their first rows.
///
/// # Errors
/// [`InputError`] naming the file, the column and the remedy.
pub fn runs(path: &Path) -> Result<Vec<Vec<Request>>, InputError> {
    Ok(by_run(&Table::read(path)?)?.into_values().collect())
}

/// The requests of each run by the row it begins at.
///
/// # Errors
/// [`InputError`] naming the file, the column and the remedy.
pub fn by_run(table: &Table) -> Result<BTreeMap<usize, Vec<Request>>, InputError> {
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
    let quantiles: Vec<Quantile> = slos.iter().map(|slo| slo.quantile).collect();
    let mut watch = EarlyWatch::new(EarlyRule::default(), &quantiles);
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
        Some(quantile(&values, slo.quantile)? / slo.max_ms)
    };
    slos.iter().filter_map(of).reduce(f64::max)
}

/// Whether more than 1 - p of all kept requests exceed some objective.
fn violates(seen: &[Observation], slos: &[RequestSlo]) -> bool {
    slos.iter().enumerate().any(|(k, slo)| {
        let own = || seen.iter().filter(|o| o.objective == k);
        own().filter(|o| o.exceeds).count() as f64 > slo.quantile.exceedance() * own().count() as f64
    })
}

/// Reads the records of a request stream; TTFT and TPOT cells may be empty.
pub(crate) fn requests(table: &Table) -> Result<Vec<Request>, InputError> {
    let (start, end) = (table.filled("start_ms")?, table.filled("end_ms")?);
    let (ttft, tpot) = (table.numbers("ttft_ms")?, table.numbers("tpot_ms")?);
    let tokens = if table.has("n_out") { table.filled("n_out")? } else { vec![1.0; table.row_count()] };
    let rows = start.into_iter().zip(end).zip(ttft.into_iter().zip(tpot)).zip(tokens);
    let request =
        |(((start_ms, end_ms), (ttft_ms, tpot_ms)), tokens)| Request { start_ms, end_ms, ttft_ms, tpot_ms, tokens };
    Ok(rows.map(request).collect())
}
