//! Copies this process's binary into a folder that other containers mount. IO.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// This process's own binary.
pub const SELF: &str = "/proc/self/exe";

/// Copies a binary, executable for everybody, and returns the path of the copy.
///
/// # Errors
/// What the system said.
pub fn copy(binary: &Path, folder: &Path, name: &str) -> io::Result<PathBuf> {
    let (target, partial) = (folder.join(name), folder.join(format!(".{name}")));
    fs::create_dir_all(folder)?;
    fs::copy(binary, &partial)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    // A rename, because a running binary cannot be overwritten.
    fs::rename(&partial, &target)?;
    Ok(target)
}
