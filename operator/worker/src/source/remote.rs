//! Models that are files over HTTP: Hugging Face hubs and web folders.
//!
//! Hub API: <https://huggingface.co/docs/hub/api> (`GET /api/models/{repo}/revision/{rev}?blobs=true` for the commit
//! and the files, `GET /{repo}/resolve/{commit}/{path}` for their bytes). A web folder is a URL that ends in `/` and
//! has a `manifest.json` of the form `{"files":[{"path","size","sha256"}]}`.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use slipway_worker_contract::{Digest, ModelUri};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    Access, QUANT_CONFIG, SourceError, Survey,
    listing::{SourceFile, is_wanted},
    shape::{MAX_HEADER_BYTES, header_length},
};
use crate::{
    hash,
    http::{Fetcher, body_error},
};

/// Most bytes of a list of files or a config.json.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// A listed source.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The URI, its revision pinned.
    pub uri: String,
    /// The commit, where there are commits.
    pub commit: Option<String>,
    /// What each file's URL begins with.
    pub base: String,
    /// The files.
    pub files: Vec<RemoteFile>,
}

/// A file as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RemoteFile {
    /// Relative path.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Known for web folders and the hub's large files.
    pub sha256: Option<Digest>,
}

#[derive(Deserialize)]
struct FolderDocument {
    files: Vec<RemoteFile>,
}

#[derive(Deserialize)]
struct HubDocument {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Digest,
    size: u64,
}

impl Remote {
    /// Returns the URL of a file.
    pub fn url(&self, path: &str) -> String {
        let encoded: Vec<String> = path.split('/').map(percent_encoded).collect();
        format!("{}{}", self.base, encoded.join("/"))
    }

    fn checked(self, url: &str) -> Result<Self, SourceError> {
        if self.files.is_empty() {
            return Err(SourceError::Empty { uri: self.uri });
        }
        let leaves = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | ".."));
        match self.files.iter().find(|file| leaves(&file.path)) {
            Some(file) => Err(SourceError::UnsafePath { url: url.to_owned(), path: file.path.clone() }),
            None => Ok(self),
        }
    }
}

/// Lists a web folder.
///
/// # Errors
/// [`SourceError`] if its manifest.json is missing or malformed.
pub async fn list_folder(url: &str, access: &Access) -> Result<Remote, SourceError> {
    let document = format!("{url}manifest.json");
    let FolderDocument { files } = get_json(&access.fetcher, &document, "list of files ({\"files\":[...]})").await?;
    Remote { uri: url.to_owned(), commit: None, base: url.to_owned(), files }.checked(&document)
}

/// Lists a repository of a hub at a revision.
///
/// # Errors
/// [`SourceError`] if the hub does not know it or does not let us in.
pub async fn list_hub(repository: &str, revision: &str, access: &Access) -> Result<Remote, SourceError> {
    let endpoint = access.hub_endpoint.trim_end_matches('/');
    let document = format!("{endpoint}/api/models/{repository}/revision/{}?blobs=true", percent_encoded(revision));
    let found: HubDocument = get_json(&access.fetcher, &document, "valid answer of a Hugging Face hub").await?;
    let has_safetensors =
        found.siblings.iter().any(|s| !s.rfilename.contains('/') && s.rfilename.ends_with(".safetensors"));
    let files = found
        .siblings
        .into_iter()
        .filter(|s| is_wanted(&s.rfilename, has_safetensors))
        .map(|Sibling { rfilename: path, size, lfs }| match lfs {
            Some(lfs) => RemoteFile { path, size: lfs.size, sha256: Some(lfs.sha256) },
            None => RemoteFile { path, size, sha256: None },
        })
        .collect();
    let pinned = ModelUri::Hub { repository: repository.to_owned(), revision: found.sha.clone() };
    let base = format!("{endpoint}/{repository}/resolve/{}/", found.sha);
    Remote { uri: pinned.to_string(), commit: Some(found.sha), base, files }.checked(&document)
}

/// Completes a list: digests that the server does not declare are computed, headers and config.json are read.
///
/// # Errors
/// [`SourceError`] names the URL.
pub async fn survey(remote: &Remote, access: &Access) -> Result<Survey, SourceError> {
    let files = digests(remote, access).await?;
    let mut headers = BTreeMap::new();
    for file in remote.files.iter().filter(|file| file.path.ends_with(".safetensors")) {
        headers.insert(file.path.clone(), header(&access.fetcher, &remote.url(&file.path)).await?);
    }
    let config = document(remote, "config.json", access).await?;
    let quant_config = document(remote, QUANT_CONFIG, access).await?;
    Ok(Survey { uri: remote.uri.clone(), commit: remote.commit.clone(), files, config, quant_config, headers })
}

/// A file of the root, if it is listed.
async fn document(remote: &Remote, path: &str, access: &Access) -> Result<Option<Vec<u8>>, SourceError> {
    match remote.files.iter().any(|file| file.path == path) {
        true => prefix(&access.fetcher, &remote.url(path), MAX_DOCUMENT_BYTES).await.map(Some),
        false => Ok(None),
    }
}

async fn digests(remote: &Remote, access: &Access) -> Result<Vec<SourceFile>, SourceError> {
    let slots = Arc::new(Semaphore::new(access.threads));
    let mut tasks = JoinSet::new();
    let mut files = Vec::new();
    for RemoteFile { path, size, sha256 } in remote.files.iter().cloned() {
        match sha256 {
            Some(sha256) => files.push(SourceFile { path, size, sha256 }),
            None => {
                let (fetcher, url, slots) = (access.fetcher.clone(), remote.url(&path), Arc::clone(&slots));
                tasks.spawn(async move {
                    let _slot = slots.acquire_owned().await;
                    stream_digest(&fetcher, &url).await.map(|(size, sha256)| SourceFile { path, size, sha256 })
                });
            }
        }
    }
    while let Some(done) = tasks.join_next().await {
        files.push(done.map_err(SourceError::Interrupted)??);
    }
    files.sort();
    Ok(files)
}

async fn stream_digest(fetcher: &Fetcher, url: &str) -> Result<(u64, Digest), SourceError> {
    let mut response = fetcher.get(url, 0).await.map_err(SourceError::Http)?;
    let (mut size, mut sha256) = (0, Sha256::new());
    while let Some(chunk) = response.chunk().await.map_err(|e| SourceError::Http(body_error(url, e)))? {
        size += chunk.len() as u64;
        sha256.update(&chunk);
    }
    Ok((size, hash::finish(sha256)))
}

async fn header(fetcher: &Fetcher, url: &str) -> Result<Vec<u8>, SourceError> {
    // Most headers are smaller than this, so that one request does.
    const FIRST: usize = 1 << 20;
    let mut bytes = prefix(fetcher, url, FIRST).await?;
    let Ok(length) = header_length(url, bytes.get(..8).unwrap_or(&bytes)) else { return Ok(bytes) };
    let wanted = usize::try_from(length.min(MAX_HEADER_BYTES)).unwrap_or(FIRST) + 8;
    if bytes.len() < wanted && bytes.len() == FIRST {
        bytes = prefix(fetcher, url, wanted).await?;
    }
    bytes.truncate(wanted);
    Ok(bytes.split_off(8))
}

async fn prefix(fetcher: &Fetcher, url: &str, limit: usize) -> Result<Vec<u8>, SourceError> {
    fetcher.prefix(url, limit).await.map_err(SourceError::Http)
}

async fn get_json<T: for<'de> Deserialize<'de>>(
    fetcher: &Fetcher,
    url: &str,
    expected: &'static str,
) -> Result<T, SourceError> {
    let bytes = prefix(fetcher, url, MAX_DOCUMENT_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|source| SourceError::Answer { url: url.to_owned(), expected, source })
}

/// Encodes one path segment (RFC 3986, section 2.3: unreserved characters stay).
fn percent_encoded(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
