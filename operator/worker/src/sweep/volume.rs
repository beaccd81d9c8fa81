//! Whether the volume is the store that the lists are of: one claim alone uses it, and its clock agrees with theirs.
//!
//! Two claims can lead to one volume, and then each sweep would take the folders of the other for what nobody has ever
//! named. So each sweep leaves the UID of its claim in a file, and none goes on once there is a second.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use slipway_worker_contract::SweepTask;

use crate::lock::{self, LockError};

/// The file with the UIDs of the claims whose sweeps have seen the volume, one a line. Names of other files of the
/// sweep at the root begin with this.
pub const CLAIMS: &str = ".slipway-store";
const LOCK: &str = ".lock";
/// Seconds by which the clocks of operator, nodes and file servers may differ.
pub const CLOCKS_DIFFER: u64 = 600;
/// Seconds that lists are good for. Whoever has asked for a folder since, and relies on an object that says it is
/// there, may have left no mark on the volume.
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
    /// The clocks do not agree: whatever was written lately would look old.
    #[error(
        "the lists were made at {as_of} s since 1970 and the clock of the volume says {now} s, which is more than \
         {CLOCKS_DIFFER} s earlier: set the clocks of the operator's node and of what serves the volume"
    )]
    Ahead {
        /// The second at which the lists were made.
        as_of: u64,
        /// The volume's second.
        now: u64,
    },
    /// The lists show the past.
    #[error(
        "the lists were made at {as_of} s since 1970 and the clock of the volume says {now} s, which is more than \
         {LISTS_LAST} s later: the Job began too late, or the clocks of the operator's node and of what serves the \
         volume differ; another sweep begins by itself"
    )]
    Old {
        /// The second at which the lists were made.
        as_of: u64,
        /// The volume's second.
        now: u64,
    },
    /// Another claim leads here as well.
    #[error(
        "{} says that claim {others} has its store on this volume, which is that of claim {own} too: give each \
         namespace a volume of its own, and then delete the file; if there is only one and its namespace or claim was \
         made again, delete the file to adopt the volume",
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
    let _lock = lock::exclusive(&store.join(LOCK)).map_err(VolumeError::Lock)?;
    let path = store.join(format!("{CLAIMS}.clock"));
    // What the lists are compared with are times of files.
    let now = clock(&path).map_err(|source| VolumeError::File { path, source })?;
    agree(task.as_of, now)?;
    claim(task, store)
}

/// Makes sure that nobody else's sweeps have seen the volume, and leaves word of this one. Of two claims both sweeps
/// fail from then on, whoever came first.
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
        write(store, &[claims.as_slice(), &[&task.claim]].concat()).map_err(failed)?;
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

/// The second since 1970 at which the volume puts a file that is written now.
fn clock(path: &Path) -> io::Result<u64> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = File::create_new(path)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    let written = file.metadata()?.modified()?;
    fs::remove_file(path)?;
    Ok(written.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
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
        let says = "s since 1970 and the clock of the volume says 10000 s, which is more than";
        let ahead = format!(
            "the lists were made at 10601 {says} 600 s earlier: set the clocks of the operator's node and of what \
             serves the volume"
        );
        let old = format!(
            "the lists were made at 6399 {says} 3600 s later: the Job began too late, or the clocks of the operator's \
             node and of what serves the volume differ; another sweep begins by itself"
        );
        assert_eq!([10_601, 6_399].map(of), [Err(ahead), Err(old)]);
    }

    #[test]
    fn the_clock_of_a_volume_is_told_by_a_file_that_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clock");
        File::create(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        let before = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let told = clock(&path).unwrap();
        let after = UNIX_EPOCH.elapsed().unwrap().as_secs();
        // A kernel's clock of files may be a tick behind.
        assert!((before.saturating_sub(1)..=after).contains(&told), "{before} {told} {after}");
        assert!(!path.exists());
    }

    #[test]
    fn of_two_claims_on_one_volume_neither_sweeps_until_the_file_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let of = |uid: &str| claim(&task(uid), dir.path());
        assert_eq!(of("uid-1").unwrap(), Known::ByNobody);
        let path = dir.path().join(CLAIMS);
        let told = |own: &str, other: &str| {
            format!(
                "{} says that claim {other} has its store on this volume, which is that of claim {own} too: give each \
                 namespace a volume of its own, and then delete the file; if there is only one and its namespace or \
                 claim was made again, delete the file to adopt the volume",
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
