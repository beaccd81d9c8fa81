//! Decimal text to whole nanoseconds. Pure.

/// Converts microseconds in decimal text to nanoseconds, exactly: absolute times have nineteen digits, a double
/// sixteen.
///
/// Digits past the nanosecond are dropped. Returns nothing for text that is not a plain decimal or does not fit.
pub(super) fn micros_to_nanos(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mut value, mut fraction, mut seen_point) = (0i64, 0, false);
    if !digits.iter().any(u8::is_ascii_digit) {
        return None;
    }
    for &byte in digits {
        match byte {
            b'0'..=b'9' if fraction < 3 => {
                value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                fraction += u32::from(seen_point);
            }
            b'0'..=b'9' => {}
            b'.' if !seen_point => seen_point = true,
            b'e' | b'E' => return scientific(text),
            _ => return None,
        }
    }
    value = value.checked_mul(10i64.pow(3 - fraction))?;
    Some(if negative { -value } else { value })
}

/// Exponents are not written for times that need every digit, so a double is exact enough.
fn scientific(text: &[u8]) -> Option<i64> {
    let value = std::str::from_utf8(text).ok()?.parse::<f64>().ok()? * 1_000.0;
    (value.abs() < 9e18).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("4397369968296.232", Some(4_397_369_968_296_232))]
    #[case("1795254395968155.430", Some(1_795_254_395_968_155_430))]
    #[case("7", Some(7_000))]
    #[case("0.5", Some(500))]
    #[case("-1.25", Some(-1_250))]
    #[case("1.23456", Some(1_234))]
    #[case("2e3", Some(2_000_000))]
    #[case("", None)]
    #[case(".", None)]
    #[case("NaN", None)]
    #[case("99999999999999999999", None)]
    fn microseconds_become_nanoseconds(#[case] text: &str, #[case] nanos: Option<i64>) {
        assert_eq!(micros_to_nanos(text.as_bytes()), nanos);
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives(nanos in 0i64..i64::MAX / 1_000) {
            let text = format!("{}.{:03}", nanos / 1_000, nanos % 1_000);
            prop_assert_eq!(micros_to_nanos(text.as_bytes()), Some(nanos));
        }
    }
}
