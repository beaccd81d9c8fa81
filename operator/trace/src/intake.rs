//! Where readers put what they read: interned names, numbered devices and threads, records on one clock. Writes through
//! the sorter.

use std::collections::HashMap;

use super::{
    record::{Device, DeviceInfo, Event, Names, Record, Source, Thread, WallClock},
    sort::{SortError, SortOptions, Sorter},
};

/// Collects the records of all files of one capture.
#[derive(Debug)]
pub struct Intake {
    /// Interned names.
    pub names: Names,
    /// What the files say about themselves.
    pub source: Source,
    sorter: Sorter,
    files: usize,
    devices: HashMap<(usize, u32), Device>,
    threads: HashMap<(usize, u64, u64), Thread>,
    processes: HashMap<(usize, u64), u32>,
    clock: Option<WallClock>,
    shift: i64,
    extent: Option<Extent>,
    records: u64,
}

/// First start and last end of a capture on its own clock, in nanoseconds; spans of the agent runtime do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First start.
    pub from: i64,
    /// Last end.
    pub to: i64,
}

/// What [`Intake::finish`] returns.
#[derive(Debug)]
pub struct Collected {
    /// Interned names.
    pub names: Names,
    /// What the files say about themselves.
    pub source: Source,
    /// The records, to be put in order.
    pub sorter: Sorter,
    /// The wall clock at time zero of the records, where the files state it.
    pub clock: Option<WallClock>,
    /// First start and last end; nothing where there is no record.
    pub extent: Option<Extent>,
    /// Records of the trace files.
    pub records: u64,
}

impl Intake {
    /// Makes an empty intake.
    #[must_use]
    pub fn new(options: SortOptions) -> Self {
        Self {
            names: Names::default(),
            source: Source::default(),
            sorter: Sorter::new(options),
            files: 0,
            devices: HashMap::new(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            clock: None,
            shift: 0,
            extent: None,
            records: 0,
        }
    }

    /// Begins a file and returns its number; call [`Self::set_clock`] before its first record where the clock is known.
    pub fn begin_file(&mut self) -> usize {
        self.files += 1;
        self.shift = 0;
        self.files - 1
    }

    /// States the wall clock at time zero of the current file; later files are moved onto the clock of the first.
    pub fn set_clock(&mut self, clock: WallClock) {
        let first = *self.clock.get_or_insert(clock);
        self.shift = clock.origin_unix_nanos.saturating_sub(first.origin_unix_nanos);
    }

    /// Returns first start and last end of the records so far.
    #[must_use]
    pub const fn extent(&self) -> Option<Extent> {
        self.extent
    }

    /// Returns the wall clock at time zero of the records.
    #[must_use]
    pub const fn clock(&self) -> Option<WallClock> {
        self.clock
    }

    /// Returns the number of a device of the given file.
    pub fn device(&mut self, file: usize, id: u32) -> Device {
        let devices = &mut self.source.devices;
        *self.devices.entry((file, id)).or_insert_with(|| {
            devices.push(DeviceInfo { file, id, name: None, memory_bytes: None });
            Device(u16::try_from(devices.len() - 1).unwrap_or(u16::MAX))
        })
    }

    /// Returns the number of a device that already has records, or nothing.
    #[must_use]
    pub fn known_device(&self, file: usize, id: u32) -> Option<Device> {
        self.devices.get(&(file, id)).copied()
    }

    /// Adds what a file says about a device that has records.
    pub fn describe_device(&mut self, file: usize, id: u32, describe: impl FnOnce(&mut DeviceInfo)) {
        if let Some(device) = self.devices.get(&(file, id))
            && let Some(info) = self.source.devices.get_mut(usize::from(device.0))
        {
            describe(info);
        }
    }

    /// Returns the number of a thread of the given process and file.
    pub fn thread(&mut self, file: usize, process: u64, thread: u64) -> Thread {
        let next = Thread(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        *self.threads.entry((file, process, thread)).or_insert(next)
    }

    /// Returns the number of a process of the given file, for [`super::record::Correlation::new`].
    pub fn process(&mut self, file: usize, process: u64) -> u32 {
        let next = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        *self.processes.entry((file, process)).or_insert(next)
    }

    /// Adds a record on the current file's clock.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn push(&mut self, mut record: Record) -> Result<(), SortError> {
        record.start = record.start.saturating_add(self.shift);
        record.end = record.end.saturating_add(self.shift);
        if !matches!(record.event, Event::Phase { .. }) {
            let extent = self.extent.get_or_insert(Extent { from: record.start, to: record.end });
            (extent.from, extent.to) = (extent.from.min(record.start), extent.to.max(record.end));
            self.records += 1;
        }
        self.sorter.push(record)
    }

    /// Ends the reading.
    #[must_use]
    pub fn finish(self) -> Collected {
        Collected {
            names: self.names,
            source: self.source,
            sorter: self.sorter,
            clock: self.clock,
            extent: self.extent,
            records: self.records,
        }
    }
}
