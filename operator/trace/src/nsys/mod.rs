//! Reads the SQLite export of Nsight Systems (`nsys export --type=sqlite`). Reads IO.
//!
//! Format: "SQLite Schema Reference" of the Nsight Systems documentation, exports of 2024.6 (schema 3.16) to 2026.4
//! (3.28). Times are nanoseconds since the session's start; `TARGET_INFO_SESSION_START_TIME.utcEpochNs` puts that on
//! the wall clock. Each table is read once, row by row, in the order it is stored; nothing is sorted or indexed inside
//! SQLite.

mod codes;
mod schema;
mod tables;

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use self::{schema::Schema, tables::Export};
use super::{intake::Intake, sort::SortError};

/// Why a file is not a usable export.
#[derive(Debug, thiserror::Error)]
pub enum NsysError {
    /// The file cannot be opened.
    #[error("failed to open the export")]
    Open(#[source] rusqlite::Error),
    /// SQLite cannot read a page.
    #[error(
        "the export is cut off or damaged; write it again with `nsys export --type=sqlite --force-overwrite=true \
         --output=x.sqlite x.nsys-rep`"
    )]
    Damaged(#[source] rusqlite::Error),
    /// A database of something else.
    #[error("this SQLite file is not an export of Nsight Systems: table StringIds is missing")]
    NotAnExport,
    /// Nothing ran on a GPU, or it was not traced.
    #[error(
        "table CUPTI_ACTIVITY_KIND_KERNEL is missing: the capture holds no GPU work; trace CUDA (`nsys profile \
         --trace=cuda,nvtx,osrt --cuda-graph-trace=node`) while the model runs, in the process tree that owns the GPU"
    )]
    NoKernels,
    /// A column that every known version has.
    #[error("column {column} of table {table} is missing; write the export with Nsight Systems 2022.1 or later")]
    MissingColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// A row cannot be read.
    #[error("failed to read table {table}")]
    Rows {
        /// The table.
        table: &'static str,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A later file has no start time.
    #[error(
        "table TARGET_INFO_SESSION_START_TIME is missing, so several exports cannot be aligned; analyse this file alone"
    )]
    NoClock,
    /// The records could not be kept.
    #[error("failed to keep the records")]
    Keep(#[source] SortError),
}

impl NsysError {
    /// Tells a damaged file from a row of an unexpected type.
    fn of_rows(table: &'static str, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure) => {
                Self::Damaged(source)
            }
            _ => Self::Rows { table, source },
        }
    }
}

/// Reads one export into the intake.
///
/// # Errors
/// When the file is damaged, is not an export, or holds no GPU work.
pub fn read(path: &Path, intake: &mut Intake) -> Result<(), NsysError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(NsysError::Open)?;
    let schema = Schema::read(&connection)?;
    if !schema.has("StringIds") {
        return Err(NsysError::NotAnExport);
    }
    let mut export = Export::new(&connection, &schema, intake)?;
    export.read()
}
