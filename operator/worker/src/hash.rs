//! SHA-256 of bytes, files, chunks and trees.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use slipway_worker_contract::{CHUNK_BYTES, Digest, ManifestFile};

use crate::parallel;

/// Bytes read at a time: large enough that a network file system streams.
const BUFFER_BYTES: usize = 1 << 20;

/// Says which file could not be hashed.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}", path.display())]
pub struct HashError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Hashes text or bytes in memory.
pub fn bytes(data: &[u8]) -> Digest {
    finish(Sha256::new_with_prefix(data))
}

/// Ends a running hash.
pub fn finish(hash: Sha256) -> Digest {
    Digest::from_bytes(&hash.finalize().into())
}

/// Hashes everything that a reader still gives.
///
/// # Errors
/// What the reader says.
pub fn reader(from: impl Read) -> io::Result<Digest> {
    absorb(Sha256::new(), from).map(finish)
}

/// Adds everything that a reader still gives to a running hash.
///
/// # Errors
/// What the reader says.
pub fn absorb(mut hash: Sha256, mut from: impl Read) -> io::Result<Sha256> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hash),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Hashes a file.
///
/// # Errors
/// [`HashError`] names the file.
pub fn file(path: &Path) -> Result<Digest, HashError> {
    File::open(path).and_then(reader).map_err(|source| HashError { path: path.to_owned(), source })
}

/// Reads one chunk of a file: [`CHUNK_BYTES`] from `index * CHUNK_BYTES`, or what is left of it.
///
/// # Errors
/// What the system says; a file that ends early is `UnexpectedEof`.
pub fn read_chunk(file: &File, size: u64, index: u64) -> io::Result<Vec<u8>> {
    let start = index * CHUNK_BYTES;
    let length = CHUNK_BYTES.min(size.saturating_sub(start));
    let mut data = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut data, start)?;
    Ok(data)
}

/// Describes files of a tree for a manifest, whole files and chunks in parallel.
///
/// # Errors
/// [`HashError`] names the file that could not be read.
pub fn tree(root: &Path, paths: &[String], threads: usize) -> Result<Vec<ManifestFile>, HashError> {
    let mut parts = Vec::new();
    for path in paths {
        let absolute = root.join(path);
        let size = std::fs::metadata(&absolute).map_err(|source| HashError { path: absolute, source })?.len();
        parts.push(Part { path, size, chunk: None });
        // A file of one chunk has the chunk's digest.
        let chunks = if size > CHUNK_BYTES { size.div_ceil(CHUNK_BYTES) } else { 0 };
        parts.extend((0..chunks).map(|chunk| Part { path, size, chunk: Some(chunk) }));
    }
    let digests = parallel::map(&parts, threads, |part| part.digest(root))?;
    let mut files: Vec<ManifestFile> = Vec::with_capacity(paths.len());
    for (part, digest) in parts.iter().zip(digests) {
        match (part.chunk, files.last_mut()) {
            (Some(_), Some(file)) => file.chunks.push(digest),
            _ => files.push(part.file(digest)),
        }
    }
    Ok(files)
}

/// What one thread hashes at a time; a file's whole comes before its chunks.
struct Part<'a> {
    path: &'a str,
    size: u64,
    chunk: Option<u64>,
}

impl Part<'_> {
    fn digest(&self, root: &Path) -> Result<Digest, HashError> {
        let path = root.join(self.path);
        match self.chunk {
            None => file(&path),
            Some(index) => File::open(&path)
                .and_then(|file| read_chunk(&file, self.size, index))
                .map(|data| bytes(&data))
                .map_err(|source| HashError { path, source }),
        }
    }

    fn file(&self, sha256: Digest) -> ManifestFile {
        let one_chunk = (1..=CHUNK_BYTES).contains(&self.size);
        let chunks = if one_chunk { vec![sha256.clone()] } else { Vec::new() };
        ManifestFile { path: self.path.to_owned(), size: self.size, sha256, chunks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_the_published_one() {
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(bytes(b"abc").as_str(), expected);
        assert_eq!(reader(&b"abc"[..]).unwrap().as_str(), expected);
    }

    #[test]
    fn a_tree_is_described_file_by_file_and_chunk_by_chunk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("empty"), b"").unwrap();
        let large = File::create(dir.path().join("large")).unwrap();
        large.set_len(CHUNK_BYTES + 3).unwrap();
        large.write_all_at(b"end", CHUNK_BYTES).unwrap();

        let files = tree(dir.path(), &["empty".into(), "large".into()], 2).unwrap();

        let empty = ManifestFile { path: "empty".into(), size: 0, sha256: bytes(b""), chunks: vec![] };
        assert_eq!(files[0], empty);
        assert_eq!(files[1].size, CHUNK_BYTES + 3);
        assert_eq!(files[1].chunks, [bytes(&vec![0; CHUNK_BYTES as usize]), bytes(b"end")]);
        assert_eq!(files[1].sha256, file(&dir.path().join("large")).unwrap());
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let error = tree(Path::new("/nonexistent"), &["x".into()], 1).unwrap_err();
        assert_eq!(error.to_string(), "failed to read /nonexistent/x");
    }
}
