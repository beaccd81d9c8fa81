//! Requests that are sent again: what a run has changed is changed once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use axum::{
    Router,
    http::{Request, StatusCode, header::CONTENT_TYPE},
    routing::post as on_post,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_runtime_config::{HttpMethod, HttpTool, Tool, ToolKind};

use crate::fixture::{Answer, Reply, Sidecar, get, or_hang, post, send, serve, sidecar_with};

const RUNS: &str = "/v1/runs";
const CHAT: &str = "/v1/chat/completions";
const ORDERS: &str = "Action: order[]\n\n";

/// A sidecar with a tool that orders something, and how often it did.
async fn shop(is_idempotent: bool, replies: impl IntoIterator<Item = Reply>) -> (Sidecar, Arc<AtomicUsize>) {
    shop_that_takes(60_000, is_idempotent, replies).await
}

/// The same with so many milliseconds for a run.
async fn shop_that_takes(
    run_timeout: u64,
    is_idempotent: bool,
    replies: impl IntoIterator<Item = Reply>,
) -> (Sidecar, Arc<AtomicUsize>) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&orders);
    let order = async move || format!("order {}", counter.fetch_add(1, Ordering::SeqCst) + 1);
    let origin = serve(Router::new().route("/orders", on_post(order))).await;
    let http =
        HttpTool { method: HttpMethod::Post, idempotent: is_idempotent, ..HttpTool::new(&format!("{origin}/orders")) };
    let tool =
        Tool { name: "order".into(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) };
    let sidecar = sidecar_with(replies, |config| {
        config.tools = vec![tool];
        config.max_steps = 2;
        config.run_timeout_milliseconds = run_timeout;
    });
    (sidecar, orders)
}

fn question(path: &str) -> Value {
    match path {
        RUNS => json!({ "input": "?" }),
        _ => json!({ "messages": [{ "role": "user", "content": "?" }] }),
    }
}

async fn post_with_key(sidecar: &Sidecar, path: &str, key: &str, body: Value) -> Answer {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").header("idempotency-key", key);
    or_hang(send(&sidecar.app.api(), request, body.to_string())).await
}

fn shown<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().expect("the header is text"))
}

#[rstest]
#[case::model_error_of_a_run(RUNS, Reply::Refuses("CUDA out of memory"), "model_error")]
#[case::model_error_of_a_chat(CHAT, Reply::Refuses("CUDA out of memory"), "model_error")]
#[case::malformed(CHAT, Reply::Says("\n\n"), "malformed_model_output")]
#[case::max_steps(CHAT, Reply::Says(ORDERS), "max_steps_exceeded")]
#[tokio::test]
async fn nobody_is_invited_to_repeat_a_run_that_may_have_changed_something(
    #[case] path: &str,
    #[case] second: Reply,
    #[case] code: &str,
) {
    let (sidecar, orders) = shop(false, [Reply::Says(ORDERS), second]).await;
    let answer = post(&sidecar.app.api(), path, question(path)).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (StatusCode::FAILED_DEPENDENCY, &json!(code)));
    assert_eq!((shown(&answer, "x-should-retry"), shown(&answer, "retry-after")), (Some("false"), None));
    assert!(answer.error().ends_with("; its tool calls may have changed something, so do not repeat it"));
    assert_eq!(orders.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_timeout_after_a_tool_invites_nobody_either() {
    let replies = [Reply::Says(ORDERS), Reply::SaysAndHangs("Answer: on and")];
    let (sidecar, _) = shop_that_takes(500, false, replies).await;
    let answer = or_hang(post(&sidecar.app.api(), RUNS, question(RUNS))).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (StatusCode::FAILED_DEPENDENCY, &json!("run_timeout"))
    );
}

#[tokio::test]
async fn a_run_of_idempotent_tools_may_be_repeated() {
    let (sidecar, _) = shop(true, [Reply::Says(ORDERS), Reply::Refuses("CUDA out of memory")]).await;
    let answer = post(&sidecar.app.api(), RUNS, question(RUNS)).await;
    assert_eq!((answer.status, shown(&answer, "x-should-retry")), (StatusCode::BAD_GATEWAY, None));
}

#[rstest]
#[case(RUNS)]
#[case(CHAT)]
#[tokio::test]
async fn a_request_with_a_key_is_done_once_and_answered_again(#[case] path: &str) {
    let (sidecar, orders) = shop(false, [Reply::Says(ORDERS), Reply::Says("Answer: done\n\n")]).await;
    let first = post_with_key(&sidecar, path, "k1", question(path)).await;
    let second = post_with_key(&sidecar, path, "k1", question(path)).await;
    assert_eq!((first.status, first.json()), (second.status, second.json()));
    let replayed = |answer: &Answer| shown(answer, "idempotent-replayed").map(str::to_owned);
    assert_eq!((replayed(&first), replayed(&second)), (None, Some("true".into())));
    assert_eq!(orders.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_streamed_answer_is_streamed_again() {
    let (sidecar, orders) = shop(false, [Reply::Says(ORDERS), Reply::Says("Answer: done\n\n")]).await;
    let mut request = question(CHAT);
    request["stream"] = json!(true);
    let text = |answer: &Answer| -> String {
        let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: {"));
        let chunks = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).expect("a chunk"));
        chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    };
    let first = post_with_key(&sidecar, CHAT, "k1", request.clone()).await;
    let second = post_with_key(&sidecar, CHAT, "k1", request).await;
    assert_eq!((text(&first), text(&second)), ("done".to_owned(), "done".to_owned()));
    assert!(second.body.ends_with("data: [DONE]\n\n"));
    assert_eq!(orders.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_key_stands_for_one_request() {
    let (sidecar, _) = shop(false, [Reply::Says("Answer: done\n\n")]).await;
    post_with_key(&sidecar, RUNS, "k1", question(RUNS)).await;
    let other = post_with_key(&sidecar, RUNS, "k1", json!({ "input": "Something else?" })).await;
    assert_eq!(
        (other.status, &other.json()["error"]["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
    );
    let long = post_with_key(&sidecar, RUNS, &"k".repeat(256), question(RUNS)).await;
    assert_eq!(long.error(), "Idempotency-Key: is not a key; send 1 to 255 characters of ASCII");
}

#[tokio::test]
async fn a_failure_that_changed_nothing_leaves_its_key_free() {
    let replies = [Reply::Refuses("CUDA out of memory"), Reply::Says("Answer: done\n\n")];
    let (sidecar, _) = shop(false, replies).await;
    assert_eq!(post_with_key(&sidecar, RUNS, "k1", question(RUNS)).await.status, StatusCode::BAD_GATEWAY);
    assert_eq!(post_with_key(&sidecar, RUNS, "k1", question(RUNS)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_quarter_of_an_hour() {
    let answer = || Reply::Says("Answer: done\n\n");
    let (sidecar, _) = shop(false, [answer(), answer()]).await;
    let ask = async || post_with_key(&sidecar, RUNS, "k1", question(RUNS)).await.json()["id"].clone();
    let first = ask().await;
    sidecar.time.advance(Duration::from_secs(14 * 60));
    assert_eq!(ask().await, first);
    sidecar.time.advance(Duration::from_secs(60));
    assert_ne!(ask().await, first);
}

#[tokio::test]
async fn a_client_that_vanished_finds_the_answer_of_its_key() {
    let (sidecar, orders) = shop(false, [Reply::Says(ORDERS), Reply::WaitsAndSays("Answer: done\n\n")]).await;
    let gone = tokio::spawn({
        let api = sidecar.app.api();
        let request = Request::post(RUNS).header(CONTENT_TYPE, "application/json").header("idempotency-key", "k1");
        async move { send(&api, request, question(RUNS).to_string()).await }
    });
    or_hang(sidecar.engine.until(|engine| engine.generations.len() == 2)).await;
    gone.abort();
    assert!(gone.await.is_err());
    sidecar.engine.release();
    let answer = post_with_key(&sidecar, RUNS, "k1", question(RUNS)).await;
    assert_eq!((answer.status, &answer.json()["answer"]), (StatusCode::OK, &json!("done")));
    assert_eq!(orders.load(Ordering::SeqCst), 1);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_runs_total{outcome=\"answered\"} 1\n"), "{metrics}");
}
