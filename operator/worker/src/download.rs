//! Brings single files onto disk: resumable, verified, in parallel.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use reqwest::StatusCode;
use sha2::{Digest as _, Sha256};
use slipway_worker_contract::Digest;
use tokio::{io::AsyncWriteExt, sync::Semaphore, task::JoinSet};

use crate::{
    hash,
    http::{Fetcher, HttpError, body_error},
    parallel,
    source::{
        Access, SourceError,
        listing::SourceFile,
        remote::{Remote, RemoteFile},
    },
};

/// Files that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// All files, with the digests of what lies on disk.
    pub files: Vec<SourceFile>,
    /// Bytes transferred by this attempt.
    pub transferred_bytes: u64,
}

/// Downloads all files of a source.
///
/// # Errors
/// The first [`SourceError`]; finished and partial files stay.
pub async fn all(remote: &Remote, access: &Access, into: &Path) -> Result<Gathered, SourceError> {
    let slots = Arc::new(Semaphore::new(access.threads));
    let mut tasks = JoinSet::new();
    for file in &remote.files {
        let slots = Arc::clone(&slots);
        let download = Download {
            fetcher: access.fetcher.clone(),
            uri: remote.uri.clone(),
            url: remote.url(&file.path),
            file: file.clone(),
            target: into.join(&file.path),
        };
        tasks.spawn(async move {
            let _slot = slots.acquire_owned().await;
            download.run().await
        });
    }
    let mut gathered = Gathered { files: Vec::with_capacity(remote.files.len()), transferred_bytes: 0 };
    while let Some(done) = tasks.join_next().await {
        let (file, transferred) = done.map_err(SourceError::Interrupted)??;
        gathered.files.push(file);
        gathered.transferred_bytes += transferred;
    }
    Ok(gathered)
}

/// Copies files of a folder, hashing what is read; files that are there with equal bytes are kept.
///
/// # Errors
/// The first [`SourceError`].
pub fn copy_folder(from: &Path, to: &Path, paths: &[String], threads: usize) -> Result<Gathered, SourceError> {
    let copied = parallel::map(paths, threads, |path| copy_file(from, to, path))?;
    let transferred_bytes = copied.iter().map(|(_, transferred)| transferred).sum();
    Ok(Gathered { files: copied.into_iter().map(|(file, _)| file).collect(), transferred_bytes })
}

fn copy_file(from: &Path, to: &Path, path: &str) -> Result<(SourceFile, u64), SourceError> {
    let (from, target) = (from.join(path), to.join(path));
    let read = |source| SourceError::Hash(hash::HashError { path: from.clone(), source });
    let write = |source| SourceError::Write { path: target.clone(), source };
    let mut source = File::open(&from).map_err(read)?;
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(write)?;
    }
    let mut out = File::create(&target).map_err(write)?;
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        match source.read(&mut buffer).map_err(read)? {
            0 => break,
            n => {
                hash.update(&buffer[..n]);
                io::Write::write_all(&mut out, &buffer[..n]).map_err(write)?;
                size += n as u64;
            }
        }
    }
    out.sync_all().map_err(write)?;
    Ok((SourceFile { path: path.to_owned(), size, sha256: hash::finish(hash) }, size))
}

struct Download {
    fetcher: Fetcher,
    uri: String,
    url: String,
    file: RemoteFile,
    target: PathBuf,
}

impl Download {
    async fn run(self) -> Result<(SourceFile, u64), SourceError> {
        if let Some(found) = self.kept().await? {
            return Ok((found, 0));
        }
        let part = self.part_path();
        if let Some(folder) = part.parent() {
            fs::create_dir_all(folder).map_err(|source| self.write_error(source))?;
        }
        let mut transferred = 0;
        let resumed = self.part_bytes() > 0;
        let mut result = self.complete(&mut transferred).await;
        if resumed && matches!(result, Err(SourceError::WrongDigest { .. } | SourceError::WrongSize { .. })) {
            // The damage may be in what an earlier attempt left; from the start once more, then believe it.
            result = self.complete(&mut transferred).await;
        }
        let found = result?;
        tokio::fs::rename(&part, &self.target).await.map_err(|source| self.write_error(source))?;
        Ok((found, transferred))
    }

    /// Returns the finished file of an earlier attempt, if its bytes are still those.
    async fn kept(&self) -> Result<Option<SourceFile>, SourceError> {
        let (target, size) = (self.target.clone(), self.file.size);
        if !fs::metadata(&target).is_ok_and(|metadata| metadata.len() == size) {
            return Ok(None);
        }
        let work = tokio::task::spawn_blocking(move || hash::file(&target));
        let sha256 = work.await.map_err(SourceError::Interrupted)?.map_err(SourceError::Hash)?;
        let intact = self.file.sha256.as_ref().is_none_or(|expected| *expected == sha256);
        Ok(intact.then(|| SourceFile { path: self.file.path.clone(), size, sha256 }))
    }

    /// Brings the partial file to its end and verifies it; a wrong one is deleted.
    async fn complete(&self, transferred: &mut u64) -> Result<SourceFile, SourceError> {
        let mut tries = 1;
        let sha256 = loop {
            match self.append(transferred).await {
                Ok(sha256) => break sha256,
                Err(SourceError::Http(HttpError::Body { .. })) if tries < self.fetcher.retry.attempts => {
                    tokio::time::sleep(self.fetcher.retry.first_wait * 2_u32.pow(tries - 1)).await;
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let result = self.verified(sha256);
        if result.is_err() {
            tokio::fs::remove_file(self.part_path()).await.map_err(|source| self.write_error(source))?;
        }
        result
    }

    /// Appends what is missing and returns the digest of the whole.
    async fn append(&self, transferred: &mut u64) -> Result<Digest, SourceError> {
        let part = self.part_path();
        let have = self.part_bytes();
        if have > 0 && have == self.file.size {
            return self.part_hash().await.map(hash::finish);
        }
        let start = if have < self.file.size { have } else { 0 };
        let mut response = self.fetcher.get(&self.url, start).await.map_err(SourceError::Http)?;
        let resumes = start > 0 && response.status() == StatusCode::PARTIAL_CONTENT;
        let mut sha256 = if resumes { self.part_hash().await? } else { Sha256::new() };
        let mut options = tokio::fs::OpenOptions::new();
        options.create(true).write(true).append(resumes).truncate(!resumes);
        let mut file = options.open(&part).await.map_err(|source| self.write_error(source))?;
        let body = |error| SourceError::Http(body_error(&self.url, error));
        let result = loop {
            match response.chunk().await.map_err(body) {
                Ok(Some(chunk)) => {
                    sha256.update(&chunk);
                    *transferred += chunk.len() as u64;
                    file.write_all(&chunk).await.map_err(|source| self.write_error(source))?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Also after a broken body, so that the next try finds what arrived.
        file.flush().await.map_err(|source| self.write_error(source))?;
        file.sync_all().await.map_err(|source| self.write_error(source))?;
        result.map(|()| hash::finish(sha256))
    }

    fn verified(&self, found: Digest) -> Result<SourceFile, SourceError> {
        let (uri, path, size) = (self.uri.clone(), self.file.path.clone(), self.part_bytes());
        if size != self.file.size {
            return Err(SourceError::WrongSize { uri, path, expected: self.file.size, found: size });
        }
        match &self.file.sha256 {
            Some(expected) if *expected != found => {
                Err(SourceError::WrongDigest { uri, path, expected: expected.clone(), found })
            }
            Some(_) | None => Ok(SourceFile { path, size, sha256: found }),
        }
    }

    async fn part_hash(&self) -> Result<Sha256, SourceError> {
        let path = self.part_path();
        let work = tokio::task::spawn_blocking(move || hash::absorb(Sha256::new(), File::open(&path)?));
        work.await.map_err(SourceError::Interrupted)?.map_err(|source| self.write_error(source))
    }

    fn part_path(&self) -> PathBuf {
        let mut name = self.target.clone().into_os_string();
        name.push(".part");
        name.into()
    }

    fn part_bytes(&self) -> u64 {
        fs::metadata(self.part_path()).map_or(0, |metadata| metadata.len())
    }

    fn write_error(&self, source: io::Error) -> SourceError {
        SourceError::Write { path: self.target.clone(), source }
    }
}
