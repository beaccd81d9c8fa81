//! Clients with tokens: who is let in, what is theirs, and how much of it they get.

use std::{fs, path::PathBuf, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header::CONTENT_TYPE},
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{failure::with_causes, objectives::Look};
use slipway_runtime_config::{Authentication, Rate, Rates, RuntimeConfig, TenantRate};
use slipway_vocabulary::evidence::{Evidence, Metric};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::fixture::{Answer, Reply, Sidecar, get, or_hang, send, sidecar_with};

pub const RUNS: &str = "/v1/runs";
const CHAT: &str = "/v1/chat/completions";
const ACME: &str = "acme-token-0123456789";
const OTHER: &str = "other-token-0123456789";
const ANSWER: Reply = Reply::Says("Answer: 21\n\n");

/// A mounted Secret with tokens of two tenants.
struct Secret(TempDir);

impl Secret {
    fn new() -> Self {
        let secret = Self(TempDir::new().expect("a folder can be made"));
        secret.write(&format!("acme: {ACME}\nother: {OTHER}\n"));
        secret
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tokens")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("the file can be written");
    }

    fn sidecar(&self, replies: impl IntoIterator<Item = Reply>, rates: Rates) -> Sidecar {
        let tokens = Some(self.path().display().to_string());
        let authentication = Authentication { tokens, jwt: None, rates };
        sidecar_with(replies, |config| config.authentication = Some(authentication))
    }
}

fn each(rate: Rate) -> Rates {
    Rates { default: rate, tenants: Vec::new() }
}

/// Sends a request with this token, if any.
pub async fn ask(api: &Router, token: Option<&str>, request: (&str, &str), body: Value) -> Answer {
    let (method, path) = request;
    let mut request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    send(api, request, body.to_string()).await
}

async fn run(sidecar: &Sidecar, token: &str) -> Answer {
    ask(&sidecar.app.api(), Some(token), ("POST", RUNS), json!({ "input": "?" })).await
}

fn id(answer: &Answer) -> String {
    answer.json()["id"].as_str().expect("an answer has an id").to_owned()
}

#[rstest]
#[case("POST", CHAT)]
#[case("POST", "/v1/responses")]
#[case("GET", "/v1/responses/resp_1")]
#[case("DELETE", "/v1/responses/resp_1")]
#[case("POST", RUNS)]
#[case("GET", "/v1/runs/run-1")]
#[case("POST", "/v1/runs/run-1/cancel")]
#[case("POST", "/v1/feedback")]
#[case("GET", "/v1/models")]
#[case("GET", "/v1/models/support")]
#[tokio::test]
async fn nobody_is_let_in_without_a_token(#[case] method: &str, #[case] path: &str) {
    let secret = Secret::new();
    let api = secret.sidecar([], Rates::default()).app.api();
    let missing = ask(&api, None, (method, path), json!({ "input": "?" })).await;
    let error = json!({ "error": {
        "message": "Authorization: there is no token; send it in the header Authorization: Bearer TOKEN",
        "type": "invalid_request_error", "param": null, "code": "missing_api_key",
    }});
    assert_eq!((missing.status, missing.json()), (StatusCode::UNAUTHORIZED, error));
    assert_eq!(missing.header("www-authenticate"), "Bearer");
    assert_eq!(missing.header("x-slipway-revision"), "support-1");
    let wrong = ask(&api, Some("acme-token-0123456780"), (method, path), json!({ "input": "?" })).await;
    let expected = "Authorization: the token is not known here; ask for one, and send it in the header Authorization: \
                    Bearer TOKEN";
    assert_eq!((wrong.status, wrong.error()), (StatusCode::UNAUTHORIZED, expected.to_owned()));
    assert_eq!(wrong.json()["error"]["code"], "invalid_api_key");
}

#[tokio::test]
async fn probes_scrapers_and_the_operator_need_no_token() {
    let secret = Secret::new();
    let sidecar = secret.sidecar([], Rates::default());
    for path in ["/metrics", "/openapi.json"] {
        assert_eq!(get(&sidecar.app.api(), path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics", "/slipway/v1/evidence"] {
        assert_eq!(get(&sidecar.app.admin(), path).await.status, StatusCode::OK, "{path}");
    }
}

#[rstest]
#[case::another_scheme(&[("authorization", "Basic YWNtZTphY21l")])]
#[case::no_scheme(&[("authorization", ACME)])]
#[case::nothing_after_the_scheme(&[("authorization", "Bearer ")])]
#[case::two_tokens(&[("authorization", "Bearer acme-token-0123456789"), ("authorization", "Bearer x")])]
#[case::another_header(&[("x-api-key", ACME)])]
#[tokio::test]
async fn what_is_no_bearer_token_lets_nobody_in(#[case] headers: &[(&str, &str)]) {
    let secret = Secret::new();
    let api = secret.sidecar([], Rates::default()).app.api();
    let request =
        headers.iter().fold(Request::get("/v1/models"), |request, (name, value)| request.header(*name, *value));
    assert_eq!(send(&api, request, String::new()).await.json()["error"]["code"], "missing_api_key");
}

#[tokio::test]
async fn an_edited_secret_is_taken_over_and_a_broken_one_is_not() {
    let secret = Secret::new();
    let sidecar = secret.sidecar([ANSWER, ANSWER, ANSWER], Rates::default());
    let access = sidecar.app.access().expect("there is authentication");
    assert!(!access.look().await.expect("the file can be used"), "nothing changed");
    assert_eq!(run(&sidecar, ACME).await.status, StatusCode::OK);

    let new = "acme-token-new-0123456789";
    secret.write(&format!("acme: {new}\n"));
    assert!(access.look().await.expect("the file can be used"));
    assert_eq!([run(&sidecar, ACME).await.status, run(&sidecar, OTHER).await.status], [StatusCode::UNAUTHORIZED; 2]);
    assert_eq!(run(&sidecar, new).await.status, StatusCode::OK);

    secret.write(&format!("acme: {ACME}\nother: short\n"));
    let error = with_causes(&access.look().await.expect_err("a token is too short"));
    let path = secret.path().display().to_string();
    let expected = "failed to use TOKENS: line 2 of the file of tokens has no usable token; use 16 to 4096 characters of \
                    ASCII without spaces";
    assert_eq!(error.replace(&path, "TOKENS"), expected);
    assert!(!access.look().await.expect("it was told"), "it is told once");
    fs::remove_file(secret.path()).expect("the file is there");
    let error = with_causes(&access.look().await.expect_err("there is no file"));
    assert!(error.contains("failed to read") && error.contains("No such file"), "{error}");
    assert_eq!(run(&sidecar, new).await.status, StatusCode::OK, "what was in force stays so");
}

#[tokio::test]
async fn requests_beyond_the_rate_of_a_tenant_are_its_own_affair() {
    let secret = Secret::new();
    let rate = Rate { requests_per_minute: Some(2), ..Rate::default() };
    let sidecar = secret.sidecar([ANSWER; 4], each(rate));
    let first = run(&sidecar, ACME).await;
    let names = ["limit", "remaining", "reset"].map(|what| format!("x-ratelimit-{what}-requests"));
    let told = |answer: &Answer| names.each_ref().map(|name| answer.header(name).to_owned());
    assert_eq!(told(&first), ["2", "1", "29.98s"], "the run took 20 ms");
    assert_eq!(run(&sidecar, ACME).await.status, StatusCode::OK);
    let refused = run(&sidecar, ACME).await;
    let error = json!({ "error": {
        "message": "\"acme\" may have 2 request(s) in a minute here, which are used up; try again in 29.96s",
        "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded",
    }});
    assert_eq!((refused.status, refused.json()), (StatusCode::TOO_MANY_REQUESTS, error));
    assert_eq!([refused.header("retry-after"), refused.header("retry-after-ms")], ["30", "29960"]);
    assert_eq!(told(&refused), ["2", "0", "59.96s"]);
    assert_eq!(run(&sidecar, OTHER).await.status, StatusCode::OK, "others have rates of their own");
    sidecar.time.advance(Duration::from_millis(29_960));
    assert_eq!(run(&sidecar, ACME).await.status, StatusCode::OK);

    sidecar.time.advance(Duration::from_secs(10));
    let evidence = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&evidence.body).expect("the evidence reads back");
    let rows = evidence.windows.iter().flat_map(|window| &window.metrics);
    let runs = rows.clone().filter(|row| row.metric == Metric::RunSuccess);
    let counted = runs.map(|row| (row.count, row.errors)).fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    assert_eq!(counted, (4, 0), "a refusal is no error of the revision");
    assert!(rows.clone().all(|row| row.metric != Metric::Shed), "and no sign of too few pods");
}

#[tokio::test]
async fn tokens_are_charged_when_a_run_has_ended() {
    let secret = Secret::new();
    let rate = Rate { tokens_per_minute: Some(6), ..Rate::default() };
    let sidecar = secret.sidecar([ANSWER, ANSWER], each(rate));
    let first = run(&sidecar, ACME).await;
    let told = ["limit", "remaining"].map(|what| first.header(&format!("x-ratelimit-{what}-tokens")).to_owned());
    assert_eq!(told, ["6", "0"]);
    // The stand-in counts a token a character.
    let used = sidecar.engine.prompts()[0].len() + "Answer: 21\n\n".len();
    let refused = run(&sidecar, ACME).await;
    assert_eq!(refused.json()["error"]["code"], "rate_limit_exceeded");
    assert!(refused.error().starts_with("\"acme\" may have 6 token(s) in a minute here"), "{}", refused.error());
    // The budget was full when the run ended, and fills by a token in ten seconds. One token is needed.
    let seconds = u64::try_from(used - 6 + 1).expect("texts are short") * 10;
    assert_eq!(refused.header("retry-after"), seconds.to_string());
    sidecar.time.advance(Duration::from_secs(seconds));
    assert_eq!(run(&sidecar, ACME).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_was_written() {
    let secret = Secret::new();
    let rate = Rate { tokens_per_minute: Some(100_000), runs_at_once: Some(1), ..Rate::default() };
    let sidecar = secret.sidecar([Reply::SaysAndHangs("Answer: on and")], each(rate));
    let body = json!({ "messages": [{ "role": "user", "content": "?" }], "stream": true });
    let request = Request::post(CHAT)
        .header(CONTENT_TYPE, "application/json")
        .header("authorization", format!("Bearer {ACME}"))
        .body(Body::from(body.to_string()))
        .expect("the request is well formed");
    let response = sidecar.app.api().oneshot(request).await.expect("a router does not fail");
    let mut body = response.into_body().into_data_stream();
    let mut seen = String::new();
    while !seen.contains("on and") {
        let event = or_hang(body.next()).await.expect("an event comes").expect("the body arrives");
        seen.push_str(std::str::from_utf8(&event).expect("events are text"));
    }
    let models = ("GET", "/v1/models");
    let busy = run(&sidecar, ACME).await;
    let expected = "\"acme\" may have 1 run(s) at once here, which are used up; try again in 1s";
    assert_eq!((busy.status, busy.error()), (StatusCode::TOO_MANY_REQUESTS, expected.to_owned()));
    drop(body);
    or_hang(sidecar.app.admission().idle()).await;
    let after = ask(&sidecar.app.api(), Some(ACME), models, Value::Null).await;
    let prompt = sidecar.engine.prompts()[0].len();
    let used = prompt + "Answer: on and".len();
    // The budget was full when the run ended.
    assert_eq!(after.header("x-ratelimit-remaining-tokens"), (100_000 - used).to_string());
}

#[tokio::test]
async fn an_answer_that_is_given_again_takes_no_place() {
    let secret = Secret::new();
    let rate = Rate { runs_at_once: Some(1), ..Rate::default() };
    let sidecar = secret.sidecar([Reply::WaitsAndSays("Answer: 21\n\n"), ANSWER], each(rate));
    let keyed = async |token: &str| {
        let request = Request::post(RUNS)
            .header(CONTENT_TYPE, "application/json")
            .header("authorization", format!("Bearer {token}"))
            .header("idempotency-key", "order-1");
        send(&sidecar.app.api(), request, json!({ "input": "?" }).to_string()).await
    };
    let release = async {
        sidecar.engine.until(|engine| engine.generations.len() == 1).await;
        sidecar.engine.release();
    };
    let (first, again, ()) = or_hang(async { tokio::join!(keyed(ACME), keyed(ACME), release) }).await;
    assert_eq!((first.status, again.status, &first.body), (StatusCode::OK, StatusCode::OK, &again.body));
    assert_eq!(again.header("idempotent-replayed"), "true");
    let others = keyed(OTHER).await;
    assert!(others.headers.get("idempotent-replayed").is_none(), "a key is nobody else's");
    assert_ne!(id(&others), id(&first));
}

#[tokio::test]
async fn runs_responses_and_their_judgement_are_nobody_elses() {
    let secret = Secret::new();
    let sidecar = secret.sidecar([ANSWER; 3], Rates::default());
    let api = sidecar.app.api();
    let run = id(&run(&sidecar, ACME).await);
    let response = id(&ask(&api, Some(ACME), ("POST", "/v1/responses"), json!({ "input": "?" })).await);
    let (run_path, response_path) = (format!("/v1/runs/{run}"), format!("/v1/responses/{response}"));
    let cancel = format!("{run_path}/cancel");
    let judgement = json!({ "run": run, "success": false });
    let continued = json!({ "input": "?", "previous_response_id": response });
    let requests = [
        (("GET", run_path.as_str()), Value::Null, StatusCode::NOT_FOUND, StatusCode::OK),
        (("POST", cancel.as_str()), Value::Null, StatusCode::NOT_FOUND, StatusCode::OK),
        (("POST", "/v1/feedback"), judgement, StatusCode::NOT_FOUND, StatusCode::NO_CONTENT),
        (("GET", response_path.as_str()), Value::Null, StatusCode::NOT_FOUND, StatusCode::OK),
        (("POST", "/v1/responses"), continued, StatusCode::BAD_REQUEST, StatusCode::OK),
        (("DELETE", response_path.as_str()), Value::Null, StatusCode::NOT_FOUND, StatusCode::OK),
    ];
    for (request, body, of_others, own) in requests {
        let answers = [OTHER, ACME].map(|token| ask(&api, Some(token), request, body.clone()));
        let [others, mine] = answers;
        assert_eq!((others.await.status, mine.await.status), (of_others, own), "{request:?}");
    }
}

#[tokio::test]
async fn a_response_that_was_forgotten_cannot_be_told_from_one_that_never_was() {
    let secret = Secret::new();
    let sidecar = secret.sidecar([ANSWER], Rates::default());
    let run = id(&run(&sidecar, ACME).await);
    let path = format!("/v1/runs/{run}");
    let api = sidecar.app.api();
    let others = ask(&api, Some(OTHER), ("GET", &path), Value::Null).await.error();
    sidecar.time.advance(Duration::from_secs(16 * 60));
    assert_eq!(ask(&api, Some(ACME), ("GET", &path), Value::Null).await.error(), others);
}

#[tokio::test]
async fn edited_rates_hold_without_a_restart() {
    let secret = Secret::new();
    let rate = |requests| Rate { requests_per_minute: Some(requests), ..Rate::default() };
    let sidecar = secret.sidecar([ANSWER; 3], each(rate(1)));
    let mut config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8001");
    config.tools = vec![crate::fixture::calculator()];
    let own = vec![TenantRate { name: "other".into(), rate: rate(2) }];
    let tokens = Some(secret.path().display().to_string());
    config.authentication = Some(Authentication { tokens, jwt: None, rates: Rates { default: rate(1), tenants: own } });
    let file = secret.0.path().join("config.json");
    fs::write(&file, config.to_json()).expect("the file can be written");
    let mut watch = sidecar.app.objectives_watch(file.clone());
    assert_eq!(watch.look().await.expect("the file can be used"), Look::TakenOver);
    let statuses = [run(&sidecar, OTHER).await, run(&sidecar, OTHER).await, run(&sidecar, OTHER).await];
    let (ok, refused) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(statuses.map(|answer| answer.status), [ok, ok, refused]);
    config.authentication = None;
    fs::write(&file, config.to_json()).expect("the file can be written");
    assert_eq!(watch.look().await.expect("the file can be used"), Look::TakenOverInPart);
    assert_eq!(
        ask(&sidecar.app.api(), None, ("GET", "/v1/models"), Value::Null).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn metrics_tell_tenants_and_refusals_apart() {
    let secret = Secret::new();
    let rate = Rate { requests_per_minute: Some(1), ..Rate::default() };
    let sidecar = secret.sidecar([ANSWER, ANSWER], each(rate));
    for token in [ACME, ACME, OTHER, "unknown-token-0123456789"] {
        run(&sidecar, token).await;
    }
    ask(&sidecar.app.api(), None, ("GET", "/v1/models"), Value::Null).await;
    let text = get(&sidecar.app.admin(), "/metrics").await.body;
    let is_ours = |line: &&str| line.starts_with("slipway_tenant") || line.starts_with("slipway_requests_denied");
    let mut lines: Vec<_> = text.lines().filter(is_ours).collect();
    lines.sort_unstable();
    let tokens = sidecar.engine.prompts()[0].len() + "Answer: 21\n\n".len();
    let expected = [
        r#"slipway_requests_denied_total{reason="invalid_token"} 1"#.to_owned(),
        r#"slipway_requests_denied_total{reason="no_keys"} 0"#.to_owned(),
        r#"slipway_requests_denied_total{reason="no_tenant"} 0"#.to_owned(),
        r#"slipway_requests_denied_total{reason="no_token"} 1"#.to_owned(),
        r#"slipway_tenant_limited_total{tenant="acme",limit="requests_per_minute"} 1"#.to_owned(),
        r#"slipway_tenant_runs_total{tenant="acme"} 1"#.to_owned(),
        r#"slipway_tenant_runs_total{tenant="other"} 1"#.to_owned(),
        format!(r#"slipway_tenant_tokens_total{{tenant="acme"}} {tokens}"#),
        format!(r#"slipway_tenant_tokens_total{{tenant="other"}} {tokens}"#),
    ];
    assert_eq!(lines, expected);
}
