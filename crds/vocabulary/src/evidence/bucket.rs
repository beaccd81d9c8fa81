//! The logarithmic bucket table: growth 2^(1/32), about 2.2 % a bucket. Pure integer arithmetic.
//!
//! Bucket `i` holds the integers `v` (microseconds) with `floor(32 * log2(max(1, v))) == i`. The lower edge of bucket
//! `i` is therefore `ceil(2^(i/32))`; below 46, where the growth is less than one, some buckets hold no integer and
//! stay empty. No floating point takes part, so two machines never disagree about a value that lies on an edge.

/// Buckets per doubling.
pub const PER_OCTAVE: u16 = 32;

/// Number of buckets: every `u64` value has one.
pub const COUNT: u16 = 64 * PER_OCTAVE;

/// `floor(2^63 * 2^(j/32))` for `j` in `0..32`: the only table. Every edge follows from it exactly, because
/// `floor(2^k * 2^(j/32))` is the table entry shifted right by `63 - k`, and `2^(j/32)` is irrational for `0 < j < 32`.
const MANTISSA: [u64; PER_OCTAVE as usize] = [
    0x8000_0000_0000_0000,
    0x82cd_8698_ac2b_a1d7,
    0x85aa_c367_cc48_7b14,
    0x8898_0e80_92da_8527,
    0x8b95_c1e3_ea8b_d6e6,
    0x8ea4_398b_45cd_53c0,
    0x91c3_d373_ab11_c336,
    0x94f4_efa8_fef7_0961,
    0x9837_f051_8db8_a96f,
    0x9b8d_39b9_d54e_5538,
    0x9ef5_3260_91a1_11ad,
    0xa270_4303_0c49_6818,
    0xa5fe_d6a9_b151_38ea,
    0xa9a1_5ab4_ea7c_0ef8,
    0xad58_3eea_42a1_4ac6,
    0xb123_f581_d2ac_258f,
    0xb504_f333_f9de_6484,
    0xb8fb_af47_62fb_9ee9,
    0xbd08_a39f_580c_36be,
    0xc12c_4cca_6670_9456,
    0xc567_2a11_5506_dadd,
    0xc9b9_bd86_6e2f_27a2,
    0xce24_8c15_1f84_80e3,
    0xd2a8_1d91_f12a_e45a,
    0xd744_fcca_d69d_6af4,
    0xdbfb_b797_daf2_3755,
    0xe0cc_deec_2a94_e111,
    0xe5b9_06e7_7c83_48a8,
    0xeac0_c6e7_dd24_392e,
    0xefe4_b99b_dcda_f5cb,
    0xf525_7d15_2486_cc2c,
    0xfa83_b2db_722a_033a,
];

/// Returns the bucket of a value in microseconds: `floor(32 * log2(max(1, value)))`, exact for every `u64`.
#[must_use]
pub const fn index(value: u64) -> u16 {
    let value = if value == 0 { 1 } else { value };
    let exponent = 63 - value.leading_zeros();
    let normalized = value << (63 - exponent);
    // `normalized > MANTISSA[j]` is `value >= 2^(exponent + j/32)`: equality is impossible for j > 0 (irrational).
    let (mut low, mut high) = (0, PER_OCTAVE as usize - 1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if normalized > MANTISSA[middle] {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    exponent as u16 * PER_OCTAVE + low as u16
}

/// Returns the lower edge of a bucket, `ceil(2^(index/32))`: the smallest integer of the bucket, if it holds any.
///
/// `None` when `index >= COUNT`.
#[must_use]
pub const fn lower_edge(index: u16) -> Option<u64> {
    if index >= COUNT {
        return None;
    }
    let (exponent, fraction) = ((index / PER_OCTAVE) as u32, (index % PER_OCTAVE) as usize);
    let floor = MANTISSA[fraction] >> (63 - exponent);
    Some(if fraction == 0 { floor } else { floor + 1 })
}

/// Returns the largest integer that belongs to a bucket or to one below it: `lower_edge(index + 1) - 1`.
///
/// `None` when `index >= COUNT`.
#[must_use]
pub const fn upper_edge(index: u16) -> Option<u64> {
    if index >= COUNT {
        return None;
    }
    match lower_edge(index + 1) {
        Some(next) => Some(next - 1),
        None => Some(u64::MAX),
    }
}

/// Returns how many whole buckets fit into a relative margin: the largest `b` with `2^(b/32) <= 1 + margin`.
///
/// The margin is given in parts per million (100,000 = 10 %). 4 buckets are 9.05 %, 6 are 13.9 %, 12 are 29.7 %.
#[must_use]
pub const fn bins_within(margin_ppm: u32) -> u16 {
    let scaled = ((1_000_000 + margin_ppm as u128) << 63) / 1_000_000;
    let (mut octaves, mut rest) = (0, scaled);
    while rest >= 1 << 64 {
        rest >>= 1;
        octaves += 1;
    }
    let mut bins = octaves * PER_OCTAVE;
    let mut fraction = PER_OCTAVE as usize - 1;
    while fraction > 0 {
        if rest > MANTISSA[fraction] as u128 {
            bins += fraction as u16;
            break;
        }
        fraction -= 1;
    }
    bins
}

#[cfg(test)]
mod tests;
