//! How servers of the OpenAI API describe a failure: in words, and most of them in codes. Codes are read first.
//!
//! OpenAI has `error.code`, `type` and `param`. vLLM, SGLang and TensorRT-LLM write the status as `code`. TGI and xAI
//! have a text in place of the object, and Gemini has a list of one.

use reqwest::StatusCode;
use serde_json::{Map, Value};

use super::{Answer, Inner, Refused, Words, link::again_after};
use crate::backend::{BackendError, EngineFault, RequestPart, SamplingField, overflow};

/// Most bytes that are read of a refusal. What a server sends beyond them is left.
const REFUSAL_BYTES: usize = 64 * 1024;
/// Characters kept of a refusal that is not JSON.
const REFUSAL_CHARACTERS: usize = 400;

/// Codes of filters of contents: Azure's, also below `innererror` (Azure/azure-sdk-for-go pull request 23936), and
/// OpenAI's of models that think (BeehiveInnovations/pal-mcp-server issue 178).
const FILTERS: [&str; 3] = ["content_filter", "ResponsibleAIPolicyViolation", "invalid_prompt"];

/// A failure as a server describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    /// Its words.
    message: String,
    /// What its codes say.
    about: About,
}

/// What codes say of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The prompt is longer than the context.
    ContextLength,
    /// What is wrong of the request, if it is the request.
    Request(RequestPart),
}

/// The description of a failure, if a text is one. Most texts have neither of these names in quotes.
pub(super) fn read(text: &str) -> Option<Described> {
    if !text.contains("\"message\"") && !text.contains("\"error\"") {
        return None;
    }
    let body = match serde_json::from_str(text).ok()? {
        Value::Array(all) => all.into_iter().next()?,
        body => body,
    };
    let body = body.as_object()?;
    let (message, fields) = match body.get("error") {
        Some(Value::String(message)) => (message.as_str(), body),
        Some(Value::Object(error)) => (error.get("message")?.as_str()?, error),
        Some(_) | None => (body.get("message")?.as_str()?, body),
    };
    Some(Described { message: message.to_owned(), about: About::of(fields) })
}

impl About {
    fn of(fields: &Map<String, Value>) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let inner = fields.get("innererror").and_then(|inner| inner.get("code")?.as_str());
        let codes = [text("code"), text("type"), inner];
        let has = |is_known: fn(&str) -> bool| codes.iter().flatten().any(|code| is_known(code));
        if has(overflow::is_code) {
            return Self::ContextLength;
        }
        if has(|code| FILTERS.contains(&code)) {
            return Self::Request(RequestPart::Contents);
        }
        Self::Request(text("param").map_or(RequestPart::Unnamed, part))
    }

    /// A failure in these words. Only a refusal says that the request is at fault, or a code of its own.
    fn error(self, message: String, is_refused: IsRefused) -> BackendError {
        let error = BackendError::engine(message);
        let BackendError::Engine { message, fault: by_words } = error else { return error };
        let fault = match (self, by_words) {
            (Self::ContextLength, _) | (_, EngineFault::ContextLength) => EngineFault::ContextLength,
            (Self::Request(part), _) if is_refused == IsRefused::Yes || part == RequestPart::Contents => {
                EngineFault::Request(part)
            }
            (Self::Request(_), fault) => fault,
        };
        BackendError::Engine { message, fault }
    }
}

/// Whether the status says that the request is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsRefused {
    Yes,
    No,
}

/// The part of a request that a path in it leads to, such as `tools[1].function.parameters`.
fn part(path: &str) -> RequestPart {
    let (name, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    let number = rest.split(|character: char| !character.is_ascii_digit()).find_map(|digits| digits.parse().ok());
    let sampling = SamplingField::ALL.into_iter().find(|field| field.name() == name);
    match (name, sampling) {
        ("messages", _) => RequestPart::Messages(number),
        ("prompt", _) => RequestPart::Messages(None),
        ("tools", _) => RequestPart::Tools(number),
        (_, Some(field)) => RequestPart::Sampling(field),
        (_, None) => RequestPart::Unnamed,
    }
}

impl Described {
    /// As the end of an answer that had begun. No status says whether the request is at fault: only a code may.
    pub(super) fn in_answer(self) -> BackendError {
        let Self { message, about } = self;
        about.error(message, IsRefused::No)
    }
}

impl Inner {
    /// What a status other than 2xx is.
    pub(super) async fn refusal(&self, response: Answer, words: &Words, has_wish: bool) -> Refused {
        let status = response.status();
        let again = again_after(&response);
        let refused = |error| Refused { error, again };
        match status {
            StatusCode::SERVICE_UNAVAILABLE => return refused(self.server.not_ready()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.link.is_elsewhere() => {
                return Refused::finally(BackendError::Denied { status: status.as_u16() });
            }
            StatusCode::TOO_MANY_REQUESTS if self.link.is_elsewhere() => {
                return refused(BackendError::Busy);
            }
            _ => {}
        }
        let text = match response.body(REFUSAL_BYTES).await {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(source) => return Refused::finally(self.unreachable(source)),
        };
        refused(refusal(status, &text, words, has_wish))
    }
}

/// What a refusal in this text is. `has_wish` says that the request asks for what only some do: a schema, which may
/// have no grammar, or likely tokens, which may be too many.
fn refusal(status: StatusCode, text: &str, words: &Words, has_wish: bool) -> BackendError {
    let is_refused = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => IsRefused::Yes,
        _ => IsRefused::No,
    };
    // Cut off at last: half a key would not be known as one.
    let shortened = |text: String| text.trim().chars().take(REFUSAL_CHARACTERS).collect();
    let (message, about) = match read(text) {
        Some(Described { message, about }) => (words.keep(message), about),
        None => (shortened(words.keep(text.to_owned())), About::Request(RequestPart::Unnamed)),
    };
    match about.error(format!("HTTP status {}: {message}", status.as_u16()), is_refused) {
        BackendError::Engine { message, fault: EngineFault::Request(RequestPart::Unnamed) } if has_wish => {
            BackendError::Engine { message, fault: EngineFault::Wish }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const UNNAMED: About = About::Request(RequestPart::Unnamed);

    #[rstest]
    #[case::nested(r#"{"error": {"message": "no", "type": "invalid_request_error", "code": null}}"#, UNNAMED)]
    #[case::flat(r#"{"object": "error", "message": "no", "type": "BadRequestError", "code": 400}"#, UNNAMED)]
    #[case::a_text(r#"{"error": "no", "error_type": "validation"}"#, UNNAMED)]
    #[case::a_list(r#"[{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]"#, UNNAMED)]
    #[case::too_long(
        r#"{"error": {"message": "no", "param": "messages", "code": "context_length_exceeded"}}"#,
        About::ContextLength
    )]
    #[case::too_long_by_its_type(
        r#"{"error": {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_ctx": 8}}"#,
        About::ContextLength
    )]
    #[case::filtered(
        r#"{"error": {"message": "no", "type": null, "param": "prompt", "code": "content_filter"}}"#,
        About::Request(RequestPart::Contents)
    )]
    #[case::filtered_by_a_policy(
        r#"{"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}"#,
        About::Request(RequestPart::Contents)
    )]
    #[case::flagged(
        r#"{"error": {"message": "no", "param": null, "code": "invalid_prompt"}}"#,
        About::Request(RequestPart::Contents)
    )]
    fn a_description_has_words_and_what_they_are_about(#[case] text: &str, #[case] about: About) {
        assert_eq!(read(text), Some(Described { message: "no".into(), about }), "{text}");
    }

    #[rstest]
    #[case::text("no")]
    #[case::an_answer(r#"{"choices": [{"message": {"content": "\"error\""}}], "error": null}"#)]
    #[case::an_event(r#"{"choices": [{"delta": {"content": "error"}}]}"#)]
    fn other_texts_describe_no_failure(#[case] text: &str) {
        assert_eq!(read(text), None, "{text}");
    }

    #[rstest]
    #[case("messages", RequestPart::Messages(None))]
    #[case("messages[2].content[0].text", RequestPart::Messages(Some(2)))]
    #[case("messages.[2].content", RequestPart::Messages(Some(2)))]
    #[case("prompt[0]", RequestPart::Messages(None))]
    #[case("tools", RequestPart::Tools(None))]
    #[case("tools[1].function.parameters", RequestPart::Tools(Some(1)))]
    #[case("temperature", RequestPart::Sampling(SamplingField::Temperature))]
    #[case("model", RequestPart::Unnamed)]
    #[case("", RequestPart::Unnamed)]
    fn a_path_names_a_part_of_the_request(#[case] path: &str, #[case] expected: RequestPart) {
        assert_eq!(part(path), expected, "{path}");
    }
}
