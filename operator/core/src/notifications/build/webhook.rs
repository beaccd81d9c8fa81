//! A webhook of anyone's, signed as Standard Webhooks wants it
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>), for which most
//! languages have a library that verifies. Pure.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::Serialize;
use sha2::Sha256;
use thiserror::Error;

use super::{Context, Request, Template, TemplateError};
use crate::notifications::events::{Announcement, Role};

/// The text of an event.
pub const DEFAULT_TEMPLATE: &str = "{{ namespace }}/{{ name }}: {{ title }}: {{ message }}";

const PREFIX: &str = "whsec_";
/// Bytes that a secret must have and may have.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=512;

/// Why a secret cannot be used. The secret itself is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SecretError {
    /// There is none.
    #[error("holds no secret")]
    Empty,
    /// It is not written as Standard Webhooks wants it.
    #[error("line {0} is not whsec_ followed by 24 to 512 bytes in base64")]
    Malformed(usize),
}

/// The keys that an event is signed with: more than one while receivers change from one to the other.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads secrets, one a line.
    ///
    /// # Errors
    /// When there is none, or a line is not a secret.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let key = |(index, line): (usize, &str)| {
            let encoded = line.trim().strip_prefix(PREFIX);
            let key = encoded.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
            key.filter(|key| KEY_BYTES.contains(&key.len())).ok_or(SecretError::Malformed(index + 1))
        };
        let keys: Vec<Vec<u8>> = lines.map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(SecretError::Empty) } else { Ok(Self(keys)) }
    }

    /// The value of the header `webhook-signature`.
    pub fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let signature = |key: &Vec<u8>| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(format!("{id}.{seconds}.{body}").as_bytes());
            format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.0.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Serialize)]
struct Event<'a> {
    r#type: &'static str,
    timestamp: &'a str,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    /// `firing`, `resolved` or `info`.
    status: &'static str,
    /// The same for all events of one incident.
    key: String,
    severity: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    plan: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    objective: &'a str,
    title: &'static str,
    message: &'a str,
    text: String,
}

/// What a signature is made with.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// The keys.
    pub secret: &'a Secret,
    /// The time of the attempt: receivers refuse what is too old.
    pub now: Timestamp,
}

/// A signed event.
///
/// # Errors
/// When the template cannot write its text.
pub fn signed_event(
    (url, stamp): (&str, Stamp<'_>),
    template: &Template,
    announcement: &Announcement,
    context: &Context,
) -> Result<Request, TemplateError> {
    let data = Data {
        status: match announcement.happening.role() {
            Role::Opens => "firing",
            Role::Closes => "resolved",
            Role::Tells => "info",
        },
        key: format!("{}/{}/{}", context.namespace, context.name, announcement.topic),
        severity: context.severity,
        cluster: &context.cluster,
        namespace: &context.namespace,
        name: &context.name,
        uid: &announcement.subject.uid,
        generation: announcement.generation,
        plan: &context.plan,
        objective: &context.objective,
        title: context.title,
        message: &context.message,
        text: template.render(context)?,
    };
    let event = Event { r#type: context.happening, timestamp: &context.time, data };
    let body = serde_json::to_string(&event).expect("texts are JSON");
    let id = announcement.id();
    let seconds = stamp.now.as_second();
    let signature = stamp.secret.sign(&id, seconds, &body);
    let headers =
        vec![("webhook-id", id), ("webhook-timestamp", seconds.to_string()), ("webhook-signature", signature)];
    Ok(Request { url: url.to_owned(), headers, body })
}
