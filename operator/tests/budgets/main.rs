//! Error budgets, as Prometheus is asked for them: by a stand-in that shows what was asked, and by Prometheus itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod real;
mod server;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::post,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_operator::promql::{AskError, Series};
use slipway_vocabulary::failure::chain;
use tempfile::TempDir;
use tokio::net::TcpListener;

use self::server::configured;

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
    assert_eq!(prometheus.ask("team", "up").await.unwrap(), [Series { labels: labels.into(), value: 950.5 }]);
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
    "Prometheus answered with a scalar instead of a vector"
)]
#[tokio::test]
async fn what_is_no_answer_is_said(#[case] status: StatusCode, #[case] body: &'static str, #[case] message: &str) {
    let (url, _) = stand_in(status, body).await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    assert_eq!(chain(&prometheus.ask("team", "up").await.unwrap_err()), message);
}

#[tokio::test]
async fn a_prometheus_that_is_not_there_is_named() {
    // Bound and closed, on a loopback address of its own: nobody listens there.
    let address = TcpListener::bind("127.0.0.2:0").await.unwrap().local_addr().unwrap();
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: 'http://{address}'")).unwrap();
    let message = chain(&prometheus.ask("team", "up").await.unwrap_err());
    assert!(message.starts_with("failed to ask Prometheus: ") && message.contains("refused"), "{message}");
}

/// A server that takes connections in and never says anything, as behind a firewall or in a stop-the-world pause; and
/// how many it took.
async fn silent() -> (String, Arc<Mutex<Vec<tokio::net::TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::new(Mutex::new(Vec::new()));
    let book = taken.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            book.lock().unwrap().push(connection);
        }
    });
    (url, taken)
}

#[tokio::test]
async fn a_prometheus_that_hangs_is_waited_for_once_a_minute_rather_than_by_every_reconciliation() {
    let (url, taken) = silent().await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    let others = prometheus.clone();
    let begin = Instant::now();
    assert_eq!(
        chain(&prometheus.ask_at("team", "up", begin).await.unwrap_err()),
        "Prometheus did not answer within 5 s"
    );
    let waited = begin.elapsed();
    for seconds in [0, 30, 59] {
        let error = others.ask_at("team", "up", begin + Duration::from_secs(seconds)).await.unwrap_err();
        let expected = "Prometheus did not answer within 5 s; the operator queries Prometheus again 60 s after that";
        assert_eq!(chain(&error), expected);
    }
    assert!(begin.elapsed() < waited + Duration::from_secs(1), "nobody waited again");
    assert_eq!(taken.lock().unwrap().len(), 1, "nothing was sent again");
}

#[tokio::test]
async fn a_prometheus_that_is_back_is_asked_again_after_a_minute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: 'http://{address}'")).unwrap();
    let begin = Instant::now();
    prometheus.ask_at("team", "up", begin).await.unwrap_err();
    let listener = TcpListener::bind(address).await.unwrap();
    let router =
        Router::new().route("/api/v1/query", post(|| async { ([("content-type", "application/json")], VECTOR) }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let early = prometheus.ask_at("team", "up", begin + Duration::from_secs(59)).await.unwrap_err();
    assert!(matches!(early, AskError::LeftAlone { .. }), "{early:?}");
    let after = begin + Duration::from_secs(60);
    assert_eq!(prometheus.ask_at("team", "up", after).await.unwrap().len(), 1);
    assert_eq!(prometheus.ask_at("team", "up", after).await.unwrap().len(), 1, "it answers again");
}

/// Who writes a slow query waits for it alone.
#[tokio::test]
async fn a_question_without_an_answer_keeps_other_namespaces_from_nothing() {
    let (url, taken) = silent().await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    let begin = Instant::now();
    let (slow, other) = tokio::join!(prometheus.ask_at("slow", "up", begin), prometheus.ask_at("other", "up", begin));
    assert!(matches!((&slow, &other), (Err(AskError::Timeout), Err(AskError::Timeout))), "{slow:?} {other:?}");
    let third = tokio::time::timeout(Duration::from_millis(200), prometheus.ask_at("third", "up", begin)).await;
    assert!(third.is_err(), "a third namespace asks and waits: {third:?}");
    assert_eq!(taken.lock().unwrap().len(), 3);
}

/// A query over all metrics has an answer of any length; the operator's memory has none.
#[tokio::test]
async fn an_answer_is_read_no_further_than_its_bound() {
    let long: &'static str = Box::leak(format!("{{\"status\": \"{}\"}}", "x".repeat(2 << 20)).into_boxed_str());
    let (url, _) = stand_in(StatusCode::OK, long).await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    let message = "failed to read the answer of Prometheus: the body has more than 1048576 bytes";
    assert_eq!(chain(&prometheus.ask("team", "up").await.unwrap_err()), message);
}

#[tokio::test]
async fn who_answers_in_the_place_of_prometheus_is_said() {
    let (url, _) = stand_in(StatusCode::BAD_GATEWAY, "<html>").await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    let message = chain(&prometheus.ask("team", "up").await.unwrap_err());
    let start = "what answers as Prometheus does not speak its language: status 502: expected value";
    assert!(message.starts_with(start), "{message}");
}

#[tokio::test]
async fn a_question_that_prometheus_refuses_keeps_no_other_from_being_asked() {
    let refusal = r#"{"status": "error", "errorType": "bad_data", "error": "1:3: parse error: unexpected end"}"#;
    let (url, asked) = stand_in(StatusCode::BAD_REQUEST, refusal).await;
    let prometheus = configured(&TempDir::new().unwrap(), &format!("url: '{url}'")).unwrap();
    for _ in 0..2 {
        prometheus.ask("team", "sum(").await.unwrap_err();
    }
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[test]
fn a_missing_token_is_named_at_the_start() {
    let folder = TempDir::new().unwrap();
    let message = configured(&folder, "url: 'http://prometheus:9090', tokenFile: token").err().unwrap();
    let start = "prometheus.tokenFile of the configuration needs a usable credential: put it into the Secret that \
                 prometheus.secretName of the chart names: failed to read ";
    assert!(message.starts_with(start), "{message}");
}
