//! Copies an artifact's files chunk by chunk, in parallel, comparing each chunk with its digest on the way.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
};

use slipway_worker_contract::{CHUNK_BYTES, Digest, FailureClass, Manifest, ManifestFile};

use crate::{failure::Classify, hash, parallel};

/// Says which file failed to arrive as its manifest says.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source has other bytes than the manifest.
    #[error(
        "{} is damaged: chunk {chunk} (bytes {start} to {end}) has digest {found}, the manifest says {expected}; \
         delete this artifact so that it is built again",
        path.display()
    )]
    WrongDigest {
        /// The file in the store.
        path: PathBuf,
        /// Index of the chunk.
        chunk: u64,
        /// First byte of the chunk.
        start: u64,
        /// One past its last byte.
        end: u64,
        /// Digest in the manifest.
        expected: Digest,
        /// Digest of the bytes read.
        found: Digest,
    },
    /// The source is longer or shorter than the manifest says.
    #[error("{} has {found} bytes, the manifest says {expected}; delete this artifact so that it is built again", path.display())]
    WrongSize {
        /// The file in the store.
        path: PathBuf,
        /// Bytes in the manifest.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The source is gone.
    #[error("{} is in the manifest and not in the store; delete this artifact so that it is built again", path.display())]
    Missing {
        /// The file in the store.
        path: PathBuf,
    },
    /// Reading failed.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Writing failed.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for TransferError {
    fn class(&self) -> FailureClass {
        match self {
            Self::WrongDigest { .. } | Self::WrongSize { .. } | Self::Missing { .. } => FailureClass::BadModel,
            Self::Read { .. } | Self::Write { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Copies all files of `manifest` from one folder to another, and syncs them.
///
/// # Errors
/// The first [`TransferError`]; the target then holds part of the files and must not be used.
pub fn copy(manifest: &Manifest, from: &Path, to: &Path, threads: usize) -> Result<(), TransferError> {
    let files = manifest.files.iter().map(|file| open(file, from, to)).collect::<Result<Vec<_>, _>>()?;
    let chunks: Vec<(usize, u64)> = files
        .iter()
        .enumerate()
        .flat_map(|(index, open)| (0..open.file.chunks.len() as u64).map(move |chunk| (index, chunk)))
        .collect();
    parallel::map(&chunks, threads, |(index, chunk)| files[*index].copy_chunk(*chunk))?;
    parallel::map(&files, threads, |open| {
        open.target.sync_all().map_err(|source| TransferError::Write { path: open.to.clone(), source })
    })?;
    Ok(())
}

struct OpenFile<'a> {
    file: &'a ManifestFile,
    from: PathBuf,
    to: PathBuf,
    source: File,
    target: File,
}

fn open<'a>(file: &'a ManifestFile, from: &Path, to: &Path) -> Result<OpenFile<'a>, TransferError> {
    let (from, to) = (from.join(&file.path), to.join(&file.path));
    let read = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TransferError::Missing { path: from.clone() },
        _ => TransferError::Read { path: from.clone(), source },
    };
    let source = File::open(&from).map_err(read)?;
    let metadata = source.metadata().map_err(read)?;
    if metadata.len() != file.size {
        return Err(TransferError::WrongSize { path: from, expected: file.size, found: metadata.len() });
    }
    // Vendors' helper programs inside a repository stay executable; nothing stays read-only, because the copy may be
    // edited.
    let mode = 0o644 | (metadata.permissions().mode() & 0o111);
    let target = create(&to, mode).map_err(|source| TransferError::Write { path: to.clone(), source })?;
    Ok(OpenFile { file, from, to, source, target })
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = File::options().create(true).truncate(true).write(true).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

impl OpenFile<'_> {
    fn copy_chunk(&self, chunk: u64) -> Result<(), TransferError> {
        let start = chunk * CHUNK_BYTES;
        let data = hash::read_chunk(&self.source, self.file.size, chunk)
            .map_err(|source| TransferError::Read { path: self.from.clone(), source })?;
        let found = hash::bytes(&data);
        let expected = &self.file.chunks[chunk as usize];
        if found != *expected {
            let (path, expected, end) = (self.from.clone(), expected.clone(), start + data.len() as u64);
            return Err(TransferError::WrongDigest { path, chunk, start, end, expected, found });
        }
        self.target.write_all_at(&data, start).map_err(|source| TransferError::Write { path: self.to.clone(), source })
    }
}
