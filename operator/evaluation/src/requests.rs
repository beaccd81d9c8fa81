//! From request records to observations in the order in which a live run would learn them. Pure.

use serde::{Deserialize, Serialize};
use slipway_vocabulary::evidence::Quantile;

/// What of a request an objective bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// Time to first token: known at start + TTFT, or at start + limit when it is longer.
    Ttft,
    /// Mean time per output token after the first: known at the end.
    Tpot,
    /// Time from start to end: known at the end, or at start + limit when it is longer.
    Latency,
}

/// A request of a recorded run. Times in milliseconds from the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// When it was sent.
    pub start_ms: f64,
    /// When its last token came.
    pub end_ms: f64,
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Mean time per output token; absent for answers too short to have one.
    pub tpot_ms: Option<f64>,
    /// Output tokens.
    pub tokens: f64,
}

/// An objective on a quantile of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestSlo {
    /// What it bounds.
    pub signal: Signal,
    /// The quantile it bounds.
    pub quantile: Quantile,
    /// The greatest allowed value in milliseconds.
    pub max_ms: f64,
}

/// That one request met or missed one objective, and when that was known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Milliseconds from the run's start.
    pub at_ms: f64,
    /// Position of the objective.
    pub objective: usize,
    /// Whether the request exceeded the objective's limit.
    pub exceeds: bool,
}

/// Lists what a live observer learns, in order of time (ties in the order of the records). Requests that start before
/// `discard_ms` are warm-up and left out: a cold engine's first batch is not the configuration's latency.
#[must_use]
pub fn observations(requests: &[Request], slos: &[RequestSlo], discard_ms: f64) -> Vec<Observation> {
    let mut all = Vec::with_capacity(requests.len() * slos.len());
    for request in requests.iter().filter(|r| r.start_ms >= discard_ms) {
        all.extend(slos.iter().enumerate().filter_map(|(k, slo)| observe(request, k, slo)));
    }
    all.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    all
}

fn observe(request: &Request, objective: usize, slo: &RequestSlo) -> Option<Observation> {
    let (value, known_ms) = match slo.signal {
        Signal::Ttft => request.ttft_ms.map(|v| (v, request.start_ms + v.min(slo.max_ms)))?,
        Signal::Tpot => request.tpot_ms.map(|v| (v, request.end_ms))?,
        Signal::Latency => {
            let value = request.end_ms - request.start_ms;
            (value, request.start_ms + value.min(slo.max_ms))
        }
    };
    Some(Observation { at_ms: known_ms, objective, exceeds: value > slo.max_ms })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn request(start_ms: f64, ttft_ms: f64, end_ms: f64) -> Request {
        Request { start_ms, end_ms, ttft_ms: Some(ttft_ms), tpot_ms: Some(10.0), tokens: 5.0 }
    }

    #[test]
    fn a_wait_past_the_limit_is_a_violation_at_that_moment() {
        let slo = RequestSlo { signal: Signal::Ttft, quantile: Quantile::P95, max_ms: 100.0 };
        let seen = observations(&[request(0.0, 50.0, 900.0), request(10.0, 400.0, 800.0)], &[slo], 0.0);
        let expected = [
            Observation { at_ms: 50.0, objective: 0, exceeds: false },
            Observation { at_ms: 110.0, objective: 0, exceeds: true },
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn requests_of_the_warm_up_are_left_out_and_absent_signals_are_no_observation() {
        let slos =
            [Signal::Tpot, Signal::Latency].map(|signal| RequestSlo { signal, quantile: Quantile::P95, max_ms: 500.0 });
        let short = Request { tpot_ms: None, ..request(20.0, 1.0, 40.0) };
        let seen = observations(&[request(9.0, 1.0, 30.0), short], &slos, 10.0);
        assert_eq!(seen, [Observation { at_ms: 40.0, objective: 1, exceeds: false }]);
    }
}
