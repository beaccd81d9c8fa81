//! An exclusive lock on a folder of the store, held by an open file: it ends with the process, however that ends. Who
//! finds under it what was to be written marks that as found again.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// Says why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another Job holds it.
    #[error("another Job works on {}: this attempt ends so that the other can finish", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file cannot be made.
    #[error("failed to lock {}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Takes the lock file `path`, whose folder is made if need be.
///
/// # Errors
/// [`LockError::Held`] at once if another process has it.
pub fn exclusive(path: &Path) -> Result<File, LockError> {
    let open = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::options().create(true).truncate(false).write(true).open(path)
    };
    let file = open().map_err(|source| LockError::Lock { path: path.to_owned(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LockError::Held { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(LockError::Lock { path: path.to_owned(), source }),
    }
}

/// Marks a file as found again, under the lock of its folder. A sweep leaves alone what was found lately.
///
/// # Errors
/// What the system says. Then nothing keeps a sweep from the folder, and it must not be relied on.
pub fn found_again(marker: &Path) -> io::Result<()> {
    touch(&File::options().append(true).open(marker)?)
}

/// Sets the times of a file to now; on a share, to what the file server's clock says.
///
/// Who may write a file may set both of its times to now. Any other time would take its owner, which nobody is on a
/// share that belongs to another user.
///
/// # Errors
/// What the system says.
pub fn touch(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_second_holder_is_told_that_another_works() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engines/.lock");
        let first = exclusive(&path).unwrap();
        assert!(exclusive(&path).unwrap_err().to_string().starts_with("another Job works on"));
        drop(first);
        exclusive(&path).unwrap();
    }

    #[test]
    fn what_is_found_again_is_as_new_as_now_and_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest.json");
        fs::write(&path, "{}").unwrap();
        File::options().append(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        // A kernel's clock of files may be a tick behind.
        let before = SystemTime::now() - Duration::from_secs(1);
        found_again(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        assert!((before..=SystemTime::now()).contains(&modified), "{modified:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }

    /// Everybody may write this file, and it is the system's, as all files of some shares are.
    #[test]
    fn a_file_that_can_be_written_is_found_again_though_another_user_owns_it() {
        found_again(Path::new("/dev/null")).unwrap();
    }
}
