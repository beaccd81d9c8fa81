//! What a receiver is sent. Pure: text and bytes out of an announcement, credentials and the time.

mod pager_duty;
mod slack;
mod template;
mod webhook;

use std::fmt;

pub use pager_duty::{DEFAULT_TEMPLATE as PAGER_DUTY_TEMPLATE, ENQUEUE as PAGER_DUTY_ENQUEUE, trigger_or_resolve};
pub use slack::{DEFAULT_TEMPLATE as SLACK_TEMPLATE, slack_message};
pub use template::{Context, Template, TemplateError};
pub use webhook::{DEFAULT_TEMPLATE as WEBHOOK_TEMPLATE, Secret, SecretError, Stamp, signed_event};

/// A POST request with a JSON body.
pub struct Request {
    /// Where it goes. May be a credential.
    pub url: String,
    /// Headers beside the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The JSON. May hold a credential.
    pub body: String,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

/// The text, cut to so many characters.
fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
