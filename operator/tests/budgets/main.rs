//! Error budgets, as Prometheus is asked for them: by a stand-in that shows what was asked, and by Prometheus itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod real;

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::post,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_operator::{
    failure::chain,
    promql::{Prometheus, Series},
    settings::Settings,
};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// What the stand-in was asked: the authorization and the form.
type Asked = Arc<Mutex<Vec<(Option<String>, String)>>>;

/// Answers every question with the same.
async fn stand_in(status: StatusCode, body: &'static str) -> (String, Asked) {
    let asked = Asked::default();
    let book = asked.clone();
    let answer = move |headers: HeaderMap, form: String| {
        let token = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        book.lock().unwrap().push((token, form));
        async move { (status, [("content-type", "application/json")], body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/api/v1/query", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

/// The Prometheus of a configuration file with this block.
fn configured(folder: &TempDir, prometheus: &str) -> Result<Prometheus, String> {
    let file = folder.path().join("config.yaml");
    let path = folder.path().display();
    let yaml = format!("images: {{worker: w, agentRuntime: r}}\nprometheus: {{folder: {path}, {prometheus}}}\n");
    std::fs::write(&file, yaml).unwrap();
    let settings = Settings::read(&file).map_err(|error| chain(&error))?;
    Ok(Prometheus::connect(&settings.prometheus).map_err(|error| chain(&error))?.unwrap())
}

const VECTOR: &str = r#"{"status": "success", "data": {"resultType": "vector", "result": [
    {"metric": {"objective": "reply", "good": "true"}, "value": [1767225600, "950.5"]}
]}}"#;

#[tokio::test]
async fn an_expression_is_sent_with_the_token_and_answered_by_series() {
    let (url, asked) = stand_in(StatusCode::OK, VECTOR).await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
    let prometheus = configured(&folder, &format!("url: '{url}', tokenFile: token")).unwrap();
    let labels = [("objective", "reply"), ("good", "true")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(prometheus.ask("up").await.unwrap(), [Series { labels: labels.into(), value: 950.5 }]);
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, [(Some("Bearer s3cret".to_owned()), "query=up&timeout=5000ms".to_owned())]);
}

#[rstest]
#[case::a_bad_expression(
    StatusCode::BAD_REQUEST,
    r#"{"status": "error", "errorType": "bad_data", "error": "1:3: parse error: unexpected end"}"#,
    "failed to ask Prometheus: bad_data: 1:3: parse error: unexpected end"
)]
#[case::another_kind_of_answer(
    StatusCode::OK,
    r#"{"status": "success", "data": {"resultType": "scalar", "result": [1767225600, "1"]}}"#,
    "Prometheus answered with a scalar where a vector was asked for"
)]
#[tokio::test]
async fn what_is_no_answer_is_said(#[case] status: StatusCode, #[case] body: &'static str, #[case] message: &str) {
    let (url, _) = stand_in(status, body).await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    assert_eq!(chain(&prometheus.ask("up").await.unwrap_err()), message);
}

#[tokio::test]
async fn a_prometheus_that_is_not_there_is_named() {
    // Bound and closed: nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: 'http://{address}'")).unwrap();
    let message = chain(&prometheus.ask("up").await.unwrap_err());
    assert!(message.starts_with("failed to ask Prometheus: ") && message.contains("refused"), "{message}");
}

#[test]
fn a_missing_token_is_named_at_the_start() {
    let folder = TempDir::new().unwrap();
    let message = configured(&folder, "url: 'http://prometheus:9090', tokenFile: token").err().unwrap();
    let start = "prometheus.tokenFile of the configuration needs a usable credential: put it into the Secret that \
                 prometheus.secretName of the chart names: failed to read ";
    assert!(message.starts_with(start), "{message}");
}
