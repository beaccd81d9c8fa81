use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{CountBounds, Histogram, HistogramError, Quantile, ValueBounds};
use crate::evidence::bucket;

#[test]
fn the_wire_form_is_a_sorted_list_of_pairs() {
    let histogram: Histogram = [1_000, 1_000, 500_000, 2].into_iter().collect();
    assert_eq!(serde_json::to_string(&histogram).unwrap(), "[[32,1],[318,2],[605,1]]");
    let read: Histogram = serde_json::from_str("[[605,1],[318,1],[32,1],[7,0],[318,1]]").unwrap();
    assert_eq!(read, histogram);
}

#[test]
fn an_index_beyond_the_table_is_refused_with_the_limit() {
    let error = serde_json::from_str::<Histogram>("[[2048,1]]").unwrap_err();
    assert!(error.to_string().contains("bucket index 2048 is beyond the table: use 0 to 2047"), "{error}");
    assert_eq!(Histogram::from_pairs([(1, u64::MAX), (2, 1)]), Err(HistogramError::Overflow { index: 2 }));
}

#[test]
fn a_threshold_inside_a_bucket_leaves_that_bucket_open() {
    let (low, high) = (bucket::lower_edge(605).unwrap(), bucket::upper_edge(605).unwrap());
    let histogram: Histogram = [10, low, high, high + 1].into_iter().collect();
    assert_eq!(histogram.count_above(low), CountBounds { at_least: 1, at_most: 3 });
    assert_eq!(histogram.count_above(high), CountBounds { at_least: 1, at_most: 1 });
    assert_eq!(histogram.count_above(low - 1), CountBounds { at_least: 3, at_most: 3 });
    assert_eq!(histogram.count_from(605), 3);
}

#[test]
fn the_quantile_is_the_order_statistic_of_the_ceiling_rank() {
    let histogram: Histogram = (1..=100).collect();
    let p95 = histogram.quantile(Quantile::P95).unwrap();
    assert!(p95.lower <= 95 && 95 <= p95.upper, "{p95:?}");
    assert_eq!(Quantile::P99_9.rank(1_000), 999);
    assert_eq!(Quantile::P99_9.rank(1_001), 1_000);
    assert_eq!(Histogram::new().quantile(Quantile::P50), None);
    assert_eq!([0, 1].into_iter().collect::<Histogram>().value_at_rank(1), Some(ValueBounds { lower: 0, upper: 1 }));
    assert_eq!((Quantile::from_parts(0), Quantile::from_parts(10_000)), (None, None));
}

proptest! {
    #[test]
    fn merging_is_the_histogram_of_all_values(a in prop::collection::vec(any::<u64>(), 0..50),
                                              b in prop::collection::vec(any::<u64>(), 0..50)) {
        let mut merged: Histogram = a.iter().copied().collect();
        merged.merge(&b.iter().copied().collect());
        let together: Histogram = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(&merged, &together);
        prop_assert_eq!(merged.count(), (a.len() + b.len()) as u64);
    }

    #[test]
    fn bounds_contain_the_true_count_and_the_true_quantile(
        mut values in prop::collection::vec(0_u64..100_000, 1..200), threshold in 0_u64..100_000, parts in 1_u16..10_000,
    ) {
        let histogram: Histogram = values.iter().copied().collect();
        let above = values.iter().filter(|value| **value > threshold).count() as u64;
        let bounds = histogram.count_above(threshold);
        prop_assert!(bounds.at_least <= above && above <= bounds.at_most);
        values.sort_unstable();
        let quantile = Quantile::from_parts(parts).unwrap();
        let truth = values[quantile.rank(values.len() as u64) as usize - 1];
        let bounds = histogram.quantile(quantile).unwrap();
        prop_assert!(bounds.lower <= truth && truth <= bounds.upper);
    }

    #[test]
    fn the_wire_form_reads_back(values in prop::collection::vec(any::<u64>(), 0..50)) {
        let histogram: Histogram = values.into_iter().collect();
        let text = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }
}
