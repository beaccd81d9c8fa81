//! Messages of MCP: JSON-RPC 2.0, and what its revisions add. Pure.
//!
//! Two ways to speak. With <https://modelcontextprotocol.io/specification/2026-07-28/basic> every request says its
//! version. With <https://modelcontextprotocol.io/specification/2025-11-25/basic> and before, both sides agree on one,
//! by a handshake.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{ordered_value::OrderedValue, trace_context::TraceContext};

/// The revision without a handshake.
pub(super) const MODERN: &str = "2026-07-28";
/// Revisions with one, the newest first. It is the one that is proposed.
pub(super) const WITH_HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Says that the list of tools has changed.
pub(super) const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Codes of errors that only the revision without a handshake has: a header that differs, a capability that is missing,
/// a version that is not supported.
const MODERN_CODES: std::ops::RangeInclusive<i64> = -32022..=-32020;
const UNSUPPORTED_VERSION: i64 = -32022;
const METHOD_NOT_FOUND: i64 = -32601;

/// A message of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// The answer to a request.
    Response {
        /// The request's.
        id: Value,
        outcome: Result<OrderedValue, RpcError>,
    },
    /// A question to us.
    Request { id: Value, method: String },
    /// It wants no answer.
    Notification { method: String },
}

/// A request that a server did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    code: i64,
    pub(super) message: String,
    /// Versions that the server supports, if that is what it says.
    pub(super) versions: Vec<String>,
}

impl RpcError {
    /// Whether only a server of the revision without a handshake says so.
    pub(super) fn is_modern(&self) -> bool {
        MODERN_CODES.contains(&self.code)
    }

    /// Whether the server speaks other versions alone.
    pub(super) fn is_about_versions(&self) -> bool {
        self.code == UNSUPPORTED_VERSION
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    result: Option<OrderedValue>,
    #[serde(default)]
    error: Option<WireError>,
}

#[derive(Deserialize)]
struct WireError {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Value,
}

/// Reads the message of a body or of an event; version 2025-03-26 may send several at once. Anything else is left out.
///
/// # Errors
/// It is not JSON.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Message>, serde_json::Error> {
    let all = match serde_json::from_slice(bytes)? {
        OrderedValue::Array(all) => all,
        one => vec![one],
    };
    Ok(all.into_iter().filter_map(|one| Wire::deserialize(one).ok().and_then(Wire::read)).collect())
}

impl Wire {
    fn read(self) -> Option<Message> {
        let Self { id, method, result, error } = self;
        match (method, id, result, error) {
            (Some(method), Some(id), _, _) => Some(Message::Request { id, method }),
            (Some(method), None, _, _) => Some(Message::Notification { method }),
            (None, id, None, Some(WireError { code, message, data })) => {
                let versions = data.get("supported").and_then(Value::as_array).into_iter().flatten();
                let versions = versions.filter_map(Value::as_str).map(str::to_owned).collect();
                let outcome = Err(RpcError { code, message, versions });
                Some(Message::Response { id: id.unwrap_or_default(), outcome })
            }
            (None, Some(id), Some(result), _) => Some(Message::Response { id, outcome: Ok(result) }),
            (None, _, _, _) => None,
        }
    }
}

/// A request.
pub(super) fn request(id: u64, method: &str, params: Map<String, Value>) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification.
pub(super) fn notification(method: &str, params: Map<String, Value>) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// What a server's question is answered with: we are there, and can do nothing for it.
pub(super) fn answer(id: &Value, method: &str) -> String {
    let answer = match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            let error = json!({ "code": METHOD_NOT_FOUND, "message": "this client has no such capability" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    };
    answer.to_string()
}

/// Who asks, for both revisions.
pub(super) fn client_info() -> Value {
    json!({ "name": "slipway-agent-runtime", "version": env!("CARGO_PKG_VERSION") })
}

/// What every request without a handshake says.
pub(super) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Adds the span that a request is answered in to what it says of itself, where every revision has it
/// (<https://modelcontextprotocol.io/seps/414>).
pub(super) fn add_trace(params: &mut Map<String, Value>, trace: &TraceContext) {
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    trace.pairs().for_each(|(name, value)| meta[name] = json!(value));
}

/// What a handshake says.
pub(super) fn handshake() -> Map<String, Value> {
    object(json!({ "protocolVersion": WITH_HANDSHAKE[0], "capabilities": {}, "clientInfo": client_info() }))
}

/// The members of an object; of anything else none.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Whether a server says when its list of tools changes, by its capabilities.
pub(super) fn announces_changes(result: &OrderedValue) -> bool {
    result.at(&["capabilities", "tools", "listChanged"]).and_then(OrderedValue::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn one(text: &str) -> Option<Message> {
        let mut all = read(text.as_bytes()).expect("it is JSON");
        assert!(all.len() < 2);
        all.pop()
    }

    #[test]
    fn a_message_is_what_its_members_make_it() {
        let result = Message::Response { id: json!(7), outcome: Ok(json!({ "tools": [] }).into()) };
        assert_eq!(one(r#"{"jsonrpc": "2.0", "id": 7, "result": {"tools": []}}"#), Some(result));
        let ping = Message::Request { id: json!("a"), method: "ping".into() };
        assert_eq!(one(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping"}"#), Some(ping));
        let changed = Message::Notification { method: LIST_CHANGED.into() };
        assert_eq!(one(r#"{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}"#), Some(changed));
        for nothing in ["{}", "7", "[]", r#"{"jsonrpc": "2.0", "id": 7}"#, r#"{"id": 7, "method": 8}"#] {
            assert_eq!(one(nothing), None, "{nothing}");
        }
        assert!(read(b"<html>").is_err());
        assert!(read(b"{\"id\": \"\xff\"}").is_err());
    }

    #[test]
    fn several_messages_may_come_at_once() {
        let both = r#"[{"method": "notifications/message"}, {"id": 1, "result": 2}]"#;
        let first = Message::Notification { method: "notifications/message".into() };
        let second = Message::Response { id: json!(1), outcome: Ok(json!(2).into()) };
        assert_eq!(read(both.as_bytes()).expect("it is JSON"), [first, second]);
    }

    #[rstest]
    #[case(
        r#"{"id": 1, "error": {"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}}}"#,
        true,
        true
    )]
    #[case(r#"{"id": 1, "error": {"code": -32020, "message": "no"}}"#, true, false)]
    #[case(r#"{"error": {"code": -32600, "message": "no", "data": "text"}}"#, false, false)]
    #[case(r#"{"id": "server-error", "error": {"code": -32601, "message": "no"}}"#, false, false)]
    fn an_error_tells_which_revision_its_server_speaks(
        #[case] text: &str,
        #[case] is_modern: bool,
        #[case] is_about_versions: bool,
    ) {
        let Some(Message::Response { outcome: Err(error), .. }) = one(text) else { panic!("it is an error") };
        assert_eq!((error.is_modern(), error.is_about_versions()), (is_modern, is_about_versions));
        assert_eq!(error.message, "no");
        assert_eq!(!error.versions.is_empty(), is_about_versions);
    }
}
