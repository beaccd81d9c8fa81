//! Drives whole agent runs through the sidecar, its tools replayed: closed loop to explore, arrivals to
//! confirm.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::Client;
use serde::Deserialize;
use serde_json::json;
use slipway_worker_contract::MeasureSettings;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    arrivals::{Arrival, Arrivals, shuffled},
    records::{self, Chunk, Request, Worst},
    watch::{Decision, Watch},
};

/// How long the sidecar may take to see that a model is ready again.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// Rounds of all runs in flight before a level is measured.
const WARM_UP_ROUNDS: u32 = 2;
/// No further round of warming up begins after this.
const WARM_UP_TIME: Duration = Duration::from_secs(30);
/// Runs waiting for each other at most, per allowed run in flight: beyond it an arrival is an error at once.
const MOST_WAITING: usize = 16;

/// The sidecar and its questions.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The connections.
    pub client: Client,
    /// As in `http://127.0.0.1:8080`.
    pub endpoint: String,
    /// The questions.
    pub inputs: Arc<Vec<String>>,
    /// How they arrive in an open loop.
    pub arrivals: Arrivals,
    /// A longer run is an error.
    pub timeout: Duration,
}

/// Result of a level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Driven {
    /// The runs that succeeded.
    pub chunks: Vec<Chunk>,
    /// The runs that failed.
    pub errors: u32,
    /// Arrivals per 1,000 seconds, of an open loop.
    pub arrivals_per_kilosecond: Option<u64>,
    /// Why there are no more, and the first error's words.
    pub reason: String,
}

#[derive(Debug)]
struct Finished {
    request: Request,
    result: Result<(), String>,
}

#[derive(Deserialize)]
struct RunView {
    status: String,
    error: Option<serde_json::Value>,
    usage: Usage,
    #[serde(default)]
    steps: Vec<StepView>,
    #[serde(default)]
    timings: TimingsView,
}

/// Times of a run, as the sidecar took them from its admission on.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TimingsView {
    total_microseconds: u64,
    #[serde(default)]
    time_to_first_token_microseconds: Option<u64>,
}

/// One model request of a run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepView {
    output_tokens: u64,
    #[serde(default)]
    time_to_first_token_microseconds: Option<u64>,
    model_microseconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    tool_errors: u64,
}

impl Agent {
    /// Asks until a run succeeds, then with `level` runs in flight until as many as given were answered, and two rounds
    /// of those in flight; none of it is recorded. With no run given nothing more is asked.
    ///
    /// A server compiles what a batch of that size needs when it first meets one, and every run in flight waits for it.
    /// Slow runs warm up for one round, and no further round begins after [`WARM_UP_TIME`].
    ///
    /// # Errors
    /// The last run's words, once patience is over.
    pub async fn warm_up(&self, level: u32, runs: u32) -> Result<(), String> {
        let started = Instant::now();
        while let Err(words) = self.ask(&self.inputs[0]).await {
            if started.elapsed() > READY_PATIENCE {
                return Err(format!("no agent run succeeded within {} s: {words}", READY_PATIENCE.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if runs == 0 {
            return Ok(());
        }
        let (warming, level) = (Instant::now(), level.max(1));
        let each = runs.div_ceil(level).max(WARM_UP_ROUNDS);
        let mut agents = JoinSet::new();
        for first in 0..level as usize {
            let agent = self.clone();
            agents.spawn(async move {
                for round in 0..each as usize {
                    // What fails here fails again where it is counted.
                    let _ = agent.ask(&agent.inputs[(first + round * level as usize) % agent.inputs.len()]).await;
                    if warming.elapsed() > WARM_UP_TIME {
                        return;
                    }
                }
            });
        }
        while agents.join_next().await.is_some() {}
        Ok(())
    }

    /// Keeps `level` runs in flight until the watch or the settings end it.
    pub async fn closed_loop(&self, level: u32, measure: &MeasureSettings, mut watch: Watch, seed: u64) -> Driven {
        let (sender, mut finished) = mpsc::channel(level as usize);
        let (next, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(shuffled(self.inputs.len(), seed)));
        let (over, started) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let mut agents = JoinSet::new();
        for _ in 0..level {
            let (agent, sender, over) = (self.clone(), sender.clone(), Arc::clone(&over));
            let (next, order) = (Arc::clone(&next), Arc::clone(&order));
            agents.spawn(async move {
                loop {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let index = order[next.fetch_add(1, Ordering::Relaxed) % order.len()];
                    let sent = started.elapsed();
                    // The collector stays until the last agent has ended.
                    let _ = sender.send(agent.timed(index, started, sent).await).await;
                }
            });
        }
        drop(sender);
        let mut all = Vec::new();
        // The first runs met an idle server and are not kept.
        let mut looked = level as usize;
        let reason = loop {
            let Some(run) = finished.recv().await else { break "the agents stopped".to_owned() };
            all.push(run);
            if all.len() >= looked + measure.first_chunk as usize {
                watch.observe(&successes(&all[looked..]));
                looked = all.len();
                if let Decision::Stop(reason) = watch.decide(started.elapsed()) {
                    break reason;
                }
            }
            if all.len() >= measure.max_requests as usize
                || started.elapsed() >= Duration::from_millis(measure.max_level_millis)
            {
                break format!("the level has used up its {} runs or its time", all.len());
            }
        };
        // What is in flight ends by itself, or the slow runs among it would be missing.
        over.store(true, Ordering::Relaxed);
        while let Some(run) = finished.recv().await {
            all.push(run);
        }
        while agents.join_next().await.is_some() {}
        let kept = records::steady(&successes(&all), level).ok();
        driven(kept, &all, reason)
    }

    /// Sends what arrives for the whole length, however it ends; a latency counts from the arrival.
    pub async fn open_loop(&self, level: u32, arrivals_per_kilosecond: u64, length: Duration, seed: u64) -> Driven {
        let schedule = self.arrivals.schedule(self.inputs.len(), arrivals_per_kilosecond, length, seed);
        let started = Instant::now();
        let (mut runs, mut all) = (JoinSet::new(), Vec::new());
        for Arrival { at, run } in schedule {
            tokio::time::sleep_until((started + at).into()).await;
            while let Some(done) = runs.try_join_next() {
                all.extend(done);
            }
            if runs.len() >= level as usize * MOST_WAITING {
                let at = nanos(at);
                let words = format!("{} runs were waiting: the rate cannot be served", runs.len());
                all.push(Finished { request: Request::new(at, at), result: Err(words) });
                continue;
            }
            let agent = self.clone();
            runs.spawn(async move { agent.timed(run, started, at).await });
        }
        while let Some(done) = runs.join_next().await {
            all.extend(done);
        }
        let mut requests = successes(&all);
        requests.sort();
        let kept = (!requests.is_empty()).then(|| Chunk { window_nanos: served_nanos(&requests, length), requests });
        let arrivals_per_kilosecond = Some(arrivals_per_kilosecond);
        let ended = format!("{} arrivals in {} s", all.len(), length.as_secs());
        Driven { arrivals_per_kilosecond, ..driven(kept, &all, ended) }
    }

    async fn timed(&self, input: usize, started: Instant, sent: Duration) -> Finished {
        let result = self.ask(&self.inputs[input]).await;
        let unmeasured = Request::new(nanos(sent), nanos(started.elapsed()));
        match result {
            Ok(run) => Finished { request: run.measured(unmeasured), result: Ok(()) },
            Err(words) => Finished { request: unmeasured, result: Err(words) },
        }
    }

    /// One run; a tool error fails it, because the trace then lacks what the model asked for.
    async fn ask(&self, input: &str) -> Result<RunView, String> {
        let request = self.client.post(format!("{}/v1/runs", self.endpoint)).timeout(self.timeout);
        let answer = request.json(&json!({"input": input})).send().await.map_err(|e| words(&e))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|e| words(&e))?;
        match serde_json::from_str::<RunView>(&text) {
            Ok(run) if run.status == "succeeded" && run.usage.tool_errors == 0 => Ok(run),
            Ok(run) if run.usage.tool_errors > 0 => Err("a tool call had no recorded result".to_owned()),
            Ok(run) => Err(format!("the run {}: {}", run.status, run.error.unwrap_or_default())),
            Err(_) => Err(format!("the sidecar answered {status}: {}", text.chars().take(200).collect::<String>())),
        }
    }
}

/// Gives the time in which an open loop's runs were served. It is the loop's length, or the time from the first
/// answer to the last if that is longer, as when runs queue. The duration of one run is not part of it: at a
/// sustainable rate, as many runs are answered as arrive, however long each takes.
fn served_nanos(successes: &[Request], length: Duration) -> u64 {
    let answered = || successes.iter().map(|request| request.answered);
    let between = answered().max().unwrap_or_default() - answered().min().unwrap_or_default();
    between.max(nanos(length))
}

impl RunView {
    /// The run as it was measured, from when it was sent and answered. What its user saw of the first token is the time
    /// until the answer was complete, without the time that the answer took from its first token on.
    fn measured(&self, unmeasured: Request) -> Request {
        let TimingsView { total_microseconds, time_to_first_token_microseconds } = self.timings;
        let waited = unmeasured.answered.saturating_sub(unmeasured.sent) / 1_000;
        let first_token = time_to_first_token_microseconds
            .map(|micros| waited.saturating_sub(total_microseconds.saturating_sub(micros)));
        let tokens: u64 = self.steps.iter().map(|step| step.output_tokens).sum();
        let output_tokens = Some(tokens).filter(|tokens| *tokens > 0);
        Request { worst: worst(&self.steps), first_token, output_tokens, ..unmeasured }
    }
}

/// The worst of a run's model requests, as the evidence of a served pod counts it.
fn worst(steps: &[StepView]) -> Worst {
    Worst {
        request: steps.iter().map(|step| step.model_microseconds).max(),
        first_token: steps.iter().filter_map(|step| step.time_to_first_token_microseconds).max(),
        inter_token: steps.iter().filter_map(inter_token).max(),
    }
}

/// The mean gap between tokens after the first, which alone is taken to have come with the first piece.
fn inter_token(step: &StepView) -> Option<u64> {
    let gaps = step.output_tokens.checked_sub(1).filter(|gaps| *gaps > 0)?;
    Some(step.model_microseconds.saturating_sub(step.time_to_first_token_microseconds?) / gaps)
}

fn driven(kept: Option<Chunk>, all: &[Finished], ended: String) -> Driven {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for text in all.iter().filter_map(|run| run.result.as_ref().err()) {
        *words.entry(text).or_default() += 1;
    }
    let errors = words.values().sum::<usize>();
    let most = words.into_iter().max_by_key(|(_, count)| *count);
    let reason = match most {
        Some((text, count)) => format!("{ended}; {errors} failed, {count} of them: {text}"),
        None => ended,
    };
    let errors = u32::try_from(errors).unwrap_or(u32::MAX);
    Driven { chunks: kept.into_iter().collect(), errors, arrivals_per_kilosecond: None, reason }
}

fn successes(runs: &[Finished]) -> Vec<Request> {
    let mut requests: Vec<Request> = runs.iter().filter(|run| run.result.is_ok()).map(|run| run.request).collect();
    requests.sort();
    requests
}

fn words(error: &reqwest::Error) -> String {
    if error.is_timeout() { "the run exceeded its timeout".to_owned() } else { crate::failure::chain(error) }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Throughput of 80 runs that arrive evenly at 2 a second, by when each is answered.
    fn runs_per_second(answered: impl Fn(u64) -> f64) -> f64 {
        let second = |seconds: f64| nanos(Duration::from_secs_f64(seconds));
        let run = |index: u64| Request::new(second(index as f64 / 2.0), second(answered(index)));
        let runs: Vec<Request> = (0..80).map(run).collect();
        80e9 / served_nanos(&runs, Duration::from_secs(40)) as f64
    }

    #[test]
    fn runs_that_take_long_are_served_at_the_rate_at_which_they_arrive() {
        assert!((runs_per_second(|index| index as f64 / 2.0 + 30.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn runs_that_queue_are_served_at_the_rate_of_their_answers() {
        let served = runs_per_second(|index| index as f64 + 1.0);
        assert!((served - 80.0 / 79.0).abs() < 1e-9, "one a second: {served}");
    }

    #[test]
    fn a_runs_latencies_are_the_worst_of_its_model_requests() {
        let answer = r#"[
            {"step":1,"outputTokens":11,"timeToFirstTokenMicroseconds":40000,"modelMicroseconds":90000,"toolCalls":[]},
            {"step":2,"outputTokens":3,"timeToFirstTokenMicroseconds":10000,"modelMicroseconds":50000,"toolCalls":[]},
            {"step":3,"outputTokens":1,"modelMicroseconds":70000,"toolCalls":[]}]"#;
        let steps: Vec<StepView> = serde_json::from_str(answer).unwrap();
        let expected = Worst { request: Some(90_000), first_token: Some(40_000), inter_token: Some(20_000) };
        assert_eq!(worst(&steps), expected);
        assert_eq!(worst(&steps[2..]), Worst { request: Some(70_000), ..Worst::default() });
        let answer = format!(r#"{{"status":"succeeded","usage":{{"toolErrors":0}},"steps":{answer}}}"#);
        let run: RunView = serde_json::from_str(&answer).unwrap();
        assert_eq!(run.measured(Request::new(0, 1)).output_tokens, Some(15));
    }

    #[test]
    fn a_user_waits_for_the_first_token_from_sending_on_and_through_every_request_before_the_answer() {
        let run = |timings: &str| -> Request {
            let text = format!(r#"{{"status":"succeeded","usage":{{"toolErrors":0}},"timings":{{{timings}}}}}"#);
            let view: RunView = serde_json::from_str(&text).unwrap();
            view.measured(Request::new(1_000_000, 201_000_000))
        };
        // It was admitted 20 ms after it was sent, and the answer took 30 ms from its first token on.
        let streamed = run(r#""totalMicroseconds":180000,"timeToFirstTokenMicroseconds":150000"#);
        assert_eq!(streamed.first_token, Some(170_000));
        assert_eq!(run(r#""totalMicroseconds":180000"#).first_token, None, "a sidecar that does not say it");
    }
}
