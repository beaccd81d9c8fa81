//! Builds SQLite exports as Nsight Systems 2024.6 writes them (schema 3.16), table by table.

use std::{collections::HashMap, path::Path};

use rusqlite::{Connection, params};
use slipway_trace::{Intake, PhaseSource, analyze, format::Format, nsys, report::Report, spans};

use super::chrome::{intake, options};

/// Unix time of the session's start, nanoseconds.
pub const SESSION: i64 = 1_700_000_000_000_000_000;

/// An export under construction; times are microseconds.
pub struct Export {
    pub connection: Connection,
    file: tempfile::NamedTempFile,
    strings: HashMap<String, i64>,
}

const SCHEMA: &str = r#"
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.16.1');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER);
"#;
const KERNELS: &str = r#"CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, "end" INTEGER NOT NULL,
 deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
 demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, graphNodeId INTEGER)"#;
const CALLS: &str = r#"CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, "end" INTEGER NOT NULL,
 eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL)"#;
const RANGES: &str = r#"CREATE TABLE IF NOT EXISTS NVTX_EVENTS (start INTEGER NOT NULL, "end" INTEGER, eventType INTEGER NOT NULL,
 rangeId INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER)"#;
const GRAPHS: &str = r#"CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, "end" INTEGER NOT NULL,
 deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
 graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL)"#;
const COPIES: &str = r#"CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, "end" INTEGER NOT NULL,
 deviceId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL)"#;
const MEMORY: &str = r#"CREATE TABLE IF NOT EXISTS CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
 deviceId INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL)"#;
const METRICS: &str = r#"
CREATE TABLE IF NOT EXISTS GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL,
 value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL,
 metricId INTEGER NOT NULL, metricName TEXT NOT NULL);"#;

/// Serialises ids as Nsight Systems does: pid in bits 24 to 47, tid below.
pub const fn global(pid: i64, tid: i64) -> i64 {
    1 << 48 | pid << 24 | tid
}

/// The process of most fixtures.
pub const PID: i64 = 100;

/// An export with a start time and no activity.
pub fn export() -> Export {
    let export = export_without_clock();
    export.connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, '', '')", [SESSION]).unwrap();
    export
}

/// An export whose start is not known.
pub fn export_without_clock() -> Export {
    let file = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;").unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    Export { connection, file, strings: HashMap::new() }
}

impl Export {
    fn string(&mut self, text: &str) -> i64 {
        // Ids start high, so that no test passes because an id happens to be a row number.
        let next = 4_000 + self.strings.len() as i64;
        *self.strings.entry(text.to_owned()).or_insert_with(|| {
            self.connection.execute("INSERT INTO StringIds VALUES (?1, ?2)", params![next, text]).unwrap();
            next
        })
    }

    fn table(&self, create: &str) {
        self.connection.execute_batch(create).unwrap();
    }

    /// A kernel of a process on a device.
    pub fn kernel_of(
        mut self,
        pid: i64,
        (start, length): (i64, i64),
        device: i64,
        name: &str,
        correlation: i64,
    ) -> Self {
        self.table(KERNELS);
        let name = self.string(name);
        self.connection
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, 7, ?4, ?5, ?6, ?6, ?6, NULL)",
                params![start * 1_000, (start + length) * 1_000, device, correlation, global(pid, 0), name],
            )
            .unwrap();
        self
    }

    /// A kernel on a device.
    pub fn kernel(self, span: (i64, i64), device: i64, name: &str, correlation: i64) -> Self {
        self.kernel_of(PID, span, device, name, correlation)
    }

    /// A CUDA call of the main thread of a process.
    pub fn call_of(mut self, pid: i64, (start, length): (i64, i64), name: &str, correlation: i64) -> Self {
        self.table(CALLS);
        let name = self.string(name);
        self.connection
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0)",
                params![start * 1_000, (start + length) * 1_000, global(pid, pid), correlation, name],
            )
            .unwrap();
        self
    }

    /// A CUDA call of the main thread.
    pub fn call(self, span: (i64, i64), name: &str, correlation: i64) -> Self {
        self.call_of(PID, span, name, correlation)
    }

    /// A launch that takes a microsecond, and its kernel.
    pub fn launch(self, at: i64, kernel: (i64, i64), name: &str, correlation: i64) -> Self {
        self.call((at, 1), "cudaLaunchKernel_v7000", correlation).kernel(kernel, 0, name, correlation)
    }

    /// An NVTX push/pop range of the main thread whose text is registered (a key of StringIds).
    pub fn range(mut self, (start, length): (i64, i64), name: &str) -> Self {
        self.table(RANGES);
        let id = self.string(name);
        self.connection
            .execute(
                "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, NULL, ?3, NULL, ?4, 0)",
                params![start * 1_000, (start + length) * 1_000, global(PID, PID), id],
            )
            .unwrap();
        self
    }

    /// An NVTX start/end range with its text in the row.
    pub fn process_range(self, (start, length): (i64, i64), name: &str) -> Self {
        self.table(RANGES);
        self.connection
            .execute(
                "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 60, 1, ?3, ?4, ?4, NULL, 0)",
                params![start * 1_000, (start + length) * 1_000, name, global(PID, PID)],
            )
            .unwrap();
        self
    }

    /// A CUDA graph captured as a whole.
    pub fn graph(self, (start, length): (i64, i64), correlation: i64) -> Self {
        self.table(GRAPHS);
        self.connection
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?1, ?2, 0, 1, 7, ?3, ?4, 12, 13)",
                params![start * 1_000, (start + length) * 1_000, correlation, global(PID, 0)],
            )
            .unwrap();
        self
    }

    /// A copy on device 0; kind 1 is host to device.
    pub fn copy(self, (start, length): (i64, i64), bytes: i64, kind: i64) -> Self {
        self.table(COPIES);
        self.connection
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?1, ?2, 0, 900, ?3, ?4, ?5)",
                params![start * 1_000, (start + length) * 1_000, global(PID, 0), bytes, kind],
            )
            .unwrap();
        self
    }

    /// An allocation (positive) or release (negative) of device memory.
    pub fn memory(self, at: i64, bytes: i64) -> Self {
        self.table(MEMORY);
        self.connection
            .execute(
                "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?1, ?2, 0, ?3, 2, ?4)",
                params![at * 1_000, global(PID, 0), bytes.abs(), i64::from(bytes < 0)],
            )
            .unwrap();
        self
    }

    /// A sample of GPU metrics of GPU 0.
    pub fn metric(mut self, at: i64, name: &str, value: i64) -> Self {
        self.table(METRICS);
        let (kind, id) = (0x0100_0000_0000_0000_i64, self.string(name));
        self.connection
            .execute("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?1, 0, 'g', ?2, ?3)", params![kind, id, name])
            .unwrap();
        self.connection
            .execute("INSERT INTO GPU_METRICS VALUES (?1, ?1, ?2, ?3, ?4)", params![at * 1_000, kind, id, value])
            .unwrap();
        self
    }

    /// Names GPU 0.
    pub fn on(self, name: &str) -> Self {
        self.connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, ?1, 85899345920)", [name]).unwrap();
        self
    }

    /// The GPU behind `deviceId` 0 of each process.
    pub fn gpu_of(self, pid: i64, gpu: i64) -> Self {
        self.table("CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)");
        self.connection.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?1, 0, ?2, '')", [gpu, pid]).unwrap();
        self
    }

    /// Changes the database with statements.
    pub fn with(self, statements: &str) -> Self {
        self.table(statements);
        self
    }

    /// The file, written out.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The report.
    pub fn report(&self) -> Report {
        analyze(self.read().finish(), options(Format::Nsys, PhaseSource::Ranges)).unwrap()
    }

    /// The report with spans of the agent runtime, as (phase, start, length) in microseconds of the session.
    pub fn report_with_spans(&self, lines: &[(&str, i64, i64)]) -> Report {
        let mut intake = self.read();
        let lines: String = lines
            .iter()
            .map(|(phase, start, length)| {
                let (from, to) = (SESSION + start * 1_000, SESSION + (start + length) * 1_000);
                format!("{{\"runId\":\"a\",\"phase\":\"{phase}\",\"startUnixNanos\":{from},\"endUnixNanos\":{to}}}\n")
            })
            .collect();
        spans::read(lines.as_bytes(), &mut intake).unwrap();
        analyze(intake.finish(), options(Format::Nsys, PhaseSource::Spans)).unwrap()
    }

    /// What the reader says about a file it refuses.
    pub fn refusal(&self) -> String {
        nsys::read(self.path(), &mut intake()).unwrap_err().to_string()
    }

    fn read(&self) -> Intake {
        let mut intake = intake();
        nsys::read(self.path(), &mut intake).unwrap();
        intake
    }
}
