//! The checkpoint of the store as a part of an artifact.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use slipway_worker_contract::{Digest, FailureClass, Manifest, ManifestFile, paths};

use crate::{
    failure::Classify,
    hash::{self, HashError},
    transfer::{self, TransferError},
    tree::{self, TreeError},
};

/// A checkpoint of the store, hashed.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    root: PathBuf,
    files: Manifest,
}

/// Says why a checkpoint cannot become part of an artifact.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The store has none, or none that was committed.
    #[error("the store has no checkpoint {digest}: it was collected or never fetched")]
    NotInStore {
        /// The checkpoint.
        digest: Digest,
    },
    /// It cannot be listed.
    #[error("the checkpoint cannot be listed")]
    List(#[source] TreeError),
    /// It cannot be read.
    #[error("the checkpoint cannot be hashed")]
    Hash(#[source] HashError),
    /// It cannot be copied.
    #[error("the checkpoint cannot be copied")]
    Copy(#[source] TransferError),
    /// A folder cannot be made.
    #[error("failed to make {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for CheckpointError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Copy(source) => source.class(),
            Self::NotInStore { .. } | Self::List(_) | Self::Hash(_) | Self::Folder { .. } => {
                FailureClass::Infrastructure
            }
        }
    }
}

impl Checkpoint {
    /// Hashes a checkpoint of the store.
    ///
    /// # Errors
    /// [`CheckpointError`]: it is not there, or cannot be read.
    pub fn read(store: &Path, digest: &Digest, threads: usize) -> Result<Self, CheckpointError> {
        if !store.join(paths::checkpoint(digest)).join(paths::CHECKPOINT_MARKER).is_file() {
            return Err(CheckpointError::NotInStore { digest: digest.clone() });
        }
        let root = store.join(paths::checkpoint_files(digest));
        let names = tree::files(&root).map_err(CheckpointError::List)?;
        let files = Manifest::new(hash::tree(&root, &names, threads).map_err(CheckpointError::Hash)?);
        Ok(Self { root, files })
    }

    /// Its files, by their paths in an artifact.
    pub fn files(&self) -> impl Iterator<Item = ManifestFile> {
        let in_artifact =
            |file: &ManifestFile| ManifestFile { path: format!("{}/{}", paths::CHECKPOINT, file.path), ..file.clone() };
        self.files.files.iter().map(in_artifact)
    }

    /// Puts its files into a folder of the store: as hard links if the file system has them, otherwise as copies.
    /// Nobody writes into files of the store, and readers compare digests.
    ///
    /// # Errors
    /// [`CheckpointError`]; the folder then holds part of the files.
    pub fn place(&self, folder: &Path, threads: usize) -> Result<(), CheckpointError> {
        if self.link(folder)? {
            return Ok(());
        }
        transfer::copy(&self.files, &self.root, folder, threads).map_err(CheckpointError::Copy)
    }

    /// Whether every file could be given a second name.
    fn link(&self, folder: &Path) -> Result<bool, CheckpointError> {
        for file in &self.files.files {
            let (from, to) = (self.root.join(&file.path), folder.join(&file.path));
            let parent = to.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(|source| CheckpointError::Folder { path: parent.to_owned(), source })?;
            if fs::hard_link(&from, &to).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
