//! Where models come from.
//!
//! A source is *listed* (its files, with the digests it declares), *surveyed* (every file's digest, and the bytes that
//! its shape is read from) and *fetched* (its files on disk). Claims are folders, hubs and web folders are files over
//! HTTP, archives are one stream.

pub mod archive;
pub mod folder;
pub mod listing;
pub mod remote;
pub mod shape;

use std::{collections::BTreeMap, io, path::PathBuf};

use listing::SourceFile;
use slipway_worker_contract::{Digest, FailureClass, UriError};

use crate::{
    failure::Classify,
    hash::HashError,
    http::{Fetcher, HttpError},
    tree::TreeError,
};

/// Where Model Optimizer says how it quantized.
const QUANT_CONFIG: &str = "hf_quant_config.json";

/// What the verbs need to reach any source.
#[derive(Clone, Debug)]
pub struct Access {
    /// For everything over HTTP.
    pub fetcher: Fetcher,
    /// The hub's address, as in `https://huggingface.co`.
    pub hub_endpoint: String,
    /// Where the claim of a `pvc://` URI is mounted.
    pub claim_root: PathBuf,
    /// Files transferred or hashed at a time.
    pub threads: usize,
}

/// Everything known about a source without keeping its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The URI, its revision pinned.
    pub uri: String,
    /// The commit, where there are commits.
    pub commit: Option<String>,
    /// The files, sorted by path.
    pub files: Vec<SourceFile>,
    /// config.json at the root.
    pub config: Option<Vec<u8>>,
    /// hf_quant_config.json at the root, where Model Optimizer says how it quantized.
    pub quant_config: Option<Vec<u8>>,
    /// The headers of safetensors files, without their length bytes.
    pub headers: BTreeMap<String, Vec<u8>>,
}

/// Says why a source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The URI names nothing.
    #[error("the model URI cannot be used")]
    Uri(#[source] UriError),
    /// A server does not answer as it should.
    #[error("the model cannot be read from its server")]
    Http(#[source] HttpError),
    /// The answer is not what the protocol says.
    #[error("{url} is not a {expected}")]
    Answer {
        /// The URL.
        url: String,
        /// What it should be.
        expected: &'static str,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A list of files with a path that leaves its folder.
    #[error("{url} lists the file {path:?}, which is not a relative path")]
    UnsafePath {
        /// The URL.
        url: String,
        /// The path.
        path: String,
    },
    /// There is nothing to fetch.
    #[error("{uri} has no files")]
    Empty {
        /// The URI.
        uri: String,
    },
    /// The claim has no such folder.
    #[error("{uri} does not exist: the claim has no folder {}", path.display())]
    NoFolder {
        /// The URI.
        uri: String,
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be listed.
    #[error("the model's folder cannot be listed")]
    List(#[source] TreeError),
    /// A file cannot be read.
    #[error("the model's files cannot be hashed")]
    Hash(#[source] HashError),
    /// The archive is damaged, or holds what it must not.
    #[error("the archive {url} cannot be read")]
    Archive {
        /// The URL.
        url: String,
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// A file arrived with other bytes than announced.
    #[error("{path} of {uri} has digest {found}, expected {expected}: the source is damaged or has changed meanwhile")]
    WrongDigest {
        /// The URI.
        uri: String,
        /// The file.
        path: String,
        /// As listed.
        expected: Digest,
        /// As received.
        found: Digest,
    },
    /// A file arrived with another size than announced.
    #[error("{path} of {uri} has {found} bytes, expected {expected}: the source is damaged or has changed meanwhile")]
    WrongSize {
        /// The URI.
        uri: String,
        /// The file.
        path: String,
        /// As listed.
        expected: u64,
        /// As received.
        found: u64,
    },
    /// The files together are not those that were resolved.
    #[error(
        "the files of {uri} have digest {found}, but {expected} was resolved: the source has changed since; resolve it again"
    )]
    WrongSource {
        /// The URI.
        uri: String,
        /// As resolved.
        expected: Digest,
        /// As fetched.
        found: Digest,
    },
    /// A file cannot be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A task of ours ended without a result.
    #[error("a transfer was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl Classify for SourceError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Http(source) => source.class(),
            Self::Uri(_)
            | Self::Answer { .. }
            | Self::UnsafePath { .. }
            | Self::Empty { .. }
            | Self::NoFolder { .. }
            | Self::List(_)
            | Self::Archive { .. }
            | Self::WrongDigest { .. }
            | Self::WrongSize { .. }
            | Self::WrongSource { .. } => FailureClass::BadModel,
            Self::Hash(_) | Self::Write { .. } | Self::Interrupted(_) => FailureClass::Infrastructure,
        }
    }
}
