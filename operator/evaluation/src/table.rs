//! Reading CSV tables. Reads files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::InputError;

/// A CSV file in memory: cells as written, columns by name.
#[derive(Debug, Clone)]
pub struct Table {
    path: PathBuf,
    columns: HashMap<String, usize>,
    rows: Vec<csv::StringRecord>,
}

impl Table {
    /// Reads a CSV file whose first line names the columns; a name that ends in `.gz` is unpacked.
    ///
    /// # Errors
    /// [`InputError::Read`] when the file cannot be opened, [`InputError::Parse`] when a line has another number of
    /// cells than the header, [`InputError::Value`] when it has no rows or names a column twice.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let file = File::open(path).map_err(|source| InputError::Read { path: path.to_owned(), source })?;
        let remedy = "every line needs as many cells as the header";
        let parse = |e: csv::Error| InputError::Parse { path: path.to_owned(), remedy, source: Box::new(e) };
        let packed = path.extension().is_some_and(|extension| extension == "gz");
        let file: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut reader = csv::Reader::from_reader(BufReader::new(file));
        let mut columns = HashMap::new();
        for (index, name) in reader.headers().map_err(parse)?.iter().enumerate() {
            if columns.insert(name.trim().to_owned(), index).is_some() {
                return Err(input(path, &format!("column {name}"), "named twice in the header", "rename one of them"));
            }
        }
        let rows = reader.into_records().collect::<Result<Vec<_>, _>>().map_err(parse)?;
        if rows.is_empty() {
            return Err(input(path, "line 2", "the table has no rows", "give at least one row of measurements"));
        }
        Ok(Self { path: path.to_owned(), columns, rows })
    }

    /// Number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The cells of a column as written, trimmed.
    ///
    /// # Errors
    /// [`InputError::Value`] when no column has this name; the message lists those that exist.
    pub fn texts(&self, column: &str) -> Result<Vec<&str>, InputError> {
        let index = self.index(column)?;
        Ok(self.rows.iter().map(|row| row.get(index).unwrap_or("").trim()).collect())
    }

    /// The cells of a column as numbers; an empty cell is `None`.
    ///
    /// # Errors
    /// [`InputError::Value`] when no column has this name, or a cell is neither empty nor a finite number.
    pub fn numbers(&self, column: &str) -> Result<Vec<Option<f64>>, InputError> {
        let mut numbers = Vec::with_capacity(self.rows.len());
        for (index, text) in self.texts(column)?.into_iter().enumerate() {
            if text.is_empty() {
                numbers.push(None);
                continue;
            }
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => numbers.push(Some(number)),
                Ok(_) | Err(_) => {
                    let place = format!("line {}, column {column}", index + 2);
                    let problem = format!("{text:?} is not a finite number");
                    return Err(input(
                        &self.path,
                        &place,
                        &problem,
                        "write a number, or leave the cell of a failed run empty",
                    ));
                }
            }
        }
        Ok(numbers)
    }

    /// The cells of a column that may not be empty, as numbers.
    ///
    /// # Errors
    /// As [`Table::numbers`], and [`InputError::Value`] when a cell is empty.
    pub fn filled(&self, column: &str) -> Result<Vec<f64>, InputError> {
        let filled = |(index, cell): (usize, Option<f64>)| {
            cell.ok_or_else(|| {
                let place = format!("line {}, column {column}", index + 2);
                input(&self.path, &place, "the cell is empty", "every row needs a number here")
            })
        };
        self.numbers(column)?.into_iter().enumerate().map(filled).collect()
    }

    /// Whether a column has this name.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    fn index(&self, column: &str) -> Result<usize, InputError> {
        self.columns.get(column).copied().ok_or_else(|| {
            let mut names: Vec<&str> = self.columns.keys().map(String::as_str).collect();
            names.sort_unstable();
            let remedy = format!("use one of its columns: {}", names.join(", "));
            input(&self.path, &format!("column {column}"), "the table has no such column", &remedy)
        })
    }
}

fn input(path: &Path, place: &str, problem: &str, remedy: &str) -> InputError {
    InputError::Value { path: path.to_owned(), place: place.into(), problem: problem.into(), remedy: remedy.into() }
}
