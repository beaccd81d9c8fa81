//! Reads the chrome trace of Kineto (`torch.profiler`'s `export_chrome_trace`, vLLM's and TensorRT-LLM's torch traces).
//! Reads IO.
//!
//! Format: `libkineto/src/output_json.cpp` of pytorch/kineto, and the Trace Event Format of Chrome (an object with
//! `traceEvents`, or the bare list). `ts` and `dur` are microseconds with three decimals relative to
//! `baseTimeNanoseconds` (Unix time), absolute where that key is missing. The text is read once, event by event; memory
//! does not grow with the file. Checked against a trace of torch 2.11 on an H200.

mod decimal;
mod event;
mod flops;
mod scan;

use std::io::Read;

pub use scan::ScanError;

use self::{
    event::{Category, RawEvent},
    scan::Scanner,
};
use super::{
    intake::Intake,
    record::{CopyKind, Correlation, Event, Record, WallClock},
    sort::SortError,
};

/// Why a file is not a usable Kineto trace.
#[derive(Debug, thiserror::Error)]
pub enum KinetoError {
    /// The text breaks off or is not JSON.
    #[error("the JSON cannot be read to its end; copy the file again, or export again after the profiler has stopped")]
    Scan(#[source] ScanError),
    /// The JSON is something else.
    #[error(
        "the JSON has no traceEvents: a torch.profiler trace is written by prof.export_chrome_trace(\"trace.json\")"
    )]
    NoEvents,
    /// A trace without the GPU.
    #[error(
        "traceEvents holds {events} events and no GPU kernel: profile with activities=[ProfilerActivity.CPU, \
         ProfilerActivity.CUDA] while the model runs"
    )]
    NoKernels {
        /// Events read.
        events: u64,
    },
    /// A later file has another clock, stated only after its events.
    #[error("baseTimeNanoseconds follows traceEvents, so several files cannot be aligned; analyse this file alone")]
    LateClock,
    /// The records could not be kept.
    #[error("failed to keep the records")]
    Keep(#[source] SortError),
}

/// Reads one file into the intake.
///
/// # Errors
/// When the text is cut off, is not a trace, or holds no GPU kernels.
pub fn read<R: Read>(reader: R, intake: &mut Intake) -> Result<(), KinetoError> {
    let file = intake.begin_file();
    let mut state = Reader {
        scanner: Scanner::new(reader),
        text: Vec::with_capacity(256),
        file,
        // One file holds one process's correlation ids, whatever the pid of an event is (that of a kernel is its
        // device).
        process: intake.process(file, 0),
        intake,
        counts: Counts::default(),
        devices: Vec::new(),
    };
    state.document()?;
    state.finish()
}

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    kernels: u64,
    without_time: u64,
    has_event_list: bool,
}

struct Reader<'a, R> {
    scanner: Scanner<R>,
    text: Vec<u8>,
    file: usize,
    process: u32,
    intake: &'a mut Intake,
    counts: Counts,
    devices: Vec<(u32, String, u64)>,
}

impl<R: Read> Reader<'_, R> {
    fn document(&mut self) -> Result<(), KinetoError> {
        if self.scanner.peek().map_err(KinetoError::Scan)? == b'[' {
            return self.events();
        }
        self.scanner.expect(b'{', "an object or a list of events").map_err(KinetoError::Scan)?;
        let mut first = true;
        while self.scanner.more(&mut first, b'}').map_err(KinetoError::Scan)? {
            self.scanner.key(&mut self.text).map_err(KinetoError::Scan)?;
            match self.text.as_slice() {
                b"traceEvents" => self.events()?,
                b"baseTimeNanoseconds" => self.clock()?,
                b"schemaVersion" => {
                    self.scanner.scalar(&mut self.text).map_err(KinetoError::Scan)?;
                    let version = String::from_utf8_lossy(&self.text).into_owned();
                    self.intake.source.schema_version.get_or_insert(version);
                }
                b"deviceProperties" => self.device_properties().map_err(KinetoError::Scan)?,
                _ => self.scanner.skip().map_err(KinetoError::Scan)?,
            }
        }
        Ok(())
    }

    fn clock(&mut self) -> Result<(), KinetoError> {
        self.scanner.scalar(&mut self.text).map_err(KinetoError::Scan)?;
        let Some(nanos) = std::str::from_utf8(&self.text).ok().and_then(|text| text.parse().ok()) else {
            return Ok(());
        };
        let clock = WallClock { origin_unix_nanos: nanos };
        if self.counts.has_event_list && self.intake.clock().is_some_and(|first| first != clock) {
            return Err(KinetoError::LateClock);
        }
        self.intake.set_clock(clock);
        Ok(())
    }

    fn device_properties(&mut self) -> Result<(), ScanError> {
        let (scanner, text) = (&mut self.scanner, &mut self.text);
        scanner.expect(b'[', "a list of devices")?;
        let mut first = true;
        while scanner.more(&mut first, b']')? {
            let (mut id, mut name, mut memory) = (None, String::new(), 0);
            scanner.expect(b'{', "a device")?;
            let mut inner = true;
            while scanner.more(&mut inner, b'}')? {
                scanner.key(text)?;
                let key = std::mem::take(text);
                scanner.scalar(text)?;
                let value = String::from_utf8_lossy(text);
                match key.as_slice() {
                    b"id" => id = value.parse().ok(),
                    b"name" => name = value.into_owned(),
                    b"totalGlobalMem" => memory = value.parse().unwrap_or(0),
                    _ => {}
                }
            }
            self.devices.extend(id.map(|id| (id, name, memory)));
        }
        Ok(())
    }

    fn events(&mut self) -> Result<(), KinetoError> {
        self.counts.has_event_list = true;
        self.scanner.expect(b'[', "the list of events").map_err(KinetoError::Scan)?;
        let mut event = RawEvent::default();
        let mut first = true;
        while self.scanner.more(&mut first, b']').map_err(KinetoError::Scan)? {
            event.read(&mut self.scanner, &mut self.text).map_err(KinetoError::Scan)?;
            self.counts.events += 1;
            self.keep(&event)?;
        }
        Ok(())
    }

    fn keep(&mut self, raw: &RawEvent) -> Result<(), KinetoError> {
        let complete = raw.phase == b'X' && raw.category != Category::Ignored && raw.category != Category::Memory;
        let memory = raw.category == Category::Memory && raw.device_type == CUDA_DEVICE_TYPE;
        if !complete && !memory {
            return Ok(());
        }
        let Some(start) = raw.start else {
            self.counts.without_time += 1;
            return Ok(());
        };
        let Some(event) = self.event(raw) else { return Ok(()) };
        let record = Record::new(start, start.saturating_add(raw.duration), event);
        self.intake.push(record).map_err(KinetoError::Keep)
    }

    fn event(&mut self, raw: &RawEvent) -> Option<Event> {
        let text = String::from_utf8_lossy(&raw.name);
        let correlation = match raw.correlation {
            0 => Correlation::NONE,
            id => Correlation::new(self.process, id),
        };
        let on_device = raw.device.or_else(|| u32::try_from(raw.process).ok()).unwrap_or(0);
        Some(match raw.category {
            Category::Kernel => {
                self.counts.kernels += 1;
                let device = self.intake.device(self.file, on_device);
                Event::Kernel { device, name: self.intake.names.intern(&text), correlation }
            }
            Category::Copy => {
                let device = self.intake.device(self.file, on_device);
                Event::Copy { device, kind: copy_kind(&text), bytes: raw.bytes, correlation }
            }
            Category::Set => {
                let device = self.intake.device(self.file, on_device);
                Event::Set { device, bytes: raw.bytes, correlation }
            }
            Category::Runtime => {
                let thread = self.intake.thread(self.file, raw.process, raw.thread);
                Event::Api { thread, name: self.intake.names.intern(&text), correlation }
            }
            Category::Operator => {
                let thread = self.intake.thread(self.file, raw.process, raw.thread);
                let work = raw.work().unwrap_or_default();
                Event::Operator { thread, name: self.intake.names.intern(&text), flops: work.flops, bytes: work.bytes }
            }
            Category::Annotation => {
                let thread = self.intake.thread(self.file, raw.process, raw.thread);
                Event::Range { thread, name: self.intake.names.intern(&text) }
            }
            Category::Overhead => Event::Overhead,
            Category::Memory => Event::MemoryLevel {
                device: self.intake.device(self.file, raw.device_id?),
                allocated: raw.allocated?,
                reserved: raw.reserved.unwrap_or(0),
            },
            Category::Ignored => return None,
        })
    }

    fn finish(self) -> Result<(), KinetoError> {
        if !self.counts.has_event_list {
            return Err(KinetoError::NoEvents);
        }
        if self.counts.kernels == 0 {
            return Err(KinetoError::NoKernels { events: self.counts.events });
        }
        for (id, name, memory) in self.devices {
            self.intake.describe_device(self.file, id, |device| {
                device.name = Some(name).filter(|name| !name.is_empty());
                device.memory_bytes = Some(memory).filter(|&bytes| bytes > 0);
            });
        }
        if self.counts.without_time > 0 {
            let text = format!("{} events without a readable ts were left out", self.counts.without_time);
            self.intake.source.warnings.push(text);
        }
        Ok(())
    }
}

/// `c10::DeviceType::CUDA`, in the profiler's `[memory]` instants.
const CUDA_DEVICE_TYPE: u64 = 1;

/// Kineto names copies as CUPTI does: `Memcpy HtoD (Pageable -> Device)`.
fn copy_kind(name: &str) -> CopyKind {
    let known = [
        ("HtoD", CopyKind::HostToDevice),
        ("DtoH", CopyKind::DeviceToHost),
        ("DtoD", CopyKind::DeviceToDevice),
        ("PtoP", CopyKind::PeerToPeer),
    ];
    known.into_iter().find(|(text, _)| name.contains(text)).map_or(CopyKind::Other, |(_, kind)| kind)
}
