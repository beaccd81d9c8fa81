//! From one remembered block to the next. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use slipway_analysis::drift::{
    Identity, Incomparable, compare_identities,
    live::{BLOCK_SECONDS, LiveTest},
};
use slipway_vocabulary::evidence::{CacheState, Metric, MetricWindow, Stratum, WINDOW_SECONDS, window_end};

use super::{LivePod, Memory};

/// Seconds after the end of a window in which a pod has counted it.
const GRACE_SECONDS: u64 = 2;
/// Pods that are read, the first by name.
pub const MAX_PODS: usize = 128;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Hash of the plan that serves.
    pub revision: &'a str,
    /// Digest of its engine, where there is a record of the plan.
    pub engine: Option<&'a str>,
    /// Its pods.
    pub pods: &'a [LivePod],
    /// Windows that begin before are left out.
    pub from_seconds: u64,
    /// The end of the block that is over.
    pub end_seconds: u64,
}

/// The outcome.
#[derive(Debug, Clone)]
pub struct Advanced {
    /// What is to be remembered.
    pub memory: Memory,
    /// The test, once the baseline is frozen.
    pub test: Option<LiveTest>,
    /// Why the baseline begins again: nothing with traffic can be compared with it any more.
    pub begun_again: Option<Incomparable>,
    /// What differs in pods that are left out.
    pub left_out: Option<Incomparable>,
}

/// The end of the last block whose windows every pod has counted.
pub fn block_end(now: Timestamp) -> u64 {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0).saturating_sub(GRACE_SECONDS);
    seconds / BLOCK_SECONDS * BLOCK_SECONDS
}

/// Counts the windows that were not read before, up to the end of the block. `None` when that is remembered already,
/// and when there was no traffic: then there is nothing to remember.
pub fn advance(memory: Option<&Memory>, look: &Look<'_>) -> Option<Advanced> {
    if memory.is_some_and(|memory| memory.counted_to >= look.end_seconds) {
        return None;
    }
    let readers: Vec<Reader> = look.pods.iter().take(MAX_PODS).map(|pod| Reader::new(pod, memory, look)).collect();
    let busy: Vec<&Reader> = readers.iter().filter(|reader| !reader.windows.is_empty()).collect();
    let first = busy.first()?;
    let begun_again = memory.and_then(|memory| incomparable_with(&memory.baseline.identity, &readers));
    let mut memory = match memory.filter(|_| begun_again.is_none()) {
        Some(memory) => memory.clone(),
        None => {
            let begun = busy.iter().filter_map(|reader| reader.windows.keys().next()).min().copied().unwrap_or(0);
            Memory::begin(look.revision, first.identity.clone(), begun * WINDOW_SECONDS)
        }
    };
    let difference = |reader: &Reader| comparable(&memory.baseline.identity, &reader.identity).err();
    let left_out = busy.iter().find_map(|reader| difference(reader));
    let comparables: Vec<&Reader> = busy.iter().copied().filter(|reader| difference(reader).is_none()).collect();
    let test = count(&mut memory, merged(&comparables), look.end_seconds);
    memory.counted_to = look.end_seconds;
    let marks = readers.iter().filter_map(|reader| Some((reader.name.clone(), reader.last?)));
    memory.mark(marks.collect::<Vec<_>>(), look.end_seconds / WINDOW_SECONDS);
    Some(Advanced { memory, test, begun_again, left_out })
}

/// What one pod reports that was not read before.
struct Reader {
    name: String,
    identity: Identity,
    /// Windows with traffic.
    windows: BTreeMap<u64, Vec<MetricWindow>>,
    /// The last window, with traffic or without.
    last: Option<u64>,
}

impl Reader {
    fn new(pod: &LivePod, memory: Option<&Memory>, look: &Look<'_>) -> Self {
        // A restarted container counts from zero: it is another pod.
        let name = format!("{}@{}", pod.evidence.pod, pod.evidence.started_at);
        let mark = memory.and_then(|memory| memory.read.get(&name)).copied();
        let from = memory.map_or(0, |memory| memory.begun_seconds).max(look.from_seconds);
        let is_due = |id: u64| {
            mark.is_none_or(|mark| id > mark)
                && id.saturating_mul(WINDOW_SECONDS) >= from
                && window_end(id) <= look.end_seconds
        };
        let mut windows: BTreeMap<u64, Vec<MetricWindow>> = BTreeMap::new();
        let mut last = None;
        for window in pod.evidence.windows.iter().filter(|window| is_due(window.id)) {
            last = last.max(Some(window.id));
            let metrics: Vec<MetricWindow> = window.metrics.iter().filter_map(relevant).collect();
            if !metrics.is_empty() {
                windows.insert(window.id, metrics);
            }
        }
        Self { name, identity: identity(pod, look.engine), windows, last }
    }
}

/// What runs in a pod, as far as it is known.
fn identity(pod: &LivePod, engine: Option<&str>) -> Identity {
    let images = pod.images.iter().map(|(container, digest)| (format!("image.{container}"), digest.clone()));
    images.chain(engine.map(|digest| ("engine".to_owned(), digest.to_owned()))).collect()
}

/// Compares what both know: a missing value is not a difference.
fn comparable(baseline: &Identity, pod: &Identity) -> Result<(), Incomparable> {
    let known_to = |of: &Identity, other: &Identity| -> Identity {
        of.iter().filter(|(name, _)| other.contains_key(*name)).map(|(name, of)| (name.clone(), of.clone())).collect()
    };
    compare_identities(&known_to(baseline, pod), &known_to(pod, baseline))
}

/// The first difference, where none of the pods is comparable. Those without traffic count too: pods with images of two
/// digests that are busy in turn would begin the baseline again and again.
fn incomparable_with(baseline: &Identity, readers: &[Reader]) -> Option<Incomparable> {
    let differences: Vec<Incomparable> =
        readers.iter().filter_map(|reader| comparable(baseline, &reader.identity).err()).collect();
    if differences.len() == readers.len() { differences.into_iter().next() } else { None }
}

/// What is compared: units that finished, caches that were warm. Some metrics are compared as a whole, without strata.
fn relevant(metric: &MetricWindow) -> Option<MetricWindow> {
    let is_cold = metric.stratum.parse::<Stratum>().is_ok_and(|stratum| stratum.cache == CacheState::Cold);
    if metric.count == 0 || is_cold {
        return None;
    }
    match metric.metric {
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::RequestLatency
        | Metric::TimeToFirstToken
        | Metric::RequestTimeToFirstToken
        | Metric::InterTokenLatency
        | Metric::RunSuccess => Some(metric.clone()),
        Metric::ModelCallsPerRun | Metric::OutputTokensPerRun | Metric::TaskSuccess => {
            Some(MetricWindow { stratum: String::new(), ..metric.clone() })
        }
        Metric::ApprovalWait | Metric::Cancelled | Metric::Shed => None,
    }
}

/// The windows of all pods together, in the order of time.
fn merged(readers: &[&Reader]) -> BTreeMap<u64, Vec<MetricWindow>> {
    let mut merged: BTreeMap<u64, Vec<MetricWindow>> = BTreeMap::new();
    for (id, metrics) in readers.iter().flat_map(|reader| &reader.windows) {
        merged.entry(*id).or_default().extend(metrics.iter().cloned());
    }
    merged
}

/// Adds windows to the baseline, or to the test once the baseline is frozen; both where that happens among them.
fn count(memory: &mut Memory, windows: BTreeMap<u64, Vec<MetricWindow>>, end_seconds: u64) -> Option<LiveTest> {
    let mut test = memory.test();
    for (id, metrics) in windows {
        let begins = id * WINDOW_SECONDS;
        if memory.may_freeze(begins) {
            memory.freeze(begins / BLOCK_SECONDS * BLOCK_SECONDS);
            test = memory.test();
        }
        match &mut test {
            Some(test) => test.consume(window_end(id), &metrics),
            None => metrics.iter().for_each(|metric| memory.baseline.counted.add(metric)),
        }
    }
    match &mut test {
        Some(test) => {
            test.close(end_seconds);
            memory.test = Some(test.encode());
        }
        None => memory.fit(),
    }
    test
}
