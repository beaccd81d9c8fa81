//! Whole numbers in requests, which JSON may also write as `3.0`. Pure.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Number;

/// Below it a float holds every whole number.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads one that may be null. With `#[serde(default)]` it may be absent too.
///
/// # Errors
/// When it has a fraction, or does not fit.
pub(in crate::api) fn optional<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(None) };
    let is_whole = |float: &f64| float.fract() == 0.0 && float.abs() < LARGEST_EXACT;
    let whole = number.as_i64().or_else(|| number.as_f64().filter(is_whole).map(|float| float as i64));
    let fitting = whole.and_then(|whole| T::try_from(whole).ok());
    fitting.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of its range")))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Request {
        #[serde(default, deserialize_with = "optional")]
        n: Option<u32>,
    }

    #[test]
    fn a_whole_number_may_be_written_as_a_float_and_nothing_else_is_one() {
        let read = |text: serde_json::Value| {
            serde_json::from_value::<Request>(text).map(|request| request.n).map_err(|error| error.to_string())
        };
        assert_eq!(
            [read(json!({})), read(json!({"n": null})), read(json!({"n": 3})), read(json!({"n": 3.0}))],
            [Ok(None), Ok(None), Ok(Some(3)), Ok(Some(3))]
        );
        assert_eq!(read(json!({"n": 0.5})), Err("0.5 is not a whole number of its range".to_owned()));
        assert_eq!(read(json!({"n": -1})), Err("-1 is not a whole number of its range".to_owned()));
        assert!(read(json!({"n": "3"})).unwrap_err().contains("expected a JSON number"));
    }
}
