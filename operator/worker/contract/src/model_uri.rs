//! Where a checkpoint is: the URIs of `spec.model.uri`. Pure.

use std::{fmt, str::FromStr};

/// What a model URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelUri {
    /// `hf://org/name@revision`: a repository of a Hugging Face hub.
    Hub {
        /// `org/name`, or `name` alone for the hub's oldest models.
        repository: String,
        /// Branch, tag or commit; `main` where the URI has none.
        revision: String,
    },
    /// `pvc://claim/path`: a folder of a claim that the operator mounts read-only.
    Claim {
        /// Name of the PersistentVolumeClaim.
        claim: String,
        /// Folder inside it, without slashes at its ends; empty for the root.
        path: String,
    },
    /// `http(s)://host/path/`: a folder whose `manifest.json` lists its files.
    Folder {
        /// The URL, ending in a slash.
        url: String,
    },
    /// `http(s)://host/model.tar[.gz]`: one archive.
    Archive {
        /// The URL.
        url: String,
        /// Whether the archive is compressed.
        compression: Compression,
    },
}

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `.tar`
    None,
    /// `.tar.gz`, `.tgz`
    Gzip,
}

/// Says why a text names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// A scheme that exists and is not supported by this release.
    #[error(
        "the model URI {uri:?} has scheme {scheme}://, which this release does not support: copy the model to a claim \
         (pvc://claim/path) or serve it by http(s)://"
    )]
    Unsupported {
        /// The URI.
        uri: String,
        /// Its scheme.
        scheme: String,
    },
    /// No known scheme.
    #[error("the model URI {uri:?} needs one of the schemes hf://, pvc://, http://, https://")]
    Scheme {
        /// The URI.
        uri: String,
    },
    /// A part is missing or malformed.
    #[error("the model URI {uri:?} is malformed: {reason}")]
    Malformed {
        /// The URI.
        uri: String,
        /// What is wrong, and the form to use.
        reason: &'static str,
    },
}

impl FromStr for ModelUri {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        let malformed = |reason| UriError::Malformed { uri: uri.to_owned(), reason };
        match uri.split_once("://") {
            Some(("hf", rest)) => hub(rest).map_err(malformed),
            Some(("pvc", rest)) => claim(rest).map_err(malformed),
            Some(("http" | "https", rest)) => web(uri, rest).map_err(malformed),
            Some((scheme @ ("s3" | "gs" | "oci" | "models"), _)) => {
                Err(UriError::Unsupported { uri: uri.to_owned(), scheme: scheme.to_owned() })
            }
            _ => Err(UriError::Scheme { uri: uri.to_owned() }),
        }
    }
}

fn hub(rest: &str) -> Result<ModelUri, &'static str> {
    let (repository, revision) = rest.split_once('@').unwrap_or((rest, "main"));
    let name = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    if repository.split('/').count() > 2 || !repository.split('/').all(name) {
        return Err("use hf://organization/name@revision");
    }
    if revision.is_empty() || revision.contains(['?', '#', ' ']) || revision.split('/').any(|p| p == "..") {
        return Err("the revision after @ is empty or has characters that are not allowed in a branch, tag or commit");
    }
    Ok(ModelUri::Hub { repository: repository.to_owned(), revision: revision.to_owned() })
}

fn claim(rest: &str) -> Result<ModelUri, &'static str> {
    let (claim, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !is_object_name(claim) {
        return Err(
            "use pvc://claim/path; the name of a claim has a-z, 0-9, '-' and '.', letters or digits at both ends",
        );
    }
    let path = path.trim_matches('/');
    if path.split('/').any(|part| matches!(part, "." | "..")) || path.contains("//") {
        return Err("the path must not contain . or .. or empty parts");
    }
    Ok(ModelUri::Claim { claim: claim.to_owned(), path: path.to_owned() })
}

/// A name of Kubernetes: an RFC 1123 subdomain, as far as a claim's name is concerned.
fn is_object_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_dotted = |c: char| is_plain(c) || matches!(c, '-' | '.');
    name.len() <= 253 && name.starts_with(is_plain) && name.ends_with(is_plain) && name.chars().all(is_dotted)
}

fn web(uri: &str, rest: &str) -> Result<ModelUri, &'static str> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err("the host is missing");
    }
    if host.contains('@') {
        return Err("credentials do not belong in a URI: put a bearer token into the secret of model.secretRef");
    }
    // Colons within brackets belong to an address of IPv6.
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err("the port is not a number from 1 to 65535");
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let url = uri.to_owned();
    if path.ends_with(".tar") {
        Ok(ModelUri::Archive { url, compression: Compression::None })
    } else if path.ends_with(".tar.gz") || path.ends_with(".tgz") {
        Ok(ModelUri::Archive { url, compression: Compression::Gzip })
    } else if uri.ends_with('/') {
        Ok(ModelUri::Folder { url })
    } else {
        Err("use a folder with a manifest.json (the URL ends in /) or an archive (.tar, .tar.gz, .tgz)")
    }
}

impl fmt::Display for ModelUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub { repository, revision } => write!(f, "hf://{repository}@{revision}"),
            Self::Claim { claim, path } if path.is_empty() => write!(f, "pvc://{claim}"),
            Self::Claim { claim, path } => write!(f, "pvc://{claim}/{path}"),
            Self::Folder { url } | Self::Archive { url, .. } => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(uri: &str) -> String {
        uri.parse::<ModelUri>().unwrap_err().to_string()
    }

    #[test]
    fn every_form_reads_and_writes_back() {
        for (uri, written) in [
            ("hf://meta-llama/Llama-3.1-8B", "hf://meta-llama/Llama-3.1-8B@main"),
            ("hf://gpt2@e7da7f2", "hf://gpt2@e7da7f2"),
            ("pvc://models/react/v1/", "pvc://models/react/v1"),
            ("pvc://models", "pvc://models"),
            ("https://example.com/m/", "https://example.com/m/"),
            ("http://example.com/m.tar.gz", "http://example.com/m.tar.gz"),
        ] {
            assert_eq!(uri.parse::<ModelUri>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn a_scheme_of_a_later_release_names_what_to_do() {
        assert_eq!(
            error("s3://bucket/m"),
            "the model URI \"s3://bucket/m\" has scheme s3://, which this release does not support: copy the model to \
             a claim (pvc://claim/path) or serve it by http(s)://"
        );
    }

    #[test]
    fn malformed_uris_say_which_form_to_use() {
        assert!(error("models/llama").ends_with("needs one of the schemes hf://, pvc://, http://, https://"));
        assert!(error("hf://a/b/c").ends_with("use hf://organization/name@revision"));
        assert!(error("pvc:///x").contains("use pvc://claim/path; the name of a claim has a-z"));
        assert!(error("pvc://Models/x").contains("use pvc://claim/path; the name of a claim has a-z"));
        assert!(error("http://models:70000/m/").ends_with("the port is not a number from 1 to 65535"));
        assert!(error("pvc://c/../x").ends_with("the path must not contain . or .. or empty parts"));
        assert!(error("https://h/model.bin").contains("an archive (.tar, .tar.gz, .tgz)"));
        assert!(error("https://u:p@h/m/").contains("put a bearer token into the secret of model.secretRef"));
    }
}
