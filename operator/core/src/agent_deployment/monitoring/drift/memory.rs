//! What is remembered between two blocks: the baseline, the test, and what was read of each pod. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_analysis::drift::{
    Identity,
    baseline::{BASELINE_SECONDS, Baseline},
    live::LiveTest,
};
use slipway_vocabulary::evidence::{Metric, RING_WINDOWS};
use thiserror::Error;

use super::{ALPHA, MIN_UNITS, counts};

/// The version of the text.
const VERSION: u32 = 1;
/// The longest text.
pub const MAX_BYTES: usize = 64 * 1024;
/// What of it the baseline's counts may take; the rest is for the test, 8 KiB, and the pods.
const MAX_COUNTS_BYTES: usize = 36 * 1024;
/// Pods of which it is remembered how far they were read.
const MAX_MARKS: usize = 160;

/// Why a memory cannot be read.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// It is not JSON of this shape.
    #[error("failed to read it")]
    Parse(#[source] serde_json::Error),
    /// It is of another version.
    #[error("it has version {found}, this operator reads version {expected}", expected = VERSION)]
    Version {
        /// The version found.
        found: u32,
    },
    /// Counts are damaged.
    #[error("the counts of {metric} in stratum {stratum:?} are damaged")]
    Counts {
        /// The metric.
        metric: Metric,
        /// The stratum.
        stratum: String,
    },
}

/// What is remembered of the plan that serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Hash of the plan.
    pub revision: String,
    /// What later windows are compared with.
    pub baseline: Baseline,
    /// The second at which the baseline begins.
    pub begun_seconds: u64,
    /// The second from which on nothing is added to it; absent while it collects.
    pub frozen_seconds: Option<u64>,
    /// The end of the last block that is remembered.
    pub counted_to: u64,
    /// The last window that was read of each pod, by its name and the start of its process.
    pub read: BTreeMap<String, u64>,
    /// What the test has seen, as it wrote it.
    pub test: Option<String>,
}

/// The text, member by member.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    version: u32,
    revision: String,
    identity: Identity,
    begun_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frozen_seconds: Option<u64>,
    counted_to: u64,
    read: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    test: Option<String>,
    counts: BTreeMap<Metric, BTreeMap<String, String>>,
}

impl Memory {
    /// An empty memory.
    pub fn begin(revision: &str, identity: Identity, begun_seconds: u64) -> Self {
        Self {
            revision: revision.to_owned(),
            baseline: Baseline::new(identity, begun_seconds),
            begun_seconds,
            frozen_seconds: None,
            counted_to: 0,
            read: BTreeMap::new(),
            test: None,
        }
    }

    /// The memory as text, of at most [`MAX_BYTES`].
    pub fn write(&self) -> String {
        let stored = Stored {
            version: VERSION,
            revision: self.revision.clone(),
            identity: self.baseline.identity.clone(),
            begun_seconds: self.begun_seconds,
            frozen_seconds: self.frozen_seconds,
            counted_to: self.counted_to,
            read: self.read.clone(),
            test: self.test.clone(),
            counts: self.counts(),
        };
        serde_json::to_string(&stored).expect("a memory holds only texts and integers")
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// When it is another text, or one of another version.
    pub fn read(text: &str) -> Result<Self, MemoryError> {
        let stored: Stored = serde_json::from_str(text).map_err(MemoryError::Parse)?;
        if stored.version != VERSION {
            return Err(MemoryError::Version { found: stored.version });
        }
        let mut memory = Self::begin(&stored.revision, stored.identity, stored.begun_seconds);
        for (metric, strata) in stored.counts {
            for (stratum, text) in strata {
                let Some(counts) = counts::read(&text) else { return Err(MemoryError::Counts { metric, stratum }) };
                memory.baseline.counted.set(metric, stratum, counts);
            }
        }
        if let Some(frozen) = stored.frozen_seconds {
            memory.freeze(frozen);
        }
        Ok(Self { counted_to: stored.counted_to, read: stored.read, test: stored.test, ..memory })
    }

    fn counts(&self) -> BTreeMap<Metric, BTreeMap<String, String>> {
        let counted = &self.baseline.counted;
        let of = |metric| -> BTreeMap<String, String> {
            counted.strata(metric).map(|(stratum, of)| (stratum.to_owned(), counts::write(of))).collect()
        };
        counted.metrics().map(|metric| (metric, of(metric))).collect()
    }

    /// Finished units of the metric that has most of them.
    pub fn units(&self) -> u64 {
        let counted = &self.baseline.counted;
        let of = |metric| -> u64 { counted.strata(metric).map(|(_, counts)| counts.count).sum() };
        counted.metrics().map(of).max().unwrap_or(0)
    }

    /// Whether the baseline has its day, and enough in it.
    pub fn may_freeze(&self, at_seconds: u64) -> bool {
        self.frozen_seconds.is_none()
            && at_seconds >= self.begun_seconds.saturating_add(BASELINE_SECONDS)
            && self.units() >= MIN_UNITS
    }

    /// Ends the baseline: from now on windows are compared with it. It holds the day that ends here, and earlier counts
    /// if that day has too few.
    pub fn freeze(&mut self, at_seconds: u64) {
        self.fit();
        self.frozen_seconds = Some(at_seconds);
        self.baseline.promoted_seconds = at_seconds.saturating_sub(BASELINE_SECONDS);
    }

    /// The test against a frozen baseline. One that another version wrote begins again: that costs evidence, but no
    /// validity.
    pub fn test(&self) -> Option<LiveTest> {
        self.frozen_seconds?;
        let resumed = self.test.as_deref().and_then(|text| LiveTest::resume(self.baseline.clone(), ALPHA, text).ok());
        Some(resumed.unwrap_or_else(|| LiveTest::new(self.baseline.clone(), ALPHA)))
    }

    /// Forgets the values of strata with the fewest units, an eighth of them at a time, until the baseline is short
    /// enough to be kept.
    pub fn fit(&mut self) {
        while self.counts_bytes() > MAX_COUNTS_BYTES {
            let counted = &mut self.baseline.counted;
            let has_values = |metric| counted.strata(metric).filter(|(_, counts)| !counts.buckets.is_empty()).count();
            let strata: usize = counted.metrics().map(has_values).sum();
            if strata == 0 {
                counted.pool_forgotten();
                return;
            }
            for _ in 0..strata.div_ceil(8) {
                counted.forget_least();
            }
        }
    }

    fn counts_bytes(&self) -> usize {
        let bytes = |strata: &BTreeMap<String, String>| -> usize {
            strata.iter().map(|(stratum, text)| stratum.len() + text.len() + 6).sum()
        };
        self.counts().values().map(|strata| bytes(strata) + 32).sum()
    }

    /// Remembers how far pods were read. Pods that were silent for longer than pods keep windows are forgotten, and the
    /// longest silent ones if there are too many.
    pub fn mark(&mut self, marks: impl IntoIterator<Item = (String, u64)>, now_window: u64) {
        for (pod, window) in marks {
            let mark = self.read.entry(pod).or_default();
            *mark = (*mark).max(window);
        }
        self.read.retain(|_, window| *window + RING_WINDOWS as u64 >= now_window);
        while self.read.len() > MAX_MARKS {
            let oldest = self.read.iter().min_by_key(|(_, window)| **window).map(|(pod, _)| pod.clone());
            let Some(oldest) = oldest else { return };
            self.read.remove(&oldest);
        }
    }
}
