//! Errors in words. Pure.

use std::error::Error;

/// An error with its causes on one line. Some libraries write the cause into the error itself: nothing is said twice.
pub fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = error.source();
    }
    words
}

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

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Failure {
        words: &'static str,
        #[source]
        cause: Option<Box<Failure>>,
    }

    #[test]
    fn a_cause_that_the_error_names_itself_is_said_once() {
        let inner = Failure { words: "no such file", cause: None };
        let middle = Failure { words: "failed to read /x: no such file", cause: Some(Box::new(inner)) };
        let outer = Failure { words: "failed to connect", cause: Some(Box::new(middle)) };
        assert_eq!(chain(&outer), "failed to connect: failed to read /x: no such file");
    }

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
