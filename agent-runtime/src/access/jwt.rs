//! JSON Web Tokens: who signed one, for whom, until when, and whose it is. Pure: keys and time are arguments.
//!
//! <https://www.rfc-editor.org/rfc/rfc7519>, with the advice of <https://www.rfc-editor.org/rfc/rfc8725>: the key says
//! which algorithms it is for, and the token chooses among these alone.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};
use slipway_runtime_config::Jwt;

use crate::clock::Timestamp;

use super::tenant::Tenant;

/// How far the issuer's clock may be from ours.
const LEEWAY: Duration = Duration::from_secs(60);

/// What a token says of its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) key: Option<String>,
    pub(super) algorithm: Algorithm,
}

/// Why a token is not accepted. Written for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtProblem {
    /// It has another form.
    #[error("it is neither a known token nor a JSON Web Token that is signed with RSA, ECDSA or EdDSA")]
    Form,
    /// Nobody here knows what it says.
    #[error("its header has critical extensions, of which none are known here")]
    Critical,
    /// Its key is not among the issuer's.
    #[error("it is signed with a key that is not among the issuer's; get a new token")]
    UnknownKey,
    /// Its signature is not that of the key.
    #[error("its signature is wrong")]
    Signature,
    /// A claim is missing or has another shape.
    #[error("its claim {claim} is missing or malformed")]
    Claim {
        /// The claim.
        claim: &'static str,
    },
    /// It is of somebody else.
    #[error("its issuer is another one")]
    Issuer,
    /// It is for somebody else.
    #[error("its audience is another one; ask for a token for this agent")]
    Audience,
    /// Its time is over.
    #[error("it is expired; get a new token")]
    Expired,
    /// Its time has not come.
    #[error("it is not valid yet; check the clock of its issuer")]
    NotYet,
    /// It names no tenant.
    #[error("its claim {claim} names no tenant; let the issuer add it")]
    Tenant {
        /// The claim.
        claim: String,
    },
}

/// Claims that are checked.
#[derive(Deserialize)]
struct Claims {
    #[serde(flatten)]
    all: Map<String, Value>,
}

/// What a token says of its signature.
///
/// # Errors
/// When it has another form, or extensions that must be understood.
pub(super) fn signature(token: &str) -> Result<Signature, JwtProblem> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| JwtProblem::Form)?;
    if header.crit.is_some() {
        return Err(JwtProblem::Critical);
    }
    match header.alg {
        // Anyone who checks such a token could write it too.
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => Err(JwtProblem::Form),
        algorithm => Ok(Signature { key: header.kid, algorithm }),
    }
}

/// The tenant of a token that this key signed.
///
/// # Errors
/// [`JwtProblem`].
pub(super) fn tenant(
    token: &str,
    (key, algorithm): (&DecodingKey, Algorithm),
    expected: &Jwt,
    now: Timestamp,
) -> Result<Tenant, JwtProblem> {
    // The claims are checked here, by our own clock, and not by the library.
    let mut signature_alone = Validation::new(algorithm);
    signature_alone.required_spec_claims.clear();
    signature_alone.validate_exp = false;
    signature_alone.validate_nbf = false;
    signature_alone.validate_aud = false;
    let token = jsonwebtoken::decode::<Claims>(token, key, &signature_alone).map_err(|_| JwtProblem::Signature)?;
    tenant_of(&token.claims.all, expected, now)
}

fn tenant_of(claims: &Map<String, Value>, expected: &Jwt, now: Timestamp) -> Result<Tenant, JwtProblem> {
    let issuer = claims.get("iss").and_then(Value::as_str).ok_or(JwtProblem::Claim { claim: "iss" })?;
    if issuer != expected.issuer {
        return Err(JwtProblem::Issuer);
    }
    let is_expected = |audience: &Value| expected.audiences.iter().any(|name| Some(name.as_str()) == audience.as_str());
    let is_for_us = match claims.get("aud") {
        Some(one @ Value::String(_)) => is_expected(one),
        Some(Value::Array(several)) => several.iter().any(is_expected),
        _ => return Err(JwtProblem::Claim { claim: "aud" }),
    };
    if !is_for_us {
        return Err(JwtProblem::Audience);
    }
    let now = now.as_micros() as f64 / 1e6;
    let expires = seconds(claims, "exp")?.ok_or(JwtProblem::Claim { claim: "exp" })?;
    if now >= expires + LEEWAY.as_secs_f64() {
        return Err(JwtProblem::Expired);
    }
    if seconds(claims, "nbf")?.is_some_and(|begins| now + LEEWAY.as_secs_f64() < begins) {
        return Err(JwtProblem::NotYet);
    }
    let name = claims.get(&expected.tenant_claim).and_then(Value::as_str);
    name.and_then(Tenant::new).ok_or_else(|| JwtProblem::Tenant { claim: expected.tenant_claim.clone() })
}

/// A moment in seconds since the epoch, with a fraction if need be.
fn seconds(claims: &Map<String, Value>, claim: &'static str) -> Result<Option<f64>, JwtProblem> {
    match claims.get(claim) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(JwtProblem::Claim { claim }),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;
    use slipway_runtime_config::JwtKeys;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    fn expected() -> Jwt {
        Jwt {
            issuer: "https://issuer.example".into(),
            audiences: vec!["support".into(), "agents".into()],
            keys: JwtKeys::File("/keys".into()),
            tenant_claim: "org".into(),
        }
    }

    /// What is said of good claims with this change.
    fn judged(change: Value) -> Result<String, JwtProblem> {
        let mut claims = json!({
            "iss": "https://issuer.example", "aud": "agents", "exp": 1_000_600, "nbf": 999_999.5, "org": "acme",
        });
        for (claim, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(claim)),
                value => claims[claim] = value.clone(),
            }
        }
        tenant_of(claims.as_object().unwrap(), &expected(), NOW).map(|tenant| tenant.to_string())
    }

    #[rstest]
    #[case::as_they_are(json!({}))]
    #[case::several_audiences(json!({ "aud": ["other", "support"] }))]
    #[case::no_beginning(json!({ "nbf": null }))]
    #[case::expired_within_the_leeway(json!({ "exp": 999_941 }))]
    #[case::begins_within_the_leeway(json!({ "nbf": 1_000_060 }))]
    fn good_claims_name_a_tenant(#[case] change: Value) {
        assert_eq!(judged(change), Ok("acme".into()));
    }

    #[rstest]
    #[case(json!({ "iss": null }), JwtProblem::Claim { claim: "iss" })]
    #[case(json!({ "iss": ["https://issuer.example"] }), JwtProblem::Claim { claim: "iss" })]
    #[case(json!({ "iss": "https://issuer.example/" }), JwtProblem::Issuer)]
    #[case(json!({ "aud": null }), JwtProblem::Claim { claim: "aud" })]
    #[case(json!({ "aud": "other" }), JwtProblem::Audience)]
    #[case(json!({ "aud": [] }), JwtProblem::Audience)]
    #[case(json!({ "exp": null }), JwtProblem::Claim { claim: "exp" })]
    #[case(json!({ "exp": "1000600" }), JwtProblem::Claim { claim: "exp" })]
    #[case(json!({ "exp": 999_940 }), JwtProblem::Expired)]
    #[case(json!({ "nbf": 1_000_061 }), JwtProblem::NotYet)]
    #[case(json!({ "nbf": "now" }), JwtProblem::Claim { claim: "nbf" })]
    #[case(json!({ "org": null }), JwtProblem::Tenant { claim: "org".into() })]
    #[case(json!({ "org": 7 }), JwtProblem::Tenant { claim: "org".into() })]
    #[case(json!({ "org": "" }), JwtProblem::Tenant { claim: "org".into() })]
    fn claims_of_others_and_of_other_times_are_refused(#[case] change: Value, #[case] expected: JwtProblem) {
        assert_eq!(judged(change), Err(expected));
    }
}
