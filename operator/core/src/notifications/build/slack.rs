//! Slack's incoming webhooks: `{"text": …}` to an address that is a credential
//! (<https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks>). Pure.

use serde::Serialize;

use super::{Context, Request, Template, TemplateError, cut};

/// What Slack shows of a text, in characters (<https://docs.slack.dev/reference/methods/chat.postMessage#truncating>).
const MAX_TEXT: usize = 40_000;

/// The text of a message.
pub const DEFAULT_TEMPLATE: &str = "{{ emoji }} *{{ title }}*: {{ namespace }}/{{ name }}\
     {% if cluster %} in {{ cluster }}{% endif %}\n{{ message }}";

#[derive(Serialize)]
struct Message {
    text: String,
}

/// A message to a channel.
///
/// # Errors
/// When the template cannot write it.
pub fn slack_message(url: &str, template: &Template, context: Context) -> Result<Request, TemplateError> {
    let text = template.render(&context.map(escaped))?;
    let body = serde_json::to_string(&Message { text: cut(&text, MAX_TEXT) }).expect("a text is JSON");
    Ok(Request { url: url.to_owned(), headers: Vec::new(), body })
}

/// Slack's three control characters (<https://docs.slack.dev/messaging/formatting-message-text#escaping>): what a
/// message says must not become a link or a mention. A template's own `<!here>` stays.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
