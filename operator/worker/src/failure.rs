//! How a verb's error becomes a termination message and an exit code.

use std::{error::Error, io, path::Path};

use rustix::fs::statvfs;
pub use slipway_vocabulary::failure::chain;
use slipway_worker_contract::{FailureClass, Message, paths};

/// The volumes that a Job or a pod may have.
const VOLUMES: [&str; 4] = [paths::STORE_DIR, paths::OUTPUT_DIR, paths::WORK_DIR, paths::ENGINE_DIR];
/// What the system says of a full volume, as a vendor's tool repeats it.
const FULL: &str = "No space left on device";

/// An error that says whether another attempt can help.
pub trait Classify: Error {
    /// Returns the failure class that the operator records.
    fn class(&self) -> FailureClass;
}

/// Makes the termination message of a failed verb; boxed, because it travels as an error.
pub fn message<E: Classify>(error: &E) -> Box<Message> {
    Box::new(Message::Failed { class: error.class(), text: described(error, &VOLUMES.map(Path::new)) })
}

/// The error with its causes. Of a full volume, the figures of all that are there come first: a message that is too
/// long loses its end.
fn described(error: &dyn Error, volumes: &[&Path]) -> String {
    let text = chain(error);
    if !is_of_full_volume(error) && !text.contains(FULL) {
        return text;
    }
    let figures: Vec<String> = volumes.iter().filter_map(|volume| free(volume)).collect();
    format!("a volume is full: enlarge it, or remove what it need not hold ({}): {text}", figures.join(", "))
}

fn is_of_full_volume(error: &dyn Error) -> bool {
    let mut cause = error.source();
    while let Some(found) = cause {
        let kind = found.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = found.source();
    }
    false
}

/// What a volume has left; nothing of one that is not there.
fn free(volume: &Path) -> Option<String> {
    let space = statvfs(volume).ok()?;
    let megabytes = |blocks: u64| blocks.saturating_mul(space.f_frsize) as f64 / 1e6;
    let (free, all) = (megabytes(space.f_bavail), megabytes(space.f_blocks));
    Some(format!("{} has {free:.1} of {all:.1} MB free", volume.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to write weights.bin")]
    struct Failed(#[source] io::Error);

    /// The system's number for a full device.
    const ENOSPC: i32 = 28;

    #[test]
    fn a_full_volume_is_told_with_figures_before_the_cause() {
        let volume = tempfile::tempdir().unwrap();
        let text =
            described(&Failed(io::Error::from_raw_os_error(ENOSPC)), &[volume.path(), Path::new("/nowhere/else")]);
        let begin =
            format!("a volume is full: enlarge it, or remove what it need not hold ({} has ", volume.path().display());
        assert!(text.starts_with(&begin), "{text}");
        assert!(
            text.ends_with(" MB free): failed to write weights.bin: No space left on device (os error 28)"),
            "{text}"
        );
        assert!(!text.contains("/nowhere/else"), "{text}");
    }

    #[test]
    fn another_failure_is_told_as_it_is() {
        let error = Failed(io::Error::new(io::ErrorKind::PermissionDenied, "not you"));
        assert_eq!(described(&error, &[Path::new("/")]), "failed to write weights.bin: not you");
    }
}
