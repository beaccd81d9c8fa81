//! Models in a mounted claim.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use slipway_worker_contract::ModelUri;

use super::{Access, QUANT_CONFIG, SourceError, Survey, listing::SourceFile, shape::header_length};
use crate::{
    hash::{self, HashError},
    parallel, tree,
};

/// Returns the folder behind `pvc://claim/path`.
///
/// # Errors
/// [`SourceError::NoFolder`] if the claim has none.
pub fn locate(uri: &ModelUri, path: &str, access: &Access) -> Result<PathBuf, SourceError> {
    let folder = access.claim_root.join(path);
    if folder.is_dir() { Ok(folder) } else { Err(SourceError::NoFolder { uri: uri.to_string(), path: folder }) }
}

/// Lists a folder's files with sizes; hidden files are left out.
///
/// # Errors
/// [`SourceError::List`], or [`SourceError::Empty`].
pub fn list(uri: &ModelUri, folder: &Path) -> Result<Vec<String>, SourceError> {
    let mut paths = tree::files(folder).map_err(SourceError::List)?;
    paths.retain(|path| !path.split('/').any(|part| part.starts_with('.')) && !path.starts_with("lost+found/"));
    if paths.is_empty() { Err(SourceError::Empty { uri: uri.to_string() }) } else { Ok(paths) }
}

/// Hashes a folder and reads what its shape needs.
///
/// # Errors
/// [`SourceError`] names the file.
pub fn survey(uri: &ModelUri, folder: &Path, threads: usize) -> Result<Survey, SourceError> {
    let paths = list(uri, folder)?;
    let files = parallel::map(&paths, threads, |path| describe(folder, path)).map_err(SourceError::Hash)?;
    let mut headers = BTreeMap::new();
    for path in paths.iter().filter(|path| path.ends_with(".safetensors")) {
        if let Some(header) = read_header(folder, path).map_err(SourceError::Hash)? {
            headers.insert(path.clone(), header);
        }
    }
    let config = fs::read(folder.join("config.json")).ok();
    let quant_config = fs::read(folder.join(QUANT_CONFIG)).ok();
    Ok(Survey { uri: uri.to_string(), commit: None, files, config, quant_config, headers })
}

fn describe(folder: &Path, path: &str) -> Result<SourceFile, HashError> {
    let absolute = folder.join(path);
    let sha256 = hash::file(&absolute)?;
    let size = fs::metadata(&absolute).map_err(|source| HashError { path: absolute, source })?.len();
    Ok(SourceFile { path: path.to_owned(), size, sha256 })
}

/// Reads a safetensors header; a damaged length is left to the shape's reader, which names it.
fn read_header(folder: &Path, path: &str) -> Result<Option<Vec<u8>>, HashError> {
    let absolute = folder.join(path);
    let failed = |source| HashError { path: absolute.clone(), source };
    let mut file = File::open(&absolute).map_err(failed)?;
    let mut first = Vec::new();
    file.by_ref().take(8).read_to_end(&mut first).map_err(failed)?;
    let Ok(length) = header_length(path, &first) else { return Ok(Some(first)) };
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(failed)?;
    Ok(Some(header))
}
