//! Keys, kept out of words that others wrote. Pure.

use std::cmp::Reverse;

use reqwest::header::HeaderMap;

/// What stands in the place of a key.
const HIDDEN: &str = "[hidden]";
/// Characters of the shortest value that is hidden. A shorter one keeps nothing secret, and stands in many words.
const SHORTEST: usize = 4;

/// Values that must not be told. They have no `Debug` for that.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Those of headers: each sensitive value, and what of it follows the scheme, such as `Bearer`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let sensitive = headers.values().filter(|value| value.is_sensitive());
        let mut values: Vec<String> = sensitive
            .flat_map(|value| {
                let whole = String::from_utf8_lossy(value.as_bytes()).into_owned();
                let key = whole.split_once(' ').map(|(_, key)| key.trim().to_owned());
                std::iter::once(whole).chain(key)
            })
            .filter(|value| value.chars().count() >= SHORTEST)
            .collect();
        // Of two that begin alike the longer one goes first, so that nothing of it is left.
        values.sort_by_key(|value| Reverse(value.len()));
        Self(values)
    }

    /// The words without them.
    pub(crate) fn hide(&self, words: &str) -> String {
        self.0.iter().fold(words.to_owned(), |words, secret| words.replace(secret, HIDDEN))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_hidden_with_its_scheme_and_without() {
        let header = |name, value, is_sensitive| {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(is_sensitive);
            (reqwest::header::HeaderName::from_static(name), value)
        };
        let headers = HeaderMap::from_iter([
            header("authorization", "Bearer sk-test", true),
            header("x-other", "sk-test-2", true),
            header("x-version", "2", true),
            header("x-name", "large", false),
        ]);
        let words = "2 large: Bearer sk-test, sk-test-2 and sk-test are wrong";
        assert_eq!(Secrets::of(&headers).hide(words), "2 large: [hidden], [hidden] and [hidden] are wrong");
    }
}
