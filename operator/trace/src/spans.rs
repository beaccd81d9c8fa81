//! The agent runtime's spans of a capture: JSON lines, one phase of one run each. Reads IO.
//!
//! `{"runId": "r-17", "phase": "tool", "startUnixNanos": 1795254395975312928, "endUnixNanos": 1795254395990535081}`
//! with `phase` one of `preprocessing`, `inference`, `tool`, `idle`. Times are Unix nanoseconds of the node's clock;
//! the sidecar and the engine run on one node, so that one clock serves both. Spans of one run may overlap (parallel
//! tools) and lines may come in any order.

use std::{
    collections::HashMap,
    io::{self, BufRead},
};

use serde::Deserialize;

use super::{
    intake::Intake,
    record::{AgentPhase, Event, Record, WallClock},
    sort::SortError,
};

/// Why spans cannot be joined with a capture.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The stream failed.
    #[error("failed to read line {line}")]
    Read {
        /// Line, from 1.
        line: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line is not a span.
    #[error(
        "line {line} is not a span; a line reads \
         {{\"runId\":\"r\",\"phase\":\"preprocessing|inference|tool|idle\",\"startUnixNanos\":1,\"endUnixNanos\":2}}"
    )]
    Line {
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A span ends before it starts.
    #[error("line {line}: endUnixNanos is before startUnixNanos")]
    Reversed {
        /// Line, from 1.
        line: usize,
    },
    /// The file is empty.
    #[error("no spans in the file; leave --spans out, or record the runs of the capture")]
    Empty,
    /// The trace has no wall clock.
    #[error(
        "the trace states no wall clock (nsys: table TARGET_INFO_SESSION_START_TIME, Kineto: baseTimeNanoseconds), so spans \
         cannot be joined; capture with Nsight Systems 2023.1 or torch 2.3 or later"
    )]
    NoClock,
    /// Nothing of the spans lies in the capture.
    #[error(
        "no span overlaps the capture: spans {spans_from}..{spans_to}, capture {capture_from}..{capture_to} (Unix \
         nanoseconds); pass the spans of the same minutes and node"
    )]
    Apart {
        /// First start of a span.
        spans_from: i64,
        /// Last end of a span.
        spans_to: i64,
        /// Start of the capture.
        capture_from: i64,
        /// End of the capture.
        capture_to: i64,
    },
    /// The records could not be kept.
    #[error("failed to keep the records")]
    Keep(#[source] SortError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    run_id: String,
    phase: Phase,
    start_unix_nanos: i64,
    end_unix_nanos: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Preprocessing,
    Inference,
    Tool,
    Idle,
}

/// What the spans cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanExtent {
    /// Distinct runs.
    pub runs: u32,
    /// First start, Unix nanoseconds.
    pub from: i64,
    /// Last end, Unix nanoseconds.
    pub to: i64,
}

impl SpanExtent {
    /// Checks that some of the spans lie in the capture.
    ///
    /// # Errors
    /// When none do: the files belong to different minutes or clocks.
    pub fn check(&self, capture_from: i64, capture_to: i64) -> Result<(), SpansError> {
        if self.from < capture_to && self.to > capture_from {
            return Ok(());
        }
        Err(SpansError::Apart { spans_from: self.from, spans_to: self.to, capture_from, capture_to })
    }
}

/// Reads spans into the intake, on the clock of the trace files read before.
///
/// # Errors
/// When a line is not a span, there is none, or the trace has no wall clock.
pub fn read<R: BufRead>(reader: R, intake: &mut Intake) -> Result<SpanExtent, SpansError> {
    let Some(WallClock { origin_unix_nanos: origin }) = intake.clock() else { return Err(SpansError::NoClock) };
    intake.begin_file();
    let mut runs = HashMap::new();
    let (mut from, mut to) = (i64::MAX, i64::MIN);
    for (at, line) in reader.lines().enumerate() {
        let number = at + 1;
        let line = line.map_err(|source| SpansError::Read { line: number, source })?;
        if line.trim().is_empty() {
            continue;
        }
        let span: Line = serde_json::from_str(&line).map_err(|source| SpansError::Line { line: number, source })?;
        if span.end_unix_nanos < span.start_unix_nanos {
            return Err(SpansError::Reversed { line: number });
        }
        (from, to) = (from.min(span.start_unix_nanos), to.max(span.end_unix_nanos));
        let next = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        let run = *runs.entry(span.run_id).or_insert(next);
        let phase = match span.phase {
            Phase::Preprocessing => AgentPhase::Preprocessing,
            Phase::Inference => AgentPhase::Inference,
            Phase::Tool => AgentPhase::Tool,
            Phase::Idle => AgentPhase::Idle,
        };
        let (start, end) = (span.start_unix_nanos.saturating_sub(origin), span.end_unix_nanos.saturating_sub(origin));
        intake.push(Record::new(start, end, Event::Phase { run, phase })).map_err(SpansError::Keep)?;
    }
    if runs.is_empty() {
        return Err(SpansError::Empty);
    }
    Ok(SpanExtent { runs: u32::try_from(runs.len()).unwrap_or(u32::MAX), from, to })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::sort::SortOptions;
    use super::*;

    fn intake() -> Intake {
        let mut intake = Intake::new(SortOptions::in_directory(std::env::temp_dir()));
        intake.begin_file();
        intake.set_clock(WallClock { origin_unix_nanos: 1_000 });
        intake
    }

    #[test]
    fn spans_move_onto_the_clock_of_the_trace() {
        let mut intake = intake();
        let text = "{\"runId\":\"a\",\"phase\":\"tool\",\"startUnixNanos\":1500,\"endUnixNanos\":1700}\n\n\
                    {\"runId\":\"b\",\"phase\":\"idle\",\"startUnixNanos\":1100,\"endUnixNanos\":1200}\n";

        let extent = read(text.as_bytes(), &mut intake).unwrap();

        assert_eq!(extent, SpanExtent { runs: 2, from: 1_100, to: 1_700 });
        let mut sorted = intake.finish().sorter.finish().unwrap();
        let tool = Event::Phase { run: 0, phase: AgentPhase::Tool };
        let idle = Event::Phase { run: 1, phase: AgentPhase::Idle };
        assert_eq!(sorted.next_record().unwrap(), Some(Record::new(100, 200, idle)));
        assert_eq!(sorted.next_record().unwrap(), Some(Record::new(500, 700, tool)));
    }

    #[rstest]
    #[case("", "no spans in the file; leave --spans out, or record the runs of the capture")]
    #[case(
        "{\"runId\":\"a\",\"phase\":\"tool\",\"startUnixNanos\":5,\"endUnixNanos\":4}",
        "line 1: endUnixNanos is before startUnixNanos"
    )]
    #[case(
        "\n{\"runId\":\"a\",\"phase\":\"lunch\"}",
        "line 2 is not a span; a line reads \
         {\"runId\":\"r\",\"phase\":\"preprocessing|inference|tool|idle\",\"startUnixNanos\":1,\"endUnixNanos\":2}"
    )]
    fn a_line_that_is_no_span_is_named(#[case] text: &str, #[case] message: &str) {
        assert_eq!(read(text.as_bytes(), &mut intake()).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_trace_without_a_clock_cannot_be_joined() {
        let mut intake = Intake::new(SortOptions::in_directory(std::env::temp_dir()));

        let error = read("".as_bytes(), &mut intake).unwrap_err();

        assert!(error.to_string().starts_with("the trace states no wall clock"), "{error}");
    }

    #[test]
    fn spans_of_other_minutes_are_refused() {
        let extent = SpanExtent { runs: 1, from: 10, to: 20 };

        assert!(extent.check(15, 40).is_ok());
        assert_eq!(
            extent.check(20, 40).unwrap_err().to_string(),
            "no span overlaps the capture: spans 10..20, capture 20..40 (Unix nanoseconds); pass the spans of the same \
             minutes and node"
        );
    }
}
