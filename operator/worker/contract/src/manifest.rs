//! The manifest of an artifact: what it holds, by digest.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The only manifest format so far.
pub const MANIFEST_FORMAT_VERSION: u32 = 1;

/// Bytes of a chunk: 64 MiB. The last chunk of a file is shorter; an empty file has none.
pub const CHUNK_BYTES: u64 = 64 << 20;

/// Lists an artifact's files.
///
/// # Invariants
/// Files are sorted by path, each path is relative, unique and free of `.` and `..`, and a file has
/// `ceil(size / CHUNK_BYTES)` chunk digests. [`Manifest::validate`] checks them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// [`MANIFEST_FORMAT_VERSION`].
    pub format_version: u32,
    /// The files, sorted by path; the manifest itself is not among them.
    pub files: Vec<ManifestFile>,
}

/// Describes one file of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestFile {
    /// Relative path with forward slashes.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the whole file.
    pub sha256: Digest,
    /// SHA-256 of each chunk of [`CHUNK_BYTES`].
    pub chunks: Vec<Digest>,
}

/// Says what is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidManifest {
    /// It is not JSON of this shape; the parser's words.
    Syntax(String),
    /// Written by a newer worker.
    FormatVersion(u32),
    /// An absolute path, one that leaves the artifact, or an empty one.
    Path(String),
    /// Paths out of order, or one path twice.
    Order(String),
    /// A number of chunk digests that does not fit the size.
    Chunks {
        /// The file.
        path: String,
        /// Digests that its size asks for.
        expected: u64,
        /// Digests that are there.
        found: usize,
    },
}

impl Manifest {
    /// Makes a manifest of files in any order.
    pub fn new(mut files: Vec<ManifestFile>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { format_version: MANIFEST_FORMAT_VERSION, files }
    }

    /// Parses a manifest's bytes and checks its invariants.
    ///
    /// # Errors
    /// [`InvalidManifest`] names the first path or field that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidManifest> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|e| InvalidManifest::Syntax(e.to_string()))?;
        manifest.validate()?;
        Ok(manifest)
    }

    /// Writes the bytes whose SHA-256 is the manifest digest: compact JSON, one file a line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let files: Vec<String> =
            self.files.iter().map(|f| serde_json::to_string(f).expect("a manifest file is plain data")).collect();
        format!("{{\"formatVersion\":{},\"files\":[\n{}\n]}}\n", self.format_version, files.join(",\n")).into_bytes()
    }

    /// Sums the files' sizes in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// [`InvalidManifest`] names the first path or field that is wrong.
    pub fn validate(&self) -> Result<(), InvalidManifest> {
        if self.format_version != MANIFEST_FORMAT_VERSION {
            return Err(InvalidManifest::FormatVersion(self.format_version));
        }
        for file in &self.files {
            file.validate()?;
        }
        match self.files.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            Some(pair) => Err(InvalidManifest::Order(pair[1].path.clone())),
            None => Ok(()),
        }
    }
}

impl ManifestFile {
    fn validate(&self) -> Result<(), InvalidManifest> {
        if !is_safe_relative(&self.path) {
            return Err(InvalidManifest::Path(self.path.clone()));
        }
        let expected = self.size.div_ceil(CHUNK_BYTES);
        if expected != self.chunks.len() as u64 {
            return Err(InvalidManifest::Chunks { path: self.path.clone(), expected, found: self.chunks.len() });
        }
        Ok(())
    }
}

fn is_safe_relative(path: &str) -> bool {
    !path.contains(['\\', '\0']) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl fmt::Display for InvalidManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => write!(f, "the manifest is not valid JSON of format 1: {reason}"),
            Self::FormatVersion(found) => write!(
                f,
                "the manifest has formatVersion {found}; this worker reads {MANIFEST_FORMAT_VERSION}: use a newer one"
            ),
            Self::Path(path) => {
                write!(f, "the manifest names {path:?}, which is not a relative path inside an artifact")
            }
            Self::Order(path) => write!(f, "the manifest's files are not sorted or not unique at {path:?}"),
            Self::Chunks { path, expected, found } => {
                write!(f, "the manifest has {found} chunk digests for {path:?}; its size asks for {expected}")
            }
        }
    }
}

impl std::error::Error for InvalidManifest {}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> ManifestFile {
        let digest = Digest::from_bytes(&[7; 32]);
        let chunks = vec![digest.clone(); size.div_ceil(CHUNK_BYTES) as usize];
        ManifestFile { path: path.into(), size, sha256: digest, chunks }
    }

    #[test]
    fn a_manifest_survives_its_bytes_whatever_order_its_files_came_in() {
        let manifest = Manifest::new(vec![file("b", CHUNK_BYTES + 1), file("a/c", 0)]);
        assert_eq!(Manifest::parse(&manifest.to_bytes()).unwrap(), manifest);
        assert_eq!(manifest.files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["a/c", "b"]);
        assert_eq!(manifest.total_bytes(), CHUNK_BYTES + 1);
    }

    #[test]
    fn a_path_that_leaves_the_artifact_is_refused_by_name() {
        for path in ["../x", "/etc/passwd", "a//b", "a/./b", ""] {
            let manifest = Manifest { format_version: 1, files: vec![file(path, 1)] };
            assert_eq!(manifest.validate().unwrap_err(), InvalidManifest::Path(path.into()));
        }
    }

    #[test]
    fn a_manifest_with_too_few_chunks_says_how_many_it_needs() {
        let mut short = file("weights.bin", 3 * CHUNK_BYTES);
        short.chunks.pop();
        let error = Manifest { format_version: 1, files: vec![short] }.validate().unwrap_err();
        assert_eq!(error.to_string(), "the manifest has 2 chunk digests for \"weights.bin\"; its size asks for 3");
    }

    #[test]
    fn a_newer_format_asks_for_a_newer_worker() {
        let error = Manifest::parse(b"{\"formatVersion\":2,\"files\":[]}").unwrap_err();
        assert_eq!(error.to_string(), "the manifest has formatVersion 2; this worker reads 1: use a newer one");
    }
}
