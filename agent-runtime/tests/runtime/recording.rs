//! What a pod remembers of runs, and who may read it.

use std::process::Stdio;

use axum::{
    Json, Router,
    extract::Path,
    http::{HeaderMap, Request, StatusCode},
    response::IntoResponse,
    routing::get as on_get,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_runtime_config::{RecordingLevel, RuntimeConfig, TextDialect, ToolKind};
use slipway_vocabulary::recording::{
    CallLengths, Minute, PATH, RecordedCall, RecordedRun, Recording, RunLengths, TraceLine, TurnLengths,
};

use crate::{
    fixture::{Reply, START, Sidecar, calculator, get, lookup, or_hang, post, send, serve, sidecar_with},
    process::{BINARY, free_addresses, until_it_serves},
};

const QUESTION: &str = "How high is Bela?";

/// A sidecar whose tool knows one height, after runs that ask for it, with what it remembers.
async fn after(replies: Vec<Reply>, level: RecordingLevel, bodies: &[Value]) -> Sidecar {
    let answer = async |Path((name, _)): Path<(String, String)>| match name.as_str() {
        "Bela" => Json(json!({ "value": "123" })).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    };
    let origin = serve(Router::new().route("/v1/{name}/{property}", on_get(answer))).await;
    let sidecar = sidecar_with(replies, |config| {
        config.tools = vec![calculator(), lookup(&origin)];
        config.recording = level;
    });
    for body in bodies {
        post(&sidecar.app.api(), "/v1/chat/completions", body.clone()).await;
    }
    sidecar
}

fn question() -> Value {
    json!({"model": "support", "messages": [{"role": "user", "content": QUESTION}]})
}

fn replies() -> Vec<Reply> {
    vec![Reply::Says("Action: lookup[Bela.height]\nAction: calc[1+1]\n\n"), Reply::Says("Answer: 123\n\n")]
}

async fn read(router: &Router) -> Recording {
    serde_json::from_str(&get(router, PATH).await.body).expect("a recording reads back")
}

fn micros(at: u64) -> Option<u64> {
    Some(START.as_micros() + at)
}

#[tokio::test]
async fn a_run_is_remembered_by_its_lengths_and_times() {
    let sidecar = after(replies(), RecordingLevel::Lengths, &[question()]).await;
    let recording = read(&sidecar.app.admin()).await;
    assert_eq!((recording.pod.as_str(), recording.revision.as_str()), ("support-1-x", "support-1"));
    assert_eq!((recording.level, recording.unanswered.len()), (RecordingLevel::Lengths, 0));
    let call = |tool: &str, result_tokens| CallLengths { tool: tool.into(), result_tokens, latency_micros: 0 };
    // The scripted engine makes a token of every character, and virtual time stands still while tools work.
    let lengths = RunLengths {
        arrived_micros: micros(0),
        input_tokens: 17,
        turns: vec![
            TurnLengths { output_tokens: 47, calls: vec![call("lookup", 3), call("calc", 1)] },
            TurnLengths { output_tokens: 13, calls: Vec::new() },
        ],
    };
    assert_eq!(recording.runs, [RecordedRun { lengths, texts: None }]);
    assert!(sidecar.app.texts().is_none(), "nothing has texts");
}

#[tokio::test]
async fn texts_are_remembered_where_the_agent_opts_in_and_the_administration_has_none() {
    let sidecar = after(replies(), RecordingLevel::Texts, &[question()]).await;
    let administration = get(&sidecar.app.admin(), PATH).await.body;
    assert!(!administration.contains("Bela") && !administration.contains("123"), "{administration}");
    let recording = read(&sidecar.app.texts().expect("texts are remembered")).await;
    let call = RecordedCall {
        tool: "lookup".into(),
        arguments: [("name", "Bela"), ("property", "height")].map(|(name, value)| (name.into(), value.into())).into(),
        result: "123".into(),
        latency_micros: 0,
    };
    let line = TraceLine { input: QUESTION.into(), calls: vec![call], arrived_micros: micros(0) };
    let texts: Vec<_> = recording.runs.into_iter().map(|run| run.texts).collect();
    assert_eq!(texts, [Some(line)], "the agent adds up by itself again");
}

#[tokio::test]
async fn lengths_have_no_word_that_a_user_or_the_model_wrote() {
    let replies = vec![Reply::Says("Action: a secret of the user's[Bela]\n\n"), Reply::Says("Answer: 123\n\n")];
    let sidecar = after(replies, RecordingLevel::Texts, &[question()]).await;
    let recording = read(&sidecar.app.admin()).await;
    let tools: Vec<_> = recording.runs.iter().flat_map(|run| &run.lengths.turns).flat_map(|turn| &turn.calls).collect();
    assert_eq!(tools.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>(), ["unknown"]);
    assert!(!get(&sidecar.app.admin(), PATH).await.body.contains("secret"));
}

#[tokio::test]
async fn texts_have_no_header_that_a_tool_is_sent() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(folder.path().join("authorization"), "Bearer hidden-token").expect("the file is written");
    let answer = async |headers: HeaderMap| {
        assert_eq!(headers["authorization"], "Bearer hidden-token", "the tool is sent it");
        Json(json!({ "value": "123" }))
    };
    let origin = serve(Router::new().route("/v1/{name}/{property}", on_get(answer))).await;
    let sidecar = sidecar_with(replies(), |config| {
        let mut tool = lookup(&origin);
        let ToolKind::Http(http) = &mut tool.kind else { panic!("it is an HTTP tool") };
        http.headers_from = Some(folder.path().display().to_string());
        config.tools = vec![calculator(), tool];
        config.recording = RecordingLevel::Texts;
    });
    let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    let request = request.header("authorization", "Bearer token-of-the-client");
    send(&sidecar.app.api(), request, question().to_string()).await;
    let recorded = get(&sidecar.app.texts().expect("texts are remembered"), PATH).await.body;
    let has =
        ["123", "Bela", "hidden-token", "token-of-the-client", "uthorization"].map(|text| recorded.contains(text));
    assert_eq!(has, [true, true, false, false, false], "{recorded}");
}

/// What a record cannot answer again has lengths alone.
#[rstest]
#[case::a_conversation(replies(), json!({"messages": [
    {"role": "user", "content": "Bela?"}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "How high?"}]}))]
#[case::instructions_of_the_client(replies(), json!({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high is Bela?"}]}))]
#[case::a_tool_that_failed(
    vec![Reply::Says("Action: lookup[Anna.height]\n\n"), Reply::Says("Answer: unknown\n\n")],
    json!({"messages": [{"role": "user", "content": QUESTION}]})
)]
#[case::a_tool_that_there_is_not(
    vec![Reply::Says("Action: guess[Bela]\n\n"), Reply::Says("Answer: unknown\n\n")],
    json!({"messages": [{"role": "user", "content": QUESTION}]})
)]
#[tokio::test]
async fn a_run_that_cannot_be_replayed_has_no_texts(#[case] replies: Vec<Reply>, #[case] mut body: Value) {
    body["model"] = json!("support");
    let sidecar = after(replies, RecordingLevel::Texts, &[body]).await;
    let recording = read(&sidecar.app.texts().expect("texts are remembered")).await;
    let seen: Vec<_> = recording.runs.iter().map(|run| (run.lengths.turns.len(), run.texts.is_some())).collect();
    assert_eq!(seen, [(2, false)]);
}

#[tokio::test]
async fn a_run_without_an_answer_is_counted_and_who_records_nothing_remembers_nothing() {
    let nonsense = || vec![Reply::Says("nonsense\n\n")];
    let recording = read(&after(nonsense(), RecordingLevel::Lengths, &[question()]).await.app.admin()).await;
    let minute = Minute { at_micros: START.as_micros() / 60_000_000 * 60_000_000, runs: 1 };
    assert_eq!((recording.runs.len(), recording.unanswered), (0, vec![minute]));
    let silent = after(replies(), RecordingLevel::None, &[question()]).await;
    let recording = read(&silent.app.admin()).await;
    assert_eq!((recording.runs.len(), recording.level), (0, RecordingLevel::None));
}

#[tokio::test]
async fn a_run_that_met_a_full_pod_is_counted_as_traffic() {
    let sidecar = sidecar_with([Reply::WaitsAndSays("Answer: 1\n\n")], |config| config.max_in_flight = 1);
    let api = sidecar.app.api();
    let first = tokio::spawn({
        let api = api.clone();
        async move { post(&api, "/v1/chat/completions", question()).await.status }
    });
    sidecar.engine.until(|engine| engine.generations.len() == 1).await;
    assert_eq!(post(&api, "/v1/chat/completions", question()).await.status, StatusCode::TOO_MANY_REQUESTS);
    sidecar.engine.release();
    assert_eq!(first.await.expect("the first run ends"), StatusCode::OK);
    let recording = read(&sidecar.app.admin()).await;
    assert_eq!((recording.runs.len(), recording.unanswered.iter().map(|minute| minute.runs).sum::<u64>()), (1, 1));
}

/// An engine's own server that answers everything with 42.
async fn engine() -> String {
    let events = [
        json!({"choices": [{"index": 0, "text": "Answer: 42", "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 4, "total_tokens": 94}}),
    ];
    let body = events.map(|event| format!("data: {event}\n\n")).concat() + "data: [DONE]\n\n";
    let complete = async move || ([("content-type", "text/event-stream")], body);
    serve(Router::new().route("/v1/completions", axum::routing::post(complete)).route("/health", on_get(async || "")))
        .await
}

#[rstest]
#[case(RecordingLevel::Texts, true)]
#[case(RecordingLevel::Lengths, false)]
#[tokio::test]
async fn the_process_serves_texts_on_loopback_where_it_remembers_them(
    #[case] level: RecordingLevel,
    #[case] has_texts: bool,
) {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let path = folder.path().join("config.json");
    let mut config = RuntimeConfig::new("a", "a-1", &engine().await);
    config.engine.dialect = TextDialect::OpenAi;
    config.recording = level;
    std::fs::write(&path, config.to_json()).expect("the file is written");
    let [api, admin, texts] = free_addresses().map(|address| address.to_string());
    let mut child = tokio::process::Command::new(BINARY)
        .args(["--api-address", &api, "--admin-address", &admin, "--texts-address", &texts, "--config"])
        .arg(&path)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    until_it_serves(&mut child).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client can be made");
    let is_ready = async || {
        let answer = client.get(format!("http://{admin}/readyz")).send().await.expect("the administration answers");
        answer.status().is_success()
    };
    or_hang(async { while !is_ready().await {} }).await;
    let asked = client.post(format!("http://{api}/v1/runs")).json(&json!({ "input": "How high is Bela?" })).send();
    assert_eq!(or_hang(asked).await.expect("the agent answers").status(), 200);
    let recorded = async |address: &str| -> Option<Vec<RecordedRun>> {
        let answer = or_hang(client.get(format!("http://{address}{PATH}")).send()).await.ok()?;
        Some(or_hang(answer.json::<Recording>()).await.expect("a recording reads back").runs)
    };
    let told = |runs: Vec<RecordedRun>| runs.into_iter().map(|run| run.texts.map(|texts| texts.input)).collect();
    assert_eq!(recorded(&admin).await.map(told), Some(vec![None]), "the administration has lengths alone");
    let expected = has_texts.then(|| vec![Some(QUESTION.to_owned())]);
    assert_eq!(recorded(&texts).await.map(told), expected);
}
