//! SHA-256 digests as text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Holds a SHA-256 digest as 64 lowercase hexadecimal digits.
///
/// Parsing also accepts the prefixed form `sha256:<hex>` and upper case; what is written is always the bare form, for
/// it is a directory name in the artifact store too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Says why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDigest {
    found: String,
}

impl Digest {
    /// Writes 32 raw bytes of a SHA-256 as a digest.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in bytes {
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
        Self(text)
    }

    /// Returns the 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
        if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Self(hex))
        } else {
            Err(InvalidDigest { found: text.chars().take(80).collect() })
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a SHA-256 digest: {:?} (64 hexadecimal digits, with or without the prefix sha256:)", self.found)
    }
}

impl std::error::Error for InvalidDigest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_and_upper_case_forms_are_one_digest() {
        let bare: Digest = "ab".repeat(32).parse().unwrap();
        assert_eq!(format!("sha256:{}", "AB".repeat(32)).parse::<Digest>().unwrap(), bare);
        assert_eq!(Digest::from_bytes(&[0xab; 32]), bare);
    }

    #[test]
    fn a_short_digest_is_named_in_the_error() {
        let error = "sha256:abc".parse::<Digest>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "not a SHA-256 digest: \"sha256:abc\" (64 hexadecimal digits, with or without the prefix sha256:)"
        );
    }
}
