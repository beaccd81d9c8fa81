//! What a request asks for: its path, its parameters and its body.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, header};
use serde_json::Value;

use super::{
    kinds::{KINDS, Kind},
    refusal::Refusal,
    store::Key,
};

/// A request, read.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub target: Target,
    pub parameters: BTreeMap<String, String>,
    pub content: String,
    pub accept: String,
    pub body: Bytes,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The groups that are served.
    Groups,
    /// The kinds of a version of a group.
    Version(String),
    /// Objects of a kind, of one namespace or of all.
    Collection(Kind, Option<String>),
    /// An object, or a part of it.
    Object(Key, Option<String>),
    /// Nothing that is served.
    Unknown,
}

impl Asked {
    pub fn of(parts: &http::request::Parts, body: Bytes) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let parameters = url::form_urlencoded::parse(query.as_bytes());
        let header =
            |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        Self {
            method: parts.method.clone(),
            target: target(parts.uri.path()),
            parameters: parameters.map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
            content: header(header::CONTENT_TYPE),
            accept: header(header::ACCEPT),
            body,
        }
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn says(&self, name: &str) -> bool {
        matches!(self.parameter(name), Some("true" | "1"))
    }

    pub fn says_status(&self) -> bool {
        matches!(&self.target, Target::Object(_, Some(part)) if part == "status")
    }

    pub fn is_watch(&self) -> bool {
        self.method == Method::GET && self.says("watch")
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// # Errors
    /// Where the body is not JSON.
    pub fn json(&self) -> Result<Value, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad_request(format!("the body of the request cannot be read: {error}")))
    }

    /// The kind and the name that the request is about; a creation names its object in the body.
    pub fn subject(&self) -> Option<Key> {
        match &self.target {
            Target::Object(key, _) => Some(key.clone()),
            Target::Collection(kind, namespace) => {
                let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                Some(Key::new(*kind, namespace.as_deref().unwrap_or_default(), name))
            }
            Target::Groups | Target::Version(_) | Target::Unknown => None,
        }
    }
}

fn target(path: &str) -> Target {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match segments.as_slice() {
        ["apis"] => return Target::Groups,
        ["apis", group, version] => return Target::Version(format!("{group}/{version}")),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Target::Unknown,
    };
    let kind = |plural: &str| {
        KINDS.into_iter().find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural))
    };
    match rest {
        [plural] => kind(plural).map(|kind| Target::Collection(kind, None)),
        ["namespaces", namespace, plural] => {
            kind(plural).map(|kind| Target::Collection(kind, Some((*namespace).to_owned())))
        }
        ["namespaces", namespace, plural, name] => {
            kind(plural).map(|kind| Target::Object(Key::new(kind, namespace, name), None))
        }
        ["namespaces", namespace, plural, name, part] => {
            kind(plural).map(|kind| Target::Object(Key::new(kind, namespace, name), Some((*part).to_owned())))
        }
        _ => None,
    }
    .unwrap_or(Target::Unknown)
}
