//! `materialize`: verifies an engine and copies it for Triton.
//!
//! The artifact is copied from the store into an emptyDir or a node-local cache, every chunk compared with its digest.
//! A marker written last says which manifest was verified, so that a second start re-reads sizes and the manifest only.
//! The one file that may differ from the artifact is the model's config.pbtxt: it carries the serving configuration,
//! and is written again from the store at each start.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use slipway_worker_contract::{
    Digest, EngineRef, FailureClass, InvalidManifest, Manifest, MaterializeResult, ServeConfig, paths,
};

use crate::{
    failure::Classify,
    hash,
    repository::{CONFIG_FILE, overrides, text_format::SyntaxError},
    transfer::{self, TransferError},
};

/// Holds the digest of the manifest that was verified here.
const VERIFIED_MARKER: &str = ".slipway-verified";
/// Stands while files are copied: what lies here is ours, and incomplete.
const PARTIAL_MARKER: &str = ".slipway-partial";

/// What to put where.
#[derive(Clone, Debug)]
pub struct MaterializeTask {
    /// The artifact.
    pub engine: EngineRef,
    /// Root of the store's volume.
    pub store: PathBuf,
    /// The folder to fill; made if it is missing.
    pub target: PathBuf,
    /// The model whose configuration gets the overrides.
    pub model: String,
    /// The overrides of the plan.
    pub serve: ServeConfig,
    /// Threads to copy with.
    pub threads: usize,
}

/// Says why the engine is not there.
#[derive(Debug, thiserror::Error)]
pub enum MaterializeError {
    /// The store has no such artifact, or none that was committed.
    #[error("the store has no engine {} with manifest {}: it was collected or never published", engine.identity, engine.manifest_digest)]
    NotInStore {
        /// The artifact.
        engine: EngineRef,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The manifest in the store is another one.
    #[error("{} has digest {found}, the plan says {expected}; delete this artifact so that it is built again", path.display())]
    ManifestDigest {
        /// The manifest's file.
        path: PathBuf,
        /// Digest in the plan.
        expected: Digest,
        /// Digest of its bytes.
        found: Digest,
    },
    /// The manifest has the right digest and cannot be read.
    #[error("failed to read the manifest {}", path.display())]
    Manifest {
        /// The manifest's file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: InvalidManifest,
    },
    /// The target holds files of another owner.
    #[error("{} holds files of another owner ({found}); give an empty folder", target.display())]
    ForeignTarget {
        /// The target.
        target: PathBuf,
        /// One of its entries.
        found: String,
    },
    /// The target cannot be prepared or marked.
    #[error("failed to prepare {}", path.display())]
    Target {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The copy failed.
    #[error("failed to copy the engine")]
    Copy(#[source] TransferError),
    /// The configuration is not protobuf text.
    #[error("failed to apply the serving configuration to {}", path.display())]
    Configure {
        /// The model's configuration.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: SyntaxError,
    },
}

impl Classify for MaterializeError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotInStore { source, .. } if source.kind() != io::ErrorKind::NotFound => FailureClass::Infrastructure,
            Self::NotInStore { .. } => FailureClass::MissingArtifact,
            Self::ManifestDigest { .. } | Self::Manifest { .. } | Self::Configure { .. } => FailureClass::BadModel,
            Self::ForeignTarget { .. } | Self::Target { .. } => FailureClass::Infrastructure,
            Self::Copy(source) => source.class(),
        }
    }
}

/// Verifies the engine and copies it for Triton.
///
/// # Errors
/// [`MaterializeError`]; the target is then not marked as verified.
pub fn run(order: &MaterializeTask) -> Result<MaterializeResult, MaterializeError> {
    let started = Instant::now();
    let artifact = order.store.join(paths::engine(&order.engine));
    let manifest = read_manifest(order, &artifact)?;
    let trusted = is_verified(order, &manifest);
    if !trusted {
        prepare(&order.target)?;
        let copied = transfer::copy(&manifest, &artifact, &order.target, order.threads);
        copied.map_err(|error| failed_copy(order, &artifact, error))?;
        mark_verified(order, &manifest)?;
    }
    configure(order, &artifact, &manifest)?;
    Ok(MaterializeResult {
        manifest_digest: order.engine.manifest_digest.clone(),
        bytes: manifest.total_bytes(),
        verified_bytes: if trusted { 0 } else { manifest.total_bytes() },
        millis: started.elapsed().as_millis() as u64,
    })
}

/// A file that is gone together with the manifest is not damaged: the artifact was removed while it was read.
fn failed_copy(order: &MaterializeTask, artifact: &Path, error: TransferError) -> MaterializeError {
    match error {
        TransferError::Missing { .. } if !artifact.join(paths::MANIFEST_FILE).exists() => {
            MaterializeError::NotInStore { engine: order.engine.clone(), source: io::ErrorKind::NotFound.into() }
        }
        error => MaterializeError::Copy(error),
    }
}

fn read_manifest(order: &MaterializeTask, artifact: &Path) -> Result<Manifest, MaterializeError> {
    let path = artifact.join(paths::MANIFEST_FILE);
    let bytes =
        fs::read(&path).map_err(|source| MaterializeError::NotInStore { engine: order.engine.clone(), source })?;
    let (found, expected) = (hash::bytes(&bytes), order.engine.manifest_digest.clone());
    if found != expected {
        return Err(MaterializeError::ManifestDigest { path, expected, found });
    }
    Manifest::parse(&bytes).map_err(|source| MaterializeError::Manifest { path, source })
}

fn config_path(order: &MaterializeTask) -> String {
    format!("{}/{}/{CONFIG_FILE}", paths::MODEL_REPOSITORY, order.model)
}

/// Trusts an earlier start's work if its marker names this manifest and all sizes still fit.
fn is_verified(order: &MaterializeTask, manifest: &Manifest) -> bool {
    let marker = fs::read_to_string(order.target.join(VERIFIED_MARKER)).unwrap_or_default();
    let config = config_path(order);
    marker.trim() == order.engine.manifest_digest.as_str()
        && manifest.files.iter().all(|file| {
            file.path == config || fs::metadata(order.target.join(&file.path)).is_ok_and(|m| m.len() == file.size)
        })
}

/// Empties the target if it is ours, and marks it as partial.
fn prepare(target: &Path) -> Result<(), MaterializeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| MaterializeError::Target { path, source }
    };
    fs::create_dir_all(target).map_err(failed(target))?;
    let entries = fs::read_dir(target).and_then(|e| e.collect::<io::Result<Vec<_>>>()).map_err(failed(target))?;
    let ours = [PARTIAL_MARKER, VERIFIED_MARKER].iter().any(|marker| target.join(marker).exists());
    // An empty volume of some file systems comes with this folder.
    let foreign = entries.iter().find(|e| e.file_name() != "lost+found");
    if let (false, Some(entry)) = (ours, foreign) {
        let found = entry.file_name().to_string_lossy().into_owned();
        return Err(MaterializeError::ForeignTarget { target: target.to_owned(), found });
    }
    let partial = target.join(PARTIAL_MARKER);
    fs::write(&partial, "").map_err(failed(&partial))?;
    for entry in entries.iter().filter(|e| e.file_name() != "lost+found" && e.file_name() != PARTIAL_MARKER) {
        let path = entry.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed(&path))?;
    }
    Ok(())
}

fn mark_verified(order: &MaterializeTask, manifest: &Manifest) -> Result<(), MaterializeError> {
    let write = |name: &str, bytes: &[u8]| {
        let path = order.target.join(name);
        fs::write(&path, bytes).map_err(|source| MaterializeError::Target { path, source })
    };
    write(paths::MANIFEST_FILE, &manifest.to_bytes())?;
    write(VERIFIED_MARKER, order.engine.manifest_digest.as_str().as_bytes())?;
    let partial = order.target.join(PARTIAL_MARKER);
    fs::remove_file(&partial).map_err(|source| MaterializeError::Target { path: partial, source })
}

/// Writes the model's configuration from the store, verified, with the plan's overrides.
fn configure(order: &MaterializeTask, artifact: &Path, manifest: &Manifest) -> Result<(), MaterializeError> {
    let relative = config_path(order);
    let Some(file) = manifest.files.iter().find(|file| file.path == relative) else { return Ok(()) };
    let (from, to) = (artifact.join(&relative), order.target.join(&relative));
    let text =
        fs::read(&from).map_err(|source| MaterializeError::Copy(TransferError::Read { path: from.clone(), source }))?;
    let found = hash::bytes(&text);
    if found != file.sha256 {
        let (expected, end) = (file.sha256.clone(), text.len() as u64);
        let error = TransferError::WrongDigest { path: from, chunk: 0, start: 0, end, expected, found };
        return Err(MaterializeError::Copy(error));
    }
    let configured = overrides::apply(&String::from_utf8_lossy(&text), &order.serve)
        .map_err(|source| MaterializeError::Configure { path: from, source })?;
    fs::write(&to, configured).map_err(|source| MaterializeError::Target { path: to, source })
}
