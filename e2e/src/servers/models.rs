//! A place for models: each folder below the root is a checkpoint, served with the list of its files. A folder's own
//! list goes first, right or wrong.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path as UrlPath, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;
use walkdir::WalkDir;

/// Why a folder cannot be served.
#[derive(Debug, Error)]
pub enum ModelsError {
    /// The folder cannot be walked.
    #[error("failed to list the folder of models")]
    List(#[source] walkdir::Error),
    /// A file cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
}

/// The service: `GET /{model}/manifest.json` lists `{"files":[{path, size, sha256}]}`, `GET /{model}/{path}` gives a
/// file.
pub fn router(root: PathBuf) -> Router {
    Router::new().route("/{model}/manifest.json", get(manifest)).route("/{model}/{*path}", get(file)).with_state(root)
}

/// The files of a checkpoint, sorted by path.
///
/// # Errors
/// When the folder or a file cannot be read.
pub fn list(folder: &Path) -> Result<Value, ModelsError> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(ModelsError::List)?;
        if !entry.file_type().is_file() {
            continue;
        }
        let content =
            fs::read(entry.path()).map_err(|source| ModelsError::Read { path: entry.path().to_owned(), source })?;
        let path = entry.path().strip_prefix(folder).unwrap_or(entry.path()).to_string_lossy().into_owned();
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        files.push(json!({ "path": path, "size": content.len(), "sha256": digest }));
    }
    Ok(json!({ "files": files }))
}

/// Names with a dot at the start or a slash are not models: nothing outside the root is served.
fn folder_of(root: &Path, model: &str) -> Option<PathBuf> {
    let folder = root.join(model);
    (!model.starts_with('.') && !model.contains('/') && folder.is_dir()).then_some(folder)
}

async fn manifest(State(root): State<PathBuf>, UrlPath(model): UrlPath<String>) -> Response {
    let Some(folder) = folder_of(&root, &model) else { return StatusCode::NOT_FOUND.into_response() };
    if let Ok(own) = fs::read(folder.join("manifest.json")) {
        return ([(header::CONTENT_TYPE, "application/json")], Bytes::from(own)).into_response();
    }
    match list(&folder) {
        Ok(list) => axum::Json(list).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn file(State(root): State<PathBuf>, UrlPath((model, path)): UrlPath<(String, String)>) -> Response {
    let is_inside = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let Some(folder) = folder_of(&root, &model).filter(|_| is_inside) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match fs::read(folder.join(path)) {
        Ok(content) => ([(header::CONTENT_TYPE, "application/octet-stream")], Bytes::from(content)).into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}
