//! A histogram of nanoseconds with a relative width of 1/16. Pure.

use std::collections::BTreeMap;

/// Counts per bucket: sixteen buckets per power of two, so that a quantile is at most 6.25 % too high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
}

const SUB_BITS: u32 = 4;

impl Histogram {
    /// Adds a value in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        *self.buckets.entry(bucket(nanos)).or_insert(0) += 1;
        self.count += 1;
    }

    /// Returns how many values there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the upper edge of the bucket that holds the given share of the values, nothing without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().find_map(|(&bucket, &count)| {
            seen += count;
            (seen >= wanted).then(|| upper(bucket))
        })
    }
}

fn bucket(nanos: u64) -> u16 {
    let magnitude = (nanos | 1).ilog2();
    if magnitude < SUB_BITS {
        return nanos as u16;
    }
    let shift = magnitude - SUB_BITS;
    let below = ((shift + 1) << SUB_BITS) as u16;
    below + ((nanos >> shift) as u16 & ((1 << SUB_BITS) - 1))
}

fn upper(bucket: u16) -> u64 {
    let (group, sub) = (u32::from(bucket >> SUB_BITS), u64::from(bucket & ((1 << SUB_BITS) - 1)));
    match group {
        0 => sub,
        _ => (((1 << SUB_BITS) + sub + 1) << (group - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantile_is_at_most_a_sixteenth_too_high(mut values in prop::collection::vec(0u64..1 << 50, 1..100), p in 0.01f64..1.0) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.add(value);
            }
            values.sort_unstable();
            let rank = ((p * values.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, found) = (values[rank], histogram.quantile(p).unwrap());
            prop_assert!(found >= exact && found as f64 <= exact as f64 * 1.0626 + 1.0, "{exact} {found}");
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
