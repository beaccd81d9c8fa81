//! `sweep`: removes from the store what nothing needs any more.
//!
//! The operator says which folders stay and which go. A writer that finds its work done marks it as found, under the
//! lock of its folder. A sweep decides under the same lock: what was written or found after the lists were made stays.
//! A manifest goes first and the folder then gets a hidden name, so that nothing half removed looks whole. The
//! next sweep removes what one left that was ended.

mod list;
mod volume;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::fs::statvfs;
use slipway_worker_contract::{FailureClass, SweepResult, SweepTask};

use self::{
    list::{Entry, Leftover, Measure, SWEPT},
    volume::{CLOCKS_DIFFER, Known, VolumeError},
};
use crate::{
    failure::Classify,
    lock::{self, LockError},
};

/// Says what a sweep could not do.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The lists are not of this volume.
    #[error("failed to sweep the store")]
    Volume(#[source] VolumeError),
    /// A folder cannot be read.
    #[error("failed to list {}", path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A folder's lock cannot be taken.
    #[error("failed to lock a folder of the store")]
    Lock(#[source] LockError),
    /// A file or folder cannot be removed.
    #[error("failed to remove {}", path.display())]
    Remove {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system does not say how full it is.
    #[error("failed to ask how full {} is", path.display())]
    Space {
        /// The store.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Some folders are still there. All others were seen to.
    #[error("{count} of the store's folders could not be swept; the first problem")]
    Some {
        /// How many.
        count: usize,
        /// The first.
        #[source]
        first: Box<SweepError>,
    },
}

impl Classify for SweepError {
    fn class(&self) -> FailureClass {
        FailureClass::Infrastructure
    }
}

/// The decision on a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// It changed lately.
    Young,
    Goes,
}

fn fate(task: &SweepTask, name: &str, changed: u64) -> Fate {
    if task.keeps(name) {
        return Fate::Kept;
    }
    let lists_made = task.as_of.saturating_sub(CLOCKS_DIFFER);
    let is_named = task.remove.iter().any(|folder| folder == name);
    let before = if is_named { lists_made } else { task.others_before.min(lists_made) };
    if changed < before { Fate::Goes } else { Fate::Young }
}

/// Sweeps the store.
///
/// # Errors
/// [`SweepError`]: what could be swept is swept, and nothing that stays was touched.
pub fn run(task: &SweepTask, store: &Path) -> Result<SweepResult, SweepError> {
    let started = Instant::now();
    let others_before = match volume::check(task, store).map_err(SweepError::Volume)? {
        Known::ByOwnClaim => task.others_before,
        // What nobody has named may be of another claim, whose sweep says so before the next one of this.
        Known::ByNobody => 0,
    };
    let task = &SweepTask { others_before, ..task.clone() };
    let listing = list::list(store)?;
    let mut sweep = Sweep { task, result: SweepResult::default(), failed: Vec::new() };
    sweep.result.foreign = listing.foreign;
    for leftover in &listing.leftovers {
        let swept = sweep.leftover(leftover);
        sweep.note(swept);
    }
    for (name, entry) in &listing.entries {
        let swept = sweep.entry(name, entry);
        sweep.note(swept);
    }
    let Sweep { task: _, mut result, failed } = sweep;
    let count = failed.len();
    if let Some(first) = failed.into_iter().next() {
        return Err(SweepError::Some { count, first: Box::new(first) });
    }
    let space = statvfs(store).map_err(|source| SweepError::Space { path: store.to_owned(), source: source.into() })?;
    result.free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    result.capacity_bytes = space.f_blocks.saturating_mul(space.f_frsize);
    result.millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(result)
}

struct Sweep<'a> {
    task: &'a SweepTask,
    result: SweepResult,
    failed: Vec<SweepError>,
}

impl Sweep<'_> {
    fn note(&mut self, swept: Result<(), SweepError>) {
        self.failed.extend(swept.err());
    }

    fn entry(&mut self, name: &str, entry: &Entry) -> Result<(), SweepError> {
        let measure = match measured(&entry.folders) {
            // What stays whatever it holds need not be readable.
            Err(_) if self.task.keeps(name) => Measure::default(),
            measured => measured?,
        };
        if self.decided(name, measure) != Fate::Goes {
            return Ok(());
        }
        let _lock = match entry.lock.as_deref().map(lock::exclusive).transpose() {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => {
                self.result.busy += 1;
                self.result.kept_bytes += measure.bytes;
                return Ok(());
            }
            Err(error) => return Err(SweepError::Lock(error)),
        };
        // Somebody may have found it again before the lock was taken, maybe on another machine.
        let mut measure = measured(&entry.folders)?;
        for path in entry.folders.iter().chain(&entry.marker) {
            measure.changed = measure.changed.max(list::changed_as_opened(path)?.unwrap_or(0));
        }
        if self.decided(name, measure) != Fate::Goes {
            return Ok(());
        }
        if let Some(marker) = &entry.marker {
            unmark(marker)?;
        }
        let hidden = entry.folders.iter().map(|folder| hide(folder)).collect::<Result<Vec<_>, _>>()?;
        for folder in &hidden {
            fs::remove_dir_all(folder).map_err(removing(folder))?;
        }
        self.result.removed += 1;
        self.result.removed_bytes += measure.bytes;
        Ok(())
    }

    /// The fate of a folder; counted where it stays.
    fn decided(&mut self, name: &str, measure: Measure) -> Fate {
        let fate = fate(self.task, name, measure.changed);
        match fate {
            Fate::Kept => self.result.kept += 1,
            Fate::Young => self.result.young += 1,
            Fate::Goes => return fate,
        }
        self.result.kept_bytes += measure.bytes;
        fate
    }

    /// What an ended sweep began to remove goes at once, what another Job left once it is old.
    fn leftover(&mut self, leftover: &Leftover) -> Result<(), SweepError> {
        let Leftover { folder, lock } = leftover;
        // Before that, a Job that is at work moves files under the eyes of who measures them.
        let held = match lock.as_deref().map(lock::exclusive).transpose() {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => {
                self.result.busy += 1;
                self.result.kept_bytes += list::measure(folder).map_or(0, |measure| measure.bytes);
                return Ok(());
            }
            Err(error) => return Err(SweepError::Lock(error)),
        };
        let measure = list::measure(folder)?;
        if held.is_some() && measure.changed >= self.task.others_before {
            self.result.young += 1;
            self.result.kept_bytes += measure.bytes;
            return Ok(());
        }
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(removing(folder))?,
        }
        self.result.removed += 1;
        self.result.removed_bytes += measure.bytes;
        Ok(())
    }
}

fn measured(folders: &[PathBuf]) -> Result<Measure, SweepError> {
    folders.iter().try_fold(Measure::default(), |sum, folder| Ok(sum.and(list::measure(folder)?)))
}

/// Removes what makes a folder complete, for good before anything else of it goes.
fn unmark(marker: &Path) -> Result<(), SweepError> {
    match fs::remove_file(marker) {
        Ok(()) => sync(marker.parent().unwrap_or(marker)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SweepError::Remove { path: marker.to_owned(), source }),
    }
}

/// Gives a folder a name under which nobody looks for it.
fn hide(folder: &Path) -> Result<PathBuf, SweepError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let hidden = folder.with_file_name(format!("{SWEPT}{name}"));
    if hidden.symlink_metadata().is_ok() {
        fs::remove_dir_all(&hidden).map_err(removing(&hidden))?;
    }
    fs::rename(folder, &hidden).map_err(removing(folder))?;
    sync(hidden.parent().unwrap_or(&hidden))?;
    Ok(hidden)
}

fn sync(folder: &Path) -> Result<(), SweepError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(removing(folder))
}

fn removing(path: &Path) -> impl FnOnce(io::Error) -> SweepError {
    let path = path.to_owned();
    move |source| SweepError::Remove { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> SweepTask {
        SweepTask {
            claim: "uid-1".into(),
            as_of: 1_000_000,
            keep: vec!["engines/a".into()],
            remove: vec!["engines/b/1".into(), "engines/a/1".into()],
            others_before: 400_000,
        }
    }

    #[test]
    fn what_is_kept_stays_whatever_else_is_said_of_it() {
        assert_eq!(fate(&task(), "engines/a/1", 0), Fate::Kept);
    }

    #[test]
    fn what_is_named_goes_unless_it_changed_about_when_the_lists_were_made_or_later() {
        let of = |changed| fate(&task(), "engines/b/1", changed);
        assert_eq!([999_399, 999_400, 2_000_000].map(of), [Fate::Goes, Fate::Young, Fate::Young]);
    }

    #[test]
    fn what_nobody_names_goes_once_it_is_old() {
        let of = |changed| fate(&task(), "engines/c/1", changed);
        assert_eq!([399_999, 400_000].map(of), [Fate::Goes, Fate::Young]);
    }

    #[test]
    fn no_list_is_so_new_that_something_of_its_own_time_goes() {
        let hasty = SweepTask { others_before: 5_000_000, ..task() };
        assert_eq!(fate(&hasty, "engines/c/1", 999_500), Fate::Young);
    }
}
