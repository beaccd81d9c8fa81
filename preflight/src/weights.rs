//! How much memory the weights of an engine take.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Endings of the files that hold weights, in the formats of every backend.
const ENDINGS: [&str; 12] =
    ["safetensors", "bin", "pt", "pth", "gguf", "engine", "plan", "onnx", "data", "npz", "nemo", "model"];
const MIB: u64 = 1 << 20;

/// Why an engine's files cannot be counted.
#[derive(Debug, Error)]
#[error("failed to read {folder}")]
pub struct WeightsError {
    folder: PathBuf,
    #[source]
    source: io::Error,
}

/// MiB of the weights below a folder, rounded down. A checkpoint may have the same weights in several formats, of which
/// one is loaded: the largest counts.
///
/// # Errors
/// When a folder cannot be read.
pub fn mib(folder: &Path) -> Result<u64, WeightsError> {
    let mut by_ending: BTreeMap<String, u64> = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |source| WeightsError { folder: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if let Some(ending) = ending(&entry.path()) {
                *by_ending.entry(ending).or_default() += metadata.len();
            }
        }
    }
    Ok(by_ending.into_values().max().unwrap_or(0) / MIB)
}

fn ending(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    ENDINGS.contains(&ending).then(|| ending.to_owned())
}
