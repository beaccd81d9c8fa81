//! Writes a small file whole or not at all: a volume may be full, and a Job may end at any moment.

use std::{fs, io, path::Path};

/// Writes a file and the folders above it. Until it is whole it has another name; where writing fails, nothing stays.
///
/// # Errors
/// What the system said.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.inspect_err(|_| drop(fs::remove_file(&partial)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/scores.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(&dir.path().join("a/b")), ["scores.json"]);
    }

    #[test]
    fn nothing_stays_of_a_file_that_cannot_be_put_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        // A folder with something in it bears the name.
        fs::create_dir_all(dir.path().join("scores.json/in-the-way")).unwrap();
        assert!(write(&dir.path().join("scores.json"), b"one").is_err());
        assert_eq!(names(dir.path()), ["scores.json"]);
    }
}
