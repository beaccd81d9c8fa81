//! What a call of a tool gave, as a text for the model. Pure.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>

use crate::ordered_value::OrderedValue;

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A result.
    Result(String),
    /// The tool's own error, which the model may correct.
    Failed(String),
    /// The tool waits for an answer of a person or of another model.
    InputRequired,
    /// A kind of result that no revision of ours has.
    Unknown,
}

/// Reads the result of `tools/call`.
pub(super) fn read(result: &OrderedValue) -> Outcome {
    match result.get("resultType").and_then(OrderedValue::as_str) {
        None | Some("complete") => {}
        Some("input_required") => return Outcome::InputRequired,
        Some(_) => return Outcome::Unknown,
    }
    let text = text(result);
    match result.get("isError").and_then(OrderedValue::as_bool) {
        Some(true) => Outcome::Failed(text),
        Some(false) | None => Outcome::Result(text),
    }
}

/// The texts, one below the other. Structured content counts where there is no text, because servers repeat it in one.
fn text(result: &OrderedValue) -> String {
    let blocks: Vec<_> = result.get("content").and_then(OrderedValue::as_array).into_iter().flatten().collect();
    let is_text =
        |block: &&OrderedValue| block.get("type").and_then(OrderedValue::as_str).is_some_and(|kind| kind == "text");
    let structured = result.get("structuredContent").filter(|_| !blocks.iter().any(is_text));
    let parts = structured.map(OrderedValue::to_string).into_iter().chain(blocks.into_iter().map(block));
    parts.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// One part. What a model cannot read is named, so that it does not take it for missing.
fn block(block: &OrderedValue) -> String {
    let member = |value: &OrderedValue, name: &str| {
        value.get(name).and_then(OrderedValue::as_str).unwrap_or_default().to_owned()
    };
    let left_out = |what: &str, value: &OrderedValue| match member(value, "mimeType").as_str() {
        "" => format!("({what} left out)"),
        mime => format!("({what} of type {mime} left out)"),
    };
    match member(block, "type").as_str() {
        "text" => member(block, "text"),
        "resource_link" => format!("{}: {}", member(block, "name"), member(block, "uri")),
        "resource" => {
            let resource = block.get("resource").unwrap_or(&OrderedValue::Null);
            match resource.get("text").and_then(OrderedValue::as_str) {
                Some(text) => text.to_owned(),
                None => left_out(&format!("resource {}", member(resource, "uri")), resource),
            }
        }
        "" => left_out("content", block),
        kind => left_out(kind, block),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn result(text: &str) -> Outcome {
        Outcome::Result(text.into())
    }

    #[rstest]
    #[case::text(json!({ "content": [{ "type": "text", "text": " 7 C\n" }] }), result("7 C"))]
    #[case::complete(json!({ "resultType": "complete", "content": [{ "type": "text", "text": "7" }], "isError": false }),
        result("7"))]
    #[case::texts(json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b\nc" }] }),
        result("a\nb\nc"))]
    #[case::both(json!({ "content": [{ "type": "text", "text": "{\"t\": 7}" }], "structuredContent": { "t": 7 } }),
        result("{\"t\": 7}"))]
    #[case::structured(json!({ "content": [], "structuredContent": { "t": 7 } }), result("{\"t\":7}"))]
    #[case::structured_beside_an_image(
        json!({ "content": [{ "type": "image", "data": "", "mimeType": "image/png" }], "structuredContent": [1, 2] }),
        result("[1,2]\n(image of type image/png left out)"))]
    #[case::audio(json!({ "content": [{ "type": "audio", "data": "" }] }), result("(audio left out)"))]
    #[case::link(json!({ "content": [{ "type": "resource_link", "uri": "file:///a", "name": "a.rs" }] }),
        result("a.rs: file:///a"))]
    #[case::resource(json!({ "content": [{ "type": "resource", "resource": { "uri": "file:///a", "text": "fn" } }] }),
        result("fn"))]
    #[case::blob(
        json!({ "content": [{ "type": "resource",
                              "resource": { "uri": "file:///a", "blob": "AA==", "mimeType": "image/gif" } }] }),
        result("(resource file:///a of type image/gif left out)"))]
    #[case::nothing(json!({}), result(""))]
    #[case::error(json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true }),
        Outcome::Failed("no such city".into()))]
    #[case::input(json!({ "resultType": "input_required", "inputRequests": {} }), Outcome::InputRequired)]
    #[case::task(json!({ "resultType": "task" }), Outcome::Unknown)]
    fn a_model_reads_what_is_text_and_what_was_left_out(#[case] value: Value, #[case] expected: Outcome) {
        assert_eq!(read(&value.into()), expected);
    }
}
