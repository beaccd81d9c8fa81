//! Amounts of resources: `500m`, `2Gi`, `1e3`
//! (`staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`).

use std::{cmp::Ordering, fmt};

use serde_json::{Value, json};

/// An amount, exact to a billionth, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `1k`
    Decimal,
    /// `1e3`
    Exponent,
    /// `1Ki`
    Binary,
}

const ONE: i128 = 1_000_000_000;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From a billionth on, each a thousand of the one before.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0, form: Form::Decimal };

    pub fn count(objects: usize) -> Self {
        Self { nanos: i128::try_from(objects).unwrap() * ONE, form: Form::Decimal }
    }

    /// The amount that a text says, if it says one.
    pub fn read(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let place =
            |names: &[&str]| names.iter().position(|known| *known == suffix).and_then(|at| u32::try_from(at).ok());
        let (unit, form) = if let Some(power) = place(&DECIMAL) {
            (1000_i128.checked_pow(power)?, Form::Decimal)
        } else if let Some(power) = place(&BINARY) {
            (ONE.checked_mul(1024_i128.checked_pow(power)?)?, Form::Binary)
        } else {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(exponent.checked_add(9)?.try_into().ok()?)?, Form::Exponent)
        };
        Some(Self { nanos: times(number, unit)?, form })
    }

    /// The amount in a value of JSON.
    pub fn of(value: &Value) -> Option<Self> {
        value.as_str().and_then(Self::read)
    }

    pub fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: self.nanos + other.nanos, form }
    }

    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }

    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    pub fn json(self) -> Value {
        json!(self.to_string())
    }
}

/// A number with a fraction, so many times.
fn times(number: &str, unit: i128) -> Option<i128> {
    let (sign, digits) = number.strip_prefix('-').map_or((1, number.trim_start_matches('+')), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let read = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let parts = 10_i128.checked_pow(fraction.len().try_into().ok()?)?;
    let below = read(fraction)?.checked_mul(unit)?;
    // What is less than a billionth counts as one.
    let below = below / parts + i128::from(below % parts > 0);
    Some(sign * (read(whole)?.checked_mul(unit)? + below))
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

/// As the server writes it: without a fraction, in the largest unit.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        let is_binary = self.form == Form::Binary && self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0;
        let (names, step, mut number) =
            if is_binary { (&BINARY[..], 1024, self.nanos / ONE) } else { (&DECIMAL[..], 1000, self.nanos) };
        let mut name = 0;
        while number % step == 0 && name + 1 < names.len() {
            (number, name) = (number / step, name + 1);
        }
        match (self.form, 3 * i32::try_from(name).unwrap() - 9) {
            (Form::Exponent, exponent) => write!(formatter, "{number}e{exponent}"),
            (Form::Decimal | Form::Binary, _) => write!(formatter, "{number}{}", names[name]),
        }
    }
}

/// Writes the amounts of a map as the server does. What cannot be read is left as it is.
pub fn rewrite(amounts: Option<&mut Value>) {
    for (_, amount) in amounts.and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some(quantity) = Quantity::of(amount) {
            *amount = quantity.json();
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::Quantity;

    #[rstest]
    #[case("0.5", Some("500m"))]
    #[case("2048Mi", Some("2Gi"))]
    #[case("1.5Gi", Some("1536Mi"))]
    #[case("512Ki", Some("512Ki"))]
    #[case("0.5Ki", Some("512"))]
    #[case("1500m", Some("1500m"))]
    #[case("2000m", Some("2"))]
    #[case("1500", Some("1500"))]
    #[case("1e3", Some("1e3"))]
    #[case("1e4", Some("10e3"))]
    #[case("5e0", Some("5e0"))]
    #[case("-1Gi", Some("-1Gi"))]
    #[case("0Gi", Some("0"))]
    #[case("much", None)]
    #[case("1Zi", None)]
    #[case("", None)]
    fn an_amount_is_written_in_its_largest_unit(#[case] text: &str, #[case] written: Option<&str>) {
        assert_eq!(Quantity::read(text).map(|quantity| quantity.to_string()).as_deref(), written);
    }

    #[rstest]
    #[case("0", "1Gi", "1Gi")]
    #[case("1Gi", "512Mi", "1536Mi")]
    #[case("500m", "0.5", "1")]
    #[case("1k", "24", "1024")]
    fn a_sum_is_written_as_its_first_part_is(#[case] one: &str, #[case] other: &str, #[case] sum: &str) {
        let [one, other] = [one, other].map(|text| Quantity::read(text).unwrap());
        assert_eq!(one.plus(other).to_string(), sum);
    }
}
