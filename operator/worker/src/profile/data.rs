//! Data of the user's, as it was when the campaign was planned. Reads IO.

use std::{fs, io, path::PathBuf};

use slipway_worker_contract::{DataFile, Digest};

use crate::hash;

/// Says why data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Rows of this campaign would be compared with rows of other data.
    #[error(
        "{} has changed since the campaign was planned: its digest is {found}, not {planned}; a campaign with the present data begins by itself",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: Digest,
        /// What was planned.
        planned: Digest,
    },
}

/// Reads the text.
///
/// # Errors
/// [`DataError`] if there is none, or another than was planned.
pub fn read(file: &DataFile) -> Result<String, DataError> {
    let path = PathBuf::from(&file.path);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(DataError::Read { path, source }),
    };
    let found = hash::bytes(text.as_bytes());
    if found == file.digest { Ok(text) } else { Err(DataError::Changed { path, found, planned: file.digest.clone() }) }
}

/// Writes a text and names it by its digest.
#[cfg(test)]
pub fn written(path: &std::path::Path, text: &str) -> DataFile {
    fs::write(path, text).unwrap();
    DataFile { path: path.to_str().unwrap().to_owned(), digest: hash::bytes(text.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_has_changed_since_the_campaign_was_planned_is_not_measured() {
        let dir = tempfile::tempdir().unwrap();
        let file = written(&dir.path().join("prompts.jsonl"), "one\n");
        assert_eq!(read(&file).unwrap(), "one\n");
        let after = written(&dir.path().join("prompts.jsonl"), "two\n");
        let said = read(&file).unwrap_err().to_string();
        let expected = format!(
            "{} has changed since the campaign was planned: its digest is {}, not {}; a campaign with the present data begins by itself",
            file.path, after.digest, file.digest
        );
        assert_eq!(said, expected);
    }

    #[test]
    fn data_that_is_not_there_is_named() {
        let file = DataFile { path: "/none".to_owned(), digest: hash::bytes(b"") };
        assert_eq!(read(&file).unwrap_err().to_string(), "failed to read /none");
    }
}
