//! Traffic for an agent: recorded questions that arrive at random, as those of users do. Reads and writes IO.

use std::{
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::{task::JoinSet, time::sleep};

use crate::load::arrivals::Arrivals;

/// How often the number of answers is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Which questions are asked, of whom, and how fast.
#[derive(Debug, Clone, Args)]
pub struct Traffic {
    /// Recorded runs, one JSON object a line: `input`, and `calls` with `arguments` and `result`.
    #[arg(long)]
    trace: PathBuf,
    /// Service that the agent looks facts up in: it is taught what the runs ask for.
    #[arg(long)]
    facts: String,
    /// Service of the agent.
    #[arg(long)]
    agent: String,
    /// Number of runs.
    #[arg(long, default_value_t = 60)]
    runs: usize,
    /// Mean number of runs that begin in a second; times between them are exponential.
    #[arg(long, default_value_t = 2.0)]
    per_second: f64,
    /// Decides when runs begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Why there was no traffic. Runs that fail are counted.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// The trace cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// A line of the trace is not a recorded run.
    #[error("line {line} of the trace is not a recorded run")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// There is no client.
    #[error("failed to make the HTTP client")]
    Client(#[source] reqwest::Error),
    /// There is nothing to ask.
    #[error("the trace has no runs, or --per-second is not above 0")]
    Nothing,
    /// A fact was not taken.
    #[error("failed to teach the {property} of {entity}")]
    Teach {
        /// What the fact is about.
        entity: String,
        /// What of it.
        property: String,
        /// What the client said.
        #[source]
        source: reqwest::Error,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Recorded {
    input: String,
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Call {
    arguments: LookUp,
    result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct LookUp {
    entity: String,
    property: String,
}

/// Teaches the facts, sends the runs, and tells how many were answered and how fast.
///
/// # Errors
/// When the trace cannot be read, or a fact is not taken.
pub async fn send(traffic: Traffic) -> Result<(), TrafficError> {
    let recorded = read(&traffic)?;
    let http = client()?;
    for call in recorded.iter().flat_map(|run| &run.calls) {
        teach(&http, &traffic.facts, call).await?;
    }
    let started = Instant::now();
    let mut runs = JoinSet::new();
    let mut tally = Tally::new(traffic.runs);
    let arrivals = Arrivals::new(traffic.per_second, traffic.seed);
    for (run, arrival) in recorded.iter().cycle().take(traffic.runs).zip(arrivals) {
        sleep(arrival.saturating_sub(started.elapsed())).await;
        runs.spawn(ask(http.clone(), format!("{}/v1/runs", traffic.agent), run.input.clone()));
        while let Some(Ok(outcome)) = runs.try_join_next() {
            tally.add(outcome, started);
        }
    }
    while let Some(Ok(outcome)) = runs.join_next().await {
        tally.add(outcome, started);
    }
    println!("{}", tally.summary(traffic.per_second));
    Ok(())
}

/// The client for services of the cluster: plain HTTP. The image has no certificates, and without this it would look
/// for them.
fn client() -> Result<reqwest::Client, TrafficError> {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().map_err(TrafficError::Client)
}

fn read(traffic: &Traffic) -> Result<Vec<Recorded>, TrafficError> {
    let Traffic { trace, runs, per_second, .. } = traffic;
    let text = fs::read_to_string(trace).map_err(|source| TrafficError::Read { path: trace.clone(), source })?;
    let lines = text.lines().enumerate().take(*runs).map(|(index, line)| {
        serde_json::from_str(line).map_err(|source| TrafficError::Line { line: index + 1, source })
    });
    let recorded = lines.collect::<Result<Vec<_>, _>>()?;
    if recorded.is_empty() || per_second.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        return Err(TrafficError::Nothing);
    }
    Ok(recorded)
}

async fn teach(http: &reqwest::Client, facts: &str, call: &Call) -> Result<(), TrafficError> {
    let LookUp { entity, property } = &call.arguments;
    // A result that is no number is not a fact of this service.
    let Ok(value) = call.result.parse::<i64>() else { return Ok(()) };
    let sent = http.put(format!("{facts}/facts/{entity}/{property}")).json(&json!({ "value": value })).send().await;
    sent.and_then(reqwest::Response::error_for_status).map(drop).map_err(|source| TrafficError::Teach {
        entity: entity.clone(),
        property: property.clone(),
        source,
    })
}

/// The time of a run that succeeded.
async fn ask(http: reqwest::Client, url: String, input: String) -> Option<Duration> {
    let began = Instant::now();
    let answer = http.post(url).json(&json!({ "input": input })).send().await.ok()?;
    let answer = answer.error_for_status().ok()?;
    answer.bytes().await.ok()?;
    Some(began.elapsed())
}

#[derive(Debug)]
struct Tally {
    wanted: usize,
    answered: Vec<Duration>,
    failed: usize,
    told: Duration,
}

impl Tally {
    fn new(wanted: usize) -> Self {
        Self { wanted, answered: Vec::new(), failed: 0, told: Duration::ZERO }
    }

    fn add(&mut self, outcome: Option<Duration>, started: Instant) {
        match outcome {
            Some(time) => self.answered.push(time),
            None => self.failed += 1,
        }
        let elapsed = started.elapsed();
        if elapsed.saturating_sub(self.told) >= TELL_EVERY {
            self.told = elapsed;
            let (answered, wanted, failed) = (self.answered.len(), self.wanted, self.failed);
            println!("{:>5} s  {answered} of {wanted} runs answered, {failed} failed", elapsed.as_secs());
        }
    }

    fn summary(&mut self, per_second: f64) -> String {
        self.answered.sort();
        let at = |share: f64| {
            let rank = (self.answered.len() as f64 * share).ceil() as usize;
            let time = self.answered.get(rank.saturating_sub(1));
            time.map_or("-".to_owned(), |time| format!("{} ms", time.as_millis()))
        };
        format!(
            "{} runs, {per_second} a second on average: {} answered, {} failed; the client saw p50 {}, p95 {}",
            self.wanted,
            self.answered.len(),
            self.failed,
            at(0.5),
            at(0.95)
        )
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_summary_counts_failures_and_takes_percentiles_of_the_answers() {
        let mut tally = Tally::new(21);
        let started = Instant::now();
        (1..=20).rev().for_each(|ms| tally.add(Some(Duration::from_millis(ms)), started));
        tally.add(None, started);
        assert_eq!(
            tally.summary(2.0),
            "21 runs, 2 a second on average: 20 answered, 1 failed; the client saw p50 10 ms, p95 19 ms"
        );
    }
}
