//! An exclusive lock on a folder of the store, held by an open file: it ends with the process, however that ends. Who
//! finds under it what was to be written marks that as found again.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

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
/// What the system says.
pub fn found_again(marker: &Path) -> io::Result<()> {
    File::options().append(true).open(marker)?.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
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
}
