//! The traffic of a live agent as the file of a workload: what its pods remember, joined. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use slipway_vocabulary::recording::{KEPT_SECONDS, Recording, RecordingLevel, RunLengths, TraceLine};
use thiserror::Error;

use crate::table::counted;

/// Most bytes of a file: a ConfigMap holds 1 MiB, with all that is written around it.
const MOST_BYTES: usize = 1_000_000;
/// Key of the file in a ConfigMap.
const KEY: &str = "runs.jsonl";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The AgentDeployment.
    pub name: &'a str,
    /// Runs that arrived so lately, in microseconds.
    pub micros: u64,
    /// With their texts.
    pub texts: bool,
}

/// Why there is no file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NothingRecorded {
    /// Pods do not remember so much.
    #[error("--duration: pods remember an hour: write 1h or less")]
    TooLong,
    /// No pod serves.
    #[error("no pod of {0} is ready: `kubectl slipway get {0}` shows why")]
    NoPod(String),
    /// The spec opts out.
    #[error(
        "the pods of {0} remember no runs: set spec.serving.recording.level to Lengths, and record once the new \
         revision has served"
    )]
    Off(String),
    /// The spec does not opt in.
    #[error(
        "the pods of {0} remember no texts: set spec.serving.recording.level to Texts, and record once the new \
         revision has served"
    )]
    NoTexts(String),
    /// Nobody asked, or nothing was answered.
    #[error("no run of the last {time} was answered: write a longer --duration, or wait for traffic")]
    NoRun {
        /// The time that was asked for.
        time: String,
    },
    /// None of the runs can be replayed.
    #[error(
        "none of {runs} runs can be replayed with its texts, as conversations, clients' instructions and failed tools \
         cannot: leave out --texts"
    )]
    NotReplayable {
        /// How many there are.
        runs: usize,
    },
}

/// A file, and what is to be known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// A run a line.
    pub lines: String,
    /// What was left out, and what comes next, line by line.
    pub told: Vec<String>,
}

impl Wanted<'_> {
    /// Checks what is asked for.
    ///
    /// # Errors
    /// [`NothingRecorded::TooLong`].
    pub fn check(&self) -> Result<(), NothingRecorded> {
        if self.micros > KEPT_SECONDS * 1_000_000 { Err(NothingRecorded::TooLong) } else { Ok(()) }
    }

    /// Whether pods remember what is asked for.
    ///
    /// # Errors
    /// They do not, and what to do about it.
    pub fn check_levels(&self, recordings: &[Recording]) -> Result<(), NothingRecorded> {
        let is_any = |level: RecordingLevel| recordings.iter().any(|recording| recording.level == level);
        if recordings.is_empty() {
            return Err(NothingRecorded::NoPod(self.name.to_owned()));
        }
        match (is_any(RecordingLevel::Texts), is_any(RecordingLevel::Lengths)) {
            (true, _) => Ok(()),
            (false, _) if self.texts => Err(NothingRecorded::NoTexts(self.name.to_owned())),
            (false, true) => Ok(()),
            (false, false) => Err(NothingRecorded::Off(self.name.to_owned())),
        }
    }
}

/// Joins what the pods remember to one file.
///
/// # Errors
/// There is nothing to record, and why.
pub fn record(wanted: Wanted<'_>, recordings: &[Recording]) -> Result<Recorded, NothingRecorded> {
    wanted.check()?;
    wanted.check_levels(recordings)?;
    let runs = recordings.iter().flat_map(|recording| {
        let since = recording.at_micros.saturating_sub(wanted.micros);
        recording.runs.iter().filter(move |run| run.lengths.arrived_micros.is_some_and(|arrived| arrived >= since))
    });
    let mut runs: Vec<_> = runs.collect();
    runs.sort_by_key(|run| run.lengths.arrived_micros);
    if runs.is_empty() {
        return Err(NothingRecorded::NoRun { time: time(wanted.micros) });
    }
    let mut told = Vec::new();
    let (lines, count) = if wanted.texts {
        let texts: Vec<TraceLine> = runs.iter().filter_map(|run| run.texts.clone()).collect();
        if texts.is_empty() {
            return Err(NothingRecorded::NotReplayable { runs: runs.len() });
        }
        tell(&mut told, runs.len() - texts.len(), " that cannot be replayed with texts");
        let all = texts.len();
        let alike = without_contradictions(texts);
        tell(&mut told, all - alike.len(), " whose tools gave another result to an equal call");
        file(alike, &mut told)
    } else {
        file(runs.iter().map(|run| run.lengths.clone()).collect(), &mut told)
    };
    let unanswered: u64 = recordings.iter().map(|recording| recording.unanswered).sum();
    tell(&mut told, usize::try_from(unanswered).unwrap_or(usize::MAX), " of the last hour without an answer");
    told.extend(recordings.iter().filter_map(|recording| short(recording, wanted.micros)));
    told.insert(0, headline(&lines, (count, recordings.len())));
    Ok(Recorded { lines: lines.text, told })
}

/// Lines, and when the first and the last run of them arrived.
struct Lines {
    text: String,
    first: u64,
    last: u64,
}

/// A line of a file.
trait Line: Serialize {
    fn arrived(&mut self) -> &mut Option<u64>;
}

impl Line for RunLengths {
    fn arrived(&mut self) -> &mut Option<u64> {
        &mut self.arrived_micros
    }
}

impl Line for TraceLine {
    fn arrived(&mut self) -> &mut Option<u64> {
        &mut self.arrived_micros
    }
}

/// The latest lines that a ConfigMap holds, in the order of their arrivals. Times count from the first.
fn file<L: Line>(mut all: Vec<L>, told: &mut Vec<String>) -> (Lines, usize) {
    let of_all = all.len();
    let origin = all.first_mut().and_then(|line| *line.arrived()).unwrap_or(0);
    let mut bytes = 0;
    let mut kept = Vec::new();
    let mut times = (0, 0);
    for mut line in all.into_iter().rev() {
        let arrived = line.arrived().unwrap_or(origin).saturating_sub(origin);
        *line.arrived() = Some(arrived);
        let text = serde_json::to_string(&line).unwrap_or_default();
        bytes += text.len() + 1;
        if bytes > MOST_BYTES {
            break;
        }
        times = (arrived, times.1.max(arrived));
        kept.push(text);
    }
    tell(told, of_all - kept.len(), ", the oldest: a ConfigMap holds no more");
    let count = kept.len();
    let text = kept.iter().rev().map(|line| format!("{line}\n")).collect();
    (Lines { text, first: times.0, last: times.1 }, count)
}

/// The runs whose calls have one result each: a replay gives equal calls the same.
fn without_contradictions(runs: Vec<TraceLine>) -> Vec<TraceLine> {
    let mut known: BTreeMap<(String, BTreeMap<String, String>), String> = BTreeMap::new();
    let mut fits = |run: &TraceLine| {
        let own = run.calls.iter().map(|call| ((call.tool.clone(), call.arguments.clone()), &call.result));
        let mut results = BTreeMap::new();
        for (call, result) in own {
            let is_other = |known: &String| known != result;
            if known.get(&call).is_some_and(is_other) || results.get(&call).is_some_and(is_other) {
                return false;
            }
            results.insert(call, result.clone());
        }
        known.extend(results);
        true
    };
    runs.into_iter().filter(|run| fits(run)).collect()
}

fn headline(Lines { first, last, text: _ }: &Lines, (runs, pods): (usize, usize)) -> String {
    let micros = last - first;
    let rate = match micros {
        0 => String::new(),
        micros => format!(", {:.3} a second", (runs - 1) as f64 * 1e6 / micros as f64),
    };
    format!("{} of {} in {}{rate}", several(runs, "run"), several(pods, "pod"), time(micros))
}

/// Says what was left out, if anything was.
fn tell(told: &mut Vec<String>, runs: usize, words: &str) {
    if runs > 0 {
        told.push(format!("left out: {}{words}", several(runs, "run")));
    }
}

/// Says of a pod that it remembers less than was asked for.
fn short(recording: &Recording, micros: u64) -> Option<String> {
    let known = recording.at_micros.saturating_sub(recording.since_micros);
    let is_off = recording.level == RecordingLevel::None;
    (known < micros || is_off).then(|| match is_off {
        true => format!("pod {} remembers no runs", recording.pod),
        false => format!("pod {} remembers only the last {}", recording.pod, time(known)),
    })
}

fn several(number: usize, what: &str) -> String {
    counted(u64::try_from(number).unwrap_or(u64::MAX), what)
}

/// Seconds, or minutes of two and more.
fn time(micros: u64) -> String {
    match micros / 1_000_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// How a file becomes the traffic of a campaign.
pub fn next_steps(Wanted { name, texts, .. }: &Wanted<'_>, file: &str) -> Vec<String> {
    let kind = if *texts { "agentTrace" } else { "recordedLengths" };
    vec![
        format!("kubectl create configmap {name}-runs --from-file={KEY}={file}"),
        format!("profiling: {{workloads: [{{name: recorded, {kind}: {{configMap: {{name: {name}-runs, key: {KEY}}}}}}}]}}"),
    ]
}
