//! Folders that Kubernetes mounts: the files of a Secret or a ConfigMap. IO.

use std::{io, path::PathBuf};

/// A file of a mounted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) text: String,
}

/// A mounted folder or a file in it cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct ReadMountedError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Reads every file of a folder, by name. Kubernetes' own entries begin with `..` and are skipped.
pub(super) async fn files(folder: &str) -> Result<Vec<File>, ReadMountedError> {
    let unreadable = |path: &str| {
        let path = PathBuf::from(path);
        move |source| ReadMountedError { path, source }
    };
    let mut files = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await.map_err(unreadable(folder))?;
    while let Some(entry) = entries.next_entry().await.map_err(unreadable(folder))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("..") {
            continue;
        }
        let path = format!("{folder}/{name}");
        let text = tokio::fs::read_to_string(&path).await.map_err(unreadable(&path))?;
        files.push(File { name, path, text });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}
