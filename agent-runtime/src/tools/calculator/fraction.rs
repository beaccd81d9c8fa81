//! Fractions of 128-bit integers in lowest terms. Pure.

use super::CalculatorError;

/// Decimal places of a result that has no finite decimal form.
pub const DECIMALS: u32 = 12;

/// The most decimal places of a finite decimal that is written in full.
const MAX_EXACT_DECIMALS: u32 = 36;

/// # Invariants
/// The denominator is positive and the two have no common divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    /// The number with these digits before and after the point; either may be empty.
    pub(super) fn parse(whole: &str, decimals: &str) -> Result<Self, CalculatorError> {
        let decimals = decimals.trim_end_matches('0');
        let digits = format!("0{whole}{decimals}");
        let numerator = digits.parse().map_err(|_| CalculatorError::Overflow)?;
        let places = u32::try_from(decimals.len()).map_err(|_| CalculatorError::Overflow)?;
        Self::reduced(numerator, power_of_ten(places)?)
    }

    pub(super) fn add(self, other: Self) -> Result<Self, CalculatorError> {
        // Over the least common denominator, so that sums of like fractions do not overflow early.
        let common = gcd(self.denominator, other.denominator);
        let left = checked(self.numerator.checked_mul(other.denominator / common))?;
        let right = checked(other.numerator.checked_mul(self.denominator / common))?;
        let denominator = checked((self.denominator / common).checked_mul(other.denominator))?;
        Self::reduced(checked(left.checked_add(right))?, denominator)
    }

    pub(super) fn multiply(self, other: Self) -> Result<Self, CalculatorError> {
        // Crosswise reduction first, for the same reason.
        let (a, d) = reduce(self.numerator, other.denominator);
        let (c, b) = reduce(other.numerator, self.denominator);
        Self::reduced(checked(a.checked_mul(c))?, checked(b.checked_mul(d))?)
    }

    pub(super) fn negate(self) -> Result<Self, CalculatorError> {
        Ok(Self { numerator: checked(self.numerator.checked_neg())?, ..self })
    }

    pub(super) fn invert(self) -> Result<Self, CalculatorError> {
        if self.numerator == 0 {
            return Err(CalculatorError::DivisionByZero);
        }
        let sign = self.numerator.signum();
        Self::reduced(checked(self.denominator.checked_mul(sign))?, checked(self.numerator.checked_mul(sign))?)
    }

    pub(super) fn to_decimal(self) -> Result<String, CalculatorError> {
        let places = self.exact_places().unwrap_or(DECIMALS);
        let scale = power_of_ten(places)?;
        let whole = self.numerator / self.denominator;
        // The remainder alone is scaled, and place by place, so that only results that do not fit overflow.
        let mut remainder = (self.numerator % self.denominator).unsigned_abs();
        let denominator = self.denominator.unsigned_abs();
        let mut fraction: u128 = 0;
        for _ in 0..places {
            let scaled = remainder.checked_mul(10).ok_or(CalculatorError::Overflow)?;
            fraction = fraction * 10 + scaled / denominator;
            remainder = scaled % denominator;
        }
        if remainder >= denominator - remainder {
            fraction += 1;
        }
        let carry = fraction / scale.unsigned_abs();
        let whole = checked(whole.unsigned_abs().checked_add(carry))?;
        Ok(write_decimal(self.numerator < 0, whole, fraction % scale.unsigned_abs(), places))
    }

    /// How many decimal places the value needs; `None` when they do not end.
    fn exact_places(self) -> Option<u32> {
        let mut rest = self.denominator;
        let mut count = |divisor: i128| {
            let mut times = 0;
            while rest % divisor == 0 {
                rest /= divisor;
                times += 1;
            }
            times
        };
        let places = count(2).max(count(5));
        (rest == 1 && places <= MAX_EXACT_DECIMALS).then_some(places)
    }

    fn reduced(numerator: i128, denominator: i128) -> Result<Self, CalculatorError> {
        // The smallest i128 has no absolute value; leaving it out keeps every later step total.
        if numerator == i128::MIN {
            return Err(CalculatorError::Overflow);
        }
        let (numerator, denominator) = reduce(numerator, denominator);
        Ok(Self { numerator, denominator })
    }
}

fn write_decimal(is_negative: bool, whole: u128, fraction: u128, places: u32) -> String {
    let sign = if is_negative && (whole, fraction) != (0, 0) { "-" } else { "" };
    let digits = if places == 0 { String::new() } else { format!("{fraction:0width$}", width = places as usize) };
    match digits.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        decimals => format!("{sign}{whole}.{decimals}"),
    }
}

fn reduce(a: i128, b: i128) -> (i128, i128) {
    match gcd(a, b) {
        0 => (a, b),
        divisor => (a / divisor, b / divisor),
    }
}

/// Neither argument is `i128::MIN`: `reduced` lets no such value in.
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn power_of_ten(places: u32) -> Result<i128, CalculatorError> {
    checked(10_i128.checked_pow(places))
}

fn checked<T>(value: Option<T>) -> Result<T, CalculatorError> {
    value.ok_or(CalculatorError::Overflow)
}
