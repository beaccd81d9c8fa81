//! Per-request records: what perf_analyzer exports, the steady part of a chunk, and the file that is kept. Pure.
//!
//! perf_analyzer's export: <https://github.com/triton-inference-server/perf_analyzer/blob/main/docs/cli.md>
//! (`--profile-export-file`), times in nanoseconds.

use serde::{Deserialize, Serialize};
use slipway_worker_contract::{Gpu, LatencyMetric, ModelAnalyzerRow};

/// A request or run that was answered, in nanoseconds of the client's clock. In JSON it is `[sent, answered]`, or for a
/// run `[sent, answered, request, requestFirstToken, interToken, firstToken, outputTokens]`. The four after `answered`
/// are in microseconds, and what was not seen is null. Records of earlier workers end before `outputTokens`, or before
/// `firstToken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<Option<u64>>", into = "Vec<Option<u64>>")]
pub struct Request {
    /// When it was sent.
    pub sent: u64,
    /// When its last response came.
    pub answered: u64,
    /// The worst of a run's model requests; of a request its own.
    pub worst: Worst,
    /// From sending to the first token of a run's answer, in microseconds; nothing where it was not seen.
    pub first_token: Option<u64>,
    /// Tokens that the model wrote in a run; nothing where they were not counted.
    pub output_tokens: Option<u64>,
}

/// The worst of a run's model requests, each kind by itself, in microseconds; nothing of what was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worst {
    /// The longest request.
    pub request: Option<u64>,
    /// The longest wait for a request's first token.
    pub first_token: Option<u64>,
    /// The longest mean time between tokens.
    pub inter_token: Option<u64>,
}

/// What of a chunk counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// From the first kept sending to the first sending that is left out at the end.
    pub window_nanos: u64,
    /// The kept requests in the order they were sent, the first sent at 0.
    pub requests: Vec<Request>,
}

/// The records of one level, as they are kept in the store; a row is computed from nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Records {
    /// 1.
    pub format_version: u32,
    /// What a request's time from sending to answer is.
    pub metric: LatencyMetric,
    /// The arm's id.
    pub arm: String,
    /// Requests in flight.
    pub level: u32,
    /// What is known beside the requests.
    pub circumstances: Circumstances,
    /// What was kept of each chunk.
    pub chunks: Vec<Chunk>,
}

/// What a level cost and what is known beside its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Circumstances {
    /// GPU time, load and warm-up included, in milliseconds.
    pub gpu_millis: u64,
    /// Requests or runs that failed.
    pub errors: u32,
    /// Arrivals per 1,000 seconds that were sent, of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals_per_kilosecond: Option<u64>,
    /// The GPU while the level ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// Model Analyzer's own row, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_analyzer: Option<ModelAnalyzerRow>,
    /// Why the level ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ended: String,
}

/// Says why an export cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// No JSON of the documented shape.
    #[error("perf_analyzer's export is not understood")]
    Syntax(#[source] serde_json::Error),
    /// Fewer requests than the ramp and the drain take.
    #[error("perf_analyzer recorded {found} answered requests; {needed} are needed at this level")]
    TooFew {
        /// Answered requests.
        found: usize,
        /// Least number.
        needed: usize,
    },
}

#[derive(Deserialize)]
struct Export {
    experiments: Vec<Experiment>,
}

#[derive(Deserialize)]
struct Experiment {
    requests: Vec<ExportedRequest>,
}

#[derive(Deserialize)]
struct ExportedRequest {
    timestamp: u64,
    #[serde(default)]
    response_timestamps: Vec<u64>,
}

/// Parses an export: the answered requests, in the order they were sent.
///
/// # Errors
/// [`RecordsError::Syntax`].
pub fn parse(export: &[u8]) -> Result<Vec<Request>, RecordsError> {
    let Export { experiments } = serde_json::from_slice(export).map_err(RecordsError::Syntax)?;
    let exported = experiments.into_iter().flat_map(|e| e.requests);
    let mut requests: Vec<Request> = exported.filter_map(|request| answered(&request)).collect();
    requests.sort();
    Ok(requests)
}

/// A request that was answered. One whose answer came as a whole does not say when its first token came.
fn answered(exported: &ExportedRequest) -> Option<Request> {
    let ExportedRequest { timestamp, response_timestamps } = exported;
    let (first, last) = (*response_timestamps.first()?, *response_timestamps.last()?);
    let first_token = (response_timestamps.len() > 1).then(|| first.saturating_sub(*timestamp) / 1_000);
    let worst = Worst { first_token, ..Worst::default() };
    Some(Request { worst, ..Request::new(*timestamp, last) })
}

/// Keeps the steady part of a closed loop of `level` requests. It drops the first `level` sent, which met an idle
/// server, and the last `level` sent, which saw the load drain. The cut is by time of sending, because a cut by time
/// of answer would favour short requests.
///
/// # Errors
/// [`RecordsError::TooFew`] if nothing is left.
pub fn steady(requests: &[Request], level: u32) -> Result<Chunk, RecordsError> {
    let level = level as usize;
    let too_few = RecordsError::TooFew { found: requests.len(), needed: 2 * level + 1 };
    let end = requests.len().checked_sub(level).filter(|end| *end > level).ok_or(too_few)?;
    let start = requests[level].sent;
    let shifted = |r: &Request| Request { sent: r.sent - start, answered: r.answered.saturating_sub(start), ..*r };
    let kept: Vec<Request> = requests[level..end].iter().map(shifted).collect();
    Ok(Chunk { window_nanos: requests[end].sent - start, requests: kept })
}

impl Records {
    /// Returns the bytes to keep.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("records are plain numbers")
    }

    /// Parses kept bytes.
    ///
    /// # Errors
    /// [`RecordsError::Syntax`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        serde_json::from_slice(bytes).map_err(RecordsError::Syntax)
    }

    /// Counts the kept requests.
    pub fn count(&self) -> usize {
        self.chunks.iter().map(|c| c.requests.len()).sum()
    }

    /// Every kept request, in the order they were sent.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.chunks.iter().flat_map(|c| &c.requests)
    }

    /// One latency of every kept request that has it, in microseconds, ascending.
    pub fn latencies_micros(&self, metric: LatencyMetric) -> Vec<f64> {
        let mut all: Vec<f64> = self.requests().filter_map(|r| r.micros(metric, self.metric)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Tokens that the model wrote in all kept requests, where each says how many.
    pub fn output_tokens(&self) -> Option<u64> {
        self.requests().map(|request| request.output_tokens).sum()
    }

    /// Measured time in nanoseconds.
    pub fn window_nanos(&self) -> u64 {
        self.chunks.iter().map(|c| c.window_nanos).sum()
    }
}

impl Chunk {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests.len() as f64 / (self.window_nanos.max(1) as f64 / 1e9)
    }
}

impl Request {
    /// A request of which only its own time is known.
    pub fn new(sent: u64, answered: u64) -> Self {
        Self { sent, answered, worst: Worst::default(), first_token: None, output_tokens: None }
    }

    /// One of its latencies in microseconds, where its own time from sending to answer is `own`.
    pub fn micros(&self, metric: LatencyMetric, own: LatencyMetric) -> Option<f64> {
        let micros = match metric {
            metric if metric == own => return Some(self.latency_micros()),
            LatencyMetric::RequestLatency => self.worst.request,
            LatencyMetric::RequestTimeToFirstToken => self.worst.first_token,
            LatencyMetric::InterTokenLatency => self.worst.inter_token,
            LatencyMetric::TimeToFirstToken => self.first_token,
            LatencyMetric::AgentRunLatency => None,
        };
        micros.map(|micros| micros as f64)
    }

    /// From sending to the last response, in microseconds.
    pub fn latency_micros(&self) -> f64 {
        self.answered.saturating_sub(self.sent) as f64 / 1e3
    }
}

impl TryFrom<Vec<Option<u64>>> for Request {
    type Error = &'static str;

    fn try_from(numbers: Vec<Option<u64>>) -> Result<Self, Self::Error> {
        let run = |sent, answered, [request, of_request, inter_token]: [Option<u64>; 3]| {
            let worst = Worst { request, first_token: of_request, inter_token };
            Self { worst, ..Self::new(sent, answered) }
        };
        match numbers[..] {
            [Some(sent), Some(answered)] => Ok(Self::new(sent, answered)),
            [Some(sent), Some(answered), a, b, c] => Ok(run(sent, answered, [a, b, c])),
            [Some(sent), Some(answered), a, b, c, first_token] => {
                Ok(Self { first_token, ..run(sent, answered, [a, b, c]) })
            }
            [Some(sent), Some(answered), a, b, c, first_token, output_tokens] => {
                Ok(Self { first_token, output_tokens, ..run(sent, answered, [a, b, c]) })
            }
            _ => {
                Err("a request is [sent, answered], or a run [sent, answered, request, requestFirstToken, interToken, \
                      firstToken, outputTokens]")
            }
        }
    }
}

impl From<Request> for Vec<Option<u64>> {
    fn from(Request { sent, answered, worst, first_token, output_tokens }: Request) -> Self {
        let Worst { request, first_token: of_request, inter_token } = worst;
        let mut numbers = vec![Some(sent), Some(answered)];
        if worst != Worst::default() || first_token.is_some() || output_tokens.is_some() {
            numbers.extend([request, of_request, inter_token]);
        }
        if first_token.is_some() || output_tokens.is_some() {
            numbers.push(first_token);
        }
        if output_tokens.is_some() {
            numbers.push(output_tokens);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_export_of_perf_analyzer_is_read_in_the_order_of_sending() {
        let export = br#"{"experiments":[{"experiment":{"mode":"concurrency","value":4},"requests":[
            {"timestamp":50000,"request_inputs":{"text_input":"b"},"response_timestamps":[70000,90000],"response_outputs":[{},{}]},
            {"timestamp":10000,"response_timestamps":[30000]},{"timestamp":99,"response_timestamps":[]}],
            "window_boundaries":[0,100]}],"version":"2.51.0","service_kind":"triton","endpoint":""}"#;
        let streamed = Worst { first_token: Some(20), ..Worst::default() };
        let expected = [Request::new(10_000, 30_000), Request { worst: streamed, ..Request::new(50_000, 90_000) }];
        assert_eq!(parse(export).unwrap(), expected);
    }

    #[test]
    fn ramp_and_drain_are_left_out_and_the_rate_is_that_of_the_rest() {
        // Two in flight, each 10 ms: one sent every 5 ms once the loop runs.
        let requests: Vec<Request> = (0..10).map(|i| Request::new(i * 5_000_000, i * 5_000_000 + 10_000_000)).collect();
        let chunk = steady(&requests, 2).unwrap();
        assert_eq!(chunk.requests.len(), 6);
        assert_eq!(chunk.requests[0], Request::new(0, 10_000_000));
        assert_eq!(chunk.rate(), 200.0);
    }

    #[test]
    fn too_few_requests_are_counted() {
        let requests = [Request::new(0, 1); 8];
        assert_eq!(
            steady(&requests, 4).unwrap_err().to_string(),
            "perf_analyzer recorded 8 answered requests; 9 are needed at this level"
        );
        assert!(parse(b"{}").unwrap_err().to_string().starts_with("perf_analyzer's export is not understood"));
    }

    #[test]
    fn the_first_token_in_records_of_an_earlier_worker_is_that_of_the_worst_request() {
        let read = |text: &str| serde_json::from_str::<Request>(text).unwrap();
        let micros = |run: Request, metric| run.micros(metric, LatencyMetric::AgentRunLatency);
        let before = read("[0,9000000,5000,400,20]");
        assert_eq!(micros(before, LatencyMetric::RequestTimeToFirstToken), Some(400.0));
        assert_eq!(micros(before, LatencyMetric::TimeToFirstToken), None);
        let now = read("[0,9000000,5000,400,20,7000]");
        assert_eq!(micros(now, LatencyMetric::RequestTimeToFirstToken), Some(400.0));
        assert_eq!(micros(now, LatencyMetric::TimeToFirstToken), Some(7_000.0));
    }

    #[test]
    fn tokens_are_known_where_every_run_says_how_many() {
        let run = |text: &str| serde_json::from_str::<Request>(text).unwrap();
        let of = |requests: Vec<Request>| {
            let chunks = vec![Chunk { window_nanos: 7, requests }];
            let circumstances = Circumstances::default();
            let (arm, metric) = ("a".to_owned(), LatencyMetric::AgentRunLatency);
            Records { format_version: 1, metric, arm, level: 1, circumstances, chunks }.output_tokens()
        };
        let (counted, before) = (run("[0,9000000,5000,null,20,null,40]"), run("[0,9000000,5000,400,20,7000]"));
        assert_eq!((of(vec![counted; 3]), of(vec![counted, before])), (Some(120), None));
    }

    proptest! {
        #[test]
        fn records_survive_their_bytes(
            sent in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 30, prop::option::of(0_u64..9)), 1..50)
        ) {
            let request = |(s, l, request): &(u64, u64, Option<u64>)| {
                let worst = Worst { request: *request, ..Worst::default() };
                let first_token = request.filter(|micros| micros % 2 == 0);
                let output_tokens = request.filter(|micros| micros % 3 == 0);
                Request { worst, first_token, output_tokens, ..Request::new(*s, s + l) }
            };
            let requests = sent.iter().map(request).collect();
            let records = Records {
                format_version: 1,
                metric: LatencyMetric::RequestLatency,
                arm: "a".into(),
                level: 1,
                circumstances: Circumstances { errors: 2, ended: "enough".into(), ..Circumstances::default() },
                chunks: vec![Chunk { window_nanos: 7, requests }],
            };
            prop_assert_eq!(Records::parse(&records.to_bytes()).unwrap(), records);
        }
    }
}
