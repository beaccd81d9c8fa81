//! A sparse histogram over the bucket table. Pure.

use std::{error::Error, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Percentile, evidence::bucket};

/// Counts per bucket of integer values, sparse and ordered by bucket.
///
/// On the wire it is `[[index, count], ...]`, ascending by index, without zero counts. Reading adds up repeated indices
/// and rejects indices beyond the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Ascending by bucket, without zeros: latencies fill a hundred neighboring buckets, and windows are merged often.
    counts: Vec<(u16, u64)>,
}

/// Why a list of buckets is not a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistogramError {
    /// A bucket index lies beyond the table.
    Index {
        /// The index found.
        index: u16,
    },
    /// The counts add up to more than a `u64` holds.
    Overflow {
        /// The bucket at which they do.
        index: u16,
    },
}

impl fmt::Display for HistogramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index { index } => {
                write!(f, "bucket index {index} is beyond the table: use 0 to {}", bucket::COUNT - 1)
            }
            Self::Overflow { index } => write!(f, "counts overflow 64 bits at bucket index {index}"),
        }
    }
}

impl Error for HistogramError {}

/// Any quantile, in parts per ten thousand, so that ranks are exact integers: p50 is 5000, p99.9 is 9990. Those that an
/// objective can name are [`Percentile`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Quantile(u16);

/// Why a number is not a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidQuantile {
    /// The number, in parts per ten thousand.
    pub parts_per_ten_thousand: u16,
}

impl fmt::Display for InvalidQuantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the quantile of {} parts per ten thousand is not between 1 and 9999", self.parts_per_ten_thousand)
    }
}

impl Error for InvalidQuantile {}

impl From<Percentile> for Quantile {
    fn from(percentile: Percentile) -> Self {
        Self(percentile.per_mille() * 10)
    }
}

impl TryFrom<u16> for Quantile {
    type Error = InvalidQuantile;

    fn try_from(parts_per_ten_thousand: u16) -> Result<Self, InvalidQuantile> {
        Self::from_parts(parts_per_ten_thousand).ok_or(InvalidQuantile { parts_per_ten_thousand })
    }
}

impl From<Quantile> for u16 {
    fn from(quantile: Quantile) -> Self {
        quantile.0
    }
}

impl Quantile {
    /// The median.
    pub const P50: Self = Self(5_000);
    /// The 90th percentile.
    pub const P90: Self = Self(9_000);
    /// The 95th percentile.
    pub const P95: Self = Self(9_500);
    /// The 99th percentile.
    pub const P99: Self = Self(9_900);
    /// The 99.9th percentile.
    pub const P99_9: Self = Self(9_990);

    /// Makes a quantile from parts per ten thousand; `None` unless `1..=9999`.
    #[must_use]
    pub const fn from_parts(parts_per_ten_thousand: u16) -> Option<Self> {
        if parts_per_ten_thousand == 0 || parts_per_ten_thousand >= 10_000 {
            return None;
        }
        Some(Self(parts_per_ten_thousand))
    }

    /// The quantile in parts per ten thousand.
    #[must_use]
    pub const fn parts_per_ten_thousand(self) -> u16 {
        self.0
    }

    /// The quantile as a probability in `(0, 1)`.
    #[must_use]
    pub fn probability(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }

    /// The share of values above the quantile, 0.05 for p95. Exact to the last bit of its decimal.
    #[must_use]
    pub fn exceedance(self) -> f64 {
        f64::from(10_000 - self.0) / 10_000.0
    }

    /// The rank of the quantile among `n` sorted values, counted from one: `max(1, ceil(q * n))`.
    #[must_use]
    pub fn rank(self, n: u64) -> u64 {
        let rank = (u128::from(n) * u128::from(self.0)).div_ceil(10_000);
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }
}

/// Bounds on a count that the width of one bucket leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountBounds {
    /// What is certain.
    pub at_least: u64,
    /// What is possible.
    pub at_most: u64,
}

/// Bounds on a value that lies in one bucket, both inclusive, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueBounds {
    /// Smallest integer of the bucket.
    pub lower: u64,
    /// Largest integer of the bucket.
    pub upper: u64,
}

impl Histogram {
    /// Makes an empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: Vec::new() }
    }

    /// Reads `[index, count]` pairs in any order; repeated indices add up.
    ///
    /// # Errors
    /// [`HistogramError`] when an index lies beyond the table or the counts overflow.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (u16, u64)>) -> Result<Self, HistogramError> {
        let mut histogram = Self::new();
        let mut total = 0_u64;
        for (index, count) in pairs {
            if index >= bucket::COUNT {
                return Err(HistogramError::Index { index });
            }
            total = total.checked_add(count).ok_or(HistogramError::Overflow { index })?;
            histogram.add(index, count);
        }
        Ok(histogram)
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times. Counts saturate.
    pub fn record_n(&mut self, value: u64, n: u64) {
        self.add(bucket::index(value), n);
    }

    /// Adds the counts of another histogram. Counts saturate.
    pub fn merge(&mut self, other: &Self) {
        let mut merged = Vec::with_capacity(self.counts.len().max(other.counts.len()) + 8);
        let mut others = other.counts.iter().copied().peekable();
        for (index, count) in self.counts.drain(..) {
            while let Some(before) = others.next_if(|(other, _)| *other < index) {
                merged.push(before);
            }
            let added = others.next_if(|(other, _)| *other == index).map_or(0, |(_, n)| n);
            merged.push((index, count.saturating_add(added)));
        }
        merged.extend(others);
        self.counts = merged;
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        total(&self.counts)
    }

    /// The counts, ascending by bucket, without zeros.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (u16, u64)> + '_ {
        self.counts.iter().copied()
    }

    /// How many values lie in bucket `index` or above: exact, for a threshold on the grid.
    #[must_use]
    pub fn count_from(&self, index: u16) -> u64 {
        total(&self.counts[self.position(index)..])
    }

    /// How many values are greater than a threshold, as far as the bucket that holds the threshold tells.
    ///
    /// Exact when the threshold is the largest integer of its bucket or that bucket is empty.
    #[must_use]
    pub fn count_above(&self, threshold: u64) -> CountBounds {
        let index = bucket::index(threshold);
        let certain = self.count_from(index + 1);
        let is_exact = bucket::upper_edge(index).is_some_and(|upper| upper <= threshold);
        let open = if is_exact { 0 } else { self.count_from(index) - certain };
        // A threshold of 0 lies below bucket 0's only distinguishable value: whether a value was 0 or 1 is unknown.
        CountBounds { at_least: certain, at_most: certain.saturating_add(open) }
    }

    /// The bounds of the value at a quantile (the order statistic of rank `max(1, ceil(q * n))`); `None` when empty.
    #[must_use]
    pub fn quantile(&self, quantile: Quantile) -> Option<ValueBounds> {
        self.value_at_rank(quantile.rank(self.count()))
    }

    /// The bounds of the `rank`-th smallest value, counted from one; `None` when there is none.
    #[must_use]
    pub fn value_at_rank(&self, rank: u64) -> Option<ValueBounds> {
        if rank == 0 {
            return None;
        }
        let mut seen = 0_u64;
        let index = self.counts.iter().find_map(|(index, n)| {
            seen = seen.saturating_add(*n);
            (seen >= rank).then_some(*index)
        })?;
        let lower = if index == 0 { 0 } else { bucket::lower_edge(index)? };
        Some(ValueBounds { lower, upper: bucket::upper_edge(index)? })
    }

    /// The position of the first bucket at or above `index`.
    fn position(&self, index: u16) -> usize {
        self.counts.partition_point(|(bucket, _)| *bucket < index)
    }

    fn add(&mut self, index: u16, n: u64) {
        if n == 0 {
            return;
        }
        let position = self.position(index);
        match self.counts.get_mut(position) {
            Some((bucket, count)) if *bucket == index => *count = count.saturating_add(n),
            _ => self.counts.insert(position, (index, n)),
        }
    }
}

fn total(counts: &[(u16, u64)]) -> u64 {
    counts.iter().fold(0, |total, (_, n)| total.saturating_add(*n))
}

impl FromIterator<u64> for Histogram {
    /// Counts every value.
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut histogram = Self::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.counts.iter())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(u16, u64)>::deserialize(deserializer)?;
        Self::from_pairs(pairs).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
