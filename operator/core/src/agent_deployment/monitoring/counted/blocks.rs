//! Blocks of windows, and how they are kept: all in one piece. Pure.

use std::collections::{BTreeMap, VecDeque};

use slipway_vocabulary::evidence::{Load, Metric, MetricWindow};

use super::packed::Packed;

/// Windows of a block.
const WINDOWS: u64 = 30;

/// Windows with finished units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first: u64,
    pub(super) last: u64,
    /// In their order: most pods have one or two.
    pub(super) metrics: BTreeMap<Metric, Sums>,
}

/// What a block has of a metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) errors: u64,
    pub(super) buckets: BTreeMap<u16, u32>,
}

impl Sums {
    fn add(&mut self, row: &MetricWindow) {
        self.count = self.count.saturating_add(row.count);
        self.errors = self.errors.saturating_add(row.errors);
        for (bucket, count) in row.buckets.pairs() {
            let known = self.buckets.entry(bucket).or_default();
            *known = known.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
}

/// Blocks that are being counted, by their place in time.
#[derive(Debug, Default)]
pub(super) struct Counting(BTreeMap<u64, Block>);

impl Counting {
    /// Adds what finished in a window.
    pub(super) fn add<'a>(&mut self, window: u64, finished: impl IntoIterator<Item = &'a MetricWindow>) {
        for row in finished {
            let empty = || Block { first: window, last: window, metrics: BTreeMap::new() };
            let block = self.0.entry(window / WINDOWS).or_insert_with(empty);
            block.last = window;
            block.metrics.entry(row.metric).or_default().add(row);
        }
    }

    /// Forgets blocks that ended with this window or before it.
    pub(super) fn forget(&mut self, window: u64) {
        self.0.retain(|_, block| block.last > window);
    }
}

/// Blocks as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    numbers: Packed,
    buckets: usize,
}

impl Blocks {
    /// Keeps what was counted.
    pub(super) fn of(Counting(blocks): &Counting) -> Self {
        let (mut numbers, mut before) = (Vec::new(), 0);
        for Block { first, last, metrics } in blocks.values() {
            numbers.extend([first.wrapping_sub(before), last.wrapping_sub(*first), number(metrics.len())]);
            before = *first;
            for (metric, Sums { count, errors, buckets }) in metrics {
                numbers.extend([*metric as u64, *count, *errors, number(buckets.len())]);
                let mut near = 0;
                for (bucket, count) in buckets {
                    numbers.extend([u64::from(bucket - near), u64::from(*count)]);
                    near = *bucket;
                }
            }
        }
        let sums = blocks.values().flat_map(|block| block.metrics.values());
        Self { buckets: sums.map(|sums| sums.buckets.len()).sum(), numbers: Packed::of(numbers) }
    }

    /// The blocks in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Block> {
        let (mut numbers, mut before) = (self.numbers.numbers(), 0);
        std::iter::from_fn(move || {
            let block = read_block(&mut numbers, before)?;
            before = block.first;
            Some(block)
        })
    }

    /// The blocks, to be counted on.
    pub(super) fn counting(&self) -> Counting {
        Counting(self.iter().map(|block| (block.first / WINDOWS, block)).collect())
    }

    /// How many buckets they have.
    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }
}

fn number(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn read_block(numbers: &mut impl Iterator<Item = u64>, before: u64) -> Option<Block> {
    let first = before.wrapping_add(numbers.next()?);
    let last = first.wrapping_add(numbers.next()?);
    let metrics = (0..numbers.next()?).map_while(|_| {
        let metric = *Metric::ALL.get(usize::try_from(numbers.next()?).ok()?)?;
        let (count, errors, buckets) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let mut near = 0_u16;
        let buckets = (0..buckets).map_while(|_| {
            near = near.wrapping_add(u16::try_from(numbers.next()?).ok()?);
            Some((near, u32::try_from(numbers.next()?).ok()?))
        });
        let buckets = buckets.collect();
        Some((metric, Sums { count, errors, buckets }))
    });
    Some(Block { first, last, metrics: metrics.collect() })
}

/// What a pod carried in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedLoad {
    pub(crate) id: u64,
    pub(crate) load: Option<Load>,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

/// Loads as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Loads(Packed);

impl Loads {
    /// Keeps them.
    pub(super) fn of(loads: &VecDeque<CountedLoad>) -> Self {
        let mut before = 0;
        let numbers = loads.iter().flat_map(|CountedLoad { id, load, admitted, refused }| {
            let since = id.wrapping_sub(std::mem::replace(&mut before, *id));
            let [runs, requests] = load.map_or([0, 0], |load| [load.run_microseconds, load.model_request_microseconds]);
            [since, u64::from(load.is_some()), runs, requests, *admitted, *refused]
        });
        Self(Packed::of(numbers))
    }

    /// The loads in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = CountedLoad> {
        let (mut numbers, mut before) = (self.0.numbers(), 0_u64);
        std::iter::from_fn(move || {
            let id = before.wrapping_add(numbers.next()?);
            let (is_counted, run_microseconds) = (numbers.next()? > 0, numbers.next()?);
            let load = Load { run_microseconds, model_request_microseconds: numbers.next()? };
            before = id;
            let (admitted, refused) = (numbers.next()?, numbers.next()?);
            Some(CountedLoad { id, load: is_counted.then_some(load), admitted, refused })
        })
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{collection, option, prelude::*};

    use super::*;

    fn block() -> impl Strategy<Value = (u64, u64, BTreeMap<Metric, Sums>)> {
        let buckets = collection::btree_map(any::<u16>(), any::<u32>(), 0..20);
        let sums = (any::<u64>(), any::<u64>(), buckets);
        let sums = sums.prop_map(|(count, errors, buckets)| Sums { count, errors, buckets });
        let metrics = collection::btree_map(proptest::sample::select(Metric::ALL.to_vec()), sums, 1..5);
        (0..WINDOWS, 0..WINDOWS, metrics)
    }

    fn load() -> impl Strategy<Value = CountedLoad> {
        let load = (any::<u64>(), any::<u64>());
        let load = load.prop_map(|(a, b)| Load { run_microseconds: a, model_request_microseconds: b });
        (any::<u64>(), option::of(load), any::<u64>(), any::<u64>())
            .prop_map(|(id, load, admitted, refused)| CountedLoad { id, load, admitted, refused })
    }

    proptest! {
        #[test]
        fn whatever_was_counted_is_read_again(
            blocks in collection::btree_map(0..u64::MAX / WINDOWS - 1, block(), 0..15),
            loads in collection::vec_deque(load(), 0..10),
        ) {
            let blocks = blocks.into_iter().map(|(place, (first, last, metrics))| {
                let at = place * WINDOWS;
                (place, Block { first: at + first.min(last), last: at + first.max(last), metrics })
            });
            let counting = Counting(blocks.collect());
            let kept = Blocks::of(&counting);
            prop_assert_eq!(kept.counting().0, counting.0);
            prop_assert_eq!(Loads::of(&loads).iter().collect::<VecDeque<_>>(), loads);
        }
    }

    #[test]
    fn each_metric_is_kept_as_its_place_among_all() {
        assert_eq!(Metric::ALL.map(|metric| Metric::ALL.get(metric as usize).copied()), Metric::ALL.map(Some));
    }
}
