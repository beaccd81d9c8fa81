//! The first day after a promotion: what later windows are compared with. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_vocabulary::evidence::{Histogram, Metric, MetricWindow, Stratum};

use super::Identity;

/// How long a baseline collects.
pub const BASELINE_SECONDS: u64 = 24 * 3600;

/// Counts of one metric in one stratum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Finished units, errors included.
    pub count: u64,
    /// Finished units that failed.
    pub errors: u64,
    /// Successes.
    pub buckets: Histogram,
}

/// Counts per metric and stratum over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    metrics: BTreeMap<Metric, BTreeMap<String, Counts>>,
}

/// What a revision did in its first day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    /// What was measured.
    pub identity: Identity,
    /// The second at which the revision was promoted.
    pub promoted_seconds: u64,
    /// What was counted since.
    pub counted: Counted,
}

impl Counted {
    /// Adds what one pod reported.
    pub fn add(&mut self, metric: &MetricWindow) {
        let strata = self.metrics.entry(metric.metric).or_default();
        let counts = strata.entry(metric.stratum.clone()).or_default();
        counts.count = counts.count.saturating_add(metric.count);
        counts.errors = counts.errors.saturating_add(metric.errors);
        counts.buckets.merge(&metric.buckets);
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The metrics that were counted.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.metrics.keys().copied()
    }

    /// The strata of a metric.
    pub fn strata(&self, metric: Metric) -> impl Iterator<Item = (&str, &Counts)> + '_ {
        self.metrics.get(&metric).into_iter().flatten().map(|(stratum, counts)| (stratum.as_str(), counts))
    }

    /// The counts of a metric over all strata.
    #[must_use]
    pub fn total(&self, metric: Metric) -> Counts {
        let mut total = Counts::default();
        for (_, counts) in self.strata(metric) {
            total.count = total.count.saturating_add(counts.count);
            total.errors = total.errors.saturating_add(counts.errors);
            total.buckets.merge(&counts.buckets);
        }
        total
    }

    /// Finished units per band of prompt length, over all metrics that tell it.
    #[must_use]
    pub fn prompt_bands(&self) -> BTreeMap<u8, u64> {
        self.bands(|stratum| stratum.prompt_band)
    }

    /// Finished units per band of units in flight at their admission, over all metrics that tell it.
    #[must_use]
    pub fn in_flight_bands(&self) -> BTreeMap<u8, u64> {
        self.bands(|stratum| stratum.in_flight_band)
    }

    fn bands(&self, band: impl Fn(Stratum) -> u8) -> BTreeMap<u8, u64> {
        let mut bands = BTreeMap::new();
        for (stratum, counts) in self.metrics.values().flatten().filter(|(_, counts)| counts.count > 0) {
            if let Ok(stratum) = stratum.parse::<Stratum>() {
                *bands.entry(band(stratum)).or_default() += counts.count;
            }
        }
        bands
    }

    /// Puts counts in the place of what a metric has in a stratum.
    pub fn set(&mut self, metric: Metric, stratum: String, counts: Counts) {
        self.metrics.entry(metric).or_default().insert(stratum, counts);
    }

    /// Clears the values of the stratum, among all that have any, in which the fewest units finished; how many finished
    /// and failed stays. Nothing is compared within it any more.
    pub fn forget_least(&mut self) {
        let all = self.metrics.values_mut().flat_map(BTreeMap::values_mut);
        let least = all.filter(|counts| !counts.buckets.is_empty()).min_by_key(|counts| counts.count);
        if let Some(counts) = least {
            counts.buckets = Histogram::default();
        }
    }

    /// Adds up the strata of each metric that have no values: how many finished and failed there stays, and is known of
    /// all of them together only.
    pub fn pool_forgotten(&mut self) {
        for strata in self.metrics.values_mut() {
            let mut pooled = (0_u64, 0_u64);
            strata.retain(|_, counts| {
                let is_kept = !counts.buckets.is_empty();
                if !is_kept {
                    pooled = (pooled.0.saturating_add(counts.count), pooled.1.saturating_add(counts.errors));
                }
                is_kept
            });
            if pooled.0 > 0 {
                let kept = strata.entry(String::new()).or_default();
                kept.count = kept.count.saturating_add(pooled.0);
                kept.errors = kept.errors.saturating_add(pooled.1);
            }
        }
    }
}

impl Baseline {
    /// Opens a baseline at a promotion.
    #[must_use]
    pub fn new(identity: Identity, promoted_seconds: u64) -> Self {
        Self { identity, promoted_seconds, counted: Counted::default() }
    }

    /// Adds a window while the first day lasts; returns whether it was added.
    pub fn add(&mut self, end_seconds: u64, metrics: &[MetricWindow]) -> bool {
        if end_seconds > self.promoted_seconds + BASELINE_SECONDS {
            return false;
        }
        metrics.iter().for_each(|metric| self.counted.add(metric));
        true
    }
}
