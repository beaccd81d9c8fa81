//! What servers say. Pure.

/// What a server said, without what it is wrapped into: the message of `{"error": {"message": ...}}` (an agent) or of
/// `{"message": ...}` (the API server), else the text on one line.
pub fn said(body: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let at = |path| parsed.as_ref().and_then(|json| json.pointer(path)).and_then(|message| message.as_str());
    let message = at("/error/message").or_else(|| at("/message"));
    message.unwrap_or(body).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_server_is_quoted_by_its_message_or_its_whole_text() {
        assert_eq!(
            said(r#"{"error":{"message":"input: must not be empty","code":"invalid_value"}}"#),
            "input: must not be empty"
        );
        assert_eq!(said(r#"{"kind":"Status","message":"no endpoints available"}"#), "no endpoints available");
        assert_eq!(said("no endpoints\n  available\n"), "no endpoints available");
    }
}
