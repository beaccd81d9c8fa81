use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{COUNT, MANTISSA, PER_OCTAVE, bins_within, index, lower_edge, upper_edge};

/// Little-endian limbs of 32 bits: arithmetic that shares nothing with the table under test.
fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut product = vec![0_u32; a.len() + b.len()];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0_u64;
        for (j, y) in b.iter().enumerate() {
            let sum = u64::from(product[i + j]) + u64::from(*x) * u64::from(*y) + carry;
            product[i + j] = sum as u32;
            carry = sum >> 32;
        }
        product[i + b.len()] = carry as u32;
    }
    product
}

/// Compares `value^32` with `2^power`.
fn compare_power_32(value: u64, power: usize) -> std::cmp::Ordering {
    let mut raised = vec![value as u32, (value >> 32) as u32];
    for _ in 0..5 {
        raised = multiply(&raised, &raised);
    }
    let bits = raised
        .iter()
        .enumerate()
        .rev()
        .find(|(_, limb)| **limb != 0)
        .map_or(0, |(position, limb)| position * 32 + 32 - limb.leading_zeros() as usize);
    let is_power_of_two = raised.iter().map(|limb| limb.count_ones()).sum::<u32>() == 1;
    match bits.cmp(&(power + 1)) {
        std::cmp::Ordering::Equal if is_power_of_two => std::cmp::Ordering::Equal,
        std::cmp::Ordering::Equal => std::cmp::Ordering::Greater,
        other => other,
    }
}

#[test]
fn the_table_is_the_exact_floor_of_the_roots() {
    for (j, mantissa) in MANTISSA.iter().enumerate() {
        let power = 63 * 32 + j;
        assert_ne!(compare_power_32(*mantissa, power), std::cmp::Ordering::Greater, "entry {j} is too large");
        assert_eq!(compare_power_32(mantissa + 1, power), std::cmp::Ordering::Greater, "entry {j} is too small");
    }
}

#[test]
fn every_edge_is_the_smallest_integer_whose_32nd_power_reaches_two_to_the_index() {
    for i in 0..COUNT {
        let edge = lower_edge(i).unwrap();
        assert_ne!(compare_power_32(edge, usize::from(i)), std::cmp::Ordering::Less, "edge {i} = {edge} is too small");
        assert_eq!(
            compare_power_32(edge - 1, usize::from(i)),
            std::cmp::Ordering::Less,
            "edge {i} = {edge} is too large"
        );
    }
}

#[test]
fn an_edge_opens_its_bucket_and_the_integer_before_it_does_not() {
    // From 64 on every bucket is wider than one.
    for i in 6 * PER_OCTAVE + 1..COUNT {
        let edge = lower_edge(i).unwrap();
        assert_eq!((index(edge - 1), index(edge)), (i - 1, i));
        assert_eq!(upper_edge(i - 1), Some(edge - 1));
    }
}

#[test]
fn known_values_fall_where_the_design_says() {
    let known =
        [(0, 0), (1, 0), (2, 32), (3, 50), (4, 64), (1_000, 318), (500_000, 605), (1_000_000, 637), (u64::MAX, 2047)];
    for (value, expected) in known {
        assert_eq!(index(value), expected, "value {value}");
    }
    assert_eq!((lower_edge(COUNT), upper_edge(COUNT)), (None, None));
    assert_eq!(upper_edge(COUNT - 1), Some(u64::MAX));
}

#[test]
fn margins_are_floored_to_whole_buckets() {
    let ppm = [0, 21_897, 21_898, 90_507, 90_508, 100_000, 138_788, 138_789, 300_000, 1_000_000, 1_043_800, 3_000_000];
    let bins = ppm.map(bins_within);
    assert_eq!(bins, [0, 0, 1, 3, 4, 4, 5, 6, 12, 32, 33, 64]);
}

proptest! {
    #[test]
    fn the_index_is_the_exact_floor_of_the_logarithm(value in prop_oneof![1_u64..5_000_000, any::<u64>()]) {
        let value = value.max(1);
        let i = usize::from(index(value));
        prop_assert_ne!(compare_power_32(value, i), std::cmp::Ordering::Less);
        prop_assert_eq!(compare_power_32(value, i + 1), std::cmp::Ordering::Less);
    }

    #[test]
    fn a_value_lies_between_the_edges_of_its_bucket(value in any::<u64>()) {
        let value = value.max(1);
        let i = index(value);
        prop_assert!(lower_edge(i).unwrap() <= value && value <= upper_edge(i).unwrap());
    }

    /// `8 * u128` bits suffice below 2^15: value^8 against 2^(i/4), without limbs.
    #[test]
    fn quarter_octaves_agree_with_u128_arithmetic(value in 1_u64..32_768) {
        let eighth = u128::from(value).pow(8);
        let quarter = u32::from(index(value)) / 4;
        prop_assert!(1_u128 << quarter <= eighth);
        prop_assert!(eighth < 1_u128 << (quarter + 1));
    }
}
