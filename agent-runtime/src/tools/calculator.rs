//! Exact arithmetic on integers and decimals: `+ - * /`, signs and parentheses. Pure.
//!
//! Values are fractions of 128-bit integers, so nothing is rounded on the way: `0.1+0.2` is `0.3` and `1/3*3` is `1`.
//! A result without a finite decimal form is rounded to [`DECIMALS`] places, half away from zero.

mod fraction;

pub use fraction::DECIMALS;
use fraction::Fraction;

/// Deep enough for any expression a person writes; bounds the recursion.
const MAX_DEPTH: u32 = 64;

/// Why an expression has no value. Written for the model, which reads it as an observation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalculatorError {
    /// Nothing to calculate.
    #[error("the expression is empty")]
    Empty,
    /// A character that has no place there.
    #[error("unexpected {found:?} at position {position}")]
    Unexpected {
        /// What stands there.
        found: char,
        /// Its position, from one.
        position: usize,
    },
    /// The expression stops where an operand or a parenthesis is due.
    #[error("the expression ends too early")]
    EndsEarly,
    /// A divisor is zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A number or an intermediate result does not fit.
    #[error("a number is too large")]
    Overflow,
    /// Too many nested parentheses or signs.
    #[error("the expression is nested too deeply")]
    TooDeep,
}

/// Evaluates an expression and writes its value as a decimal number.
///
/// # Errors
/// See [`CalculatorError`].
pub fn evaluate(expression: &str) -> Result<String, CalculatorError> {
    let mut parser = Parser { characters: expression.chars().collect(), position: 0, depth: 0 };
    if parser.peek().is_none() {
        return Err(CalculatorError::Empty);
    }
    let value = parser.sum()?;
    match parser.peek() {
        None => value.to_decimal(),
        Some(_) => Err(parser.unexpected()),
    }
}

/// Recursive descent over `sum = product (("+"|"-") product)*`, `product = factor (("*"|"/") factor)*`,
/// `factor = ("+"|"-") factor | "(" sum ")" | number`.
struct Parser {
    characters: Vec<char>,
    position: usize,
    depth: u32,
}

impl Parser {
    fn sum(&mut self) -> Result<Fraction, CalculatorError> {
        let mut value = self.product()?;
        loop {
            value = if self.take('+') {
                value.add(self.product()?)?
            } else if self.take('-') {
                value.add(self.product()?.negate()?)?
            } else {
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<Fraction, CalculatorError> {
        let mut value = self.factor()?;
        loop {
            value = if self.take('*') {
                value.multiply(self.factor()?)?
            } else if self.take('/') {
                value.multiply(self.factor()?.invert()?)?
            } else {
                return Ok(value);
            };
        }
    }

    fn factor(&mut self) -> Result<Fraction, CalculatorError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CalculatorError::TooDeep);
        }
        let value = if self.take('-') {
            self.factor()?.negate()?
        } else if self.take('+') {
            self.factor()?
        } else if self.take('(') {
            let inner = self.sum()?;
            if !self.take(')') {
                return Err(self.unexpected());
            }
            inner
        } else {
            self.number()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<Fraction, CalculatorError> {
        let whole = self.digits();
        let decimals = if self.characters.get(self.position) == Some(&'.') {
            self.position += 1;
            self.digits()
        } else {
            String::new()
        };
        if whole.is_empty() && decimals.is_empty() {
            return Err(self.unexpected());
        }
        Fraction::parse(&whole, &decimals)
    }

    fn digits(&mut self) -> String {
        let rest = &self.characters[self.position..];
        let digits: String = rest.iter().take_while(|c| c.is_ascii_digit()).collect();
        self.position += digits.len();
        digits
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.position).is_some_and(|c| c.is_whitespace()) {
            self.position += 1;
        }
        self.characters.get(self.position).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.position += usize::from(is_next);
        is_next
    }

    fn unexpected(&mut self) -> CalculatorError {
        match self.peek() {
            Some(found) => CalculatorError::Unexpected { found, position: self.position + 1 },
            None => CalculatorError::EndsEarly,
        }
    }
}

#[cfg(test)]
mod tests;
