//! The evidence of the last hour: UTC-aligned windows of ten seconds. Pure: the time is an argument.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use slipway_runtime_config::LatencyObjective;
use slipway_vocabulary::evidence::{
    CacheState, Evidence, Histogram, Metric, MetricWindow, RING_WINDOWS, Stratum, Unit, WINDOW_SECONDS, Window,
    window_end, window_id,
    wire::{OLDEST_AGE, VERSION},
};
use slipway_vocabulary::telemetry::{GpuWindow, Telemetry};

use crate::clock::Timestamp;

use super::{
    load::LoadMeter,
    values::{Progress, RUN_METRICS, RunValues, is_of_tokens},
};

/// Who has asked for the evidence so lately asks again. The operator asks every window while it judges, and seldom
/// otherwise.
const ASKS_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The revision this pod serves.
    pub revision: String,
    /// The pod's name.
    pub pod: String,
}

/// Names a run under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitId(u64);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// With an answer.
    Succeeded(RunValues),
    /// Without one: a timeout, a failure.
    Failed,
    /// The client went away, or its own limit on tokens ended the run. Past an objective that is an error; before it,
    /// it says nothing about the agent.
    Cancelled,
    /// What the client asked for cannot be done. However long that took to find out, it says nothing about the agent.
    Refused,
}

/// A client's feedback on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskJudgement {
    /// It did what it was for.
    Done {
        /// How well, up to a million.
        score_millionths: u64,
    },
    /// It did not.
    Failed,
}

/// How a run's answers come from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Token by token, or in parts.
    InParts,
    /// As one each. When their tokens came is not counted.
    Whole,
}

/// Whether a run begins a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Nothing was said before.
    New,
    /// It goes on with one.
    Continued,
}

/// Counts runs into windows.
///
/// # Invariants
/// Windows close in order, and each once; a closed window never changes. Every change of what is in flight goes
/// through a method that first closes the windows that have ended. So the in-flight figures of a window are those of
/// its last moment.
#[derive(Debug)]
pub struct Recorder {
    identity: Identity,
    started_at: Timestamp,
    objectives: Vec<LatencyObjective>,
    closed: VecDeque<Window>,
    /// What the pod's GPUs did, by window; the latest of them may grow.
    gpus: BTreeMap<u64, Vec<GpuWindow>>,
    /// The window that contains the latest moment seen.
    open: u64,
    series: BTreeMap<(Metric, Stratum), Counts>,
    in_flight: BTreeMap<UnitId, InFlight>,
    load: LoadMeter,
    next_unit: u64,
    last_read: Option<Read>,
}

/// The last time that the evidence was asked for.
#[derive(Clone, Copy, Debug)]
struct Read {
    at: Timestamp,
    /// The last window that there was.
    window: Option<u64>,
}

/// What happened to one series in the open window.
#[derive(Clone, Debug, Default)]
struct Counts {
    started: u64,
    new_sessions: u64,
    count: u64,
    errors: u64,
    sum: u64,
    buckets: Histogram,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    stratum: Stratum,
    delivery: Delivery,
    started: Timestamp,
    progress: Progress,
}

impl InFlight {
    /// The metrics that it is a unit of.
    fn metrics(&self) -> impl Iterator<Item = Metric> + use<> {
        metrics(self.delivery)
    }
}

/// The metrics of runs whose answers come so.
fn metrics(delivery: Delivery) -> impl Iterator<Item = Metric> {
    RUN_METRICS.into_iter().filter(move |metric| delivery == Delivery::InParts || !is_of_tokens(*metric))
}

impl Recorder {
    /// Starts counting at `started_at`.
    pub fn new(identity: Identity, objectives: Vec<LatencyObjective>, started_at: Timestamp) -> Self {
        Self {
            identity,
            started_at,
            objectives,
            closed: VecDeque::with_capacity(RING_WINDOWS),
            gpus: BTreeMap::new(),
            open: window_id(started_at.as_seconds()),
            series: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            load: LoadMeter::new(started_at),
            next_unit: 0,
            last_read: None,
        }
    }

    /// Judges runs by these objectives from now on, those in flight too. Returns the ones of before.
    pub fn set_objectives(&mut self, objectives: Vec<LatencyObjective>) -> Vec<LatencyObjective> {
        std::mem::replace(&mut self.objectives, objectives)
    }

    /// Whether an objective bounds when tokens come.
    pub fn times_tokens(&self) -> bool {
        self.objectives.iter().any(|objective| objective.metric.is_of_tokens())
    }

    /// Counts a run that was admitted.
    pub fn start(&mut self, now: Timestamp, stratum: Stratum, session: Session, delivery: Delivery) -> UnitId {
        self.close_until(now);
        for metric in metrics(delivery) {
            let counts = self.series.entry((metric, stratum)).or_default();
            counts.started += 1;
            counts.new_sessions += u64::from(session == Session::New);
        }
        self.load.start_run(now);
        let unit = UnitId(self.next_unit);
        self.next_unit += 1;
        self.in_flight.insert(unit, InFlight { stratum, delivery, started: now, progress: Progress::default() });
        unit
    }

    /// Notes how far a run is.
    pub fn progress(&mut self, now: Timestamp, unit: UnitId, progress: Progress) {
        self.close_until(now);
        if let Some(in_flight) = self.in_flight.get_mut(&unit) {
            self.load.wait(now, in_flight.progress.waiting, progress.waiting);
            in_flight.progress = progress;
        }
    }

    /// Counts the end of a run and returns the objectives it is an event of, each with whether it is a good one.
    /// A run that is not in flight was counted already.
    pub fn finish(&mut self, now: Timestamp, unit: UnitId, completion: Completion) -> Vec<(String, bool)> {
        self.close_until(now);
        let Some(run) = self.in_flight.remove(&unit) else { return Vec::new() };
        self.load.end_run(now, run.progress.waiting);
        let judged = self.objectives.iter().filter_map(|objective| {
            let is_good = is_good_event(objective, &run, now, &completion)?;
            Some((objective.name.clone(), is_good))
        });
        let judged = judged.collect();
        match completion {
            Completion::Succeeded(values) => run.metrics().for_each(|metric| self.succeed(metric, &run, &values)),
            Completion::Failed => self.fail(&run),
            Completion::Cancelled if self.is_past_objectives(&run, now) => self.fail(&run),
            Completion::Cancelled | Completion::Refused => {
                let age = now.micros_since(run.started);
                self.series.entry((Metric::Cancelled, run.stratum)).or_default().record(age);
            }
        }
        judged
    }

    /// Counts a run that was refused for load.
    pub fn shed(&mut self, now: Timestamp, stratum: Stratum) {
        self.close_until(now);
        self.series.entry((Metric::Shed, stratum)).or_default().count += 1;
    }

    /// Counts what a client reports about a run that has ended. Whether a task succeeded does not depend on the load,
    /// so all reports are in one stratum.
    pub fn judge(&mut self, now: Timestamp, judgement: TaskJudgement) {
        self.close_until(now);
        let stratum = Stratum::new(CacheState::Miss, 0, 0);
        let counts = self.series.entry((Metric::TaskSuccess, stratum)).or_default();
        match judgement {
            TaskJudgement::Done { score_millionths } => counts.record(score_millionths),
            TaskJudgement::Failed => {
                counts.count += 1;
                counts.errors += 1;
            }
        }
    }

    /// Takes what the pod's GPUs did. Who tells it may have begun again.
    pub fn note_gpus(&mut self, told: Telemetry) {
        self.gpus.extend(told.windows.into_iter().map(|window| (window.id, window.gpus)));
        while self.gpus.len() > RING_WINDOWS {
            self.gpus.pop_first();
        }
    }

    /// What the pod's GPUs did in the last hour, by window.
    pub const fn gpus(&self) -> &BTreeMap<u64, Vec<GpuWindow>> {
        &self.gpus
    }

    /// The window of GPUs after which there may be news.
    pub fn gpus_known_to(&self) -> Option<u64> {
        self.gpus.last_key_value().map(|(id, _)| id.saturating_sub(1))
    }

    /// Model requests in flight now.
    pub fn model_requests_in_flight(&self) -> u64 {
        self.load.model_requests()
    }

    /// The finished windows with a greater id than `after`; all that are kept when there is none.
    pub fn evidence(&mut self, now: Timestamp, after: Option<u64>) -> Evidence {
        self.close_until(now);
        self.last_read = Some(Read { at: now, window: self.closed.back().map(|window| window.id) });
        let is_new = |window: &&Window| after.is_none_or(|after| window.id > after);
        Evidence {
            version: VERSION,
            revision: self.identity.revision.clone(),
            pod: self.identity.pod.clone(),
            started_at: self.started_at.to_string(),
            windows: self.closed.iter().filter(is_new).map(|window| self.with_gpus(window)).collect(),
        }
    }

    fn with_gpus(&self, window: &Window) -> Window {
        Window { gpus: self.gpus.get(&window.id).cloned().unwrap_or_default(), ..window.clone() }
    }

    /// Whether somebody will ask for counts that they have not read yet.
    pub fn is_awaited(&mut self, now: Timestamp) -> bool {
        self.close_until(now);
        let Some(last) = self.last_read.filter(|last| last.at.plus(ASKS_AGAIN_WITHIN) > now) else { return false };
        let is_unread = |window: &Window| last.window.is_none_or(|read| window.id > read) && !window.metrics.is_empty();
        !self.series.is_empty() || self.closed.iter().any(is_unread)
    }

    fn succeed(&mut self, metric: Metric, run: &InFlight, values: &RunValues) {
        match (metric, values.of(metric)) {
            (Metric::RunSuccess, _) => self.series.entry((metric, run.stratum)).or_default().count += 1,
            (_, Some(value)) => self.series.entry((metric, run.stratum)).or_default().record(value),
            (_, None) => {}
        }
    }

    fn fail(&mut self, run: &InFlight) {
        for metric in run.metrics() {
            let counts = self.series.entry((metric, run.stratum)).or_default();
            counts.count += 1;
            counts.errors += 1;
        }
    }

    /// Whether a run under way is already longer than every objective of some metric allows.
    fn is_past_objectives(&self, run: &InFlight, now: Timestamp) -> bool {
        let mut loosest: BTreeMap<Metric, u64> = BTreeMap::new();
        for objective in &self.objectives {
            let max = loosest.entry(Metric::of(objective.metric)).or_default();
            *max = objective.max_microseconds.max(*max);
        }
        loosest.into_iter().any(|(metric, max)| run.progress.at_least(metric, run.started, now) > max)
    }

    fn close_until(&mut self, now: Timestamp) {
        let current = window_id(now.as_seconds());
        while self.open < current {
            let window = self.close();
            if self.closed.len() == RING_WINDOWS {
                self.closed.pop_front();
            }
            self.closed.push_back(window);
            // After a long silence only the windows that are kept are made.
            let oldest_kept = current.saturating_sub(RING_WINDOWS as u64);
            self.open = (self.open + 1).max(oldest_kept);
        }
    }

    /// Ends the open window: its counts, what was in flight at its last moment, and what was on average.
    fn close(&mut self) -> Window {
        let begin = Timestamp::from_micros(window_end(self.open.saturating_sub(1)) * 1_000_000);
        let end = Timestamp::from_micros(window_end(self.open) * 1_000_000);
        let mut rows: BTreeMap<(Metric, Stratum), MetricWindow> = BTreeMap::new();
        for ((metric, stratum), counts) in std::mem::take(&mut self.series) {
            rows.insert((metric, stratum), counts.into_row(metric, stratum));
        }
        for run in self.in_flight.values() {
            for metric in run.metrics() {
                let key = (metric, run.stratum);
                let row = rows.entry(key).or_insert_with(|| Counts::default().into_row(metric, run.stratum));
                row.hold(run.progress.at_least(metric, run.started, end));
            }
        }
        let load = Some(self.load.take(begin, end));
        Window { id: self.open, metrics: rows.into_values().collect(), load, gpus: Vec::new() }
    }
}

/// A row that counts what is in flight.
trait Hold {
    /// Counts a unit in flight whose value will be at least this, in microseconds.
    fn hold(&mut self, at_least: u64);
}

impl Hold for MetricWindow {
    fn hold(&mut self, at_least: u64) {
        self.in_flight += 1;
        self.oldest_in_flight_microseconds = self.oldest_in_flight_microseconds.max(at_least);
        let ages = self.in_flight_ages.get_or_insert_default();
        // A unit that started at the very beginning of a window is as old as the others of that window.
        let windows = at_least.saturating_sub(1) / (WINDOW_SECONDS * 1_000_000);
        let age = u16::try_from(windows).unwrap_or(OLDEST_AGE).min(OLDEST_AGE);
        if age == 0 {
            return;
        }
        match ages.binary_search_by_key(&age, |(age, _)| *age) {
            Ok(position) => ages[position].1 += 1,
            Err(position) => ages.insert(position, (age, 1)),
        }
    }
}

impl Counts {
    fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.buckets.record(value);
    }

    fn into_row(self, metric: Metric, stratum: Stratum) -> MetricWindow {
        let Self { started, new_sessions, count, errors, sum, buckets } = self;
        MetricWindow {
            metric,
            unit: Unit::Run,
            stratum: stratum.to_string(),
            started,
            new_sessions,
            in_flight: 0,
            oldest_in_flight_microseconds: 0,
            in_flight_ages: None,
            count,
            errors,
            sum_microseconds: sum,
            buckets,
        }
    }
}

/// Whether the end of a run is a good event of an objective; nothing when the objective does not count it.
fn is_good_event(
    objective: &LatencyObjective,
    run: &InFlight,
    now: Timestamp,
    completion: &Completion,
) -> Option<bool> {
    let metric = Metric::of(objective.metric);
    match completion {
        Completion::Succeeded(values) => values.of(metric).map(|value| value <= objective.max_microseconds),
        Completion::Failed => Some(false),
        Completion::Refused => None,
        Completion::Cancelled => {
            let is_past = run.progress.at_least(metric, run.started, now) > objective.max_microseconds;
            is_past.then_some(false)
        }
    }
}

#[cfg(test)]
mod tests;
