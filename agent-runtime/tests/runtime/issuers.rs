//! JSON Web Tokens: those of the issuer are accepted, whatever its keys are now, and no others.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{self, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use axum::http::StatusCode;
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::access::{FETCH_PAUSE, FRESH_FOR, USABLE_FOR};
use slipway_runtime_config::{Authentication, Jwt, JwtKeys, Rates};
use tempfile::TempDir;

use crate::{
    certificates::{AUTHORITY, tls_service_with_status},
    fixture::{Answer, Sidecar, or_hang, sidecar_with},
    tenants::ask,
};

/// Seconds since the epoch when tests begin.
const NOW: u64 = 1_770_000_000;
const ISSUER: &str = "https://issuer.example";

/// A key of an issuer.
struct Key {
    id: &'static str,
    algorithm: Algorithm,
    private: EncodingKey,
}

impl Key {
    fn p256(id: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let private = EncodingKey::from_ec_der(pair.expect("a key can be made").as_ref());
        Self { id, algorithm: Algorithm::ES256, private }
    }

    fn ed25519(id: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().and_then(|pair| pair.to_pkcs8v1()).expect("a key can be made");
        Self { id, algorithm: Algorithm::EdDSA, private: EncodingKey::from_ed_der(pair.as_ref()) }
    }

    fn rsa(id: &'static str) -> Self {
        let pair = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key can be made");
        let pkcs8 = AsDer::<Pkcs8V1Der>::as_der(&pair).expect("a key can be written");
        // Behind the header of PKCS #8, whose length that of the key tells, is the key of PKCS #1.
        let private = EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..]);
        Self { id, algorithm: Algorithm::RS256, private }
    }

    /// Its public half.
    fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.private, self.algorithm).expect("it has a public half");
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).expect("it is JSON")
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }

    fn sign(&self, claims: &Value) -> String {
        jsonwebtoken::encode(&self.header(), claims, &self.private).expect("claims can be signed")
    }
}

fn key_set(keys: &[&Key]) -> String {
    // Keys of no use here are skipped.
    let others = [json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "shared" }), json!({ "kty": "AKP", "kid": "new" })];
    let keys: Vec<_> = keys.iter().map(|key| key.public()).chain(others).collect();
    json!({ "keys": keys }).to_string()
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "support", "exp": NOW + 600, "sub": "acme" })
}

fn with_keys(keys: JwtKeys) -> Sidecar {
    let jwt = Jwt { issuer: ISSUER.into(), audiences: vec!["support".into()], keys, tenant_claim: "sub".into() };
    let authentication = Authentication { tokens: None, jwt: Some(jwt), rates: Rates::default() };
    sidecar_with([], |config| config.authentication = Some(authentication))
}

/// A sidecar with these keys in a mounted file.
fn with_file(keys: &[&Key]) -> (Sidecar, TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder can be made");
    let path = folder.path().join("jwks.json");
    fs::write(&path, key_set(keys)).expect("the file can be written");
    (with_keys(JwtKeys::File(path.display().to_string())), folder, path)
}

async fn models(sidecar: &Sidecar, token: &str) -> Answer {
    or_hang(ask(&sidecar.app.api(), Some(token), ("GET", "/v1/models"), Value::Null)).await
}

async fn status(sidecar: &Sidecar, token: &str) -> StatusCode {
    models(sidecar, token).await.status
}

#[rstest]
#[case::p256(Key::p256("a"))]
#[case::ed25519(Key::ed25519("a"))]
#[case::rsa(Key::rsa("a"))]
#[tokio::test]
async fn a_token_of_the_issuer_is_accepted_until_it_expires_by_the_clock_of_the_runtime(#[case] key: Key) {
    let (sidecar, _folder, _) = with_file(&[&key]);
    let token = key.sign(&claims());
    assert_eq!(status(&sidecar, &token).await, StatusCode::OK);
    sidecar.time.advance(Duration::from_secs(600 + 60));
    let answer = models(&sidecar, &token).await;
    let expected = "Authorization: the token is not accepted: it is expired; get a new token";
    assert_eq!((answer.status, answer.error()), (StatusCode::UNAUTHORIZED, expected.to_owned()));
}

#[tokio::test]
async fn a_good_token_without_a_tenant_is_forbidden() {
    let key = Key::p256("a");
    let (sidecar, _folder, _) = with_file(&[&key]);
    let mut claims = claims();
    claims["sub"] = json!(17);
    let answer = models(&sidecar, &key.sign(&claims)).await;
    let error = json!({ "error": {
        "message": "Authorization: the token is good, but its claim sub names no tenant; let the issuer add it",
        "type": "invalid_request_error", "param": null, "code": "no_tenant",
    }});
    assert_eq!((answer.status, answer.json()), (StatusCode::FORBIDDEN, error));
}

/// What is said of a token that this key or nobody signed.
fn forged(how: &str, key: &Key) -> String {
    let other = Key::p256("a");
    let public = key.public().to_string();
    let secret = EncodingKey::from_secret(public.as_bytes());
    let by_secret = Header { kid: Some("a".into()), ..Header::new(Algorithm::HS256) };
    let critical = Header { crit: Some(vec!["exp".into()]), ..key.header() };
    let good = key.sign(&claims());
    let (front, signature) = good.rsplit_once('.').expect("a token has three parts");
    let (_, body) = front.split_once('.').expect("a token has three parts");
    match how {
        "of another key" => other.sign(&claims()),
        "by the public key as a secret" => jsonwebtoken::encode(&by_secret, &claims(), &secret).expect("it signs"),
        "by nobody" => format!("eyJhbGciOiJub25lIiwia2lkIjoiYSJ9.{body}."),
        "without its signature" => format!("{front}."),
        "with other claims" => {
            let mut changed = claims();
            changed["sub"] = json!("other");
            let stranger = other.sign(&changed);
            let (front, _) = stranger.rsplit_once('.').expect("a token has three parts");
            format!("{front}.{signature}")
        }
        "with extensions" => jsonwebtoken::encode(&critical, &claims(), &key.private).expect("it signs"),
        "by a key that is not there" => Key::p256("b").sign(&claims()),
        "of another algorithm" => Key::ed25519("a").sign(&claims()),
        _ => "no.token.of-anybody".to_owned(),
    }
}

#[rstest]
#[case("of another key", "its signature is wrong")]
#[case(
    "by the public key as a secret",
    "it is neither a known token nor a JSON Web Token that is signed with RSA, ECDSA or EdDSA"
)]
#[case("by nobody", "it is neither a known token nor a JSON Web Token that is signed with RSA, ECDSA or EdDSA")]
#[case("without its signature", "its signature is wrong")]
#[case("with other claims", "its signature is wrong")]
#[case("with extensions", "its header has critical extensions, of which none are known here")]
#[case("by a key that is not there", "it is signed with a key that is not among the issuer's; get a new token")]
#[case("of another algorithm", "it is signed with a key that is not among the issuer's; get a new token")]
#[case("at all", "it is neither a known token nor a JSON Web Token that is signed with RSA, ECDSA or EdDSA")]
#[tokio::test]
async fn no_forged_token_lets_anybody_in(#[case] how: &str, #[case] problem: &str) {
    let key = Key::p256("a");
    let (sidecar, _folder, _) = with_file(&[&key]);
    let answer = models(&sidecar, &forged(how, &key)).await;
    let expected = format!("Authorization: the token is not accepted: {problem}");
    assert_eq!((answer.status, answer.error()), (StatusCode::UNAUTHORIZED, expected));
}

#[tokio::test]
async fn an_edited_file_of_keys_is_taken_over() {
    let (old, new) = (Key::p256("old"), Key::ed25519("new"));
    let (sidecar, _folder, path) = with_file(&[&old]);
    fs::write(&path, key_set(&[&new])).expect("the file can be written");
    let access = sidecar.app.access().expect("there is authentication");
    assert!(access.look().await.expect("the file can be used"));
    let statuses = [status(&sidecar, &old.sign(&claims())).await, status(&sidecar, &new.sign(&claims())).await];
    assert_eq!(statuses, [StatusCode::UNAUTHORIZED, StatusCode::OK]);
    fs::write(&path, key_set(&[])).expect("the file can be written");
    assert!(access.look().await.is_err(), "nothing in it can be used");
    assert_eq!(status(&sidecar, &new.sign(&claims())).await, StatusCode::OK, "what was in force stays so");
}

/// An issuer that gives its keys by HTTPS, and counts how often.
struct Issuer {
    url: String,
    keys: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
    authorities: TempDir,
}

impl Issuer {
    async fn new(keys: &[&Key]) -> Self {
        Self::that_refuses_with("500 Internal Server Error", keys).await
    }

    /// One whose errors have this status and these headers.
    async fn that_refuses_with(refusal: &'static str, keys: &[&Key]) -> Self {
        let keys = Arc::new(Mutex::new(Some(key_set(keys))));
        let asked = Arc::new(AtomicUsize::new(0));
        let (given, counter) = (Arc::clone(&keys), Arc::clone(&asked));
        let url = tls_service_with_status(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            let given = given.lock().expect("no test panics with the lock").clone();
            given.map_or((refusal, String::new()), |keys| ("200 OK", keys))
        })
        .await;
        let authorities = TempDir::new().expect("a folder can be made");
        fs::write(authorities.path().join("ca.crt"), AUTHORITY).expect("the file can be written");
        Self { url: format!("{url}/jwks"), keys, asked, authorities }
    }

    fn sidecar(&self) -> Sidecar {
        self.sidecar_that_trusts(Some(self.authorities.path()))
    }

    fn sidecar_that_trusts(&self, authorities: Option<&Path>) -> Sidecar {
        let authorities_from = authorities.map(|path| path.display().to_string());
        with_keys(JwtKeys::Url { url: self.url.clone(), authorities_from, allowed_networks: Vec::new() })
    }

    /// Gives other keys from now on, or an error.
    fn give(&self, keys: Option<&[&Key]>) {
        *self.keys.lock().expect("no test panics with the lock") = keys.map(key_set);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn keys_at_an_address_are_fetched_once_and_again_when_they_are_old() {
    let (old, new) = (Key::p256("old"), Key::p256("new"));
    let issuer = Issuer::new(&[&old]).await;
    let sidecar = issuer.sidecar();
    assert_eq!(issuer.asked(), 0, "before a token needs them");
    let mut claims = claims();
    claims["exp"] = json!(NOW + 1_000_000);
    let (by_old, by_new) = (old.sign(&claims), new.sign(&claims));
    for _ in 0..3 {
        assert_eq!(status(&sidecar, &by_old).await, StatusCode::OK);
    }
    assert_eq!(issuer.asked(), 1);
    issuer.give(Some(&[&new]));
    sidecar.time.advance(FRESH_FOR);
    assert_eq!(status(&sidecar, &by_old).await, StatusCode::UNAUTHORIZED, "a withdrawn key is trusted no longer");
    assert_eq!((status(&sidecar, &by_new).await, issuer.asked()), (StatusCode::OK, 2));
}

#[tokio::test]
async fn an_unknown_key_has_the_keys_fetched_again_but_not_for_every_token() {
    let (old, new) = (Key::p256("old"), Key::p256("new"));
    let issuer = Issuer::new(&[&old]).await;
    let sidecar = issuer.sidecar();
    assert_eq!(status(&sidecar, &old.sign(&claims())).await, StatusCode::OK);
    issuer.give(Some(&[&old, &new]));
    let by_new = new.sign(&claims());
    assert_eq!(status(&sidecar, &by_new).await, StatusCode::UNAUTHORIZED, "too soon after the last fetch");
    sidecar.time.advance(FETCH_PAUSE);
    assert_eq!((status(&sidecar, &by_new).await, issuer.asked()), (StatusCode::OK, 2));
    for number in 0..20 {
        let made_up = Header { kid: Some(format!("made-up-{number}")), ..new.header() };
        let token = jsonwebtoken::encode(&made_up, &claims(), &new.private).expect("it signs");
        assert_eq!(status(&sidecar, &token).await, StatusCode::UNAUTHORIZED);
        sidecar.time.advance(FETCH_PAUSE / 10);
    }
    assert_eq!(issuer.asked(), 3, "of 57 seconds with made-up keys, one fetch");
}

#[tokio::test]
async fn an_issuer_that_is_away_is_waited_for_but_not_for_ever() {
    let key = Key::p256("a");
    let issuer = Issuer::new(&[&key]).await;
    let sidecar = issuer.sidecar();
    let mut claims = claims();
    claims["exp"] = json!(NOW + 1_000_000);
    let token = key.sign(&claims);
    assert_eq!(status(&sidecar, &token).await, StatusCode::OK);
    issuer.give(None);
    sidecar.time.advance(FRESH_FOR);
    assert_eq!((status(&sidecar, &token).await, issuer.asked()), (StatusCode::OK, 2));
    sidecar.time.advance(USABLE_FOR - FRESH_FOR);
    let answer = models(&sidecar, &token).await;
    let expected = "the keys of the tokens' issuer cannot be had at present; send the request again";
    assert_eq!((answer.status, answer.error()), (StatusCode::SERVICE_UNAVAILABLE, expected.to_owned()));
    assert_eq!(answer.header("retry-after"), "1");
    issuer.give(Some(&[&key]));
    sidecar.time.advance(FETCH_PAUSE);
    assert_eq!(status(&sidecar, &token).await, StatusCode::OK);
}

#[rstest]
#[case::a_pause_of_its_own("503 Service Unavailable\r\nretry-after: 120", 120)]
#[case::one_that_is_too_long("429 Too Many Requests\r\nretry-after: 86400", 300)]
#[tokio::test]
async fn an_issuer_that_asks_for_a_pause_gets_it(#[case] refusal: &'static str, #[case] seconds: u64) {
    let key = Key::p256("a");
    let issuer = Issuer::that_refuses_with(refusal, &[&key]).await;
    let sidecar = issuer.sidecar();
    let mut claims = claims();
    claims["exp"] = json!(NOW + 1_000_000);
    let token = key.sign(&claims);
    issuer.give(None);
    assert_eq!((status(&sidecar, &token).await, issuer.asked()), (StatusCode::SERVICE_UNAVAILABLE, 1));
    issuer.give(Some(&[&key]));
    sidecar.time.advance(Duration::from_secs(seconds - 1));
    assert_eq!((status(&sidecar, &token).await, issuer.asked()), (StatusCode::SERVICE_UNAVAILABLE, 1));
    sidecar.time.advance(Duration::from_secs(1));
    assert_eq!((status(&sidecar, &token).await, issuer.asked()), (StatusCode::OK, 2));
}

#[tokio::test]
async fn many_tokens_at_once_have_the_keys_fetched_once() {
    let key = Key::p256("a");
    let issuer = Issuer::new(&[&key]).await;
    let sidecar = issuer.sidecar();
    let token = key.sign(&claims());
    let statuses = futures::future::join_all((0..16).map(|_| status(&sidecar, &token))).await;
    assert_eq!((statuses, issuer.asked()), (vec![StatusCode::OK; 16], 1));
}

#[tokio::test]
async fn who_only_answers_for_the_issuer_gives_no_keys() {
    let key = Key::p256("a");
    let issuer = Issuer::new(&[&key]).await;
    let sidecar = issuer.sidecar_that_trusts(None);
    assert_eq!(status(&sidecar, &key.sign(&claims())).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(issuer.asked(), 0);
}
