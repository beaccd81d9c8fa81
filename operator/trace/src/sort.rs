//! Puts records into time order in bounded memory. Writes and reads one unnamed temporary file per full buffer.
//!
//! Neither format is in time order (Kineto writes operators before kernels, an export writes table by table), and the
//! analysis needs every stack, gap and launch in order. Records are sorted in a buffer; a full buffer becomes a sorted
//! run on disk, and the runs are merged at the end. Small files never touch the disk.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::PathBuf,
};

use super::record::Record;
use super::wire::{self, ENCODED_LEN};

/// Why records could not be sorted.
#[derive(Debug, thiserror::Error)]
pub enum SortError {
    /// The temporary file could not be made or written.
    #[error(
        "failed to write sorted records to {}: it takes about a tenth of a JSON trace's size, or as much as a SQLite export; \
         set TMPDIR to a directory with room", directory.display()
    )]
    Spill {
        /// The directory of temporary files.
        directory: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A temporary file could not be read back.
    #[error("failed to read sorted records back from {}", directory.display())]
    ReadBack {
        /// The directory of temporary files.
        directory: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Where and how much to buffer.
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// Records held in memory before a run is written.
    pub buffer: usize,
    /// Directory of temporary files.
    pub directory: PathBuf,
}

impl SortOptions {
    /// A buffer of about 56 MB in the given directory.
    #[must_use]
    pub fn in_directory(directory: PathBuf) -> Self {
        Self { buffer: 1 << 20, directory }
    }
}

/// Collects records in any order.
#[derive(Debug)]
pub struct Sorter {
    options: SortOptions,
    buffer: Vec<Record>,
    runs: Vec<File>,
}

impl Sorter {
    /// Makes an empty sorter.
    #[must_use]
    pub fn new(options: SortOptions) -> Self {
        Self { options, buffer: Vec::new(), runs: Vec::new() }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When the buffer is full and cannot be written.
    pub fn push(&mut self, record: Record) -> Result<(), SortError> {
        self.buffer.push(record);
        if self.buffer.len() < self.options.buffer {
            return Ok(());
        }
        self.spill().map_err(|source| SortError::Spill { directory: self.options.directory.clone(), source })
    }

    /// Returns the records in time order.
    ///
    /// # Errors
    /// When a run cannot be read back.
    pub fn finish(mut self) -> Result<Sorted, SortError> {
        self.buffer.sort_unstable_by(Record::order);
        let mut sources = vec![Run::Memory(self.buffer.into_iter())];
        let directory = self.options.directory;
        for mut file in self.runs {
            file.rewind().map_err(|source| SortError::ReadBack { directory: directory.clone(), source })?;
            sources.push(Run::File(BufReader::with_capacity(64 << 10, file)));
        }
        let mut sorted = Sorted { sources, heap: BinaryHeap::new(), directory };
        for source in 0..sorted.sources.len() {
            sorted.refill(source)?;
        }
        Ok(sorted)
    }

    fn spill(&mut self) -> io::Result<()> {
        self.buffer.sort_unstable_by(Record::order);
        let mut writer = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(&self.options.directory)?);
        for record in self.buffer.drain(..) {
            writer.write_all(&wire::encode(&record))?;
        }
        self.runs.push(writer.into_inner().map_err(io::IntoInnerError::into_error)?);
        Ok(())
    }
}

/// Records in time order.
#[derive(Debug)]
pub struct Sorted {
    sources: Vec<Run>,
    heap: BinaryHeap<Reverse<Head>>,
    directory: PathBuf,
}

impl Sorted {
    /// Returns the next record.
    ///
    /// # Errors
    /// When a run cannot be read back.
    pub fn next_record(&mut self) -> Result<Option<Record>, SortError> {
        let Some(Reverse(head)) = self.heap.pop() else { return Ok(None) };
        self.refill(head.source)?;
        Ok(Some(head.record))
    }

    fn refill(&mut self, source: usize) -> Result<(), SortError> {
        let next = self.sources[source]
            .next()
            .map_err(|source| SortError::ReadBack { directory: self.directory.clone(), source })?;
        if let Some(record) = next {
            self.heap.push(Reverse(Head { record, source }));
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Run {
    Memory(std::vec::IntoIter<Record>),
    File(BufReader<File>),
}

impl Run {
    fn next(&mut self) -> io::Result<Option<Record>> {
        match self {
            Self::Memory(records) => Ok(records.next()),
            Self::File(reader) => {
                let mut bytes = [0; ENCODED_LEN];
                match reader.read_exact(&mut bytes) {
                    Ok(()) => wire::decode(&bytes).map(Some),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

#[derive(Debug)]
struct Head {
    record: Record,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.record.order(&other.record).then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::super::record::{Event, NameId};
    use super::*;

    fn drain(mut sorted: Sorted) -> Vec<Record> {
        std::iter::from_fn(|| sorted.next_record().unwrap()).collect()
    }

    fn sorter(buffer: usize) -> Sorter {
        Sorter::new(SortOptions { buffer, directory: std::env::temp_dir() })
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_buffer(
            times in prop::collection::vec((-1_000i64..1_000, 0i64..50, 0u32..5), 0..200),
            buffer in 1usize..50,
        ) {
            let records: Vec<_> = times
                .iter()
                .map(|&(start, length, name)| {
                    Record::new(start, start + length, Event::ProcessRange { name: NameId(name) })
                })
                .collect();
            let (mut spilled, mut held) = (sorter(buffer), sorter(usize::MAX));
            for record in records {
                spilled.push(record).unwrap();
                held.push(record).unwrap();
            }
            prop_assert_eq!(drain(spilled.finish().unwrap()), drain(held.finish().unwrap()));
        }
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named_with_the_remedy() {
        let mut sorter = Sorter::new(SortOptions { buffer: 1, directory: PathBuf::from("/no/such/directory") });

        let error = sorter.push(Record::new(0, 1, Event::Overhead)).unwrap_err();

        assert_eq!(
            error.to_string(),
            "failed to write sorted records to /no/such/directory: it takes about a tenth of a JSON trace's size, or as much \
             as a SQLite export; set TMPDIR to a directory with room"
        );
    }
}
