//! Against a server of axum's on a port of its own.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, http::StatusCode, routing::post};
use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::*;
use crate::load::report::Period;

async fn serve(router: Router) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn settings(url: Url) -> LoadSettings {
    LoadSettings {
        url,
        path: "/v1/chat/completions".to_owned(),
        model: "agent".to_owned(),
        rate: 500.0,
        seed: 1,
        seconds: None,
        headers: vec![parse_header("x-test: yes").unwrap()],
        timeout_seconds: 20,
        questions: None,
        given: Vec::new(),
        wait_seconds: 0,
    }
}

fn questions(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// How often each of two questions is asked in a second.
async fn counts_of(questions: [&str; 2], edit: impl FnOnce(&mut LoadSettings)) -> [usize; 2] {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let answer = move |body: axum::Json<serde_json::Value>| {
        seen.lock().unwrap().push(body["messages"][0]["content"].as_str().unwrap().to_owned());
        async { StatusCode::OK }
    };
    let url = serve(Router::new().route("/v1/chat/completions", post(answer))).await;
    let mut settings = LoadSettings { seconds: Some(1), ..settings(url) };
    edit(&mut settings);
    reports(settings, std::future::pending()).await;
    let asked = asked.lock().unwrap();
    questions.map(|question| asked.iter().filter(|asked| *asked == question).count())
}

#[tokio::test]
async fn recorded_questions_are_asked_in_turn() {
    let file = questions("{\"input\": \"first\", \"calls\": []}\n{\"input\": \"second\"}\n");
    let counts = counts_of(["first", "second"], |settings| settings.questions = Some(file.path().to_owned())).await;
    assert!(counts[0] > 0 && counts[0] - counts[1] <= 1, "{counts:?}");
}

#[tokio::test]
async fn given_questions_are_asked_in_turn() {
    let given = ["first, a, b", "second"];
    let counts = counts_of(given, |settings| settings.given = given.map(str::to_owned).to_vec()).await;
    assert!(counts[0] > 0 && counts[0] - counts[1] <= 1, "{counts:?}");
}

#[tokio::test]
async fn questions_that_cannot_be_asked_are_refused_with_what_to_write() {
    let refused = async |text: &str| {
        let file = questions(text);
        let url = "http://127.0.0.1:9".parse().unwrap();
        let settings = LoadSettings { questions: Some(file.path().to_owned()), ..settings(url) };
        let error = run(settings, std::future::pending(), |_| ()).await.unwrap_err().to_string();
        error.replace(&file.path().display().to_string(), "FILE")
    };
    assert_eq!(refused("").await, r#"FILE has no line; write one {"input": "..."} a line"#);
    assert_eq!(
        refused("{\"input\": \"first\"}\n{\"question\": 1}\n").await,
        r#"line 2 of the questions is not a recorded run; write {"input": "..."}"#
    );
}

#[tokio::test]
async fn what_a_server_refuses_before_its_first_answer_does_not_count() {
    let number = Arc::new(AtomicUsize::new(0));
    let asked = number.clone();
    let answer = move || {
        let is_known = asked.fetch_add(1, Ordering::Relaxed) >= 3;
        async move { if is_known { StatusCode::OK } else { StatusCode::NOT_FOUND } }
    };
    let url = serve(Router::new().route("/v1/chat/completions", post(answer))).await;
    let settings = LoadSettings { wait_seconds: 20, seconds: Some(1), ..settings(url) };
    let summary = reports(settings, std::future::pending()).await.pop().unwrap();
    assert_eq!((summary.failed(), summary.ok() + 4), (0, number.load(Ordering::Relaxed) as u64));
}

async fn reports(settings: LoadSettings, stop: impl Future<Output = ()>) -> Vec<Report> {
    let seen = Mutex::new(Vec::new());
    run(settings, stop, |report| seen.lock().unwrap().push(report.clone())).await.unwrap();
    seen.into_inner().unwrap()
}

#[tokio::test]
async fn every_request_is_counted_by_the_revision_that_answered() {
    let number = Arc::new(AtomicUsize::new(0));
    let (sender, mut enough) = mpsc::unbounded_channel();
    let answer = move |headers: HeaderMap, body: String| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let is_right = headers.get("x-test").is_some() && body.contains("\"model\":\"agent\"");
        if number == 19 {
            sender.send(()).unwrap();
        }
        async move {
            match number % 4 {
                0 => (StatusCode::BAD_GATEWAY, HeaderMap::new(), "no server".to_owned()),
                1 => (StatusCode::INTERNAL_SERVER_ERROR, revision("b"), "broken".to_owned()),
                _ if is_right => (StatusCode::OK, revision("a"), "{}".to_owned()),
                _ => (StatusCode::BAD_REQUEST, revision("wrong"), body),
            }
        }
    };
    let url = serve(Router::new().route("/v1/chat/completions", post(answer))).await;
    let stop = async move {
        enough.recv().await.unwrap();
    };
    let reports = reports(settings(url), stop).await;
    let summary = reports.last().unwrap();
    assert_eq!((summary.period, summary.in_flight), (Period::Summary, 0));
    assert_eq!(summary.revisions.keys().collect::<Vec<_>>(), ["a", "b", "none"]);
    assert_eq!(summary.ok(), summary.ok_of("a"));
    assert!(summary.ok() >= 10 && summary.failed_of("b") >= 5 && summary.failed_of("none") >= 5, "{summary:?}");
    assert_eq!(summary.errors.len(), 10, "five of each revision");
    for error in &summary.errors {
        assert!(["b: status 500: broken", "none: status 502: no server"].contains(&error.as_str()), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_failure_with_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let mut settings = settings(url);
    settings.seconds = Some(1);
    let reports = reports(settings, std::future::pending()).await;
    let summary = reports.last().unwrap();
    assert!(summary.failed() > 0 && summary.ok() == 0, "{summary:?}");
    assert!(summary.errors[0].starts_with("none: ") && summary.errors[0].contains("refused"), "{:?}", summary.errors);
}

#[test]
fn settings_that_cannot_work_say_what_to_write() {
    assert_eq!(parse_rate("0").unwrap_err(), "write a number above 0, up to 10000");
    assert_eq!(parse_rate("many").unwrap_err(), "write a number, such as 50");
    assert_eq!(parse_header("x-test").unwrap_err(), "write it as name: value");
}

fn revision(name: &str) -> HeaderMap {
    [(REVISION_HEADER.parse::<HeaderName>().unwrap(), name.parse().unwrap())].into_iter().collect()
}
