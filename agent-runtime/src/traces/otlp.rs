//! Spans as OTLP has them, in protobuf. Pure.
//!
//! Of <https://github.com/open-telemetry/opentelemetry-proto> (v1.10) the messages and fields that are used here, with
//! their numbers.

use prost::{Enumeration, Message, Oneof};

use crate::clock::Timestamp;

use super::spans::{Kind, Span, Value};

/// Whose conventions the names of attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// What is posted to `/v1/traces`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportRequest {
    /// Spans, by who made them.
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<ResourceSpans>,
}

/// Spans of one process.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its spans, by the part that made them.
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<ScopeSpans>,
    /// Whose conventions the resource's attributes follow.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Spans of one part of a process.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The part.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<WireSpan>,
    /// Whose conventions their attributes follow.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// A part of a process.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct WireSpan {
    /// The trace, in 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// The span, in 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// What vendors add.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// The span that it happens in; empty for the first of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// What is done.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Whose side of a call it is.
    #[prost(enumeration = "WireKind", tag = "6")]
    pub kind: i32,
    /// When it began, in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// When it ended.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// What is known of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// How it went; absent where nobody says.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// The flags of its context, and whether its parent is in another process.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// How it went.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Well or not.
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// One of several kinds.
    #[prost(oneof = "OneValue", tags = "1, 2, 3, 4")]
    pub value: Option<OneValue>,
}

/// A value of one kind.
#[derive(Clone, PartialEq, Oneof)]
pub enum OneValue {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Flag(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Count(i64),
    /// Another number.
    #[prost(double, tag = "4")]
    Number(f64),
}

/// Whose side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum WireKind {
    /// Nobody says.
    Unspecified = 0,
    /// None: it happens within a process.
    Internal = 1,
    /// That of the server.
    Server = 2,
    /// That of the client.
    Client = 3,
}

/// Whether something went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// Nobody says.
    Unset = 0,
    /// It did.
    Ok = 1,
    /// It did not.
    Error = 2,
}

/// What a receiver answers.
#[derive(Clone, PartialEq, Message)]
pub struct ExportAnswer {
    /// What it did not take; absent where it took everything.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What of a request was not taken.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// How many spans.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The parent's process is known, and is another one.
const PARENT_IS_REMOTE: u32 = 0x300;
/// The parent's process is known, and is this one.
const PARENT_IS_LOCAL: u32 = 0x100;

/// The request that delivers these spans.
pub fn request(resource: &Resource, spans: Vec<Span>) -> ExportRequest {
    let scope = Scope { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.into_iter().map(WireSpan::from).collect();
    let scopes = vec![ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA.to_owned() }];
    let resource = Some(resource.clone());
    ExportRequest { resources: vec![ResourceSpans { resource, scopes, schema_url: SCHEMA.to_owned() }] }
}

/// An attribute of a text.
pub fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, OneValue::Text(value.to_owned()))
}

fn attribute(key: &str, value: OneValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

impl From<Span> for WireSpan {
    fn from(span: Span) -> Self {
        let Span { context, parent, parent_is_remote, name, kind, start, end, attributes, is_error } = span;
        let kind = match kind {
            Kind::Internal => WireKind::Internal,
            Kind::Client => WireKind::Client,
        };
        let attributes = attributes.into_iter().map(|(key, value)| match value {
            Value::Text(value) => attribute(key, OneValue::Text(value)),
            Value::Count(value) => attribute(key, OneValue::Count(i64::try_from(value).unwrap_or(i64::MAX))),
            Value::Seconds(value) => attribute(key, OneValue::Number(value)),
            Value::Flag(value) => attribute(key, OneValue::Flag(value)),
        });
        Self {
            trace_id: context.trace().to_be_bytes().to_vec(),
            span_id: context.span().to_be_bytes().to_vec(),
            trace_state: context.state().unwrap_or_default().to_owned(),
            parent_span_id: parent.map(|span| span.to_be_bytes().to_vec()).unwrap_or_default(),
            name,
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(start),
            end_time_unix_nano: nanoseconds(end),
            attributes: attributes.collect(),
            status: is_error.then(|| Status { code: StatusCode::Error.into() }),
            flags: u32::from(context.is_sampled()) | if parent_is_remote { PARENT_IS_REMOTE } else { PARENT_IS_LOCAL },
        }
    }
}

fn nanoseconds(at: Timestamp) -> u64 {
    at.as_micros().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::trace_context::TraceContext;

    /// A request as the messages of opentelemetry-proto 1.45.2 (PyPI) write it.
    const OF_UPSTREAM: &str = include_str!("otlp/upstream.hex");

    fn span() -> Span {
        Span {
            context: TraceContext::new(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331, true),
            parent: Some(0x00f0_67aa_0ba9_02b7),
            parent_is_remote: true,
            name: "chat agent".to_owned(),
            kind: Kind::Client,
            start: Timestamp::from_micros(1_770_000_000_000_001),
            end: Timestamp::from_micros(1_770_000_000_250_000),
            attributes: vec![
                ("gen_ai.request.model", Value::Text("agent".to_owned())),
                ("gen_ai.request.stream", Value::Flag(true)),
                ("gen_ai.usage.output_tokens", Value::Count(300)),
                ("gen_ai.response.time_to_first_chunk", Value::Seconds(0.25)),
            ],
            is_error: true,
        }
    }

    #[test]
    fn a_request_has_the_bytes_that_upstream_gives_it() {
        let resource = Resource { attributes: vec![text("service.name", "support")] };
        let mut request = request(&resource, vec![span()]);
        request.resources[0].scopes[0].scope = Some(Scope { name: "scope".to_owned(), version: "1".to_owned() });
        let bytes = request.encode_to_vec();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, OF_UPSTREAM.split_whitespace().collect::<String>());
        assert_eq!(ExportRequest::decode(bytes.as_slice()).expect("it was just written"), request);
    }

    #[test]
    fn what_a_receiver_does_not_take_is_read() {
        let answer = ExportAnswer::decode(&[0x0a, 0x06, 0x08, 0x03, 0x12, 0x02, b'n', b'o'][..]);
        let rejected = PartialSuccess { rejected_spans: 3, error_message: "no".to_owned() };
        assert_eq!(answer.expect("it is an answer").partial_success, Some(rejected));
        assert_eq!(ExportAnswer::decode(&b""[..]).expect("it is one too").partial_success, None);
    }
}
