//! What a reader hands to the analysis: one [`Record`] per event, whatever the file format. Pure.

use std::{cmp::Ordering, collections::HashMap, rc::Rc};

/// A name interned in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// A device, as an index into [`Source::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(pub u16);

/// A host thread of one process of one file, as an index that the reader assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread(pub u32);

/// Links a CUDA API call to the GPU work it launched; unique across processes and files, zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Correlation(pub u64);

impl Correlation {
    /// The value of records that launch nothing.
    pub const NONE: Self = Self(0);

    /// Joins a correlation id with the process it belongs to: ids repeat between processes.
    #[must_use]
    pub const fn new(process: u32, id: u32) -> Self {
        Self((process as u64 + 1) << 32 | id as u64)
    }
}

/// Direction of a copy, as CUPTI names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyKind {
    /// Host memory to device memory.
    HostToDevice,
    /// Device memory to host memory.
    DeviceToHost,
    /// Within one device.
    DeviceToDevice,
    /// Between two devices.
    PeerToPeer,
    /// Host to host, arrays and what newer tools add.
    Other,
}

/// Phase of an agent run that a span covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentPhase {
    /// Work of the CPU before the model is asked: templates, tokenisation, retrieval.
    Preprocessing,
    /// A model request is in flight.
    Inference,
    /// A tool runs.
    Tool,
    /// The run waits for neither: approval, back-off, queue.
    Idle,
}

/// A hardware counter that the analysis reads, in percent of the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Share of cycles in which a streaming multiprocessor had a warp.
    SmActive,
    /// Share of cycles in which the tensor pipe worked.
    TensorActive,
    /// DRAM reads, percent of the peak bandwidth.
    DramRead,
    /// DRAM writes, percent of the peak bandwidth.
    DramWrite,
}

/// What happened between a record's start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A kernel ran on a device.
    Kernel { device: Device, name: NameId, correlation: Correlation },
    /// A whole CUDA graph ran; its kernels were not recorded.
    Graph { device: Device, name: NameId, correlation: Correlation },
    /// A copy engine moved bytes.
    Copy { device: Device, kind: CopyKind, bytes: u64, correlation: Correlation },
    /// Device memory was set.
    Set { device: Device, bytes: u64, correlation: Correlation },
    /// A thread was inside a CUDA runtime or driver call.
    Api { thread: Thread, name: NameId, correlation: Correlation },
    /// A thread ran an operator of the framework; the work of one call where its shapes are known, else zero.
    Operator { thread: Thread, name: NameId, flops: u64, bytes: u64 },
    /// A thread was inside a named range (NVTX push/pop, `record_function`).
    Range { thread: Thread, name: NameId },
    /// A named range that may start and end on different threads (NVTX start/end).
    ProcessRange { name: NameId },
    /// The profiler itself held the host up.
    Overhead,
    /// Memory of a device as an allocator reports it, in bytes.
    MemoryLevel { device: Device, allocated: u64, reserved: u64 },
    /// A device allocation (positive) or its release (negative), in bytes.
    MemoryDelta { device: Device, bytes: i64 },
    /// A sampled counter, in thousandths of a percent.
    Sample { device: Device, counter: Counter, milli_percent: u32 },
    /// A span of the agent runtime; `run` numbers the runs.
    Phase { run: u32, phase: AgentPhase },
}

/// One event with its time in nanoseconds since the origin of the capture's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Start in nanoseconds.
    pub start: i64,
    /// End in nanoseconds, not before the start.
    pub end: i64,
    /// What happened.
    pub event: Event,
}

impl Record {
    /// Makes a record; an end before the start (seen where a tool lost the end) counts as an instant.
    #[must_use]
    pub fn new(start: i64, end: i64, event: Event) -> Self {
        Self { start, end: end.max(start), event }
    }

    /// Returns the duration in nanoseconds.
    #[must_use]
    pub const fn duration(&self) -> u64 {
        self.end.abs_diff(self.start)
    }

    /// Orders by time so that what encloses comes before what is enclosed, also where both start together.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |record: &Self| (record.start, -(i128::from(record.end)), record.event.rank());
        key(self).cmp(&key(other))
    }
}

impl Event {
    /// Host events come before the GPU work they cause, outer kinds before inner ones.
    const fn rank(&self) -> (u8, u64) {
        match *self {
            Self::Phase { run, .. } => (0, run as u64),
            Self::ProcessRange { name } => (1, name.0 as u64),
            Self::Overhead => (2, 0),
            Self::Range { thread, name } => (3, (thread.0 as u64) << 32 | name.0 as u64),
            Self::Operator { thread, name, .. } => (4, (thread.0 as u64) << 32 | name.0 as u64),
            Self::Api { correlation, .. } => (5, correlation.0),
            Self::MemoryLevel { allocated, .. } => (6, allocated),
            Self::MemoryDelta { bytes, .. } => (7, bytes.unsigned_abs()),
            Self::Sample { device, .. } => (8, device.0 as u64),
            Self::Set { correlation, .. } => (9, correlation.0),
            Self::Copy { correlation, .. } => (10, correlation.0),
            Self::Graph { correlation, .. } => (11, correlation.0),
            Self::Kernel { correlation, .. } => (12, correlation.0),
        }
    }
}

/// Where a record's start lies on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Nanoseconds since the Unix epoch at the capture's origin.
    pub origin_unix_nanos: i64,
}

/// A device as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Index of the file (the rank, where each rank wrote a file of its own).
    pub file: usize,
    /// Device number within that file.
    pub id: u32,
    /// Product name, where the file holds it.
    pub name: Option<String>,
    /// Memory in bytes, where the file holds it.
    pub memory_bytes: Option<u64>,
}

/// What the files say about themselves.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Devices that have records.
    pub devices: Vec<DeviceInfo>,
    /// Version of the file's schema as the file states it, of the first file.
    pub schema_version: Option<String>,
    /// What the reader left out or could not tell, in sentences.
    pub warnings: Vec<String>,
}

/// Interned names. Memory is bounded: past [`Names::BYTES`] new names become [`Names::OTHER`].
#[derive(Debug)]
pub struct Names {
    ids: HashMap<Rc<str>, NameId>,
    list: Vec<Rc<str>>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { ids: HashMap::new(), list: Vec::new(), bytes: 0 };
        names.intern(Self::OTHER_TEXT);
        names
    }
}

impl Names {
    /// Most bytes that are kept, tables included. Real captures hold some thousand names; only labels with request
    /// numbers grow.
    pub const BYTES: usize = 16 << 20;
    /// The id of every name that came after the limit.
    pub const OTHER: NameId = NameId(0);
    /// What a name costs in the tables beside its text.
    const OVERHEAD: usize = 64;
    const OTHER_TEXT: &str = "(further names)";
    /// A name is cut here: templates of CUTLASS reach tens of kilobytes.
    const LONGEST: usize = 2_048;

    /// Returns the id of a name.
    pub fn intern(&mut self, name: &str) -> NameId {
        let name = cut(name, Self::LONGEST);
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let bytes = name.len() + Self::OVERHEAD;
        if self.bytes + bytes > Self::BYTES {
            return Self::OTHER;
        }
        let Ok(next) = u32::try_from(self.list.len()) else { return Self::OTHER };
        let (text, id) = (Rc::<str>::from(name), NameId(next));
        self.bytes += bytes;
        self.list.push(Rc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// Returns the text of a name.
    #[must_use]
    pub fn text(&self, id: NameId) -> &str {
        self.list.get(id.0 as usize).map_or(Self::OTHER_TEXT, |text| text)
    }

    /// Returns how many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Says whether there are none; there is always the name of the overflow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_past_the_limit_is_cut_at_a_character() {
        let mut names = Names::default();
        let long = "é".repeat(2_000);

        let id = names.intern(&long);

        assert_eq!(names.text(id).chars().count(), 1_024);
        assert_eq!(names.intern(&long), id);
    }

    #[test]
    fn names_stop_growing_at_the_limit() {
        let mut names = Names::default();
        for n in 0..10_000 {
            names.intern(&format!("{n:02048}"));
        }

        assert_eq!(
            names.len(),
            1 + (Names::BYTES - Names::OTHER_TEXT.len() - Names::OVERHEAD) / (2_048 + Names::OVERHEAD)
        );
        assert_eq!(names.intern("one more"), names.intern("one more"));
        assert_eq!(names.text(Names::OTHER), "(further names)");
    }

    #[test]
    fn the_enclosing_record_comes_first() {
        let thread = Thread(0);
        let outer = Record::new(10, 50, Event::Operator { thread, name: NameId(1), flops: 0, bytes: 0 });
        let inner = Record::new(10, 20, Event::Operator { thread, name: NameId(2), flops: 0, bytes: 0 });
        let range = Record::new(10, 50, Event::Range { thread, name: NameId(3) });

        let mut records = [inner, outer, range];
        records.sort_by(Record::order);

        assert_eq!(records, [range, outer, inner]);
    }
}
