//! Lists the files of a folder.

use std::{
    io,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

/// Says what cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The folder or one below it cannot be read.
    #[error("failed to list {}", path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A symbolic link, socket, pipe or device: it has no bytes of its own that a digest could stand for.
    #[error("{} is not a plain file: replace links by the files they point to", path.display())]
    NotPlain {
        /// The entry.
        path: PathBuf,
    },
    /// A name that is not UTF-8.
    #[error("the file name {} is not UTF-8", path.display())]
    NotUtf8 {
        /// The entry.
        path: PathBuf,
    },
}

/// Returns the relative paths of all files below `root`, sorted, with forward slashes.
///
/// # Errors
/// [`TreeError`] names the entry.
pub fn files(root: &Path) -> Result<Vec<String>, TreeError> {
    let mut paths = Vec::new();
    for entry in WalkDir::new(root).follow_root_links(true) {
        let entry = entry.map_err(|e| list_error(root, e))?;
        if entry.file_type().is_dir() {
            continue;
        }
        if !entry.file_type().is_file() {
            return Err(TreeError::NotPlain { path: entry.path().to_owned() });
        }
        let relative = entry.path().strip_prefix(root).ok().and_then(Path::to_str);
        paths.push(relative.ok_or_else(|| TreeError::NotUtf8 { path: entry.path().to_owned() })?.to_owned());
    }
    paths.sort();
    Ok(paths)
}

fn list_error(root: &Path, error: walkdir::Error) -> TreeError {
    let path = error.path().unwrap_or(root).to_owned();
    TreeError::List { path, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_and_relative() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("b/c")).unwrap();
        for path in ["z", "b/c/d", "b/a"] {
            std::fs::write(dir.path().join(path), path).unwrap();
        }
        assert_eq!(files(dir.path()).unwrap(), ["b/a", "b/c/d", "z"]);
    }

    #[test]
    fn a_link_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("weights.bin")).unwrap();
        let text = files(dir.path()).unwrap_err().to_string();
        assert!(text.ends_with("weights.bin is not a plain file: replace links by the files they point to"), "{text}");
    }
}
