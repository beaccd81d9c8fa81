//! Whether the volume is the store that the lists are of: one claim alone uses it, and its clock agrees with theirs.
//!
//! Two claims can lead to one volume, and then each sweep would take the folders of the other for what nobody has ever
//! named. So each sweep leaves the UID of its claim in a file, and none goes on once there is a second.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use slipway_worker_contract::SweepTask;

use crate::lock::{self, LockError};

/// The file with the UIDs of the claims whose sweeps have seen the volume, one a line. The name of what is to replace
/// it begins like it.
pub const CLAIMS: &str = ".slipway-store";
const LOCK: &str = ".lock";
/// Seconds by which the clocks of operator, nodes and file servers may differ.
pub const CLOCKS_DIFFER: u64 = 600;
/// Seconds that lists are good for. Who has asked for a folder since, and relies on an object that says it is there,
/// may have left no mark on the volume.
const LISTS_LAST: u64 = 3_600;

/// Says why the volume is not swept.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The volume's lock cannot be taken.
    #[error("failed to lock the volume")]
    Lock(#[source] LockError),
    /// A file at the root cannot be read or written.
    #[error("failed to read or write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The clocks do not agree: what was written lately would look old.
    #[error(
        "the lists are of second {as_of}, more than {CLOCKS_DIFFER} s after the volume's clock, {now}: set the clocks \
         of the operator's node and of the file server"
    )]
    Ahead {
        /// The second at which the lists were made.
        as_of: u64,
        /// The volume's second.
        now: u64,
    },
    /// The lists show the past.
    #[error(
        "the lists are of second {as_of}, more than {LISTS_LAST} s before the volume's clock, {now}: the Job began too \
         late, or clocks differ; another sweep begins by itself"
    )]
    Old {
        /// The second at which the lists were made.
        as_of: u64,
        /// The volume's second.
        now: u64,
    },
    /// Another claim leads here as well.
    #[error(
        "{} names claim {others}, and this sweep is of claim {own}: give each namespace a volume of its own, then \
         delete the file. If the namespace or its claim was made again, delete the file to adopt the volume",
        path.display()
    )]
    Shared {
        /// The file.
        path: PathBuf,
        /// The UID of this claim.
        own: String,
        /// The UIDs of others.
        others: String,
    },
}

/// What earlier sweeps left on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// This claim's sweep is the first. Others have not had the time to say that they use the volume too.
    ByNobody,
    /// This claim's sweeps alone have seen it.
    ByOwnClaim,
}

/// Makes sure that the lists are of this volume and of its present.
///
/// # Errors
/// [`VolumeError`]: nothing may be removed.
pub fn check(task: &SweepTask, store: &Path) -> Result<Known, VolumeError> {
    let path = store.join(LOCK);
    let lock = lock::exclusive(&path).map_err(VolumeError::Lock)?;
    // What the lists are compared with are times of files.
    let now = clock(&lock).map_err(|source| VolumeError::File { path, source })?;
    agree(task.as_of, now)?;
    claim(task, store)
}

/// Makes sure that nobody else's sweeps have seen the volume, and leaves word of this one. Of two claims both sweeps
/// fail from then on, the first one as well.
fn claim(task: &SweepTask, store: &Path) -> Result<Known, VolumeError> {
    let path = store.join(CLAIMS);
    let failed = |source| VolumeError::File { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(failed(source)),
    };
    let claims: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    if !claims.contains(&task.claim.as_str()) {
        match write(store, &[claims.as_slice(), &[&task.claim]].concat()) {
            // What the lists name makes room for the next sweep.
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
            written => written.map_err(failed)?,
        }
    }
    let others: Vec<&str> = claims.iter().copied().filter(|claim| *claim != task.claim).collect();
    if !others.is_empty() {
        return Err(VolumeError::Shared { path, own: task.claim.clone(), others: others.join(", ") });
    }
    Ok(if claims.is_empty() { Known::ByNobody } else { Known::ByOwnClaim })
}

fn agree(as_of: u64, now: u64) -> Result<(), VolumeError> {
    if as_of > now.saturating_add(CLOCKS_DIFFER) {
        return Err(VolumeError::Ahead { as_of, now });
    }
    if now.saturating_sub(as_of) > LISTS_LAST {
        return Err(VolumeError::Old { as_of, now });
    }
    Ok(())
}

/// The second since 1970 at which the volume puts a file that changes now. It takes no room: the volume may be full.
fn clock(file: &File) -> io::Result<u64> {
    lock::touch(file)?;
    let changed = file.metadata()?.modified()?;
    Ok(changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Writes the file at once: a sweep that is killed leaves no half of a UID.
fn write(store: &Path, claims: &[&str]) -> io::Result<()> {
    let partial = store.join(format!("{CLAIMS}.partial"));
    fs::write(&partial, claims.join("\n") + "\n")?;
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, store.join(CLAIMS))?;
    File::open(store)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn task(claim: &str) -> SweepTask {
        SweepTask { claim: claim.into(), as_of: 0, keep: vec![], remove: vec![], others_before: 0 }
    }

    #[test]
    fn the_first_sweep_leaves_its_claim_for_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let seen = [(); 3].map(|()| claim(&task("uid-1"), dir.path()).unwrap());
        assert_eq!(seen, [Known::ByNobody, Known::ByOwnClaim, Known::ByOwnClaim]);
        assert_eq!(fs::read_to_string(dir.path().join(CLAIMS)).unwrap(), "uid-1\n");
    }

    #[test]
    fn lists_are_good_for_an_hour_and_may_be_ahead_by_as_much_as_clocks_differ() {
        let of = |as_of| agree(as_of, 10_000).map_err(|error| error.to_string());
        assert_eq!([6_400, 10_000, 10_600].map(of), [Ok(()), Ok(()), Ok(())]);
        let ahead = "the lists are of second 10601, more than 600 s after the volume's clock, 10000: set the clocks of \
                     the operator's node and of the file server";
        let old = "the lists are of second 6399, more than 3600 s before the volume's clock, 10000: the Job began too \
                   late, or clocks differ; another sweep begins by itself";
        assert_eq!([10_601, 6_399].map(of), [Err(ahead.to_owned()), Err(old.to_owned())]);
    }

    #[test]
    fn the_clock_of_a_volume_is_told_by_a_file_that_changes_now() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("lock")).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        let before = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let told = clock(&file).unwrap();
        let after = UNIX_EPOCH.elapsed().unwrap().as_secs();
        // A kernel's clock of files may be a tick behind.
        assert!((before.saturating_sub(1)..=after).contains(&told), "{before} {told} {after}");
    }

    #[test]
    fn a_full_volume_is_swept_as_one_that_nobody_has_seen_and_never_if_it_is_of_another_claim() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/full", dir.path().join(".slipway-store.partial")).unwrap();
        let of = |uid: &str| claim(&task(uid), dir.path());
        assert_eq!([of("uid-1").unwrap(), of("uid-1").unwrap()], [Known::ByNobody; 2]);
        fs::write(dir.path().join(CLAIMS), "uid-2\n").unwrap();
        assert!(matches!(of("uid-1"), Err(VolumeError::Shared { .. })));
    }

    #[test]
    fn of_two_claims_on_one_volume_neither_sweeps_until_the_file_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let of = |uid: &str| claim(&task(uid), dir.path());
        assert_eq!(of("uid-1").unwrap(), Known::ByNobody);
        let path = dir.path().join(CLAIMS);
        let told = |own: &str, other: &str| {
            format!(
                "{} names claim {other}, and this sweep is of claim {own}: give each namespace a volume of its own, \
                 then delete the file. If the namespace or its claim was made again, delete the file to adopt the \
                 volume",
                path.display()
            )
        };
        assert_eq!(of("uid-2").unwrap_err().to_string(), told("uid-2", "uid-1"));
        assert_eq!(of("uid-1").unwrap_err().to_string(), told("uid-1", "uid-2"));
        assert_eq!(of("uid-2").unwrap_err().to_string(), told("uid-2", "uid-1"));
        fs::remove_file(&path).unwrap();
        assert_eq!([of("uid-2").unwrap(), of("uid-2").unwrap()], [Known::ByNobody, Known::ByOwnClaim]);
    }
}
