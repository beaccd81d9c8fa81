//! Runs of live agents as traffic that can be sent again: what pods remember of them, and the lines of the files that
//! campaigns read. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Path under which pods serve a [`Recording`].
pub const PATH: &str = "/slipway/v1/recording";

/// Port of a pod's loopback on which its recording has texts.
pub const TEXTS_PORT: u16 = 9467;

/// How long pods remember a run, in seconds.
pub const KEPT_SECONDS: u64 = 3_600;

/// Version of the form that this program writes.
pub const VERSION: u32 = 1;

/// Most tokens of all runs of a file of `recordedLengths`: a campaign keeps their texts in memory.
pub const MOST_TOKENS: u64 = 8_000_000;

/// Fewest runs whose times say how traffic arrives.
pub const LEAST_ARRIVALS: usize = 20;

/// The least time of which these may be, in microseconds.
pub const LEAST_MICROS: u64 = 60_000_000;

/// The highest rate that is made of their times: users never come faster.
pub const MOST_PER_KILOSECOND: u64 = 1_000_000;

/// What pods remember of runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum RecordingLevel {
    /// Nothing.
    None,
    /// Lengths in tokens, times of arrival, and names and latencies of tools.
    #[default]
    Lengths,
    /// Also questions, and arguments and results of tools.
    Texts,
}

impl RecordingLevel {
    /// Whether it is what pods remember where nobody says anything.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a pod remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    /// Version of the form.
    pub version: u32,
    /// The revision that the pod serves.
    pub revision: String,
    /// The pod's name.
    pub pod: String,
    /// What it remembers.
    pub level: RecordingLevel,
    /// The pod's clock, in microseconds of Unix time.
    pub at_micros: u64,
    /// Every run that was answered since then is there, in microseconds of Unix time.
    pub since_micros: u64,
    /// Answered runs of the last hour that are not there, because they came before.
    pub dropped: Vec<Minute>,
    /// Runs of the last hour that failed, were cancelled, or met a pod without room: they are not there either.
    pub unanswered: Vec<Minute>,
    /// In the order of their ends.
    pub runs: Vec<RecordedRun>,
}

/// Runs of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Minute {
    /// When it began, in microseconds of Unix time.
    pub at_micros: u64,
    /// How many runs ended in it.
    pub runs: u64,
}

impl Minute {
    /// Whether a part of it comes after a moment.
    pub fn ends_after(&self, micros: u64) -> bool {
        self.at_micros.saturating_add(60_000_000) > micros
    }
}

/// A run that was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRun {
    /// Its lengths. It arrived at this time in microseconds of Unix time.
    pub lengths: RunLengths,
    /// The same with its texts, where they are remembered and can be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<TraceLine>,
}

/// A run by its lengths: a line of a file of `recordedLengths`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunLengths {
    /// When it arrived, in microseconds after a moment that all lines share. Absent means at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_micros: Option<u64>,
    /// Tokens of what the client sent, about.
    pub input_tokens: u32,
    /// Its model requests, at least one.
    pub turns: Vec<TurnLengths>,
}

impl RunLengths {
    /// Tokens of all that was said and given in it, about.
    pub fn tokens(&self) -> u64 {
        let of_turn = |turn: &TurnLengths| {
            let results: u64 = turn.calls.iter().map(|call| u64::from(call.result_tokens)).sum();
            u64::from(turn.output_tokens) + results
        };
        u64::from(self.input_tokens) + self.turns.iter().map(of_turn).sum::<u64>()
    }
}

/// Runs in 1,000 seconds, by when they arrived, within 1 and [`MOST_PER_KILOSECOND`]. Nothing where that is not known
/// of each, and of fewer than [`LEAST_ARRIVALS`] or of less than [`LEAST_MICROS`]: chance would make the rate.
pub fn per_kilosecond(arrived_micros: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let times: Vec<u64> = arrived_micros.into_iter().collect::<Option<_>>()?;
    let micros = times.iter().max()? - times.iter().min()?;
    let gaps = u64::try_from(times.len() - 1).unwrap_or(u64::MAX);
    let is_enough = times.len() >= LEAST_ARRIVALS && micros >= LEAST_MICROS;
    is_enough.then(|| (gaps.saturating_mul(1_000_000_000) / micros).clamp(1, MOST_PER_KILOSECOND))
}

/// A model request, and the calls that it led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnLengths {
    /// Tokens that the model wrote.
    pub output_tokens: u32,
    /// Calls, made at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallLengths>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallLengths {
    /// The tool's name.
    pub tool: String,
    /// Tokens of its result, about.
    pub result_tokens: u32,
    /// How long it took, in microseconds.
    pub latency_micros: u64,
}

/// A recorded run with its texts: a line of a file of `agentTrace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceLine {
    /// The question.
    pub input: String,
    /// What its HTTP tools answered; empty if it calls none.
    pub calls: Vec<RecordedCall>,
    /// When it arrived, in microseconds after a moment that all lines share. Absent means at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_micros: Option<u64>,
}

/// A recorded tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedCall {
    /// The tool's name.
    pub tool: String,
    /// Its arguments by parameter.
    pub arguments: BTreeMap<String, String>,
    /// What the model sees of the answer.
    pub result: String,
    /// How long the answer took, in microseconds; replayed.
    pub latency_micros: u64,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_is_that_of_the_gaps() {
        let every = |seconds: u64, runs: u64| (0..runs).rev().map(move |run| Some(run * seconds * 1_000_000));
        assert_eq!(per_kilosecond(every(6, 20)), Some(166), "19 gaps in 114 s");
        assert_eq!(per_kilosecond(every(100_000, 20)), Some(1), "the least that there is");
        assert_eq!(per_kilosecond(every(6, 20).chain([None])), None, "one is not known");
    }

    #[test]
    fn few_runs_or_a_short_time_say_nothing_of_a_rate() {
        let every = |micros: u64, runs: u64| per_kilosecond((0..runs).map(move |run| Some(run * micros)));
        assert_eq!((every(1_000, 2), every(60_000_000, 19), every(3_000_000, 20)), (None, None, None));
        assert_eq!((every(0, 100), per_kilosecond([])), (None, None));
        assert_eq!(every(900, 80_000), Some(MOST_PER_KILOSECOND), "1,111 a second");
        let hostile = (0..20).map(|run| Some(if run == 0 { 0 } else { u64::MAX }));
        assert_eq!(per_kilosecond(hostile), Some(1));
    }

    #[test]
    fn the_forms_of_lines_stay() {
        let call = CallLengths { tool: "lookup".into(), result_tokens: 90, latency_micros: 4_000 };
        let turns = vec![
            TurnLengths { output_tokens: 40, calls: vec![call] },
            TurnLengths { output_tokens: 12, calls: Vec::new() },
        ];
        let lengths = RunLengths { arrived_micros: Some(7), input_tokens: 800, turns };
        let json = json!({"arrivedMicros": 7, "inputTokens": 800, "turns": [
            {"outputTokens": 40, "calls": [{"tool": "lookup", "resultTokens": 90, "latencyMicros": 4000}]},
            {"outputTokens": 12},
        ]});
        assert_eq!(serde_json::to_value(&lengths).unwrap(), json);
        assert_eq!(serde_json::from_value::<RunLengths>(json).unwrap(), lengths);
        assert_eq!(lengths.tokens(), 800 + 40 + 90 + 12);
        let old = r#"{"input":"Bela?","calls":[]}"#;
        let line: TraceLine = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&line).unwrap(), old, "lines of before have no time");
    }
}
