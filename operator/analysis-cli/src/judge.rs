//! `slipway-analysis judge`: the verdict of a recorded rollout, window by window. Reads a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use slipway_analysis::judge::{Blame, Config, Judge, Judgement, Observation, Suspect, Verdict, Window};
use slipway_evaluation::InputError;
use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

use super::CliError;

/// Arguments of `judge`.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// JSON lines: a first line {"config":{...}} (may be absent), then one line per window, pod and metric, sorted by
    /// t. A line's endedPods name pods that were drained or scaled down
    #[arg(long, value_name = "FILE.jsonl")]
    evidence: PathBuf,
}

#[derive(Debug, Serialize)]
struct WindowLine {
    t: u64,
    step: usize,
    verdict: Verdict,
    reason: String,
    #[serde(rename = "logEvidence")]
    log_evidence: Map<String, Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FinalLine {
    #[serde(rename = "final")]
    verdict: Verdict,
    decided_at: Option<u64>,
    blame: Vec<Blame>,
}

pub(super) fn run(args: &JudgeArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let mut reader = Lines::open(&args.evidence).map_err(CliError::Input)?;
    let mut judge = Judge::new(reader.config().map_err(CliError::Input)?);
    let mut text = Vec::new();
    while let Some(window) = reader.window().map_err(CliError::Input)? {
        if let Some(judgement) = judge.consume(&window) {
            line(&mut text, &window_line(&judge, &judgement))?;
        }
    }
    line(&mut text, &final_line(&judge))?;
    out.write_all(&text).map_err(CliError::Write)
}

fn line(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), CliError> {
    serde_json::to_writer(&mut *text, value).map_err(|e| CliError::Write(e.into()))?;
    text.push(b'\n');
    Ok(())
}

fn window_line(judge: &Judge, judgement: &Judgement) -> WindowLine {
    let mut log_evidence = Map::new();
    log_evidence.insert("combined".into(), judge.ln_combined().into());
    for evidence in judge.evidence() {
        let name = Suspect { key: evidence.key, harm: evidence.harm }.to_string();
        log_evidence.insert(name, evidence.ln_e.into());
    }
    for (key, ln_e) in judge.non_inferiority() {
        log_evidence.insert(format!("{}/nonInferiority", key.metric), ln_e.into());
    }
    log_evidence.insert("newSessions/split".into(), judge.split_mismatch().0.into());
    let Judgement { end_seconds, step, verdict, reason } = judgement;
    WindowLine { t: *end_seconds, step: *step, verdict: *verdict, reason: reason.to_string(), log_evidence }
}

fn final_line(judge: &Judge) -> FinalLine {
    match judge.decided() {
        Some((Verdict::Rollback, seconds)) => {
            FinalLine { verdict: Verdict::Rollback, decided_at: Some(seconds), blame: judge.blame() }
        }
        Some((verdict, seconds)) => FinalLine { verdict, decided_at: Some(seconds), blame: Vec::new() },
        None => FinalLine { verdict: Verdict::Hold, decided_at: None, blame: Vec::new() },
    }
}

/// One line of evidence.
struct Record {
    end_seconds: u64,
    weight_percent: Option<f64>,
    ended_pods: Vec<String>,
    observation: Observation,
}

/// Reads the file line by line and groups lines of the same `t`.
pub(super) struct Lines {
    path: PathBuf,
    lines: std::io::Lines<BufReader<File>>,
    number: usize,
    /// A line that was read and not used yet.
    ahead: Option<Map<String, Value>>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, InputError> {
        let file = File::open(path).map_err(|source| InputError::Read { path: path.into(), source })?;
        Ok(Self { path: path.into(), lines: BufReader::new(file).lines(), number: 0, ahead: None })
    }

    /// The configuration of the first line, or the default when the first line is evidence.
    pub(super) fn config(&mut self) -> Result<Config, InputError> {
        let Some(mut first) = self.next_object()? else { return Ok(Config::default()) };
        let Some(config) = first.remove("config") else {
            self.ahead = Some(first);
            return Ok(Config::default());
        };
        if config.is_null() {
            return Ok(Config::default());
        }
        serde_json::from_value(config.clone()).map_err(|error| {
            let culprit = culprit(&config);
            let field = culprit.map_or_else(|| "config".to_owned(), |field| format!("config.{field}"));
            self.refuse(&field, &error, "see the documented form of the first line")
        })
    }

    /// The next window: every line with the same `t`.
    pub(super) fn window(&mut self) -> Result<Option<Window>, InputError> {
        let mut window: Option<Window> = None;
        let mut seen = BTreeSet::new();
        while let Some(object) = self.next_object()? {
            let t = self.seconds(&object)?;
            if window.as_ref().is_some_and(|window| window.end_seconds < t) {
                self.ahead = Some(object);
                break;
            }
            if window.as_ref().is_some_and(|window| window.end_seconds > t) {
                return Err(self.refuse("t", &format!("{t} comes after a later window"), "sort the lines by t"));
            }
            let record = self.record(&object, t)?;
            let window = window.get_or_insert_with(Window::default);
            let Observation { arm, pod, metric, unit, stratum, .. } = &record.observation;
            if !pod.is_empty() && !seen.insert((*arm, pod.clone(), *metric, *unit, stratum.clone())) {
                let problem = format!("{pod:?} reports {metric} twice for t {t}");
                return Err(self.refuse("pod", &problem, "keep one line per window, pod, metric and stratum"));
            }
            window.end_seconds = record.end_seconds;
            window.weight_percent = match (window.weight_percent, record.weight_percent) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
            window.ended_pods.extend(record.ended_pods);
            window.observations.push(record.observation);
        }
        Ok(window)
    }

    fn record(&self, object: &Map<String, Value>, end_seconds: u64) -> Result<Record, InputError> {
        let metric: Metric = self.required(object, "metric", "use one of the metrics of the evidence")?;
        let count: u64 = self.required(object, "count", "give the units that finished in the window")?;
        let errors: u64 = self.required(object, "errors", "give the units that failed, 0 when none")?;
        if errors > count {
            let problem = format!("{errors} errors among {count} finished units");
            return Err(self.refuse("errors", &problem, "count holds the errors too"));
        }
        let buckets: Histogram = self.optional(object, "buckets")?.unwrap_or_default();
        if buckets.count() > count {
            let problem = format!("{} values for {count} finished units", buckets.count());
            return Err(self.refuse("buckets", &problem, "buckets hold one value per success"));
        }
        let weight_percent = self.optional(object, "weightPercent")?;
        if weight_percent.is_some_and(|weight: f64| !(0.0..=100.0).contains(&weight)) {
            return Err(self.refuse("weightPercent", &"not between 0 and 100", "give the canary's share in percent"));
        }
        // Where nothing is in flight, nothing has an age.
        let in_flight: Option<u64> = self.optional(object, "inFlight")?;
        let ages: Option<Vec<(u16, u64)>> = self.optional(object, "inFlightAges")?;
        let observation = Observation {
            arm: self.required(object, "arm", "write \"stable\" or \"canary\"")?,
            pod: self.optional(object, "pod")?.unwrap_or_default(),
            metric,
            unit: self.optional(object, "unit")?.unwrap_or_else(|| natural_unit(metric)),
            stratum: self.optional(object, "stratum")?.unwrap_or_default(),
            started: self.optional(object, "started")?,
            new_sessions: self.optional(object, "newSessions")?.unwrap_or(0),
            in_flight_ages: ages.or_else(|| (in_flight == Some(0)).then(Vec::new)),
            count,
            errors,
            buckets,
        };
        let ended_pods = self.optional(object, "endedPods")?.unwrap_or_default();
        Ok(Record { end_seconds, weight_percent, ended_pods, observation })
    }

    /// The end of a line's window; whole seconds, also when written as 10.0.
    fn seconds(&self, object: &Map<String, Value>) -> Result<u64, InputError> {
        let t: f64 = self.required(object, "t", "give the second at which the window ends")?;
        if t < 0.0 || t.fract() != 0.0 || t > 1e12 {
            return Err(self.refuse(
                "t",
                &format!("{t} is not a whole number of seconds"),
                "windows end at whole seconds",
            ));
        }
        Ok(t as u64)
    }

    fn next_object(&mut self) -> Result<Option<Map<String, Value>>, InputError> {
        if let Some(object) = self.ahead.take() {
            return Ok(Some(object));
        }
        for line in self.lines.by_ref() {
            self.number += 1;
            let line = line.map_err(|source| InputError::Read { path: self.path.clone(), source })?;
            if line.trim().is_empty() {
                continue;
            }
            let object = serde_json::from_str(&line)
                .map_err(|error| self.refuse("the line", &error, "write one JSON object per line"))?;
            return Ok(Some(object));
        }
        Ok(None)
    }

    fn required<T: DeserializeOwned>(
        &self,
        object: &Map<String, Value>,
        field: &str,
        remedy: &str,
    ) -> Result<T, InputError> {
        let value = object.get(field).ok_or_else(|| self.refuse(field, &"missing", remedy))?;
        serde_json::from_value(value.clone()).map_err(|error| self.refuse(field, &error, remedy))
    }

    fn optional<T: DeserializeOwned>(&self, object: &Map<String, Value>, field: &str) -> Result<Option<T>, InputError> {
        let parse = |value: &Value| {
            serde_json::from_value(value.clone())
                .map_err(|error| self.refuse(field, &error, "correct the field or leave it out"))
        };
        object.get(field).filter(|value| !value.is_null()).map(parse).transpose()
    }

    fn refuse(&self, field: &str, problem: &dyn std::fmt::Display, remedy: &str) -> InputError {
        InputError::Value {
            path: self.path.clone(),
            place: format!("line {}: {field}", self.number),
            problem: problem.to_string(),
            remedy: remedy.into(),
        }
    }
}

/// The first field of a configuration that is refused on its own: syntax errors do not name theirs.
fn culprit(config: &Value) -> Option<String> {
    config.as_object()?.iter().find_map(|(field, value)| {
        let alone = Value::Object(Map::from_iter([(field.clone(), value.clone())]));
        serde_json::from_value::<Config>(alone).is_err().then(|| field.clone())
    })
}

/// The unit of a metric that names none.
const fn natural_unit(metric: Metric) -> Unit {
    match metric {
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::ModelCallsPerRun
        | Metric::OutputTokensPerRun
        | Metric::RunSuccess
        | Metric::TaskSuccess
        | Metric::TimeToFirstToken
        | Metric::ApprovalWait => Unit::Run,
        Metric::RequestLatency
        | Metric::RequestTimeToFirstToken
        | Metric::InterTokenLatency
        | Metric::Cancelled
        | Metric::Shed => Unit::Request,
    }
}
