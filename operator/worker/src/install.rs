//! `install`: copies this binary into a volume, so that a vendor's image can run it.

use std::{
    io,
    path::{Path, PathBuf},
};

use slipway_agent_runtime::install;
use slipway_worker_contract::{FailureClass, paths};

use crate::failure::Classify;

/// Says why the binary is not there.
#[derive(Debug, thiserror::Error)]
#[error("failed to install the worker at {}", path.display())]
pub struct InstallError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Classify for InstallError {
    fn class(&self) -> FailureClass {
        FailureClass::Infrastructure
    }
}

/// Copies this process's binary into `folder`, executable for everybody, and returns its path.
///
/// # Errors
/// [`InstallError`] names the path.
pub fn run(folder: &Path) -> Result<PathBuf, InstallError> {
    copy(Path::new(install::SELF), folder)
}

fn copy(binary: &Path, folder: &Path) -> Result<PathBuf, InstallError> {
    let name = paths::WORKER_BINARY;
    install::copy(binary, folder, name).map_err(|source| InstallError { path: folder.join(name), source })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn the_copy_is_executable_and_replaces_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("self");
        fs::write(&binary, "new").unwrap();
        let folder = dir.path().join("bin");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("slipway-worker"), "old").unwrap();

        let installed = copy(&binary, &folder).unwrap();

        assert_eq!(fs::read_to_string(&installed).unwrap(), "new");
        assert_eq!(fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error = run(Path::new("/proc/none")).unwrap_err();
        assert_eq!(error.to_string(), "failed to install the worker at /proc/none/slipway-worker");
    }
}
