//! Live windows against the baseline, at any time. Pure.

use std::collections::BTreeMap;

use slipway_vocabulary::evidence::{Metric, MetricWindow};

pub use super::signal::{Family, Part, Signal};
use super::{
    Incomparable,
    baseline::{BASELINE_SECONDS, Baseline, Counted, Counts},
    compare_identities,
};
use crate::{
    drift::Identity,
    judge::{
        config::{MIN_MARGIN_BINS, is_latency},
        process::{Direction, SequentialT, ln_add},
        split::Split,
        state::{
            StateError,
            codec::{self, Reader, Writer},
            fingerprint,
        },
        strata::Stratum,
    },
};

/// Version of the memory.
const VERSION: u8 = 2;

/// Versions of the memory that are read.
const READ: codec::Versions = codec::Versions { known: &[VERSION], words: "\"2\"" };

/// Length of a block in seconds.
pub const BLOCK_SECONDS: u64 = 600;

/// One restart a day: a drift that begins in the third week is as visible as one in the first.
const RESTART_SECONDS: u64 = 24 * 3600;

/// Blocks with traffic within which a [`Part`] that is clearly slower shows it: a day of them. Within a day the test
/// restarts. Until then the blocks of the same day from before a change count with those after, and hide it for hours.
pub const ATTRIBUTED_BLOCKS: u16 = (RESTART_SECONDS / BLOCK_SECONDS) as u16;

/// A workload has changed when lengths or steps differ by more than this many buckets: 8, that is 19 %.
pub const WORKLOAD_MARGIN_BINS: u16 = 8;

/// The share of a prompt band may differ by this factor before the workload counts as changed.
const BAND_TOLERANCE: f64 = 1.25;

/// Of the units, this share may have been admitted with more in flight than any unit of the baseline.
const MORE_IN_FLIGHT_SHARE: f64 = 0.05;

/// Below this variance a block's difference is too far from normal; it goes on into the next.
const SMALLEST_VARIANCE: f64 = 1.0;

/// What live windows say.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift {
    /// Too little of either to say anything.
    NotEnough,
    /// Nothing is shown.
    NoDrift {
        /// Log of the weighted mean of e-values for behaviour.
        ln_e: f64,
    },
    /// What people ask has changed: behaviour cannot be compared, a new profile is proposed.
    WorkloadDrift {
        /// What has changed most.
        signal: Signal,
        /// Log of the weighted mean of e-values for the workload.
        ln_e: f64,
    },
    /// The same workload is served worse.
    BehaviorDrift {
        /// What has drifted most.
        signal: Signal,
        /// Log of the weighted mean of e-values for behaviour.
        ln_e: f64,
    },
    /// The baseline is of something else.
    Incomparable(Incomparable),
}

/// The test of live windows against a baseline.
///
/// Per signal and block, the excess of live units over the baseline is summed over the strata that both have seen. It
/// is standardised and enters a [`SequentialT`]: hours differ from each other more than units do, and the
/// self-normalised statistic takes its variance from the blocks. Margins absorb the baseline's own sampling error,
/// which every block shares. Signals are averaged with equal weights within workload and within behaviour; each alarms
/// at `1 / alpha`.
#[derive(Clone, Debug)]
pub struct LiveTest {
    baseline: Baseline,
    alpha: f64,
    block: Counted,
    block_ends_seconds: Option<u64>,
    opened_seconds: u64,
    signals: BTreeMap<Signal, Tracked>,
}

#[derive(Clone, Debug)]
struct Tracked {
    process: SequentialT,
    excess: f64,
    variance: f64,
}

impl LiveTest {
    /// Opens the test of a finished baseline at a false-alarm probability per signal family.
    #[must_use]
    pub fn new(baseline: Baseline, alpha: f64) -> Self {
        let opened_seconds = baseline.promoted_seconds + BASELINE_SECONDS;
        Self {
            baseline,
            alpha,
            block: Counted::default(),
            block_ends_seconds: None,
            opened_seconds,
            signals: BTreeMap::new(),
        }
    }

    /// Reads a window of live traffic; windows of the first day are not live. Windows come in order of time.
    pub fn consume(&mut self, end_seconds: u64, metrics: &[MetricWindow]) {
        if end_seconds <= self.opened_seconds {
            return;
        }
        let ends = *self.block_ends_seconds.get_or_insert_with(|| next_end(end_seconds));
        if end_seconds > ends {
            self.close_block(ends);
            self.block_ends_seconds = Some(next_end(end_seconds));
        }
        metrics.iter().for_each(|metric| self.block.add(metric));
    }

    /// Closes the open block if it ends by then. With all windows of a block, this loses nothing when the test resumes;
    /// a window of it that comes later makes a block of its own.
    pub fn close(&mut self, by_seconds: u64) {
        if let Some(ends) = self.block_ends_seconds.take_if(|ends| *ends <= by_seconds) {
            self.close_block(ends);
        }
    }

    /// Writes what the finished blocks have shown, in at most 8 KiB. The open block is not in it: a test that resumes
    /// without [`close`](Self::close) loses at most ten minutes of traffic, which costs evidence and no validity.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut writer = Writer::default();
        writer.u32(self.fingerprint());
        writer.u8(self.signals.len() as u8);
        for (signal, Tracked { process, excess, variance }) in &self.signals {
            let (kind, metric) = signal.code();
            writer.u8(kind);
            writer.u8(metric);
            process.write(&mut writer);
            writer.u64(excess.to_bits());
            writer.u64(variance.to_bits());
        }
        codec::seal(VERSION, writer.bytes)
    }

    /// Resumes a test of the same baseline from what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`StateError`] when the text is of another version, damaged, or of another baseline.
    pub fn resume(baseline: Baseline, alpha: f64, text: &str) -> Result<Self, StateError> {
        let (version, bytes) = codec::open(text, &READ)?;
        let mut reader = Reader { bytes: &bytes, offset: 0, version };
        let mut test = Self::new(baseline, alpha);
        if reader.u32()? != test.fingerprint() {
            return Err(StateError::Configuration);
        }
        for _ in 0..reader.u8()? {
            let signal = Signal::from_code(reader.u8()?, reader.u8()?).ok_or_else(|| reader.damaged())?;
            let process = SequentialT::read(&mut reader)?;
            let (excess, variance) = (f64::from_bits(reader.u64()?), f64::from_bits(reader.u64()?));
            test.signals.insert(signal, Tracked { process, excess, variance });
        }
        Ok(test)
    }

    fn fingerprint(&self) -> u32 {
        fingerprint::of_baseline(&self.baseline)
    }

    /// What the finished blocks say of traffic with this identity.
    #[must_use]
    pub fn drift(&self, identity: &Identity) -> Drift {
        if let Err(incomparable) = compare_identities(&self.baseline.identity, identity) {
            return Drift::Incomparable(incomparable);
        }
        let limit = self.limit();
        let (Some((workload, ln_workload)), Some((behavior, ln_behavior))) =
            (self.worst(Family::Workload), self.worst(Family::Behavior))
        else {
            return Drift::NotEnough;
        };
        if ln_workload >= limit {
            Drift::WorkloadDrift { signal: workload, ln_e: ln_workload }
        } else if ln_behavior >= limit {
            Drift::BehaviorDrift { signal: behavior, ln_e: ln_behavior }
        } else {
            Drift::NoDrift { ln_e: ln_behavior }
        }
    }

    /// The log of the weighted mean of a family's e-values; `None` before the first block.
    #[must_use]
    pub fn ln_e(&self, family: Family) -> Option<f64> {
        self.worst(family).map(|(_, ln_e)| ln_e)
    }

    /// The signals of a family that alarm, each with the log of its e-value, the strongest first. The worst alarms with
    /// its family; others do if they would also alarm by themselves (Bonferroni).
    #[must_use]
    pub fn shown(&self, family: Family) -> Vec<(Signal, f64)> {
        let Some((worst, ln_mean)) = self.worst(family) else { return Vec::new() };
        let values = self.values(|signal| signal.family() == family);
        let (limit, alone) = (self.limit(), (values.len() as f64).ln() + self.limit());
        let alarms = |(signal, ln_e): &(Signal, f64)| *ln_e >= alone || (*signal == worst && ln_mean >= limit);
        let mut shown: Vec<(Signal, f64)> = values.into_iter().filter(alarms).collect();
        shown.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        shown
    }

    /// Whether a part of the runs has become slower: the mean of the e-values of its own signals has reached
    /// `1 / alpha`.
    ///
    /// An alarm says that some signal of a family has drifted. The strongest need not be the cause: a slow tool makes
    /// runs slower, too. So this asks all evidence of the part, whether the alarm names it or not. While nothing of the
    /// part is slower, the mean of its e-processes is an e-process, however they depend on each other and on other
    /// parts (Vovk and Wang, arXiv 1912.06116). So it ever reaches `1 / alpha` with a probability of at most `alpha`
    /// (Ville, 1939). No alarm rests on this: the probability of a false one stays as it is.
    #[must_use]
    pub fn is_slower(&self, part: Part) -> bool {
        ln_mean(&self.values(|signal| signal.part() == Some(part))).is_some_and(|ln_e| ln_e >= self.limit())
    }

    /// The log of an e-value that is an alarm.
    fn limit(&self) -> f64 {
        -self.alpha.ln()
    }

    /// Every signal of a kind with the log of its e-value.
    fn values(&self, is_meant: impl Fn(Signal) -> bool) -> Vec<(Signal, f64)> {
        let own = self.signals.iter().filter(|(signal, _)| is_meant(**signal));
        own.map(|(signal, tracked)| (*signal, tracked.process.ln_e(Direction::Above))).collect()
    }

    /// The worst signal of a family, and the log of the family's mean. `None` when the baseline has none.
    fn worst(&self, family: Family) -> Option<(Signal, f64)> {
        let values = self.values(|signal| signal.family() == family);
        let (worst, _) = values.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some((*worst, ln_mean(&values)?))
    }

    fn close_block(&mut self, ends_seconds: u64) {
        let block = std::mem::take(&mut self.block);
        let elapsed = ends_seconds.saturating_sub(self.opened_seconds).saturating_sub(BLOCK_SECONDS);
        let due = u16::try_from(1 + elapsed / RESTART_SECONDS).unwrap_or(u16::MAX);
        for (signal, (excess, variance)) in self.differences(&block) {
            let tracked = self.signals.entry(signal).or_insert_with(Tracked::new);
            tracked.process.restart(due);
            tracked.excess += excess;
            tracked.variance += variance;
            if tracked.variance >= SMALLEST_VARIANCE {
                tracked.process.update(tracked.excess / tracked.variance.sqrt());
                (tracked.excess, tracked.variance) = (0.0, 0.0);
            }
        }
    }

    fn differences(&self, block: &Counted) -> Vec<(Signal, (f64, f64))> {
        let mut differences = Vec::new();
        let baseline = &self.baseline.counted;
        for metric in baseline.metrics() {
            match metric {
                Metric::OutputTokensPerRun | Metric::ModelCallsPerRun => {
                    let (now, before) = (block.total(metric), baseline.total(metric));
                    differences.push((Signal::Longer(metric), above(&now, &before, &before, WORKLOAD_MARGIN_BINS)));
                    differences.push((Signal::Shorter(metric), above(&before, &now, &before, WORKLOAD_MARGIN_BINS)));
                }
                latency if is_latency(latency) => {
                    differences.push((Signal::Slower(latency), self.slower(block, latency)));
                    differences
                        .push((Signal::Errors(latency), errors(&block.total(latency), &baseline.total(latency))));
                }
                Metric::RunSuccess | Metric::TaskSuccess => {
                    differences.push((Signal::Errors(metric), errors(&block.total(metric), &baseline.total(metric))));
                }
                _ => {}
            }
        }
        let (now, before) = (block.prompt_bands(), baseline.prompt_bands());
        differences.push((Signal::LongerPrompts, beyond_median_band(&now, &before, |band, median| band > median)));
        differences.push((Signal::ShorterPrompts, beyond_median_band(&now, &before, |band, median| band < median)));
        differences.push((Signal::MoreInFlight, beyond_highest(&block.in_flight_bands(), &baseline.in_flight_bands())));
        differences
    }

    /// The excess of a latency within the strata that both have seen.
    fn slower(&self, block: &Counted, metric: Metric) -> (f64, f64) {
        let before: BTreeMap<&str, &Counts> = self.baseline.counted.strata(metric).collect();
        block.strata(metric).filter_map(|(stratum, now)| before.get(stratum).map(|before| (now, *before))).fold(
            (0.0, 0.0),
            |(excess, variance), (now, before)| {
                let (e, v) = above(now, before, before, MIN_MARGIN_BINS);
                (excess + e, variance + v)
            },
        )
    }
}

impl Tracked {
    fn new() -> Self {
        Self { process: SequentialT::new(), excess: 0.0, variance: 0.0 }
    }
}

/// The log of the mean of e-values; `None` where there are none.
fn ln_mean(values: &[(Signal, f64)]) -> Option<f64> {
    let sum = values.iter().fold(f64::NEG_INFINITY, |sum, (_, ln_e)| ln_add(sum, *ln_e));
    (!values.is_empty()).then(|| sum - (values.len() as f64).ln())
}

/// The end of the block that a window belongs to; blocks are aligned to multiples of their length.
const fn next_end(end_seconds: u64) -> u64 {
    end_seconds.div_ceil(BLOCK_SECONDS) * BLOCK_SECONDS
}

/// The excess of `high` over `low` by more than a margin, at the quantiles of `at`.
fn above(high: &Counts, low: &Counts, at: &Counts, margin_bins: u16) -> (f64, f64) {
    if high.buckets.is_empty() || low.buckets.is_empty() {
        return (0.0, 0.0);
    }
    let stratum = Stratum::learn_first(0, &at.buckets);
    Split::new(&stratum, &high.buckets, &low.buckets, margin_bins).excess(0)
}

/// The excess of errors over a quarter more than the baseline's, at least one in a thousand: rarer ones are judged by
/// their alerts, not by drift.
fn errors(now: &Counts, before: &Counts) -> (f64, f64) {
    if before.count == 0 || now.count == 0 {
        return (0.0, 0.0);
    }
    let rate = (before.errors as f64 / before.count as f64 * 1.25).clamp(0.001, 0.999);
    one_sample(now.count, now.errors, rate)
}

/// The excess of prompts beyond the baseline's median band.
fn beyond_median_band(
    now: &BTreeMap<u8, u64>,
    before: &BTreeMap<u8, u64>,
    is_beyond: impl Fn(u8, u8) -> bool,
) -> (f64, f64) {
    let total: u64 = before.values().sum();
    let mut seen = 0;
    let median = before.iter().find(|(_, n)| {
        seen += **n;
        2 * seen >= total
    });
    let Some((median, _)) = median.filter(|_| total > 0) else { return (0.0, 0.0) };
    let beyond = |bands: &BTreeMap<u8, u64>| -> u64 {
        bands.iter().filter(|(band, _)| is_beyond(**band, *median)).map(|(_, n)| *n).sum()
    };
    let share = (beyond(before) as f64 / total as f64 * BAND_TOLERANCE).clamp(0.05, 0.95);
    one_sample(now.values().sum(), beyond(now), share)
}

/// The excess of units in bands above the highest that the baseline has. A busy hour of each day is part of the
/// baseline's day.
fn beyond_highest(now: &BTreeMap<u8, u64>, before: &BTreeMap<u8, u64>) -> (f64, f64) {
    let Some((highest, _)) = before.last_key_value() else { return (0.0, 0.0) };
    let beyond = now.iter().filter(|(band, _)| *band > highest).map(|(_, n)| *n).sum();
    one_sample(now.values().sum(), beyond, MORE_IN_FLIGHT_SHARE)
}

/// Excess and variance of `x` of `n` under a known rate.
fn one_sample(n: u64, x: u64, rate: f64) -> (f64, f64) {
    (x as f64 - n as f64 * rate, n as f64 * rate * (1.0 - rate))
}

#[cfg(test)]
mod tests;
