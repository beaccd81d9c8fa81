//! `finish-build`: checks, hashes and publishes what a builder wrote.
//!
//! The artifact is copied into a hidden folder of the store while its chunks are compared with the digests just taken.
//! The manifest is written last, and one rename commits it under its digest. A reader never sees half an artifact.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use slipway_vocabulary::serving::Server;
use slipway_worker_contract::{
    BuildResult, BuildTask, BuilderReport, Digest, EngineRef, FailureClass, Manifest, QualityResult, paths,
};

use crate::{
    failure::Classify,
    hash::{self, HashError},
    lock::{self, LockError},
    no_build::{Checkpoint, CheckpointError},
    quality::{self, QualityError},
    repository::{self, RepositoryError},
    transfer::{self, TransferError},
    tree::{self, TreeError},
};

/// Where a build's output lies and goes.
#[derive(Clone, Debug)]
pub struct Folders {
    /// What the builder wrote.
    pub output: PathBuf,
    /// Root of the store's volume.
    pub store: PathBuf,
    /// The data set with its answers, where the task asks for a score.
    pub dataset: PathBuf,
    /// Threads to hash and copy with.
    pub threads: usize,
}

/// What an artifact is made of.
struct Content {
    /// What the builder wrote.
    written: Manifest,
    /// The checkpoint that it is served with, where nothing is built.
    checkpoint: Option<Checkpoint>,
}

impl Content {
    fn manifest(&self) -> Manifest {
        let checkpoint = self.checkpoint.iter().flat_map(Checkpoint::files);
        Manifest::new(self.written.files.iter().cloned().chain(checkpoint).collect())
    }
}

/// Says why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The identity would leave its folder.
    #[error("the identity {0:?} has characters other than lowercase letters, digits and hyphens")]
    Identity(String),
    /// The builder's work is incomplete.
    #[error("the builder's output is not usable")]
    Incomplete(#[source] RepositoryError),
    /// The output holds something that cannot be published.
    #[error("the builder's output cannot be listed")]
    List(#[source] TreeError),
    /// The output cannot be read.
    #[error("the builder's output cannot be hashed")]
    Hash(#[source] HashError),
    /// The builder's report is malformed.
    #[error("the builder's report {} is not JSON of the documented shape", path.display())]
    Report {
        /// The report.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The checkpoint that is served cannot be put beside the repository.
    #[error("failed to add the checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// Somebody else publishes this engine.
    #[error("failed to lock the engine's folder")]
    Lock(#[source] LockError),
    /// The copy into the store failed.
    #[error("failed to copy the artifact into the store")]
    Copy(#[source] TransferError),
    /// The engine is published and has no score.
    #[error("failed to score the engine")]
    Score(#[source] QualityError),
    /// The commit failed.
    #[error("failed to commit the artifact at {}", path.display())]
    Commit {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for FinishError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Incomplete(source) => source.class(),
            Self::Score(source) => source.class(),
            Self::Checkpoint(source) => source.class(),
            Self::Identity(_) | Self::List(_) | Self::Report { .. } => FailureClass::BadModel,
            Self::Hash(_) | Self::Lock(_) | Self::Copy(_) | Self::Commit { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Checks, hashes and publishes, and scores the evaluation's raw outputs if the task asks for it.
///
/// # Errors
/// [`FinishError`]; the store then holds no partial artifact that a reader could see.
pub fn run(task: &BuildTask, folders: &Folders) -> Result<BuildResult, FinishError> {
    check_identity(&task.identity)?;
    let report = read_report(&folders.output)?;
    let mut durations = report.durations_millis;
    let mut clock = Instant::now();
    let mut lap = |step: &str, durations: &mut BTreeMap<String, u64>| {
        durations.insert(step.to_owned(), clock.elapsed().as_millis() as u64);
        clock = Instant::now();
    };
    if has_repository(task) {
        let repository = folders.output.join(paths::MODEL_REPOSITORY);
        repository::check(&repository, &task.model).map_err(FinishError::Incomplete)?;
    }
    let files = artifact_files(&folders.output)?;
    lap("check", &mut durations);
    let written = Manifest::new(hash::tree(&folders.output, &files, folders.threads).map_err(FinishError::Hash)?);
    let checkpoint =
        task.no_build.as_ref().map(|order| Checkpoint::read(&folders.store, &order.checkpoint, folders.threads));
    let checkpoint = checkpoint.transpose().map_err(FinishError::Checkpoint)?;
    lap("hash", &mut durations);
    let content = Content { written, checkpoint };
    let manifest = content.manifest();
    let engine = publish(&task.identity, &content, folders)?;
    lap("publish", &mut durations);
    let quality = score(task, &engine, folders)?;
    lap("score", &mut durations);
    Ok(BuildResult {
        manifest_digest: engine.manifest_digest,
        files: manifest.files.len() as u32,
        bytes: manifest.total_bytes(),
        durations_millis: durations,
        versions: report.versions,
        quality,
    })
}

/// Whether Triton serves it.
fn has_repository(task: &BuildTask) -> bool {
    task.no_build.as_ref().is_none_or(|order| order.backend.server() == Server::Triton)
}

fn check_identity(identity: &str) -> Result<(), FinishError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if identity.is_empty() || !identity.chars().all(allowed) {
        return Err(FinishError::Identity(identity.to_owned()));
    }
    Ok(())
}

fn read_report(output: &Path) -> Result<BuilderReport, FinishError> {
    let path = output.join(paths::BUILDER_REPORT);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| FinishError::Report { path, source }),
        Err(_) => Ok(BuilderReport::default()),
    }
}

/// Everything that the builder wrote, but its report and the raw outputs of the evaluation.
fn artifact_files(output: &Path) -> Result<Vec<String>, FinishError> {
    let mut files = tree::files(output).map_err(FinishError::List)?;
    files.retain(|path| path != paths::BUILDER_REPORT && !path.starts_with("quality/"));
    Ok(files)
}

fn score(task: &BuildTask, engine: &EngineRef, folders: &Folders) -> Result<Option<QualityResult>, FinishError> {
    let Some(quality) = &task.quality else { return Ok(None) };
    let files = quality::Files {
        dataset: folders.dataset.clone(),
        outputs: folders.output.join(paths::QUALITY_OUTPUTS),
        store: folders.store.clone(),
    };
    quality::run(quality, engine, &files).map(Some).map_err(FinishError::Score)
}

fn publish(identity: &str, content: &Content, folders: &Folders) -> Result<EngineRef, FinishError> {
    let bytes = content.manifest().to_bytes();
    let manifest_digest: Digest = hash::bytes(&bytes);
    let engine = EngineRef { identity: identity.to_owned(), manifest_digest };
    let target = folders.store.join(paths::engine(&engine));
    let family = folders.store.join(paths::engine_artifacts(identity));
    let _lock = lock::exclusive(&family.join(".lock")).map_err(FinishError::Lock)?;
    let manifest = target.join(paths::MANIFEST_FILE);
    if manifest.exists() {
        // A sweep whose lists do not know this build yet is to see that somebody needs the artifact.
        lock::found_again(&manifest).map_err(commit_error(&manifest))?;
        return Ok(engine);
    }
    let partial = family.join(".partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(commit_error(&partial))?;
    }
    transfer::copy(&content.written, &folders.output, &partial, folders.threads).map_err(FinishError::Copy)?;
    if let Some(checkpoint) = &content.checkpoint {
        checkpoint.place(&partial.join(paths::CHECKPOINT), folders.threads).map_err(FinishError::Checkpoint)?;
    }
    commit(&partial, &target, &bytes)?;
    Ok(engine)
}

fn commit(partial: &Path, target: &Path, manifest: &[u8]) -> Result<(), FinishError> {
    let path = partial.join(paths::MANIFEST_FILE);
    fs::write(&path, manifest)
        .and_then(|()| File::open(&path)?.sync_all())
        .and_then(|()| File::open(partial)?.sync_all())
        .map_err(commit_error(&path))?;
    // Without a manifest it was never committed: left by a rename that a crash cut short on a non-atomic file system.
    if target.exists() {
        fs::remove_dir_all(target).map_err(commit_error(target))?;
    }
    fs::rename(partial, target).map_err(commit_error(target))
}

fn commit_error(path: &Path) -> impl FnOnce(io::Error) -> FinishError {
    let path = path.to_owned();
    move |source| FinishError::Commit { path, source }
}
