//! Values as people write them: durations, percentages and percentiles. Each keeps its original text, so that an
//! object that is read and sent back stays the same.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::Percentile;
use thiserror::Error;

/// Why a text is not a valid value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The text is not a duration.
    #[error("{0:?} is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d")]
    Duration(String),
    /// The text is not a percentage.
    #[error("{0:?} is not a percentage: write a number from 0% to 100%, such as 2% or 0.1%")]
    Percent(String),
    /// The text is not a positive decimal number.
    #[error("{0:?} is not a positive number: write one such as 1.5 or 20")]
    PositiveDecimal(String),
    /// The text is not a decimal number.
    #[error("{0:?} is not a number: write 0 or one above it, such as 1.5 or 20")]
    NonNegativeDecimal(String),
    /// The text is not a temperature.
    #[error("{0:?} is not a temperature: write a number from 0 to 2 with at most four places, such as 0.7")]
    Temperature(String),
    /// The text is not a top-p.
    #[error("{0:?} is not a top-p: write a number above 0 and up to 1 with at most four places, such as 0.95")]
    TopP(String),
    /// The text is not a penalty.
    #[error("{0:?} is not a penalty: write a number from -2 to 2 with at most three places, such as 0.5 or -1")]
    Penalty(String),
}

// Whatever a pattern takes its type reads: the API server must not keep what the operator cannot read.
pub(crate) const DURATION_PATTERN: &str = r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,3})?(us|ms|s|m|h|d)$";
pub(crate) const PERCENT_PATTERN: &str = r"^(100(\.0{1,4})?|[1-9]?[0-9](\.[0-9]{1,4})?)%$";
pub(crate) const POSITIVE_DECIMAL_PATTERN: &str =
    concat!(r"^([1-9][0-9]{0,8}(\.[0-9]{1,4})?|", r"0\.([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]?|000[1-9]))$");
pub(crate) const NON_NEGATIVE_DECIMAL_PATTERN: &str = r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,4})?$";
pub(crate) const TEMPERATURE_PATTERN: &str = r"^([01](\.[0-9]{1,4})?|2(\.0{1,4})?)$";
pub(crate) const TOP_P_PATTERN: &str = r"^(1(\.0{1,4})?|0\.([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]?|000[1-9]))$";
pub(crate) const PENALTY_PATTERN: &str = r"^-?([01](\.[0-9]{1,3})?|2(\.0{1,3})?)$";

/// Splits `12.5` into its integer part and its fraction in units of 10^-`places`.
fn parse_scaled(number: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let places_given = u32::try_from(fraction.len()).ok()?;
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || places_given > places {
        return None;
    }
    let scaled_fraction = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u64>().ok()?.checked_mul(10u64.pow(places - places_given))?
    };
    whole.parse::<u64>().ok()?.checked_mul(10u64.pow(places))?.checked_add(scaled_fraction)
}

/// A span of time, written as a number with a unit: `500ms`, `2s`, `1.5s`, `5m`, `1h`, `30d`, `250us`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DurationText {
    text: String,
    microseconds: u64,
}

impl DurationText {
    /// Gives the span in microseconds.
    pub fn microseconds(&self) -> u64 {
        self.microseconds
    }

    /// Gives the span in whole seconds, rounded up, for Kubernetes fields that count seconds.
    pub fn seconds_rounded_up(&self) -> u64 {
        self.microseconds.div_ceil(1_000_000)
    }
}

impl FromStr for DurationText {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ValueError::Duration(text.to_owned());
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(invalid)?;
        let (number, unit) = text.split_at(unit_at);
        let unit_microseconds: u64 = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(invalid()),
        };
        let thousandths = parse_scaled(number, 3).ok_or_else(invalid)?;
        let microseconds = u128::from(thousandths) * u128::from(unit_microseconds) / 1_000;
        // Beyond 580,000 years one span is as long as another.
        let microseconds = u64::try_from(microseconds).unwrap_or(u64::MAX);
        Ok(Self { text: text.to_owned(), microseconds })
    }
}

/// A share, written with a percent sign: `2%`, `0.1%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent {
    text: String,
    parts_per_million: u32,
}

impl Percent {
    /// Gives the share in parts per million: `2%` is 20,000.
    pub fn parts_per_million(&self) -> u32 {
        self.parts_per_million
    }

    /// Gives the share as a ratio between 0 and 1.
    pub fn ratio(&self) -> f64 {
        f64::from(self.parts_per_million) / 1e6
    }
}

impl FromStr for Percent {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ValueError::Percent(text.to_owned());
        let number = text.strip_suffix('%').ok_or_else(invalid)?;
        let scaled = parse_scaled(number, 4).filter(|v| *v <= 1_000_000).ok_or_else(invalid)?;
        let parts_per_million = u32::try_from(scaled).map_err(|_| invalid())?;
        Ok(Self { text: text.to_owned(), parts_per_million })
    }
}

/// A number above zero, written as a string because the API has no floating point: `1.5`, `20`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PositiveDecimal {
    text: String,
    ten_thousandths: u64,
}

impl PositiveDecimal {
    /// Makes a number from ten-thousandths. `None` for zero, which is not positive, and for more than nine digits
    /// before the point.
    pub fn from_ten_thousandths(ten_thousandths: u64) -> Option<Self> {
        let (whole, fraction) = (ten_thousandths / 10_000, ten_thousandths % 10_000);
        let text = format!("{whole}.{fraction:04}").trim_end_matches('0').trim_end_matches('.').to_owned();
        text.parse().ok().filter(|_| whole < 1_000_000_000)
    }

    /// Gives the number in millionths: `1.5` is 1,500,000.
    pub fn millionths(&self) -> i64 {
        i64::try_from(self.ten_thousandths.saturating_mul(100)).unwrap_or(i64::MAX)
    }

    /// Gives the number as a floating-point value.
    pub fn value(&self) -> f64 {
        self.ten_thousandths as f64 / 1e4
    }
}

impl FromStr for PositiveDecimal {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ValueError::PositiveDecimal(text.to_owned());
        let ten_thousandths = parse_scaled(text, 4).filter(|v| *v > 0).ok_or_else(invalid)?;
        Ok(Self { text: text.to_owned(), ten_thousandths })
    }
}

/// The same, or zero: `0`, `0.5`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NonNegativeDecimal {
    text: String,
    ten_thousandths: u64,
}

impl NonNegativeDecimal {
    /// Gives the number as a floating-point value.
    pub fn value(&self) -> f64 {
        self.ten_thousandths as f64 / 1e4
    }
}

impl FromStr for NonNegativeDecimal {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ValueError::NonNegativeDecimal(text.to_owned());
        Ok(Self { text: text.to_owned(), ten_thousandths: parse_scaled(text, 4).ok_or_else(invalid)? })
    }
}

/// Declares a number of a few places that is kept in ten-thousandths.
macro_rules! small_number {
    ($(#[$doc:meta])* $type:ident, $range:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type {
            text: String,
            ten_thousandths: u32,
        }

        impl $type {
            /// Gives the number in thousandths, rounded up: what is above zero stays so.
            pub fn thousandths(&self) -> u32 {
                self.ten_thousandths.div_ceil(10)
            }
        }

        impl FromStr for $type {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let invalid = || ValueError::$type(text.to_owned());
                let scaled = parse_scaled(text, 4).and_then(|scaled| u32::try_from(scaled).ok());
                let ten_thousandths = scaled.filter(|scaled| $range.contains(scaled)).ok_or_else(invalid)?;
                Ok(Self { text: text.to_owned(), ten_thousandths })
            }
        }
    };
}

small_number!(
    /// A temperature of sampling, from 0, where the likeliest token is always taken, to 2: `0`, `0.7`.
    Temperature,
    (0..=20_000)
);
small_number!(
    /// The probability that the candidates of sampling have together, above 0 and up to 1: `0.95`.
    TopP,
    (1..=10_000)
);

/// A penalty of tokens, from -2 to 2 as in OpenAI's API: `0.5`, `-1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Penalty {
    text: String,
    thousandths: i32,
}

impl Penalty {
    /// Gives the penalty in thousandths: `0.5` is 500.
    pub fn thousandths(&self) -> i32 {
        self.thousandths
    }
}

impl FromStr for Penalty {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ValueError::Penalty(text.to_owned());
        let (sign, number) = text.strip_prefix('-').map_or((1, text), |number| (-1, number));
        let scaled = parse_scaled(number, 3).filter(|v| *v <= 2_000).ok_or_else(invalid)?;
        let thousandths = sign * i32::try_from(scaled).map_err(|_| invalid())?;
        Ok(Self { text: text.to_owned(), thousandths })
    }
}

/// Writes microseconds with so many significant digits, where possible in the form of a [`DurationText`]: `870us`,
/// `430ms`, `2.1s`.
pub fn readable_duration(microseconds: u64, digits: u32) -> String {
    let length = microseconds.checked_ilog10().map_or(1, |log| log + 1);
    let unit = 10u64.pow(length.saturating_sub(digits));
    let value = microseconds.saturating_add(unit / 2) / unit * unit;
    let decimal = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value {
        0..1_000 => format!("{value}us"),
        1_000..1_000_000 => format!("{}ms", decimal(value as f64 / 1e3)),
        _ => format!("{}s", decimal(value as f64 / 1e6)),
    }
}

/// Conversions and the schema that every text value shares.
macro_rules! text_value {
    ($type:ident, $pattern:expr, $max_length:expr) => {
        impl TryFrom<String> for $type {
            type Error = ValueError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.text
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "maxLength": $max_length })
            }
        }
    };
}

text_value!(DurationText, DURATION_PATTERN, 16);
text_value!(Percent, PERCENT_PATTERN, 12);
text_value!(PositiveDecimal, POSITIVE_DECIMAL_PATTERN, 16);
text_value!(NonNegativeDecimal, NON_NEGATIVE_DECIMAL_PATTERN, 16);
text_value!(Penalty, PENALTY_PATTERN, 8);
text_value!(Temperature, TEMPERATURE_PATTERN, 16);
text_value!(TopP, TOP_P_PATTERN, 16);

#[cfg(test)]
mod tests;
