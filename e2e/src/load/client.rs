//! Sends the requests. Reads the clock; reads and writes IO.

use std::{
    fs,
    future::Future,
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use reqwest::{
    Client, RequestBuilder, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::json;
use slipway_vocabulary::failure::chain;
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    arrivals::Arrivals,
    report::{Outcome, Report, Tally},
};

/// The header that names the revision which answered.
const REVISION_HEADER: &str = "x-slipway-revision";
/// Time between two lines of the log.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Time between two questions whether a server answers yet.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Requests in flight beyond which an arrival fails unsent: a server that answers nobody must not fill the memory.
const MAX_IN_FLIGHT: u64 = 1_000;

/// What is sent, where to and how often.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadSettings {
    /// Server, such as http://agents.gateway.
    #[arg(long)]
    pub url: Url,
    /// Path of the requests.
    #[arg(long, default_value = "/v1/chat/completions")]
    pub path: String,
    /// Agent that is asked.
    #[arg(long)]
    pub model: String,
    /// Requests a second, on average.
    #[arg(long, value_parser = parse_rate)]
    pub rate: f64,
    /// Seed of the times at which they arrive.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long; absent means until SIGTERM.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// A header of every request, as name: value. May be repeated.
    #[arg(long = "header", value_parser = parse_header)]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Seconds after which a request counts as failed.
    #[arg(long, default_value_t = 20)]
    pub timeout_seconds: u64,
    /// Recorded runs, one JSON object a line with `input`: the questions, in turn. Absent means those of --question.
    #[arg(long)]
    pub questions: Option<PathBuf>,
    /// A question. May be repeated: they are asked in turn. Absent means one without a meaning.
    #[arg(long = "question", conflicts_with = "questions")]
    pub given: Vec<String>,
    /// Seconds in which the server is asked until it answers, before the first request that counts. A gateway, or a
    /// node, knows of an agent a moment after the agent is ready.
    #[arg(long, default_value_t = 0)]
    pub wait_seconds: u64,
}

/// Why there is no load.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The client cannot be set up.
    #[error("failed to set up the client")]
    Client(#[source] reqwest::Error),
    /// The path does not go with the URL.
    #[error("{path:?} is not a path of {url}; write it as /v1/chat/completions")]
    Path {
        /// The path.
        path: String,
        /// The server.
        url: Url,
    },
    /// The questions cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// Their path.
        path: PathBuf,
        /// What the file system reported.
        #[source]
        source: io::Error,
    },
    /// A line has no question.
    #[error("line {line} of the questions is not a recorded run; write {{\"input\": \"...\"}}")]
    Question {
        /// Its number, from 1.
        line: usize,
        /// What the parser reported.
        #[source]
        source: serde_json::Error,
    },
    /// There is no question.
    #[error("{path} has no line; write one {{\"input\": \"...\"}} a line")]
    NoQuestion {
        /// The path of the questions.
        path: PathBuf,
    },
}

#[derive(Debug, Deserialize)]
struct Recorded {
    input: String,
}

/// The requests that are sent, one for each question.
#[derive(Debug)]
struct Requests(Vec<RequestBuilder>);

impl Requests {
    /// The request of an arrival, counted from 0; none where its body cannot be copied.
    fn of(&self, arrival: usize) -> Option<RequestBuilder> {
        self.0.get(arrival % self.0.len().max(1)).and_then(RequestBuilder::try_clone)
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "write a number, such as 50".to_owned())?;
    if rate > 0.0 && rate <= 10_000.0 { Ok(rate) } else { Err("write a number above 0, up to 10000".to_owned()) }
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write it as name: value")?;
    let name = name.trim().parse().map_err(|_| format!("{name:?} is not a name of a header"))?;
    let value = value.trim().parse().map_err(|_| format!("{value:?} is not a value of a header"))?;
    Ok((name, value))
}

/// Sends requests until told to stop, then waits for those in flight. Hands every report over, the summary last.
///
/// # Errors
/// When the client cannot be set up; a request that fails is counted and is not an error.
pub async fn run(
    settings: LoadSettings,
    stop: impl Future<Output = ()>,
    print: impl Fn(&Report),
) -> Result<(), LoadError> {
    let requests = requests(&settings)?;
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = &mut stop => {}
        () = wait_for_answer(&requests, Duration::from_secs(settings.wait_seconds)) => {}
    }
    let (sender, mut outcomes) = mpsc::channel(256);
    let mut tally = Tally::new(unix_millis());
    let start = Instant::now();
    let end = settings.seconds.map(|seconds| start + Duration::from_secs(seconds));
    let mut arrivals = Arrivals::new(settings.rate, settings.seed).map(|since| start + since);
    let mut next = arrivals.next();
    let mut sent = 0;
    let mut ticks = interval_at(start + REPORT_EVERY, REPORT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(due) = next.filter(|due| end.is_none_or(|end| *due < end)) {
        tokio::select! {
            () = &mut stop => break,
            () = sleep_until(due) => {
                begin(requests.of(sent), &mut tally, &sender, due);
                sent += 1;
                next = arrivals.next();
            }
            Some(outcome) = outcomes.recv() => tally.end(outcome, unix_millis()),
            _ = ticks.tick() => print(&tally.end_interval(unix_millis())),
        }
    }
    // Each ends within its timeout, and with the last one the channel.
    drop(sender);
    while let Some(outcome) = outcomes.recv().await {
        tally.end(outcome, unix_millis());
    }
    let now = unix_millis();
    print(&tally.end_interval(now));
    print(&tally.summary(now));
    Ok(())
}

fn requests(settings: &LoadSettings) -> Result<Requests, LoadError> {
    let url = settings.url.join(&settings.path);
    let url = url.map_err(|_| LoadError::Path { path: settings.path.clone(), url: settings.url.clone() })?;
    // The image has no certificates: only servers of the cluster are called, in clear text.
    let client = Client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(settings.timeout_seconds));
    let client = client.build().map_err(LoadError::Client)?;
    let headers: HeaderMap = settings.headers.iter().cloned().collect();
    let ask = |question: &str| {
        let messages = json!([{"role": "user", "content": question}]);
        let body = json!({"model": settings.model, "messages": messages, "stream": false});
        client.post(url.clone()).headers(headers.clone()).json(&body)
    };
    let questions = match &settings.questions {
        Some(path) => read_questions(path)?,
        None if settings.given.is_empty() => vec!["What is the answer?".to_owned()],
        None => settings.given.clone(),
    };
    Ok(Requests(questions.iter().map(|question| ask(question)).collect()))
}

fn read_questions(path: &Path) -> Result<Vec<String>, LoadError> {
    let text = fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    let lines = text.lines().enumerate().map(|(index, line)| {
        let recorded: Result<Recorded, _> = serde_json::from_str(line);
        recorded.map(|run| run.input).map_err(|source| LoadError::Question { line: index + 1, source })
    });
    let questions: Vec<_> = lines.collect::<Result<_, _>>()?;
    if questions.is_empty() { Err(LoadError::NoQuestion { path: path.to_owned() }) } else { Ok(questions) }
}

/// Asks until there is an answer, for so long.
async fn wait_for_answer(requests: &Requests, limit: Duration) {
    let start = Instant::now();
    while start.elapsed() < limit {
        let Some(request) = requests.of(0) else { return };
        if send(request, start).await.result.is_ok() {
            return;
        }
        sleep_until(Instant::now() + ASK_EVERY).await;
    }
}

fn begin(request: Option<RequestBuilder>, tally: &mut Tally, outcomes: &mpsc::Sender<Outcome>, due: Instant) {
    let unsent = |message: &str| Outcome { revision: None, result: Err(message.to_owned()) };
    let has_room = tally.in_flight() < MAX_IN_FLIGHT;
    tally.begin();
    match request {
        Some(request) if has_room => {
            let outcomes = outcomes.clone();
            // Ends with its request; the loop waits for its outcome.
            tokio::spawn(async move {
                let outcome = send(request, due).await;
                // The loop reads until the last sender is gone.
                let _ = outcomes.send(outcome).await;
            });
        }
        Some(_) => tally.end(unsent("not sent: too many requests are in flight"), unix_millis()),
        None => tally.end(unsent("not sent: the request cannot be repeated"), unix_millis()),
    }
}

/// Latency counts from when the request was due: a client that is late does not make a server look better.
async fn send(request: RequestBuilder, due: Instant) -> Outcome {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Outcome { revision: None, result: Err(chain(&error)) },
    };
    let status = response.status();
    let revision = response.headers().get(REVISION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let result = match response.text().await {
        Ok(_) if status == StatusCode::OK => Ok(due.elapsed()),
        Ok(body) => Err(format!("status {}: {}", status.as_u16(), body.trim().chars().take(200).collect::<String>())),
        Err(error) => Err(format!("status {}, then {}", status.as_u16(), chain(&error))),
    };
    Outcome { revision, result }
}

/// Milliseconds of the Unix epoch, now.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
