//! Mounted files of tokens and keys, which are taken over again when they change. IO.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use super::{
    keys::{KeySet, KeySetError},
    token_file::{TokenFile, TokenFileError},
};

/// What a file of credentials holds.
pub(super) trait Content: Sized {
    /// Reads the bytes of a file.
    fn parse(bytes: &[u8]) -> Result<Self, ContentError>;
}

/// What is wrong with the content of a file.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It holds no tokens.
    #[error(transparent)]
    Tokens(TokenFileError),
    /// It holds no keys.
    #[error(transparent)]
    Keys(KeySetError),
}

/// Why a file of credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialFileError {
    /// It cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its content cannot be used.
    #[error("failed to use {}", path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ContentError,
    },
}

impl Content for TokenFile {
    fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        Self::parse(bytes).map_err(ContentError::Tokens)
    }
}

impl Content for KeySet {
    fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        Self::parse(bytes).map_err(ContentError::Keys)
    }
}

/// A file, and what it held when it could be used last.
#[derive(Debug)]
pub(super) struct Watched<C> {
    path: PathBuf,
    content: RwLock<Arc<C>>,
    /// The bytes that were read last, so that an unusable file is reported once.
    seen: Mutex<Vec<u8>>,
}

impl<C: Content> Watched<C> {
    /// Reads a file for the first time.
    pub(super) fn open(path: &str) -> Result<Self, CredentialFileError> {
        let path = PathBuf::from(path);
        let bytes = fs::read(&path).map_err(|source| CredentialFileError::Read { path: path.clone(), source })?;
        let content = parse(&path, &bytes)?;
        Ok(Self { path, content: RwLock::new(Arc::new(content)), seen: Mutex::new(bytes) })
    }

    /// What it holds.
    pub(super) fn get(&self) -> Arc<C> {
        // No code panics while it holds the lock.
        Arc::clone(&self.content.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads it again, and says whether something new was taken over. What is in force stays so while the file cannot
    /// be used.
    pub(super) async fn look(&self) -> Result<bool, CredentialFileError> {
        let read = tokio::fs::read(&self.path).await;
        let bytes = read.map_err(|source| CredentialFileError::Read { path: self.path.clone(), source })?;
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == bytes {
                return Ok(false);
            }
            seen.clone_from(&bytes);
        }
        let content = Arc::new(parse(&self.path, &bytes)?);
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = content;
        Ok(true)
    }
}

fn parse<C: Content>(path: &Path, bytes: &[u8]) -> Result<C, CredentialFileError> {
    C::parse(bytes).map_err(|source| CredentialFileError::Use { path: path.to_owned(), source })
}
