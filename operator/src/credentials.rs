//! Credentials: files that the kubelet mounts, read at every attempt, so that a rotated Secret needs no restart. Reads
//! IO.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use slipway_operator_core::{
    notifications::build::{Secret, SecretError},
    settings::is_url,
};
use thiserror::Error;

/// Bytes of a credential, at most.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a credential cannot be used. What it says is not told.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// The file is too large to be one.
    #[error("{} has {bytes} bytes, too many for a credential", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file holds nothing.
    #[error("{} is empty", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file holds no address.
    #[error("{} does not hold an http or https URL", path.display())]
    Url {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file holds no signing secret.
    #[error("{} holds no signing secret", path.display())]
    Secret {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: SecretError,
    },
}

/// Reads a text without the white space around it.
///
/// # Errors
/// When the file cannot be read, is too large, or is empty.
pub fn text(path: &Path) -> Result<String, CredentialError> {
    let failed = |source| CredentialError::Read { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_BYTES {
        return Err(CredentialError::TooLarge { path: path.to_owned(), bytes });
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    match text.trim() {
        "" => Err(CredentialError::Empty { path: path.to_owned() }),
        text => Ok(text.to_owned()),
    }
}

/// Reads an address.
///
/// # Errors
/// When it cannot be read, or is not a URL.
pub fn url(path: &Path) -> Result<String, CredentialError> {
    let text = text(path)?;
    if is_url(&text) { Ok(text) } else { Err(CredentialError::Url { path: path.to_owned() }) }
}

/// Reads the secrets that events are signed with.
///
/// # Errors
/// When they cannot be read, or are not secrets.
pub fn secret(path: &Path) -> Result<Secret, CredentialError> {
    Secret::parse(&text(path)?).map_err(|source| CredentialError::Secret { path: path.to_owned(), source })
}
