//! Whether the volume is the store that the lists are of: one claim alone uses it.
//!
//! Two claims can lead to one volume, and then each sweep would take the folders of the other for what nobody has ever
//! named. So each sweep leaves the UID of its claim in a file, and none goes on once there is a second.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use slipway_worker_contract::SweepTask;

use crate::lock::{self, LockError};

/// The file with the UIDs of the claims whose sweeps have seen the volume, one a line. Names of other files of the
/// sweep at the root begin with this.
pub const CLAIMS: &str = ".slipway-store";
const LOCK: &str = ".lock";

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

/// Makes sure that nobody else's sweeps have seen the volume, and leaves word of this one. Of two claims both sweeps
/// fail from then on, whoever came first.
///
/// # Errors
/// [`VolumeError`]: nothing may be removed.
pub fn claim(task: &SweepTask, store: &Path) -> Result<Known, VolumeError> {
    let _lock = lock::exclusive(&store.join(LOCK)).map_err(VolumeError::Lock)?;
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
