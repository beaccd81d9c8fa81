//! What lies in the store: folders that a sweep decides on, and leftovers of Jobs that ended early. Links are never
//! followed: whatever is not a folder of its own kind in its own place is foreign, and is left alone.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
};
use slipway_worker_contract::{Digest, paths};
use walkdir::WalkDir;

use super::{SweepError, volume::CLAIMS};

/// Prefix of a folder that a sweep has begun to remove.
pub const SWEPT: &str = ".swept-";
const PARTIAL: &str = ".partial";
const LOCK: &str = ".lock";

/// One thing of the store, with everything that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies, first what makes it complete.
    pub folders: Vec<PathBuf>,
    /// The file by which readers find it complete.
    pub marker: Option<PathBuf>,
    /// The lock of those who write it.
    pub lock: Option<PathBuf>,
}

/// What a Job left that ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The folder.
    pub folder: PathBuf,
    /// The lock of those who write it; absent where nobody does any more.
    pub lock: Option<PathBuf>,
}

/// What lies in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// By the folder that lists name.
    pub entries: BTreeMap<String, Entry>,
    /// Left by Jobs that ended early.
    pub leftovers: Vec<Leftover>,
    /// Entries that are none of the store's.
    pub foreign: u32,
}

/// Bytes below a folder, and the second at which anything in it changed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Bytes. A file with two names counts half under each.
    pub bytes: u64,
    /// The second since 1970.
    pub changed: u64,
}

impl Measure {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, changed: self.changed.max(other.changed) }
    }
}

/// Measures a folder and what is below it. What goes meanwhile says that a Job is at work: that counts as a change of
/// this moment.
///
/// # Errors
/// [`SweepError::List`] where something cannot be read.
pub fn measure(folder: &Path) -> Result<Measure, SweepError> {
    let mut measure = Measure::default();
    for entry in WalkDir::new(folder) {
        let found = match entry.and_then(|entry| entry.metadata()).map_err(io::Error::from) {
            Ok(metadata) => {
                let bytes = if metadata.is_file() { metadata.len() / metadata.nlink().max(1) } else { 0 };
                Measure { bytes, changed: changed(&metadata) }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Measure { bytes: 0, changed: u64::MAX },
            Err(source) => return Err(SweepError::List { path: folder.to_owned(), source }),
        };
        measure = measure.and(found);
    }
    Ok(measure)
}

/// When a file or folder itself changed last, asked through a handle that is opened now. The client of a file server
/// may answer from memory what is asked by name, and asks the server again when a file is opened.
///
/// # Errors
/// [`SweepError::List`] where it cannot be opened. What is not there, or is a link, says nothing.
pub fn changed_as_opened(path: &Path) -> Result<Option<u64>, SweepError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let failed = |source: io::Error| SweepError::List { path: path.to_owned(), source };
    match open(path, flags, Mode::empty()) {
        Ok(handle) => Ok(Some(changed(&File::from(handle).metadata().map_err(failed)?))),
        Err(Errno::NOENT | Errno::LOOP) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

fn changed(metadata: &Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(u64::MAX, |since| since.as_secs())
}

/// Lists the store.
///
/// # Errors
/// [`SweepError::List`] where a folder cannot be read.
pub fn list(store: &Path) -> Result<Listing, SweepError> {
    let mut listing = Listing::default();
    for top in listing.folders(store)? {
        let root = store.join(&top);
        match top.as_str() {
            paths::ENGINES => listing.engines(&root)?,
            paths::SCORES => listing.scores(store, &root)?,
            paths::CHECKPOINTS => listing.checkpoints(&root)?,
            paths::RECORDS => listing.records(&root)?,
            _ => listing.foreign += 1,
        }
    }
    Ok(listing)
}

impl Listing {
    /// Names of the folders in a folder. Lock files and those of the sweep are passed over, and
    /// everything else is foreign.
    fn folders(&mut self, root: &Path) -> Result<Vec<String>, SweepError> {
        let failed = |source: io::Error| SweepError::List { path: root.to_owned(), source };
        let mut names = Vec::new();
        let Some(entries) = there(fs::read_dir(root)).map_err(failed)? else { return Ok(names) };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Some(kind) = there(entry.file_type()).map_err(failed)? else { continue };
            match entry.file_name().into_string() {
                Ok(name) if kind.is_dir() => names.push(name),
                Ok(name) if kind.is_file() && [LOCK, CLAIMS].iter().any(|own| name.starts_with(own)) => {}
                Ok(_) | Err(_) => self.foreign += 1,
            }
        }
        names.sort();
        Ok(names)
    }

    fn engines(&mut self, root: &Path) -> Result<(), SweepError> {
        for identity in self.folders(root)? {
            let family = root.join(&identity);
            let lock = family.join(LOCK);
            for name in self.folders(&family)? {
                let folder = family.join(&name);
                if is_digest(&name) {
                    let marker = Some(folder.join(paths::MANIFEST_FILE));
                    let of = format!("{}/{name}", paths::engine_artifacts(&identity));
                    let entry = Entry { folders: vec![folder], marker, lock: Some(lock.clone()) };
                    self.entries.insert(of, entry);
                } else {
                    self.leftover(&name, folder, Some(lock.clone()));
                }
            }
        }
        Ok(())
    }

    /// Scores belong to the artifact that they are of. `quality` comes after `engines`.
    fn scores(&mut self, store: &Path, root: &Path) -> Result<(), SweepError> {
        for identity in self.folders(root)? {
            let family = root.join(&identity);
            let lock = store.join(paths::engine_artifacts(&identity)).join(LOCK);
            for name in self.folders(&family)? {
                if is_digest(&name) {
                    let of = format!("{}/{name}", paths::engine_artifacts(&identity));
                    let entry = self.entries.entry(of).or_default();
                    entry.folders.push(family.join(&name));
                    entry.lock.get_or_insert_with(|| lock.clone());
                } else {
                    self.leftover(&name, family.join(&name), None);
                }
            }
        }
        Ok(())
    }

    fn checkpoints(&mut self, root: &Path) -> Result<(), SweepError> {
        let lock = |digest: &str| Some(root.join(format!("{LOCK}-{digest}")));
        for name in self.folders(root)? {
            let folder = root.join(&name);
            if is_digest(&name) {
                let marker = Some(folder.join(paths::CHECKPOINT_MARKER));
                let entry = Entry { folders: vec![folder], marker, lock: lock(&name) };
                self.entries.insert(format!("{}/{name}", paths::CHECKPOINTS), entry);
            } else {
                let of = name.strip_prefix(PARTIAL).and_then(|rest| lock(rest.strip_prefix('-')?));
                self.leftover(&name, folder, of);
            }
        }
        Ok(())
    }

    fn records(&mut self, root: &Path) -> Result<(), SweepError> {
        for campaign in self.folders(root)? {
            let folder = root.join(&campaign);
            if campaign.starts_with('.') {
                self.leftover(&campaign, folder, None);
            } else {
                let entry = Entry { folders: vec![folder], marker: None, lock: None };
                self.entries.insert(paths::campaign_records(&campaign), entry);
            }
        }
        Ok(())
    }

    fn leftover(&mut self, name: &str, folder: PathBuf, lock: Option<PathBuf>) {
        if name.starts_with(SWEPT) {
            self.leftovers.push(Leftover { folder, lock: None });
        } else if name.starts_with(PARTIAL) && lock.is_some() {
            self.leftovers.push(Leftover { folder, lock });
        } else {
            self.foreign += 1;
        }
    }
}

/// Nothing of what a Job has removed or renamed meanwhile.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a name is a digest as the store writes it.
fn is_digest(name: &str) -> bool {
    name.parse::<Digest>().is_ok_and(|digest| digest.as_str() == name)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, time::Duration};

    use super::*;

    #[test]
    fn what_is_gone_when_it_is_measured_has_changed_just_now() {
        let dir = tempfile::tempdir().unwrap();
        let gone = Measure { bytes: 0, changed: u64::MAX };
        assert_eq!(measure(&dir.path().join("gone")).unwrap(), gone);
        assert_eq!(Listing::default().folders(&dir.path().join("gone")).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_handle_says_when_a_file_changed_and_nothing_of_a_link_or_of_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, gone] = ["file", "link", "gone"].map(|name| dir.path().join(name));
        File::create(&file).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(7)).unwrap();
        symlink(&file, &link).unwrap();
        let changed = [&file, &link, &gone].map(|path| changed_as_opened(path).unwrap());
        assert_eq!(changed, [Some(7), None, None]);
    }
}
