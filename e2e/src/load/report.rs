//! Results of the requests: counts and latencies by the revision that answered. Pure.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

/// Stands for the revision of a request that no revision answered: the gateway did, or nobody.
pub const NO_REVISION: &str = "none";

/// Messages that are kept of each revision, of its first failures.
const KEPT_ERRORS: u64 = 5;

/// Which requests a report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Period {
    /// Those that ended within some seconds.
    Interval,
    /// All of them.
    Summary,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it counts.
    pub period: Period,
    /// When it begins, in milliseconds of the Unix epoch.
    pub from_unix_millis: u64,
    /// When it ends.
    pub to_unix_millis: u64,
    /// Requests that had begun by then and had not ended.
    pub in_flight: u64,
    /// Requests that ended, by the revision that answered.
    pub revisions: BTreeMap<String, Counts>,
    /// The first failures of each revision since the start, each with its revision.
    pub errors: Vec<String>,
}

impl Report {
    /// Requests that ended well.
    pub fn ok(&self) -> u64 {
        self.revisions.values().map(|counts| counts.ok).sum()
    }

    /// Requests that failed.
    pub fn failed(&self) -> u64 {
        self.revisions.values().map(|counts| counts.failed).sum()
    }

    /// Requests of a revision that ended well.
    pub fn ok_of(&self, revision: &str) -> u64 {
        self.revisions.get(revision).map_or(0, |counts| counts.ok)
    }

    /// Requests of a revision that failed.
    pub fn failed_of(&self, revision: &str) -> u64 {
        self.revisions.get(revision).map_or(0, |counts| counts.failed)
    }
}

/// Requests of one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Those that ended well.
    pub ok: u64,
    /// Those that failed: another status than 200, or no answer.
    pub failed: u64,
    /// Latency of those that ended well; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// When the first and the last of those that ended well were answered, in milliseconds of the Unix epoch; absent
    /// without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_unix_millis: Option<(u64, u64)>,
}

/// Percentiles, in microseconds, from the arrival to the last byte of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// Exceeded by 5 %.
    pub p95: u64,
    /// Exceeded by 1 %.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// A percentile of a revision as it typically was: the median over the intervals in which the revision answered. One
/// bad interval, as a busy machine has them, does not change it.
pub fn typical(intervals: &[Report], revision: &str, percentile: impl Fn(&Latency) -> u64) -> Option<u64> {
    let latencies = intervals.iter().filter_map(|report| report.revisions.get(revision)?.latency);
    let mut values: Vec<u64> = latencies.map(|latency| percentile(&latency)).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The revision that answered.
    pub revision: Option<String>,
    /// How long it took, or why it failed.
    pub result: Result<Duration, String>,
}

#[derive(Debug, Default)]
struct Answers {
    latencies: Vec<u64>,
    failed: u64,
    answered: Option<(u64, u64)>,
}

impl Answers {
    fn count(&mut self, result: Result<Duration, ()>, now: u64) {
        match result {
            Ok(latency) => {
                self.latencies.push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                self.answered = Some((self.answered.map_or(now, |(first, _)| first), now));
            }
            Err(()) => self.failed += 1,
        }
    }

    fn counts(&self) -> Counts {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let ok = u64::try_from(sorted.len()).unwrap_or(u64::MAX);
        let latency = sorted.last().map(|&max| Latency {
            p50: percentile(&sorted, 50),
            p95: percentile(&sorted, 95),
            p99: percentile(&sorted, 99),
            max,
        });
        Counts { ok, failed: self.failed, latency, answered_unix_millis: self.answered }
    }
}

/// The smallest value that is not exceeded by more than the rest (nearest rank); 0 without any.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

type ByRevision = BTreeMap<String, Answers>;

/// Counts requests.
#[derive(Debug)]
pub struct Tally {
    started_at: u64,
    interval_from: u64,
    in_flight: u64,
    all: ByRevision,
    interval: ByRevision,
    errors: Vec<String>,
}

impl Tally {
    /// Begins to count, at a time in milliseconds of the Unix epoch.
    pub fn new(now: u64) -> Self {
        Self {
            started_at: now,
            interval_from: now,
            in_flight: 0,
            all: ByRevision::new(),
            interval: ByRevision::new(),
            errors: Vec::new(),
        }
    }

    /// A request begins.
    pub fn begin(&mut self) {
        self.in_flight += 1;
    }

    /// Requests that have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// A request that began ends, at a time in milliseconds of the Unix epoch.
    pub fn end(&mut self, outcome: Outcome, now: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let revision = outcome.revision.unwrap_or_else(|| NO_REVISION.to_owned());
        if let Err(message) = &outcome.result
            && self.all.get(&revision).is_none_or(|answers| answers.failed < KEPT_ERRORS)
        {
            self.errors.push(format!("{revision}: {message}"));
        }
        let result = outcome.result.map_err(drop);
        for counts in [&mut self.all, &mut self.interval] {
            counts.entry(revision.clone()).or_default().count(result, now);
        }
    }

    /// What ended since the last such report.
    pub fn end_interval(&mut self, now: u64) -> Report {
        let counts = std::mem::take(&mut self.interval);
        let report = self.report(Period::Interval, self.interval_from, now, &counts);
        self.interval_from = now;
        report
    }

    /// All that ended.
    pub fn summary(&self, now: u64) -> Report {
        self.report(Period::Summary, self.started_at, now, &self.all)
    }

    fn report(&self, period: Period, from: u64, to: u64, counts: &ByRevision) -> Report {
        Report {
            period,
            from_unix_millis: from,
            to_unix_millis: to,
            in_flight: self.in_flight,
            revisions: counts.iter().map(|(revision, answers)| (revision.clone(), answers.counts())).collect(),
            errors: self.errors.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn ok(revision: &str, millis: u64) -> Outcome {
        Outcome { revision: Some(revision.to_owned()), result: Ok(Duration::from_millis(millis)) }
    }

    #[test]
    fn every_request_is_counted_once_in_its_interval_and_in_the_summary() {
        let mut tally = Tally::new(1_000);
        for millis in 1..=100 {
            tally.begin();
            tally.end(ok("a", millis), 1_000 + millis);
        }
        let first = tally.end_interval(11_000);
        tally.begin();
        tally.begin();
        tally.end(Outcome { revision: None, result: Err("status 502".to_owned()) }, 12_000);
        let second = tally.end_interval(21_000);

        let latency = Latency { p50: 50_000, p95: 95_000, p99: 99_000, max: 100_000 };
        let answered_unix_millis = Some((1_001, 1_100));
        let of_a = Counts { ok: 100, failed: 0, latency: Some(latency), answered_unix_millis };
        let failed = Counts { ok: 0, failed: 1, ..Counts::default() };
        let report = |period, from, to, revisions: &[(&str, &Counts)]| Report {
            period,
            from_unix_millis: from,
            to_unix_millis: to,
            in_flight: u64::from(to == 21_000),
            revisions: revisions.iter().map(|(name, counts)| ((*name).to_owned(), (*counts).clone())).collect(),
            errors: if to == 21_000 { vec!["none: status 502".to_owned()] } else { Vec::new() },
        };
        assert_eq!(first, report(Period::Interval, 1_000, 11_000, &[("a", &of_a)]));
        assert_eq!(second, report(Period::Interval, 11_000, 21_000, &[("none", &failed)]));
        let summary = report(Period::Summary, 1_000, 21_000, &[("a", &of_a), ("none", &failed)]);
        assert_eq!(tally.summary(21_000), summary);
    }

    #[test]
    fn only_the_first_failures_of_each_revision_are_told() {
        let mut tally = Tally::new(0);
        for number in 0..9 {
            tally.begin();
            tally.end(Outcome { revision: Some("b".to_owned()), result: Err(format!("status {number}")) }, 0);
        }
        tally.begin();
        tally.end(Outcome { revision: Some("a".to_owned()), result: Err("status 9".to_owned()) }, 0);
        let summary = tally.summary(1);
        assert_eq!(
            summary.errors,
            ["b: status 0", "b: status 1", "b: status 2", "b: status 3", "b: status 4", "a: status 9"]
        );
        assert_eq!((summary.failed(), summary.failed_of("b"), summary.ok()), (10, 9, 0));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut tally = Tally::new(5);
        tally.begin();
        tally.end(ok("a", 3), 8);
        let report = tally.summary(9);
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
    }

    #[test]
    fn one_bad_interval_is_not_typical() {
        let mut tally = Tally::new(0);
        let mut interval = |revision: &str, millis: u64| {
            tally.begin();
            tally.end(ok(revision, millis), 1);
            tally.end_interval(1)
        };
        let intervals = [interval("a", 10), interval("a", 900), interval("b", 500), interval("a", 12)];
        let median = |revision| typical(&intervals, revision, |latency| latency.p50);
        assert_eq!((median("a"), median("b"), median("c")), (Some(12_000), Some(500_000), None));
    }

    #[test]
    fn one_value_is_every_percentile() {
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 50)), (7, 7, 0));
    }
}
