//! Keys of an issuer, and the tokens that it signs with them.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};

/// Claim `iss` of its tokens.
pub const ISSUER: &str = "https://issuer";
const AUDIENCE: &str = "support";
/// Far beyond the minute by which clocks may differ.
const LONG_AGO_SECONDS: i64 = -3_600;
const LATER_SECONDS: i64 = 3_600;

/// What a spec says of the tokens, with keys in this place.
pub fn accepted(keys: &Value) -> Value {
    json!({"issuer": ISSUER, "audiences": [AUDIENCE], "tenantClaim": "org", "keys": keys})
}

/// A key of the issuer's.
pub struct Key {
    id: &'static str,
    private: EncodingKey,
}

impl Key {
    pub fn new(id: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self { id, private: EncodingKey::from_ec_der(pair.as_ref()) }
    }

    /// A JSON Web Key Set with its public half alone.
    pub fn set(&self) -> Value {
        let mut public = Jwk::from_encoding_key(&self.private, Algorithm::ES256).unwrap();
        public.common.key_id = Some(self.id.to_owned());
        json!({"keys": [public]})
    }

    /// A token that names a tenant.
    pub fn token(&self, tenant: &str) -> String {
        self.sign(tenant, AUDIENCE, LATER_SECONDS)
    }

    fn sign(&self, tenant: &str, audience: &str, expires_in_seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        let claims = json!({"iss": ISSUER, "aud": audience, "exp": now + expires_in_seconds, "org": tenant});
        jsonwebtoken::encode(&header, &claims, &self.private).unwrap()
    }
}

/// Tokens that an agent with this key refuses, each with what it says.
pub fn refused(key: &Key) -> [(String, &'static str); 4] {
    let stranger = Key::new("of-nobody");
    let forger = Key::new(key.id);
    [
        (key.sign("acme", "billing", LATER_SECONDS), "its audience is another one; ask for a token for this agent"),
        (key.sign("acme", AUDIENCE, LONG_AGO_SECONDS), "it is expired; get a new token"),
        (stranger.token("acme"), UNKNOWN_KEY),
        (forger.token("acme"), "its signature is wrong"),
    ]
}

/// What is said of a token whose key the issuer does not have.
pub const UNKNOWN_KEY: &str = "it is signed with a key that is not among the issuer's; get a new token";

/// All that is said of a token that is not accepted.
pub fn not_accepted(why: &str) -> String {
    format!("Authorization: the token is not accepted: {why}")
}
