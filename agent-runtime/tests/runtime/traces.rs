//! What a receiver of traces gets of runs, and what engines and tools get of the trace.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Request, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::{get as on_get, post as on_post},
};
use pretty_assertions::assert_eq;
use prost::Message;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::traces::otlp::{
    AnyValue, ExportAnswer, ExportRequest, KeyValue, OneValue, PartialSuccess, WireKind, WireSpan,
};
use slipway_runtime_config::Tracing;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::fixture::{Reply, START, Sidecar, calculator, get, lookup, or_hang, send, serve, sidecar, sidecar_with};

const RUNS: &str = "/v1/runs";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What a receiver was sent.
#[derive(Clone, Debug, Default)]
struct Posted {
    headers: HeaderMap,
    body: Bytes,
}

/// A status and a body.
type Answer = (StatusCode, Vec<u8>);

/// A receiver that answers as it is told, the last answer again and again.
#[derive(Clone)]
struct Receiver {
    answers: Arc<Mutex<Vec<Answer>>>,
    posted: watch::Sender<Vec<Posted>>,
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let mut answers = receiver.answers.lock().expect("no test panics with the lock");
    let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
    receiver.posted.send_modify(|posted| posted.push(Posted { headers, body }));
    answer
}

impl Receiver {
    async fn start(answers: &[Answer]) -> (Self, Tracing) {
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let receiver = Self { answers, posted: watch::Sender::default() };
        let router = Router::new().route("/otlp/v1/traces", on_post(take)).with_state(receiver.clone());
        (receiver, Tracing::new(&format!("{}/otlp/", serve(router).await)))
    }

    async fn willing() -> (Self, Tracing) {
        Self::start(&[(StatusCode::OK, Vec::new())]).await
    }

    async fn until_posted(&self, times: usize) {
        let mut posted = self.posted.subscribe();
        or_hang(posted.wait_for(|posted| posted.len() >= times)).await.expect("the receiver holds the sender");
    }

    fn requests(&self) -> Vec<ExportRequest> {
        let read = |posted: &Posted| ExportRequest::decode(posted.body.clone()).expect("it is a request of OTLP");
        self.posted.borrow().iter().map(read).collect()
    }

    fn spans(&self) -> Vec<WireSpan> {
        let scopes = self.requests().into_iter().flat_map(|request| request.resources).flat_map(|of| of.scopes);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// Delivers what waits.
async fn deliver(sidecar: &mut Sidecar) {
    let stop = CancellationToken::new();
    stop.cancel();
    or_hang(sidecar.app.take_exporter().expect("runs are traced").run(stop)).await;
}

async fn ask(sidecar: &Sidecar, traceparent: Option<&str>, input: &str) -> Value {
    let mut request = Request::post(RUNS).header(CONTENT_TYPE, "application/json");
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent).header("tracestate", "congo=t61");
    }
    or_hang(send(&sidecar.app.api(), request, json!({ "input": input }).to_string())).await.json()
}

fn traced(replies: impl IntoIterator<Item = Reply>, tracing: &Tracing) -> Sidecar {
    sidecar_with(replies, |config| config.tracing = Some(tracing.clone()))
}

fn value(KeyValue { key, value }: &KeyValue) -> String {
    let value = match value.as_ref().and_then(|AnyValue { value }| value.as_ref()) {
        Some(OneValue::Text(text)) => format!("{text:?}"),
        Some(OneValue::Flag(flag)) => flag.to_string(),
        Some(OneValue::Count(count)) => count.to_string(),
        Some(OneValue::Number(number)) => number.to_string(),
        None => "nothing".to_owned(),
    };
    format!("{key}={value}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Spans as people read them, with microseconds since the start of the test.
fn shown(spans: &[WireSpan]) -> String {
    let since = |nanoseconds: u64| nanoseconds / 1_000 - START.as_micros();
    let show = |span: &WireSpan| {
        let kind = WireKind::try_from(span.kind).expect("a known kind");
        let error = if span.status.is_some() { " failed" } else { "" };
        let (from, to) = (since(span.start_time_unix_nano), since(span.end_time_unix_nano));
        let ids = [&span.trace_id, &span.span_id, &span.parent_span_id].map(|id| hex(id)).join(" ");
        let head =
            format!("{} ({kind:?}{error}) {from}..{to}\n  {ids} {:x} {}", span.name, span.flags, span.trace_state);
        let attributes: String = span.attributes.iter().map(|pair| format!("\n  {}", value(pair))).collect();
        head.trim_end().to_owned() + &attributes
    };
    spans.iter().map(show).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_run_its_model_calls_and_its_tools_are_one_trace() {
    let (receiver, tracing) = Receiver::willing().await;
    let seen: Arc<Mutex<Option<HeaderMap>>> = Arc::default();
    let told = Arc::clone(&seen);
    let fact = async move |headers: HeaderMap| {
        *told.lock().expect("no test panics with the lock") = Some(headers);
        json!({ "value": 5 }).to_string()
    };
    let origin = serve(Router::new().route("/v1/{name}/{property}", on_get(fact))).await;
    let replies = [
        Reply::Says("Action: lookup[Bela.height]\nAction: calc[1/0]\nAction: shell[ls]\n\n"),
        Reply::Says("Answer: 5\n\n"),
    ];
    let mut sidecar = sidecar_with(replies, |config| {
        config.tools = vec![lookup(&origin), calculator()];
        config.tracing = Some(Tracing { namespace: Some("team".into()), ..tracing });
    });
    let answer = ask(&sidecar, Some(PARENT), "How tall is Bela?").await;
    assert_eq!(answer["answer"], json!("5"));
    deliver(&mut sidecar).await;
    let spans = receiver.spans();
    insta::assert_snapshot!(shown(&spans));

    // What engines and tools were told of the trace are spans of it.
    let of = |span: &WireSpan| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
    sidecar.engine.look(|state| {
        let traces = state.generations.iter().map(|generation| generation.trace.as_ref().map(ToString::to_string));
        assert_eq!(traces.collect::<Vec<_>>(), [Some(of(&spans[1])), Some(of(&spans[2]))]);
    });
    let headers = seen.lock().expect("no test panics with the lock").clone().expect("the tool was called");
    let told = ["traceparent", "tracestate"].map(|name| headers[name].to_str().expect("a text").to_owned());
    assert_eq!(told, [of(&spans[3]), "congo=t61".to_owned()]);

    let request = receiver.requests().remove(0);
    let resource = request.resources[0].resource.clone().expect("it says who sends");
    let resource: Vec<_> = resource.attributes.iter().map(value).collect();
    let expected = [
        "service.name=\"support\"",
        "service.version=\"support-1\"",
        "service.instance.id=\"support-1-x\"",
        "k8s.pod.name=\"support-1-x\"",
        "service.namespace=\"team\"",
        "k8s.namespace.name=\"team\"",
    ];
    assert_eq!(resource, expected);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_trace_spans_exported_total 6\n"), "{metrics}");
}

#[tokio::test]
async fn no_span_holds_what_was_asked_answered_or_called_with() {
    let (receiver, tracing) = Receiver::willing().await;
    let replies = [Reply::Says("Action: calc[11111+2]\n\n"), Reply::Says("Answer: swordfish\n\n")];
    let mut sidecar = traced(replies, &tracing);
    ask(&sidecar, None, "What is the password?").await;
    deliver(&mut sidecar).await;
    let body = receiver.posted.borrow()[0].body.clone();
    let text = String::from_utf8_lossy(&body);
    assert_eq!(
        ["invoke_agent", "password", "swordfish", "11111"].map(|word| text.contains(word)),
        [true, false, false, false]
    );
}

#[tokio::test]
async fn a_client_that_records_nothing_is_followed_and_not_recorded() {
    let (receiver, tracing) = Receiver::willing().await;
    let mut sidecar = traced([Reply::Says("Answer: 5\n\n")], &tracing);
    ask(&sidecar, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), "?").await;
    deliver(&mut sidecar).await;
    assert_eq!(receiver.spans(), []);
    sidecar.engine.look(|state| {
        let trace = state.generations[0].trace.as_ref().expect("the trace goes on").to_string();
        assert!(trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && trace.ends_with("-00"), "{trace}");
    });
}

#[rstest]
#[case::all(1_000_000, 2)]
#[case::none(0, 0)]
#[tokio::test]
async fn of_runs_without_a_trace_a_share_begins_one(#[case] sampled_per_million: u32, #[case] spans: usize) {
    let (receiver, tracing) = Receiver::willing().await;
    let mut sidecar = traced([Reply::Says("Answer: 5\n\n")], &Tracing { sampled_per_million, ..tracing });
    ask(&sidecar, None, "?").await;
    deliver(&mut sidecar).await;
    assert_eq!(receiver.spans().len(), spans);
}

#[tokio::test]
async fn a_run_that_is_not_traced_tells_nobody_of_a_trace() {
    let sidecar = sidecar([Reply::Says("Answer: 5\n\n")]);
    ask(&sidecar, Some(PARENT), "?").await;
    sidecar.engine.look(|state| assert_eq!(state.generations[0].trace, None));
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(!metrics.contains("slipway_trace"), "{metrics}");
}

#[tokio::test]
async fn a_run_whose_client_vanishes_ends_with_what_it_waited_for() {
    let (receiver, tracing) = Receiver::willing().await;
    let mut sidecar = traced([Reply::SaysAndHangs("Answer: ")], &tracing);
    let body = json!({ "messages": [{ "role": "user", "content": "?" }], "stream": true });
    let request = Request::post("/v1/chat/completions").header(CONTENT_TYPE, "application/json");
    let request = request.header("traceparent", PARENT).body(Body::from(body.to_string()));
    let response =
        sidecar.app.api().oneshot(request.expect("it is well formed")).await.expect("a router does not fail");
    assert_eq!(response.status(), StatusCode::OK);
    drop(response);
    or_hang(sidecar.engine.until(|state| state.cancelled == 1)).await;
    deliver(&mut sidecar).await;
    insta::assert_snapshot!(shown(&receiver.spans()));
}

#[tokio::test]
async fn a_failed_model_call_is_marked_and_its_words_are_not_told() {
    let (receiver, tracing) = Receiver::willing().await;
    let mut sidecar = traced([Reply::SaysAndFails("Answer: 4")], &tracing);
    ask(&sidecar, Some(PARENT), "?").await;
    deliver(&mut sidecar).await;
    insta::assert_snapshot!(shown(&receiver.spans()));
    let body = receiver.posted.borrow()[0].body.clone();
    assert!(!String::from_utf8_lossy(&body).contains("CUDA"));
}

#[tokio::test]
async fn a_batch_that_cannot_be_delivered_now_is_sent_again() {
    let busy = (StatusCode::SERVICE_UNAVAILABLE, Vec::new());
    let (receiver, tracing) = Receiver::start(&[busy, (StatusCode::OK, Vec::new())]).await;
    let mut sidecar = traced([Reply::Says("Answer: 5\n\n")], &tracing);
    ask(&sidecar, Some(PARENT), "?").await;
    let stop = CancellationToken::new();
    let exporter = tokio::spawn(sidecar.app.take_exporter().expect("runs are traced").run(stop.clone()));
    receiver.until_posted(1).await;
    // The end of the pod waits for no pause.
    stop.cancel();
    or_hang(exporter).await.expect("the exporter ends");
    let posted = receiver.posted.borrow().clone();
    assert_eq!((posted.len(), &posted[0].body), (2, &posted[1].body));
    assert_eq!(posted[1].headers[CONTENT_TYPE], "application/x-protobuf");
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_trace_spans_exported_total 2\n"), "{metrics}");
}

#[rstest]
#[case::refused((StatusCode::BAD_REQUEST, Vec::new()), "failed", 2)]
#[case::taken_in_part((StatusCode::OK, partly()), "rejected", 1)]
#[tokio::test]
async fn spans_that_are_not_taken_are_counted(#[case] answer: Answer, #[case] reason: &str, #[case] spans: u64) {
    let (receiver, tracing) = Receiver::start(&[answer]).await;
    let mut sidecar = traced([Reply::Says("Answer: 5\n\n")], &tracing);
    ask(&sidecar, None, "?").await;
    deliver(&mut sidecar).await;
    assert_eq!(receiver.posted.borrow().len(), 1);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    let lines = [
        format!("slipway_trace_spans_dropped_total{{reason=\"{reason}\"}} {spans}\n"),
        format!("slipway_trace_spans_exported_total {}\n", 2 - spans),
    ];
    assert!(lines.iter().all(|line| metrics.contains(line)), "{metrics}");
}

fn partly() -> Vec<u8> {
    let partial_success = Some(PartialSuccess { rejected_spans: 1, error_message: "one is enough".into() });
    ExportAnswer { partial_success }.encode_to_vec()
}

#[tokio::test]
async fn a_receiver_gets_the_headers_of_the_mounted_secret() {
    let (receiver, tracing) = Receiver::willing().await;
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(folder.path().join("x-api-key"), "secret\n").expect("the file is written");
    let headers_from = Some(folder.path().display().to_string());
    let mut sidecar = traced([Reply::Says("Answer: 5\n\n")], &Tracing { headers_from, ..tracing });
    ask(&sidecar, None, "?").await;
    deliver(&mut sidecar).await;
    assert_eq!(receiver.posted.borrow()[0].headers["x-api-key"], "secret");
}
