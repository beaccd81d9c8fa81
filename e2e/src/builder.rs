//! A builder that goes wrong as a user's own may: it says that all is well and has written half a model repository.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Where a builder leaves what it built.
pub const OUTPUT: &str = "/slipway/output";

/// Why not even half a repository could be written.
#[derive(Debug, Error)]
#[error("failed to write {}", path.display())]
pub struct BuilderError {
    /// What was to be written.
    path: PathBuf,
    /// What the file system said.
    #[source]
    source: io::Error,
}

/// Writes a model's configuration and the folder of its version, but nothing into it.
///
/// # Errors
/// When the folder cannot be written to.
pub fn build_half(output: &Path) -> Result<(), BuilderError> {
    let model = output.join("model_repository/agent");
    let version = model.join("1");
    fs::create_dir_all(&version).map_err(|source| BuilderError { path: version, source })?;
    let path = model.join("config.pbtxt");
    fs::write(&path, "name: \"agent\"\nbackend: \"python\"\n").map_err(|source| BuilderError { path, source })
}
