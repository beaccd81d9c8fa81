//! The tables, row by row. Reads IO.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, Row, types::ValueRef};

use super::{
    NsysError, Schema,
    codes::{DEVICE_MEMORY_KINDS, PROCESS_MASK, RangeKind, copy_kind, counter, process_id},
};
use crate::{
    intake::Intake,
    record::{Correlation, Device, Event, NameId, Record, Thread, WallClock},
};

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const RANGES: &str = "NVTX_EVENTS";
const MEMORY: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
const OVERHEAD: &str = "PROFILER_OVERHEAD";
const METRICS: &str = "GPU_METRICS";

/// One export while it is read.
pub(super) struct Export<'a> {
    connection: &'a Connection,
    schema: &'a Schema,
    intake: &'a mut Intake,
    file: usize,
    strings: CachedStatement<'a>,
    names: HashMap<i64, NameId>,
    gpus: HashMap<(i64, i64), u32>,
    last_end: i64,
    without_end: u64,
}

impl<'a> Export<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        schema: &'a Schema,
        intake: &'a mut Intake,
    ) -> Result<Self, NsysError> {
        let strings =
            connection.prepare_cached("SELECT value FROM StringIds WHERE id = ?1").map_err(NsysError::Damaged)?;
        let file = intake.begin_file();
        Ok(Self {
            connection,
            schema,
            intake,
            file,
            strings,
            names: HashMap::new(),
            gpus: HashMap::new(),
            last_end: i64::MIN,
            without_end: 0,
        })
    }

    pub(super) fn read(&mut self) -> Result<(), NsysError> {
        self.clock()?;
        self.gpu_numbers()?;
        let (kernels, graphs) = (self.kernels()?, self.graphs()?);
        if kernels + graphs == 0 {
            return Err(NsysError::NoKernels);
        }
        if graphs > 0 {
            self.warn(format!(
                "{graphs} CUDA graphs were captured as a whole ({GRAPHS}), so their kernels are missing from every table \
                 by kernel; capture with --cuda-graph-trace=node"
            ));
        }
        self.copies()?;
        self.sets()?;
        self.calls()?;
        self.ranges()?;
        self.memory()?;
        self.overhead()?;
        self.metrics()?;
        self.describe()
    }

    fn clock(&mut self) -> Result<(), NsysError> {
        let table = "TARGET_INFO_SESSION_START_TIME";
        let mut origin = None;
        if self.schema.has_column(table, "utcEpochNs") {
            self.rows(table, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1", |_, row| {
                origin = row.get::<_, Option<i64>>(0)?;
                Ok(None)
            })?;
        }
        match origin {
            Some(origin_unix_nanos) => self.intake.set_clock(WallClock { origin_unix_nanos }),
            None if self.file > 0 => return Err(NsysError::NoClock),
            None => {}
        }
        Ok(())
    }

    /// `deviceId` counts within a process: ranks that each see one GPU all say 0. This table holds the GPU behind it.
    fn gpu_numbers(&mut self) -> Result<(), NsysError> {
        let table = "TARGET_INFO_CUDA_DEVICE";
        if !self.schema.has_column(table, "pid") || !self.schema.has_column(table, "cudaId") {
            return Ok(());
        }
        let query = self.schema.select(table, &["pid", "cudaId", "gpuId"], &[])?;
        self.rows(table, &query, |export, row| {
            export.gpus.insert((row.get(0)?, row.get(1)?), row.get(2)?);
            Ok(None)
        })?;
        Ok(())
    }

    fn kernels(&mut self) -> Result<u64, NsysError> {
        if !self.schema.has(KERNELS) {
            return Ok(0);
        }
        let names = ["demangledName", "shortName", "mangledName"];
        if !names.iter().any(|column| self.schema.has_column(KERNELS, column)) {
            return Err(NsysError::MissingColumn { table: KERNELS, column: "shortName" });
        }
        let wanted = ["correlationId", "globalPid", names[0], names[1], names[2]];
        let query = self.schema.select(KERNELS, &["start", "end", "deviceId"], &wanted)?;
        self.rows(KERNELS, &query, |export, row| {
            let device = export.device(row.get(2)?, row.get(4)?);
            let correlation = export.correlation(row.get(3)?, row.get(4)?);
            let mut name = None;
            for column in 5..8 {
                name = name.or(export.name(row.get_ref(column)?)?);
            }
            let name = name.unwrap_or_else(|| export.intake.names.intern("(kernel without a name)"));
            export.ends_at(row.get(1)?);
            Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Kernel { device, name, correlation })))
        })
    }

    fn graphs(&mut self) -> Result<u64, NsysError> {
        if !self.schema.has(GRAPHS) {
            return Ok(0);
        }
        let wanted = ["correlationId", "globalPid", "graphId"];
        let query = self.schema.select(GRAPHS, &["start", "end", "deviceId"], &wanted)?;
        self.rows(GRAPHS, &query, |export, row| {
            let device = export.device(row.get(2)?, row.get(4)?);
            let correlation = export.correlation(row.get(3)?, row.get(4)?);
            let graph = row.get::<_, Option<i64>>(5)?.unwrap_or(0);
            let name = export.intake.names.intern(&format!("CUDA graph {graph}"));
            export.ends_at(row.get(1)?);
            Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Graph { device, name, correlation })))
        })
    }

    fn copies(&mut self) -> Result<u64, NsysError> {
        if !self.schema.has(COPIES) {
            return Ok(0);
        }
        let wanted = ["correlationId", "globalPid", "bytes", "copyKind"];
        let query = self.schema.select(COPIES, &["start", "end", "deviceId"], &wanted)?;
        self.rows(COPIES, &query, |export, row| {
            let device = export.device(row.get(2)?, row.get(4)?);
            let correlation = export.correlation(row.get(3)?, row.get(4)?);
            let bytes = row.get::<_, Option<i64>>(5)?.unwrap_or(0).unsigned_abs();
            let kind = copy_kind(row.get(6)?);
            Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Copy { device, kind, bytes, correlation })))
        })
    }

    fn sets(&mut self) -> Result<u64, NsysError> {
        if !self.schema.has(SETS) {
            return Ok(0);
        }
        let query =
            self.schema.select(SETS, &["start", "end", "deviceId"], &["correlationId", "globalPid", "bytes"])?;
        self.rows(SETS, &query, |export, row| {
            let device = export.device(row.get(2)?, row.get(4)?);
            let correlation = export.correlation(row.get(3)?, row.get(4)?);
            let bytes = row.get::<_, Option<i64>>(5)?.unwrap_or(0).unsigned_abs();
            Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Set { device, bytes, correlation })))
        })
    }

    fn calls(&mut self) -> Result<(), NsysError> {
        if !self.schema.has(CALLS) {
            self.warn(format!("table {CALLS} is missing: launches, allocations and waits of the host are unknown"));
            return Ok(());
        }
        let query = self.schema.select(CALLS, &["start", "end", "nameId"], &["globalTid", "correlationId"])?;
        self.rows(CALLS, &query, |export, row| {
            let global = row.get::<_, Option<i64>>(3)?;
            let thread = export.thread(global);
            let correlation = export.correlation(row.get(4)?, global);
            let Some(name) = export.name(row.get_ref(2)?)? else { return Ok(None) };
            Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Api { thread, name, correlation })))
        })?;
        Ok(())
    }

    fn ranges(&mut self) -> Result<(), NsysError> {
        if !self.schema.has(RANGES) {
            self.warn(format!("table {RANGES} is missing: nothing can be attributed to ranges; trace nvtx as well"));
            return Ok(());
        }
        let wanted = ["end", "eventType", "globalTid", "text", "textId"];
        let query = self.schema.select(RANGES, &["start"], &wanted)?;
        self.rows(RANGES, &query, |export, row| {
            let kind = RangeKind::of(row.get(2)?);
            let Some(kind) = kind else { return Ok(None) };
            let (start, end) = (row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?);
            let text = match export.name(row.get_ref(4)?)? {
                Some(name) => Some(name),
                None => export.name(row.get_ref(5)?)?,
            };
            let Some(name) = text else { return Ok(None) };
            if end.is_none() {
                export.without_end += 1;
            }
            let end = end.unwrap_or(export.last_end);
            let event = match kind {
                RangeKind::Thread => Event::Range { thread: export.thread(row.get(3)?), name },
                RangeKind::Process => Event::ProcessRange { name },
            };
            Ok(Some(Record::new(start, end, event)))
        })?;
        if self.without_end > 0 {
            self.warn(format!("{} NVTX ranges were open when the capture ended and end there", self.without_end));
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<(), NsysError> {
        if !self.schema.has(MEMORY) {
            return Ok(());
        }
        let needed = ["start", "deviceId", "bytes", "memoryOperationType"];
        let query = self.schema.select(MEMORY, &needed, &["memKind", "globalPid"])?;
        self.rows(MEMORY, &query, |export, row| {
            let on_device = row.get::<_, Option<i64>>(4)?.is_none_or(|kind| DEVICE_MEMORY_KINDS.contains(&kind));
            if !on_device {
                return Ok(None);
            }
            let device = export.device(row.get(1)?, row.get(5)?);
            let bytes = row.get::<_, i64>(2)?;
            let bytes = if row.get::<_, i64>(3)? == 0 { bytes } else { -bytes };
            Ok(Some(Record::new(row.get(0)?, row.get(0)?, Event::MemoryDelta { device, bytes })))
        })?;
        Ok(())
    }

    fn overhead(&mut self) -> Result<(), NsysError> {
        if !self.schema.has(OVERHEAD) {
            return Ok(());
        }
        let query = self.schema.select(OVERHEAD, &["start", "end"], &[])?;
        self.rows(OVERHEAD, &query, |_, row| Ok(Some(Record::new(row.get(0)?, row.get(1)?, Event::Overhead))))?;
        Ok(())
    }

    /// `metricId` is not stable between versions: metrics are chosen by name and joined on (typeId, metricId).
    fn metrics(&mut self) -> Result<(), NsysError> {
        let table = "TARGET_INFO_GPU_METRICS";
        if !self.schema.has(METRICS) || !self.schema.has(table) {
            return Ok(());
        }
        let mut counters = HashMap::new();
        let query = self.schema.select(table, &["metricId", "metricName"], &["typeId"])?;
        self.rows(table, &query, |_, row| {
            if let Some(counter) = counter(row.get_ref(1)?.as_str().unwrap_or_default()) {
                counters.insert((row.get::<_, Option<i64>>(2)?, row.get::<_, i64>(0)?), counter);
            }
            Ok(None)
        })?;
        let query = self.schema.select(METRICS, &["timestamp", "typeId", "metricId", "value"], &[])?;
        self.rows(METRICS, &query, |export, row| {
            let (kind, metric) = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?);
            let counter = counters.get(&(Some(kind), metric)).or_else(|| counters.get(&(None, metric)));
            let gpu = u32::try_from(kind & 0xff).unwrap_or(0);
            let (Some(&counter), Some(device)) = (counter, export.intake.known_device(export.file, gpu)) else {
                return Ok(None);
            };
            let milli_percent = (row.get::<_, f64>(3)?.clamp(0.0, 1_000.0) * 1_000.0) as u32;
            let at = row.get(0)?;
            Ok(Some(Record::new(at, at, Event::Sample { device, counter, milli_percent })))
        })?;
        Ok(())
    }

    fn describe(&mut self) -> Result<(), NsysError> {
        let table = "META_DATA_EXPORT";
        if self.schema.has(table) {
            let query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'";
            self.rows(table, query, |export, row| {
                let version = row.get_ref(0)?.as_str().unwrap_or_default().to_owned();
                export.intake.source.schema_version.get_or_insert(version);
                Ok(None)
            })?;
        }
        let table = "TARGET_INFO_GPU";
        if self.schema.has(table) {
            let query = self.schema.select(table, &["id"], &["name", "totalMemory"])?;
            self.rows(table, &query, |export, row| {
                let (id, name) = (row.get(0)?, row.get::<_, Option<String>>(1)?);
                let memory = row.get::<_, Option<i64>>(2)?.and_then(|bytes| u64::try_from(bytes).ok());
                export.intake.describe_device(export.file, id, |device| {
                    (device.name, device.memory_bytes) = (name, memory);
                });
                Ok(None)
            })?;
        }
        Ok(())
    }

    /// Runs a query and keeps the records that `record` makes of its rows; returns how many.
    fn rows(
        &mut self,
        table: &'static str,
        query: &str,
        mut record: impl FnMut(&mut Self, &Row<'_>) -> rusqlite::Result<Option<Record>>,
    ) -> Result<u64, NsysError> {
        let failed = |source| NsysError::of_rows(table, source);
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut kept = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            if let Some(record) = record(self, row).map_err(failed)? {
                self.intake.push(record).map_err(NsysError::Keep)?;
                kept += 1;
            }
        }
        Ok(kept)
    }

    /// Resolves a name: an integer is a key of StringIds (shortName, nameId, textId), a text is the name itself.
    fn name(&mut self, value: ValueRef<'_>) -> rusqlite::Result<Option<NameId>> {
        let key = match value {
            ValueRef::Integer(key) => key,
            ValueRef::Text(text) => return Ok(Some(self.intake.names.intern(&String::from_utf8_lossy(text)))),
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => return Ok(None),
        };
        if let Some(&name) = self.names.get(&key) {
            return Ok(Some(name));
        }
        let mut rows = self.strings.query([key])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let name = self.intake.names.intern(row.get_ref(0)?.as_str().unwrap_or_default());
        self.names.insert(key, name);
        Ok(Some(name))
    }

    fn device(&mut self, cuda_id: i64, global_pid: Option<i64>) -> Device {
        let gpu = global_pid.and_then(|global| self.gpus.get(&(process_id(global), cuda_id)).copied());
        self.intake.device(self.file, gpu.or_else(|| u32::try_from(cuda_id).ok()).unwrap_or(0))
    }

    fn correlation(&mut self, id: Option<i64>, global: Option<i64>) -> Correlation {
        match id.and_then(|id| u32::try_from(id).ok()) {
            None | Some(0) => Correlation::NONE,
            Some(id) => {
                let process = global.unwrap_or(0).cast_unsigned() & PROCESS_MASK;
                Correlation::new(self.intake.process(self.file, process), id)
            }
        }
    }

    fn thread(&mut self, global: Option<i64>) -> Thread {
        let global = global.unwrap_or(0).cast_unsigned();
        self.intake.thread(self.file, global & PROCESS_MASK, global)
    }

    fn ends_at(&mut self, end: i64) {
        self.last_end = self.last_end.max(end);
    }

    fn warn(&mut self, text: String) {
        self.intake.source.warnings.push(text);
    }
}
