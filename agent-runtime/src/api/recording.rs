//! What is remembered of runs, so that their traffic can be sent again: that of the last hour, in bounded memory.
//!
//! Lengths are in tokens. Engines count those of a whole prompt; a part of it has a share of them by its characters.
//! Without texts nothing is remembered that a user, the model or a tool wrote: a name that no tool has is none of ours.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use slipway_vocabulary::recording::{
    CallLengths, KEPT_SECONDS, Minute, RecordedCall, RecordedRun, Recording, RecordingLevel, RunLengths, TraceLine,
    TurnLengths, VERSION,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    agent::{
        Conversation, Observation, Outcome, State,
        state::{Call, CallResult, Step},
    },
    clock::Timestamp,
    tools::{Registry, Replay},
};

/// How long a run is remembered after its end.
const KEPT_FOR: Duration = Duration::from_secs(KEPT_SECONDS);
/// Most runs that are remembered; the oldest go first. No file of a workload holds more.
const MAX_RUNS: usize = 20_000;
/// About the most memory of all that is remembered.
const MAX_BYTES: usize = 8 << 20;
/// Of a run whose texts are longer, only lengths are remembered.
const MAX_BYTES_OF_TEXTS: usize = 256 << 10;
/// About what a run, a request and a call take beside their texts.
const BYTES_OF_A_PART: usize = 128;
/// About what a map with few arguments takes beside their texts: it has room for eleven.
const BYTES_OF_A_MAP: usize = 576;
/// Characters of a token, where the engine counts none.
const CHARACTERS_OF_A_TOKEN: u64 = 4;
/// The name of tools that there are not: it was the model that wrote it.
const UNKNOWN: &str = "unknown";

/// The runs that are remembered.
pub struct Recordings {
    level: RecordingLevel,
    pod: String,
    revision: String,
    ring: Mutex<Ring>,
    /// What is read is copied, and memory is bounded: one reads at a time.
    reader: Arc<Semaphore>,
}

/// What a client asked, as far as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of all that it sent.
    characters: u64,
    /// Its only question, where texts are remembered.
    question: Option<String>,
}

/// A run that ended.
pub(super) struct Ended<'a> {
    pub(super) asked: &'a Asked,
    pub(super) arrived: Timestamp,
    pub(super) state: &'a State,
    pub(super) tools: &'a Registry,
}

#[derive(Debug)]
struct Ring {
    /// Everything that ended since then is there.
    since: Timestamp,
    ends: VecDeque<End>,
    bytes: usize,
    /// Runs that had to go before their hour was over.
    dropped: Minutes,
    /// Runs without an answer.
    unanswered: Minutes,
}

#[derive(Debug)]
struct End {
    at: Timestamp,
    bytes: usize,
    run: Arc<RecordedRun>,
}

/// Runs of the last hour, counted by the minute in which they ended.
#[derive(Debug, Default)]
struct Minutes(VecDeque<(u64, u64)>);

impl Recordings {
    /// Remembers runs from now on.
    pub fn new(level: RecordingLevel, (pod, revision): (String, String), now: Timestamp) -> Self {
        Self { level, pod, revision, ring: Mutex::new(Ring::new(now)), reader: Arc::new(Semaphore::new(1)) }
    }

    /// Whether texts are remembered.
    pub fn has_texts(&self) -> bool {
        self.level == RecordingLevel::Texts
    }

    /// What is to be remembered of a request until its run has ended.
    pub fn asked(&self, conversation: &Conversation) -> Asked {
        let question = conversation.only_question().filter(|_| self.has_texts());
        Asked { characters: conversation.characters(), question: question.map(str::to_owned) }
    }

    /// Remembers a run that was answered.
    pub(super) fn answered(&self, ended: &Ended<'_>, now: Timestamp) {
        if self.level == RecordingLevel::None {
            return;
        }
        let lengths = lengths(ended);
        let texts = texts(ended).filter(|_| self.has_texts());
        self.ring().push(now, RecordedRun { lengths, texts });
    }

    /// Counts a run without an answer.
    pub(super) fn unanswered(&self, now: Timestamp) {
        if self.level != RecordingLevel::None {
            self.ring().unanswered.add(now);
        }
    }

    /// The place of the only reader; nothing while somebody else reads.
    pub(super) fn begin_reading(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reader).try_acquire_owned().ok()
    }

    /// What is remembered, without any text.
    pub fn lengths(&self, now: Timestamp) -> Recording {
        self.read(now, |run| RecordedRun { lengths: run.lengths.clone(), texts: None })
    }

    /// What is remembered.
    pub fn texts(&self, now: Timestamp) -> Recording {
        self.read(now, RecordedRun::clone)
    }

    fn read(&self, now: Timestamp, shown: impl Fn(&RecordedRun) -> RecordedRun) -> Recording {
        let mut ring = self.ring();
        ring.forget(now);
        let (since_micros, dropped, unanswered) = (ring.since.as_micros(), ring.dropped.told(), ring.unanswered.told());
        let runs: Vec<Arc<RecordedRun>> = ring.ends.iter().map(|end| Arc::clone(&end.run)).collect();
        // Runs that end meanwhile need not wait for the copies.
        drop(ring);
        Recording {
            version: VERSION,
            revision: self.revision.clone(),
            pod: self.pod.clone(),
            level: self.level,
            at_micros: now.as_micros(),
            since_micros,
            dropped,
            unanswered,
            runs: runs.iter().map(|run| shown(run)).collect(),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn new(now: Timestamp) -> Self {
        let (dropped, unanswered) = (Minutes::default(), Minutes::default());
        Self { since: now, ends: VecDeque::new(), bytes: 0, dropped, unanswered }
    }

    fn push(&mut self, now: Timestamp, run: RecordedRun) {
        self.forget(now);
        let bytes = bytes(&run);
        self.ends.push_back(End { at: now, bytes, run: Arc::new(run) });
        self.bytes += bytes;
        while self.bytes > MAX_BYTES || self.ends.len() > MAX_RUNS {
            let Some(at) = self.drop_oldest() else { return };
            self.dropped.add(at);
        }
    }

    fn forget(&mut self, now: Timestamp) {
        while self.ends.front().is_some_and(|end| end.at.plus(KEPT_FOR) <= now) {
            self.drop_oldest();
        }
        self.dropped.forget(now);
        self.unanswered.forget(now);
    }

    /// When the run ended that is no longer there.
    fn drop_oldest(&mut self) -> Option<Timestamp> {
        let end = self.ends.pop_front()?;
        self.bytes -= end.bytes;
        self.since = end.at;
        Some(end.at)
    }
}

impl Minutes {
    fn add(&mut self, at: Timestamp) {
        let minute = at.as_seconds() / 60;
        match self.0.back_mut() {
            // Runs of several threads may come a little late.
            Some((last, count)) if *last >= minute => *count += 1,
            Some(_) | None => self.0.push_back((minute, 1)),
        }
    }

    fn forget(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|(minute, _)| (minute + 1) * 60 + KEPT_SECONDS <= now.as_seconds()) {
            self.0.pop_front();
        }
    }

    fn told(&self) -> Vec<Minute> {
        self.0.iter().map(|(minute, runs)| Minute { at_micros: minute * 60_000_000, runs: *runs }).collect()
    }
}

/// About what a run takes.
fn bytes(RecordedRun { lengths, texts }: &RecordedRun) -> usize {
    let of_turn = |turn: &TurnLengths| {
        let names: usize = turn.calls.iter().map(|call| call.tool.len() + BYTES_OF_A_PART).sum();
        BYTES_OF_A_PART + names
    };
    let turns: usize = lengths.turns.iter().map(of_turn).sum();
    BYTES_OF_A_PART + turns + texts.as_ref().map_or(0, bytes_of_texts)
}

fn bytes_of_texts(TraceLine { input, calls, arrived_micros: _ }: &TraceLine) -> usize {
    let of_call = |call: &RecordedCall| {
        let arguments: usize = call.arguments.iter().map(|(name, value)| name.len() + value.len()).sum();
        let map = if call.arguments.is_empty() { 0 } else { BYTES_OF_A_MAP };
        BYTES_OF_A_PART + map + call.tool.len() + call.result.len() + arguments
    };
    input.len() + calls.iter().map(of_call).sum::<usize>()
}

fn lengths(Ended { asked, arrived, state, tools }: &Ended<'_>) -> RunLengths {
    let first = state.steps().first().and_then(|step| step.prompt_tokens).map(u64::from);
    let share = |characters: u64| {
        let tokens = match (first, state.opening_characters()) {
            (Some(tokens), of_prompt @ 1..) => characters.saturating_mul(tokens).div_ceil(of_prompt),
            (Some(_), 0) | (None, _) => characters.div_ceil(CHARACTERS_OF_A_TOKEN),
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    };
    let call = |call: &Call| CallLengths {
        tool: if tools.has(&call.call.name) { call.call.name.clone() } else { UNKNOWN.to_owned() },
        result_tokens: share(call.observed_characters()),
        latency_micros: latency(call),
    };
    let turn =
        |step: &Step| TurnLengths { output_tokens: step.output_tokens, calls: step.calls.iter().map(call).collect() };
    RunLengths {
        arrived_micros: Some(arrived.as_micros()),
        input_tokens: share(asked.characters),
        turns: state.steps().iter().map(turn).collect(),
    }
}

/// The run with its texts, where a record can answer it again: a question alone, an answer, and tools that gave it
/// results which are still there.
fn texts(Ended { asked, arrived, state, tools }: &Ended<'_>) -> Option<TraceLine> {
    let input = asked.question.clone()?;
    let Some((Outcome::Answered { .. }, _)) = state.finished() else { return None };
    let mut calls = Vec::new();
    for call in state.steps().iter().flat_map(|step| &step.calls) {
        let result = result(call).filter(|_| call.left_out.is_none())?;
        match tools.replay(&call.call.name, &call.call.input) {
            Replay::Itself => {}
            Replay::By(arguments) => calls.push(RecordedCall {
                tool: call.call.name.clone(),
                arguments,
                result: result.to_owned(),
                latency_micros: latency(call),
            }),
            Replay::Never => return None,
        }
    }
    let line = TraceLine { input, calls, arrived_micros: Some(arrived.as_micros()) };
    (bytes_of_texts(&line) <= MAX_BYTES_OF_TEXTS).then_some(line)
}

/// What a tool gave; nothing of one that failed.
fn result(call: &Call) -> Option<&str> {
    match &call.end.as_ref()?.result {
        CallResult::Answered(Observation::Result(text)) => Some(text),
        CallResult::Answered(Observation::Error { .. }) | CallResult::Cancelled => None,
    }
}

fn latency(call: &Call) -> u64 {
    call.end.as_ref().map_or(0, |end| end.at.micros_since(call.started_at))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn recordings(level: RecordingLevel) -> Recordings {
        Recordings::new(level, ("support-1-x".into(), "support-1".into()), at(0))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn run(second: u64, text: usize) -> RecordedRun {
        let turns = vec![TurnLengths { output_tokens: 1, calls: Vec::new() }];
        let arrived_micros = Some(second * 1_000_000);
        let texts = TraceLine { input: "x".repeat(text), calls: Vec::new(), arrived_micros };
        RecordedRun { lengths: RunLengths { arrived_micros, input_tokens: 1, turns }, texts: Some(texts) }
    }

    fn sum(minutes: &[Minute]) -> u64 {
        minutes.iter().map(|minute| minute.runs).sum()
    }

    #[test]
    fn one_reads_at_a_time_and_what_is_read_is_shared_with_what_is_remembered() {
        let recordings = recordings(RecordingLevel::Texts);
        let reader = recordings.begin_reading();
        assert_eq!((reader.is_some(), recordings.begin_reading().is_some()), (true, false));
        drop(reader);
        assert!(recordings.begin_reading().is_some());
    }

    #[test]
    fn a_call_takes_the_room_of_its_map_too() {
        let mut one = run(1, 0);
        let arguments = [("name".to_owned(), "Bela".to_owned())].into();
        let call = RecordedCall { tool: "lookup".into(), arguments, result: "1".into(), latency_micros: 0 };
        let before = bytes(&one);
        one.texts.as_mut().expect("it has texts").calls.push(call);
        assert_eq!(bytes(&one) - before, 128 + 576 + "lookup1nameBela".len());
    }

    #[test]
    fn a_run_is_forgotten_an_hour_after_its_end() {
        let recordings = recordings(RecordingLevel::Texts);
        recordings.ring().push(at(10), run(9, 1));
        recordings.unanswered(at(20));
        let known = recordings.texts(at(3_609));
        let one = vec![Minute { at_micros: 0, runs: 1 }];
        assert_eq!((known.runs, known.unanswered, known.since_micros), (vec![run(9, 1)], one.clone(), 0));
        let later = recordings.texts(at(3_610));
        assert_eq!((later.runs, later.unanswered, later.since_micros), (Vec::new(), one, 10_000_000));
        assert_eq!(
            (later.dropped, recordings.texts(at(3_660)).unanswered),
            (Vec::new(), Vec::new()),
            "its hour was over"
        );
    }

    #[test]
    fn the_oldest_go_where_memory_is_short_and_it_is_said_since_when_all_are_there() {
        let recordings = recordings(RecordingLevel::Texts);
        for second in 1..=200 {
            recordings.ring().push(at(second), run(second, 100_000));
        }
        let ring = recordings.ring();
        assert!(ring.bytes <= MAX_BYTES && ring.bytes > MAX_BYTES - 110_000, "{}", ring.bytes);
        assert_eq!(ring.bytes, ring.ends.iter().map(|end| end.bytes).sum::<usize>());
        drop(ring);
        let known = recordings.lengths(at(200));
        let kept = known.runs.len() as u64;
        assert_eq!((known.since_micros, sum(&known.dropped)), ((200 - kept) * 1_000_000, 200 - kept));
        assert_eq!(recordings.lengths(at(3_600 + 240)).dropped, [], "what was dropped is forgotten as well");
    }

    #[test]
    fn no_more_runs_are_remembered_than_a_file_holds_however_short_they_are() {
        let recordings = recordings(RecordingLevel::Lengths);
        let short = RecordedRun { texts: None, ..run(1, 0) };
        (0..MAX_RUNS + 7).for_each(|_| recordings.ring().push(at(1), short.clone()));
        let known = recordings.lengths(at(2));
        assert_eq!((known.runs.len(), sum(&known.dropped), known.since_micros), (MAX_RUNS, 7, 1_000_000));
    }

    #[test]
    fn runs_without_an_answer_take_no_room_of_others() {
        let recordings = recordings(RecordingLevel::Lengths);
        recordings.ring().push(at(1), run(1, 0));
        (0..100_000).for_each(|run| recordings.unanswered(at(run / 100)));
        let known = recordings.lengths(at(1_000));
        assert_eq!((known.runs.len(), sum(&known.dropped), sum(&known.unanswered)), (1, 0, 100_000));
        assert!(recordings.ring().unanswered.0.len() <= 17);
    }

    #[test]
    fn lengths_have_no_texts_and_who_remembers_nothing_counts_nothing() {
        let recordings = recordings(RecordingLevel::Texts);
        recordings.ring().push(at(1), run(1, 9));
        assert_eq!(recordings.lengths(at(2)).runs[0].texts, None);
        let silent = self::recordings(RecordingLevel::None);
        silent.unanswered(at(1));
        assert_eq!((silent.lengths(at(2)).unanswered, silent.lengths(at(2)).level), (Vec::new(), RecordingLevel::None));
    }
}
