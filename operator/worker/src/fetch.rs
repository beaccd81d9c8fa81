//! `fetch`: a resolved source into the store, once per content.
//!
//! Files are gathered in a hidden folder named by the source's digest, so that the next attempt continues where this
//! one stopped. The list of files is written last, and one rename commits the folder.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use slipway_worker_contract::{Digest, FailureClass, FetchResult, FetchTask, ModelUri, paths};

use crate::{
    download::{self, Gathered},
    failure::Classify,
    lock::{self, LockError},
    source::{
        Access, SourceError, archive, folder,
        listing::{SourceFile, source_digest},
        remote,
    },
    tree,
};

/// Says why the checkpoint is not in the store.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Another Job fetches it.
    #[error("failed to lock the checkpoint's folder")]
    Lock(#[source] LockError),
    /// The source cannot be fetched.
    #[error("failed to fetch {uri}")]
    Source {
        /// The URI of the task.
        uri: String,
        /// What is wrong.
        #[source]
        source: SourceError,
    },
    /// The checkpoint cannot be committed.
    #[error("failed to commit the checkpoint at {}", path.display())]
    Commit {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for FetchError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Source { source, .. } => source.class(),
            Self::Lock(_) | Self::Commit { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Fetches the task's source below `store`.
///
/// # Errors
/// [`FetchError`]; what arrived intact stays for the next attempt.
pub async fn run(task: &FetchTask, access: &Access, store: &Path) -> Result<FetchResult, FetchError> {
    let started = Instant::now();
    let checkpoints = store.join(paths::CHECKPOINTS);
    let target = store.join(paths::checkpoint(&task.source_digest));
    let lock = lock::exclusive(&checkpoints.join(format!(".lock-{}", task.source_digest))).map_err(FetchError::Lock)?;
    let (files, transferred_bytes) = match committed(&target) {
        Some(files) => {
            // A sweep whose lists do not know this fetch yet is to see that somebody needs the checkpoint.
            let path = target.join(paths::CHECKPOINT_MARKER);
            lock::found_again(&path).map_err(|source| FetchError::Commit { path, source })?;
            (files, 0)
        }
        None => {
            let partial = checkpoints.join(format!(".partial-{}", task.source_digest));
            let gathered = gather(task, access, &partial.join("files"))
                .await
                .map_err(|source| FetchError::Source { uri: task.uri.clone(), source })?;
            commit(&partial, &target, &gathered.files)?;
            (gathered.files, gathered.transferred_bytes)
        }
    };
    drop(lock);
    Ok(FetchResult {
        source_digest: task.source_digest.clone(),
        files: files.len() as u32,
        bytes: files.iter().map(|f| f.size).sum(),
        transferred_bytes,
        millis: started.elapsed().as_millis() as u64,
    })
}

/// The store lacks a checkpoint that was fetched.
#[derive(Debug, thiserror::Error)]
#[error("the store has no complete checkpoint {source_digest}: it was collected, or the volume is another one")]
pub struct NoCheckpoint {
    source_digest: Digest,
}

impl Classify for NoCheckpoint {
    fn class(&self) -> FailureClass {
        FailureClass::MissingArtifact
    }
}

/// Checks that a checkpoint is in the store, all files with their sizes.
///
/// # Errors
/// [`NoCheckpoint`] if it is not.
pub fn check(source_digest: &Digest, store: &Path) -> Result<(), NoCheckpoint> {
    let found = committed(&store.join(paths::checkpoint(source_digest)));
    found.map(drop).ok_or_else(|| NoCheckpoint { source_digest: source_digest.clone() })
}

/// Returns a committed checkpoint's files if all are there with their sizes.
fn committed(target: &Path) -> Option<Vec<SourceFile>> {
    let marker = fs::read(target.join(paths::CHECKPOINT_MARKER)).ok()?;
    let files: Vec<SourceFile> = serde_json::from_slice(&marker).ok()?;
    let present = |file: &SourceFile| {
        fs::metadata(target.join("files").join(&file.path)).is_ok_and(|metadata| metadata.len() == file.size)
    };
    files.iter().all(present).then_some(files)
}

async fn gather(task: &FetchTask, access: &Access, into: &Path) -> Result<Gathered, SourceError> {
    let uri: ModelUri = task.uri.parse().map_err(SourceError::Uri)?;
    fs::create_dir_all(into).map_err(|source| SourceError::Write { path: into.to_owned(), source })?;
    let mut gathered = match &uri {
        ModelUri::Hub { repository, revision } => {
            download::all(&remote::list_hub(repository, revision, access).await?, access, into).await?
        }
        ModelUri::Folder { url } => download::all(&remote::list_folder(url, access).await?, access, into).await?,
        ModelUri::Archive { url, compression } => {
            let files = archive::unpack(url, *compression, access, into).await?;
            Gathered { transferred_bytes: files.iter().map(|f| f.size).sum(), files }
        }
        ModelUri::Claim { path, .. } => {
            let (from, to, threads) = (folder::locate(&uri, path, access)?, into.to_owned(), access.threads);
            let paths = folder::list(&uri, &from)?;
            let work = tokio::task::spawn_blocking(move || download::copy_folder(&from, &to, &paths, threads));
            work.await.map_err(SourceError::Interrupted)??
        }
    };
    gathered.files.sort();
    let found = source_digest(&gathered.files);
    if found != task.source_digest {
        let (uri, expected) = (task.uri.clone(), task.source_digest.clone());
        return Err(SourceError::WrongSource { uri, expected, found });
    }
    remove_leftovers(into, &gathered.files)?;
    Ok(gathered)
}

/// Removes files that an earlier attempt left and that are not part of the source.
fn remove_leftovers(folder: &Path, files: &[SourceFile]) -> Result<(), SourceError> {
    let wanted: BTreeSet<&str> = files.iter().map(|f| f.path.as_str()).collect();
    for path in tree::files(folder).map_err(SourceError::List)? {
        if !wanted.contains(path.as_str()) {
            let path = folder.join(path);
            fs::remove_file(&path).map_err(|source| SourceError::Write { path, source })?;
        }
    }
    Ok(())
}

fn commit(partial: &Path, target: &Path, files: &[SourceFile]) -> Result<(), FetchError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| FetchError::Commit { path, source }
    };
    let marker = partial.join(paths::CHECKPOINT_MARKER);
    let bytes = serde_json::to_vec(files).expect("a list of files is plain data");
    fs::write(&marker, bytes).and_then(|()| File::open(&marker)?.sync_all()).map_err(failed(&marker))?;
    // What stands here is incomplete, or it would have been taken as it is.
    if target.exists() {
        fs::remove_dir_all(target).map_err(failed(target))?;
    }
    fs::rename(partial, target).map_err(failed(target))
}
