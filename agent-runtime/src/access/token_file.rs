//! The file of tokens: `TENANT: TOKEN` or `TENANT: sha256:DIGEST` on each line. Pure.
//!
//! Empty lines and lines that begin with `#` say nothing. A tenant may have several lines, so that a new token can be
//! given out before the old one is removed.

use aws_lc_rs::{constant_time, digest};

use super::tenant::{MAX_TENANT_CHARACTERS, Tenant};

/// A shorter token could be guessed.
const MIN_TOKEN_BYTES: usize = 16;
/// A longer one fits no header.
const MAX_TOKEN_BYTES: usize = 4_096;
/// Each request is compared with all of them.
const MAX_TOKENS: usize = 4_096;
/// What a line with the digest of a token begins with, after the tenant.
const DIGEST_PREFIX: &str = "sha256:";

/// The tokens of a file, by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFile {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    digest: Vec<u8>,
    tenant: Tenant,
}

/// Why a file of tokens cannot be used. Tokens are left out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// It is not text.
    #[error("the file of tokens is not UTF-8; write `TENANT: TOKEN` on each line")]
    NotText,
    /// A line has another form.
    #[error(
        "line {line} of the file of tokens is not `TENANT: TOKEN` or `TENANT: sha256:DIGEST`; write one of the two"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// A tenant's name is empty, too long or has control characters.
    #[error(
        "line {line} of the file of tokens names no tenant; write 1 to {MAX_TENANT_CHARACTERS} characters before `: `"
    )]
    Tenant {
        /// Its number, from 1.
        line: usize,
    },
    /// A token that could be guessed or fits no header.
    #[error(
        "line {line} of the file of tokens has no usable token; use {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} characters \
         of ASCII without spaces"
    )]
    Token {
        /// Its number, from 1.
        line: usize,
    },
    /// A digest of another length, or with other characters.
    #[error("line {line} of the file of tokens has no SHA-256 after `sha256:`; write its 64 hexadecimal digits")]
    Digest {
        /// Its number, from 1.
        line: usize,
    },
    /// A token that is another tenant's.
    #[error("line {line} of the file of tokens has the token of another tenant; give each tenant its own")]
    Shared {
        /// Its number, from 1.
        line: usize,
    },
    /// Too much.
    #[error("the file of tokens has more than {MAX_TOKENS} tokens; use JSON Web Tokens for so many")]
    TooMany,
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The first line that cannot be used: a file is taken over as a whole.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenFileError> {
        let text = std::str::from_utf8(bytes).map_err(|_| TokenFileError::NotText)?;
        let mut tokens: Vec<Token> = Vec::new();
        let lines = text.lines().map(str::trim).zip(1..);
        for (text, line) in lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#')) {
            let token = Token::parse(text, line)?;
            if tokens.iter().any(|other| other.digest == token.digest && other.tenant != token.tenant) {
                return Err(TokenFileError::Shared { line });
            }
            tokens.push(token);
        }
        if tokens.len() > MAX_TOKENS {
            return Err(TokenFileError::TooMany);
        }
        Ok(Self { tokens })
    }

    /// The tenant of a token. How long this takes depends on the number of tokens alone.
    pub fn tenant(&self, token: &str) -> Option<&Tenant> {
        let digest = digest_of(token);
        let mut found = None;
        for token in &self.tokens {
            if constant_time::verify_slices_are_equal(&token.digest, &digest).is_ok() {
                found = Some(&token.tenant);
            }
        }
        found
    }
}

impl Token {
    fn parse(text: &str, line: usize) -> Result<Self, TokenFileError> {
        let (tenant, token) = text.split_once(": ").ok_or(TokenFileError::Line { line })?;
        let tenant = Tenant::new(tenant).ok_or(TokenFileError::Tenant { line })?;
        let token = token.trim();
        let digest = match token.strip_prefix(DIGEST_PREFIX) {
            Some(digits) => bytes_of(digits).ok_or(TokenFileError::Digest { line })?,
            None => {
                let is_usable = (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&token.len())
                    && token.bytes().all(|byte| byte.is_ascii_graphic());
                is_usable.then(|| digest_of(token)).ok_or(TokenFileError::Token { line })?
            }
        };
        Ok(Self { digest, tenant })
    }
}

fn digest_of(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The bytes of a digest in hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let is_digest =
        digits.len() == 2 * digest::SHA256.output_len && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = || digits.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    is_digest.then(|| pairs().filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";
    /// `printf %s 0123456789abcdef | sha256sum`
    const DIGEST: &str = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";

    fn found(text: &str, token: &str) -> Option<String> {
        TokenFile::parse(text.as_bytes()).unwrap().tenant(token).map(Tenant::to_string)
    }

    #[test]
    fn a_token_is_written_as_it_is_or_by_its_digest() {
        let plain = format!("# tokens\n\nacme: {TOKEN}\n  other tenant:  fedcba9876543210 \n");
        let hashed = format!("acme: sha256:{}\n", DIGEST.to_uppercase());
        assert_eq!(found(&plain, TOKEN), Some("acme".into()));
        assert_eq!(found(&hashed, TOKEN), Some("acme".into()));
        assert_eq!(found(&plain, "fedcba9876543210"), Some("other tenant".into()));
    }

    #[test]
    fn nothing_but_a_token_is_one() {
        let text = format!("acme: {TOKEN}\n");
        for wrong in ["", "acme", "0123456789abcde", "0123456789ABCDEF", DIGEST, "sha256:", "# tokens"] {
            assert_eq!(found(&text, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tenant_may_have_an_old_token_and_a_new_one() {
        let text = format!("acme: {TOKEN}\nacme: fedcba9876543210\n");
        assert_eq!(found(&text, TOKEN), found(&text, "fedcba9876543210"));
    }

    #[rstest]
    #[case::no_colon("acme 0123456789abcdef", TokenFileError::Line { line: 1 })]
    #[case::no_space("acme:0123456789abcdef", TokenFileError::Line { line: 1 })]
    #[case::no_tenant("# one\n\n : 0123456789abcdef", TokenFileError::Tenant { line: 3 })]
    #[case::control("a\u{7}b: 0123456789abcdef", TokenFileError::Tenant { line: 1 })]
    #[case::short("acme: 0123456789abcde", TokenFileError::Token { line: 1 })]
    #[case::two_words("acme: 01234567 89abcdef", TokenFileError::Token { line: 1 })]
    #[case::half_a_digest("acme: sha256:9f9f5111f7b27a78", TokenFileError::Digest { line: 1 })]
    #[case::shared("a: 0123456789abcdef\nb: 0123456789abcdef", TokenFileError::Shared { line: 2 })]
    fn a_line_that_cannot_be_used_is_named(#[case] text: &str, #[case] expected: TokenFileError) {
        let error = TokenFile::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error, expected);
        assert!(!error.to_string().contains("0123456789"), "a message has no token: {error}");
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let line = |number: usize| format!("acme: token-{number:020}\n");
        let text: String = (0..=MAX_TOKENS).map(line).collect();
        assert_eq!(TokenFile::parse(text.as_bytes()), Err(TokenFileError::TooMany));
        assert_eq!(TokenFile::parse(&[0xff]), Err(TokenFileError::NotText));
    }
}
