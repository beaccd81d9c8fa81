//! What a server says of a failure, as far as it is kept: answers and logs have it. Pure.
//!
//! Upstreams are somebody else's. They may repeat the key that they were sent, or a part of it.

use crate::{backend::BackendError, outbound::Secrets};

/// Words of failures that are about a key. These may have a part of it.
const OF_KEYS: [&str; 4] = ["api key", "api-key", "api_key", "apikey"];
/// What is told in their place.
const LEFT_OUT: &str = "its words are left out, because they are about an API key; correct the files of headersFrom";

/// What of a server's words is kept.
pub(super) enum Words {
    /// All: it is in the same pod, and has no key.
    All,
    /// What has none of the keys that it was sent.
    Without(Secrets),
}

impl Words {
    /// What is kept of a text.
    pub(super) fn keep(&self, text: String) -> String {
        match self {
            Self::All => text,
            Self::Without(_) if is_about_keys(&text) => LEFT_OUT.to_owned(),
            Self::Without(secrets) => secrets.hide(&text),
        }
    }

    /// The same of a failure that a server's words are part of.
    pub(super) fn keep_in(&self, error: BackendError) -> BackendError {
        match error {
            BackendError::Engine { message, fault } => BackendError::Engine { message: self.keep(message), fault },
            BackendError::Protocol { problem } => BackendError::Protocol { problem: self.keep(problem) },
            other => other,
        }
    }
}

fn is_about_keys(text: &str) -> bool {
    let text = text.to_lowercase();
    OF_KEYS.iter().any(|words| text.contains(words))
}
