//! A JSON Web Key Set: the public keys of an issuer. Pure.
//!
//! <https://www.rfc-editor.org/rfc/rfc7517>. Keys that nothing here can use are skipped, as the standard wants it.
//! Shared secrets are among them: anyone who checks a token by one could write it too.

use std::fmt;

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

/// More keys than an issuer has in use.
const MAX_KEYS: usize = 100;
const RSA: [Algorithm; 6] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// The keys of an issuer that can be used here.
#[derive(Clone)]
pub struct KeySet(Vec<Key>);

#[derive(Clone)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// It is something else.
    #[error("it is not a JSON Web Key Set, which is an object with the list `keys`")]
    NotAKeySet(#[source] serde_json::Error),
    /// Nothing to check signatures by.
    #[error(
        "the JSON Web Key Set has no public key of RSA, P-256, P-384 or Ed25519 for signatures; use one of these in \
         the issuer"
    )]
    NothingUsable,
    /// Too much.
    #[error("the JSON Web Key Set has more than {MAX_KEYS} keys; remove those that are out of use")]
    TooMany,
}

impl KeySet {
    /// Reads a JSON Web Key Set.
    ///
    /// # Errors
    /// [`KeySetError`].
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let Document { keys } = serde_json::from_slice(json).map_err(KeySetError::NotAKeySet)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        let usable: Vec<_> = keys.into_iter().filter_map(Key::read).collect();
        if usable.is_empty() { Err(KeySetError::NothingUsable) } else { Ok(Self(usable)) }
    }

    /// The key of this id that checks signatures of this algorithm. A token without an id is checked by the only key
    /// that fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fitting = self.0.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)).map(|key| &key.key),
            None => {
                let only = fitting.next().filter(|_| fitting.next().is_none());
                only.map(|key| &key.key)
            }
        }
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let common = &jwk.common;
        let is_for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            && common.key_operations.as_ref().is_none_or(|uses| uses.contains(&KeyOperations::Verify));
        let algorithms: Vec<_> = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA.to_vec(),
            AlgorithmParameters::EllipticCurve(parameters) => match parameters.curve {
                EllipticCurve::P256 => vec![Algorithm::ES256],
                EllipticCurve::P384 => vec![Algorithm::ES384],
                _ => Vec::new(),
            },
            AlgorithmParameters::OctetKeyPair(parameters) => match parameters.curve {
                EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let named = common.key_algorithm.map(Algorithm::try_from);
        let is_meant =
            |algorithm: &Algorithm| named.as_ref().is_none_or(|named| named.as_ref().ok() == Some(algorithm));
        let algorithms: Vec<_> = algorithms.into_iter().filter(is_meant).collect();
        if !is_for_signatures || algorithms.is_empty() {
            return None;
        }
        Some(Self { id: common.key_id.clone(), algorithms, key: DecodingKey::from_jwk(&jwk).ok()? })
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}
