//! The configuration file. Reads IO.

use std::{
    io,
    path::{Path, PathBuf},
};

use slipway_runtime_config::{ReadConfigError, RuntimeConfig};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It cannot be read.
    #[error("failed to read the configuration {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its content cannot be used.
    #[error("failed to use the configuration {path}")]
    Use {
        /// The file.
        path: PathBuf,
        /// Its problems.
        #[source]
        source: ReadConfigError,
    },
}

/// The bytes of the file.
///
/// # Errors
/// [`ConfigFileError::Read`].
pub async fn read(path: &Path) -> Result<Vec<u8>, ConfigFileError> {
    tokio::fs::read(path).await.map_err(|source| ConfigFileError::Read { path: path.to_owned(), source })
}

/// The configuration that the bytes of the file hold.
///
/// # Errors
/// [`ConfigFileError::Use`].
pub fn parse(path: &Path, json: &[u8]) -> Result<RuntimeConfig, ConfigFileError> {
    RuntimeConfig::from_json(json).map_err(|source| ConfigFileError::Use { path: path.to_owned(), source })
}
