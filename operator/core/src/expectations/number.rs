//! Numbers of a table, each with the line and the column that an error names. Pure.

use csv::StringRecord;

/// A cell of a table, as it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) line: u64,
    pub(super) column: &'static str,
    pub(super) text: &'a str,
}

impl<'a> Field<'a> {
    pub(super) fn of(record: &'a StringRecord, (line, column): (u64, &'static str), position: usize) -> Self {
        Self { line, column, text: record.get(position).unwrap_or_default().trim() }
    }

    /// A positive number.
    fn positive(self) -> Result<f64, String> {
        let number = self.text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        number.ok_or_else(|| self.refused("is not a positive number"))
    }

    /// A positive number in thousandths, at least one.
    pub(super) fn thousandths(self) -> Result<u64, String> {
        const MOST: f64 = 1e12;
        let thousandths = (self.positive()? * 1e3).round();
        if thousandths > MOST { Err(self.refused("is not below a billion")) } else { Ok((thousandths as u64).max(1)) }
    }

    /// A whole number from 1. Tables may write it as `4.0`.
    pub(super) fn count(self) -> Result<u32, String> {
        let number = self.positive()?;
        let is_whole = number.fract() == 0.0 && number <= f64::from(u32::MAX);
        if is_whole { Ok(number as u32) } else { Err(self.refused("is not a whole number")) }
    }

    fn refused(self, why: &str) -> String {
        let Self { line, column, text } = self;
        let written: String = text.chars().take(40).collect();
        format!("line {line}, column {column}: {written:?} {why}: correct the line, or remove it")
    }
}
