//! Which tables and columns an export has. Reads IO.
//!
//! Tables appear only when they have rows (`--lazy=true`, the default) and columns are added with minor versions, so
//! every query is written for the columns that exist.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::NsysError;

/// Tables of one export with their columns.
#[derive(Debug)]
pub(super) struct Schema {
    tables: HashMap<String, HashSet<String>>,
}

impl Schema {
    /// Reads the catalogue.
    pub(super) fn read(connection: &Connection) -> Result<Self, NsysError> {
        let read = || -> rusqlite::Result<_> {
            let mut names = connection.prepare("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")?;
            let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            let mut tables = HashMap::new();
            for name in names {
                let found = columns.query_map([&name], |row| row.get(0))?.collect::<Result<HashSet<String>, _>>()?;
                tables.insert(name, found);
            }
            Ok(tables)
        };
        read().map(|tables| Self { tables }).map_err(NsysError::Damaged)
    }

    /// Says whether a table exists.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Says whether a table has a column.
    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.contains(column))
    }

    /// Writes the query of some columns of a table; `wanted` that do not exist read as NULL.
    ///
    /// # Errors
    /// When one of the `needed` columns does not exist.
    pub(super) fn select(
        &self,
        table: &'static str,
        needed: &[&'static str],
        wanted: &[&str],
    ) -> Result<String, NsysError> {
        for column in needed {
            if !self.has_column(table, column) {
                return Err(NsysError::MissingColumn { table, column });
            }
        }
        let needed = needed.iter().map(|column| format!("\"{column}\""));
        let wanted = wanted.iter().map(|column| match self.has_column(table, column) {
            true => format!("\"{column}\""),
            false => "NULL".to_owned(),
        });
        Ok(format!("SELECT {} FROM {table}", needed.chain(wanted).collect::<Vec<_>>().join(", ")))
    }
}
