//! Answers tool calls from a trace, with the latencies that were recorded. No call leaves the pod.
//!
//! A call that was recorded several times has its results in turn: a tool whose answers change is replayed as it was.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path as UrlPath, Query, State},
    http::StatusCode,
    routing::get,
};
use serde_json::Value;
use slipway_worker_contract::{DataFile, RecordedCall, TraceLine, paths};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{
    arrivals::Arrivals,
    data::{self, DataError},
};

/// Recorded runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The questions, at least one.
    pub inputs: Vec<String>,
    /// How they arrived.
    pub arrivals: Arrivals,
    /// In the order of the record, at least one for each call.
    calls: BTreeMap<Call, Vec<Recorded>>,
}

type Call = (String, BTreeMap<String, String>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Recorded {
    result: String,
    latency: Duration,
}

/// Says why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no trace, or another one.
    #[error("failed to load the trace")]
    Data(#[source] DataError),
    /// A line is not a recorded run.
    #[error("line {line} of the trace is not a recorded run (input, and calls with their results)")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A line is not the lengths of a run.
    #[error("line {line} of the lengths is not a recorded run (inputTokens, and turns with outputTokens and calls)")]
    Lengths {
        /// Counted from 1.
        line: usize,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A run that asks the model nothing.
    #[error("line {line} of the lengths has no turns: a run has at least one model request")]
    NoTurn {
        /// Counted from 1.
        line: usize,
    },
    /// Nothing to replay.
    #[error("the trace has no runs")]
    Empty,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// [`TraceError`] names the line.
    pub fn read(file: &DataFile) -> Result<Self, TraceError> {
        Self::parse(&data::read(file).map_err(TraceError::Data)?)
    }

    /// Parses a trace.
    ///
    /// # Errors
    /// [`TraceError`] names the line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        Self::collect(lines.map(|(index, text)| {
            serde_json::from_str(text).map_err(|source| TraceError::Line { line: index + 1, source })
        }))
    }

    /// The trace of runs that are made up.
    ///
    /// # Errors
    /// [`TraceError`] if there are none.
    pub fn of(runs: Vec<TraceLine>) -> Result<Self, TraceError> {
        Self::collect(runs.into_iter().map(Ok))
    }

    fn collect(lines: impl Iterator<Item = Result<TraceLine, TraceError>>) -> Result<Self, TraceError> {
        let mut trace = Self { inputs: Vec::new(), arrivals: Arrivals::POISSON, calls: BTreeMap::new() };
        let mut arrived = Vec::new();
        for line in lines {
            let TraceLine { input, calls, arrived_micros } = line?;
            trace.inputs.push(input);
            arrived.push(arrived_micros);
            for RecordedCall { tool, arguments, result, latency_micros } in calls {
                let recorded = Recorded { result, latency: Duration::from_micros(latency_micros) };
                trace.calls.entry((tool, arguments)).or_default().push(recorded);
            }
        }
        trace.arrivals = Arrivals::as_recorded(&arrived);
        if trace.inputs.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
    }

    /// Serves the recorded calls until the handle is aborted.
    ///
    /// # Errors
    /// What the system says if the address is taken.
    pub async fn serve(self, address: SocketAddr) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
        let path = format!("{}/{{tool}}", paths::REPLAY_PATH);
        let of_call = |(call, results)| (call, Turns { results, next: AtomicUsize::new(0) });
        let calls: BTreeMap<Call, Turns> = self.calls.into_iter().map(of_call).collect();
        let router = Router::new().route(&path, get(answer).post(answer)).with_state(Arc::new(calls));
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        Ok((bound, tokio::spawn(async move { axum::serve(listener, router).await })))
    }
}

/// The results of one call, each of which has its turn.
struct Turns {
    results: Vec<Recorded>,
    next: AtomicUsize,
}

impl Turns {
    fn take(&self) -> &Recorded {
        &self.results[self.next.fetch_add(1, Ordering::Relaxed) % self.results.len()]
    }
}

/// An unrecorded call is a tool error, which fails its run.
async fn answer(
    State(calls): State<Arc<BTreeMap<Call, Turns>>>,
    UrlPath(tool): UrlPath<String>,
    Query(mut arguments): Query<BTreeMap<String, String>>,
    body: Option<Json<BTreeMap<String, Value>>>,
) -> (StatusCode, String) {
    // Recorded arguments are texts; what is none is compared as JSON.
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    arguments.extend(body.into_iter().flat_map(|Json(body)| body).map(|(name, value)| (name, text(value))));
    match calls.get(&(tool.clone(), arguments.clone())) {
        Some(turns) => {
            let recorded = turns.take();
            tokio::time::sleep(recorded.latency).await;
            (StatusCode::OK, recorded.result.clone())
        }
        None => (StatusCode::NOT_FOUND, format!("the trace has no result of {tool} for {arguments:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"input":"How high is Bela?","calls":[{"tool":"lookup","arguments":{"entity":"Bela","property":"height"},"result":"123","latencyMicros":0}]}"#;

    #[test]
    fn a_trace_without_results_is_refused_by_its_line() {
        let text = |trace: &str| Trace::parse(trace).unwrap_err().to_string();
        assert_eq!(text("\n"), "the trace has no runs");
        assert_eq!(
            text(r#"{"input":"How high is Bela?"}"#),
            "line 1 of the trace is not a recorded run (input, and calls with their results)"
        );
    }

    #[tokio::test]
    async fn a_recorded_call_is_answered_and_another_is_an_error() {
        let trace = Trace::parse(LINE).unwrap();
        let (address, server) = trace.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let client = crate::http::local_client().unwrap();
        let get = |query: &str| client.get(format!("http://{address}/tools/lookup?{query}")).send();
        assert_eq!(get("property=height&entity=Bela").await.unwrap().text().await.unwrap(), "123");
        assert_eq!(get("property=age&entity=Bela").await.unwrap().status(), StatusCode::NOT_FOUND);
        server.abort();
    }
    #[tokio::test]
    async fn a_call_that_was_recorded_with_several_results_has_them_in_turn() {
        let trace = Trace::parse(&format!("{LINE}\n{}\n{LINE}", LINE.replace("\"123\"", "\"9\""))).unwrap();
        let (address, server) = trace.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let client = crate::http::local_client().unwrap();
        let url = format!("http://{address}/tools/lookup?property=height&entity=Bela");
        let mut results = Vec::new();
        for _ in 0..4 {
            results.push(client.get(&url).send().await.unwrap().text().await.unwrap());
        }
        assert_eq!(results, ["123", "9", "123", "123"]);
        server.abort();
    }
}
