//! The contract with TensorRT-LLM's own server, against a stand-in that refuses what upstream refuses.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::backend::{
    Backend, BackendError, EngineFault, EngineLoad, FinishReason, Generation, Guide, OpenAi, OpenAiServer, Piece,
    PromptForm,
};
use slipway_runtime_config::Sampling;
use tokio::{net::TcpListener, sync::watch};

use crate::fixture::or_hang;

/// Fields of upstream's `CompletionRequest` that the sidecar may send; others are an error there.
const FIELDS: [&str; 19] = [
    "model",
    "prompt",
    "max_tokens",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "include_stop_str_in_output",
    "ignore_eos",
    "skip_special_tokens",
    "add_special_tokens",
    "response_format",
    "logprobs",
    "detokenize",
];
/// Upstream's words where the context holds eight tokens.
const TOO_LONG: &str = "`default_max_tokens` (-2) must be greater than 0, `default_max_tokens` (-2) = max_seq_len (8) - `splited_prompt_len` (10)";

#[derive(Clone, Default)]
struct StandIn {
    /// The texts of the events, the last with the reason of the end, and whether no end comes.
    texts: Vec<(&'static str, Option<&'static str>)>,
    hangs: bool,
    /// Whether the engine refuses every prompt.
    is_too_long: bool,
    asked: watch::Sender<Vec<Value>>,
    left: watch::Sender<usize>,
}

/// Counts an answer that a client did not wait for.
struct Guard(watch::Sender<usize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|left| *left += 1);
    }
}

fn error(message: &str) -> Response {
    let body = json!({ "object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400 });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

fn choice(text: &str, tokens: usize, finish: Option<&str>) -> Value {
    let usage = json!({ "prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens });
    let likely = json!({ "tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{ text: -0.5 }] });
    let choice = json!({ "index": 0, "text": text, "token_ids": null, "finish_reason": finish, "logprobs": likely });
    json!({ "id": "cmpl-1", "object": "text_completion", "model": "agent", "choices": [choice], "usage": usage })
}

async fn complete(State(server): State<Arc<StandIn>>, Json(body): Json<Value>) -> Response {
    server.asked.send_modify(|asked| asked.push(body.clone()));
    let fields = body.as_object().expect("an object");
    if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return error(&format!("[{{'type': 'extra_forbidden', 'loc': ('body', '{unknown}')}}]"));
    }
    let streams = body["stream"] == json!(true);
    if server.is_too_long && !streams {
        return error(TOO_LONG);
    }
    if !streams {
        let text: String = server.texts.iter().map(|(text, _)| *text).collect();
        return Json(choice(&text, server.texts.len(), Some("stop"))).into_response();
    }
    let events = async_stream::stream! {
        if server.is_too_long {
            // Upstream's HTTP server writes the head by itself, and this one together with what comes at once.
            tokio::time::sleep(Duration::from_millis(50)).await;
            yield Err(std::io::Error::other("the engine refused what was asked"));
            return;
        }
        let guard = server.hangs.then(|| Guard(server.left.clone()));
        for (index, (text, finish)) in server.texts.iter().enumerate() {
            yield Ok(format!("data: {}\n\n", choice(text, index + 1, *finish)).into_bytes());
            tokio::task::yield_now().await;
        }
        if server.hangs {
            std::future::pending::<()>().await;
        }
        drop(guard);
        yield Ok(b"data: [DONE]\n\n".to_vec());
    };
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn start(server: &StandIn) -> OpenAi {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    let steps = || async { Json(json!([{ "numQueuedRequests": 3 }])) };
    let models = || async { Json(json!({ "object": "list", "data": [{ "id": "checkpoint", "object": "model" }] })) };
    let router = Router::new()
        .route("/v1/completions", post(complete))
        .route("/v1/models", get(models))
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(steps));
    tokio::spawn(axum::serve(listener, router.with_state(Arc::new(server.clone()))).into_future());
    OpenAi::new(OpenAiServer::TrtLlm, &endpoint, "agent").expect("the endpoint is a URL")
}

async fn generate(server: &StandIn, generation: Generation) -> (Value, Result<Vec<Piece>, BackendError>) {
    let pieces: Vec<_> = or_hang(start(server).await.generate(generation).collect()).await;
    let asked = server.asked.borrow()[0].clone();
    (asked, pieces.into_iter().collect())
}

fn says(texts: &[(&'static str, Option<&'static str>)]) -> StandIn {
    StandIn { texts: texts.to_vec(), ..StandIn::default() }
}

fn rendered() -> PromptForm {
    PromptForm::Rendered { begin: Some("<s>".into()), end: Some("</s>".into()) }
}

fn texts(pieces: Result<Vec<Piece>, BackendError>) -> Vec<(String, u32, Option<FinishReason>)> {
    let pieces = pieces.expect("the generation succeeds").into_iter();
    pieces.map(|piece| (piece.text, piece.output_tokens, piece.finish)).collect()
}

#[tokio::test]
async fn a_request_has_only_fields_that_the_server_knows() {
    let everything = Generation {
        tokens: Some(vec![1, 5]),
        max_tokens: 7,
        form: rendered(),
        sampling: Sampling {
            temperature_thousandths: Some(700),
            top_p_thousandths: Some(900),
            top_k: Some(5),
            presence_penalty_thousandths: Some(100),
            frequency_penalty_thousandths: Some(200),
            seed: Some(3),
        },
        guide: Some(Guide::JsonSchema(json!({ "type": "object" }).into())),
        logprobs: Some(2),
        ..Generation::default()
    };
    let (asked, pieces) = generate(&says(&[("{}", Some("stop"))]), everything).await;
    assert_eq!(texts(pieces), [("{}".to_owned(), 1, Some(FinishReason::Stop))]);
    assert_eq!(
        asked,
        json!({
            "model": "agent", "prompt": [1, 5], "max_tokens": 7, "stream": true,
            "stream_options": { "include_usage": true, "continuous_usage_stats": true },
            "temperature": 0.7, "top_p": 0.9, "top_k": 5, "presence_penalty": 0.1, "frequency_penalty": 0.2, "seed": 3,
            "response_format": { "type": "json", "schema": { "type": "object" } },
            "logprobs": 2, "skip_special_tokens": false, "add_special_tokens": false,
        })
    );
}

/// The server would leave all of it but its last token in the text.
#[rstest]
#[case::in_pieces(&[("42\n", None), ("\n", Some("stop"))], &[("42", 1, None), ("", 2, Some(FinishReason::Stop))])]
#[case::only_its_beginning(&[("42\n", None), ("x", Some("stop"))], &[("42", 1, None), ("\nx", 2, Some(FinishReason::Stop))])]
#[tokio::test]
async fn a_stop_word_stays_in_the_text_and_is_cut_here(
    #[case] sent: &[(&'static str, Option<&'static str>)],
    #[case] expected: &[(&str, u32, Option<FinishReason>)],
) {
    let generation = Generation { max_tokens: 7, stop_words: vec!["\n\n".into()], ..Generation::default() };
    let (asked, pieces) = generate(&says(sent), generation).await;
    assert_eq!((&asked["stop"], &asked["include_stop_str_in_output"]), (&json!(["\n\n"]), &json!(true)));
    let expected: Vec<_> = expected.iter().map(|(text, tokens, end)| ((*text).to_owned(), *tokens, *end)).collect();
    assert_eq!(texts(pieces), expected);
}

/// Its tokens are others than those of the word by itself, so the engine does not see it.
#[tokio::test]
async fn an_engine_that_goes_on_behind_a_stop_word_is_left_at_once() {
    let server = StandIn { hangs: true, ..says(&[("42.\n\n", None)]) };
    let mut left = server.left.subscribe();
    let generation = Generation { max_tokens: 7, stop_words: vec!["\n\n".into()], ..Generation::default() };
    let (_, pieces) = generate(&server, generation).await;
    assert_eq!(texts(pieces), [("42.".to_owned(), 1, Some(FinishReason::Stop))]);
    or_hang(left.wait_for(|left| *left == 1)).await.expect("the server lives");
}

#[rstest]
#[case::as_a_stream(false)]
#[case::as_one(true)]
#[tokio::test]
async fn the_token_that_ends_a_turn_is_taken_out(#[case] wants_whole: bool) {
    let server = says(&[("<tool_call>{}", None), ("</s>", Some("stop"))]);
    let generation = Generation { max_tokens: 7, form: rendered(), wants_whole, ..Generation::default() };
    let (asked, pieces) = generate(&server, generation).await;
    let text: String = texts(pieces).into_iter().map(|(text, ..)| text).collect();
    assert_eq!((text.as_str(), asked.get("include_stop_str_in_output")), ("<tool_call>{}", None));
}

#[tokio::test]
async fn a_text_whose_end_is_ignored_goes_on_behind_the_token() {
    let server = says(&[("</s>", None), ("more", Some("length"))]);
    let generation = Generation { max_tokens: 2, form: rendered(), ignores_end: true, ..Generation::default() };
    let (asked, pieces) = generate(&server, generation).await;
    let text: String = texts(pieces).into_iter().map(|(text, ..)| text).collect();
    assert_eq!((text.as_str(), &asked["ignore_eos"]), ("</s>more", &json!(true)));
}

#[tokio::test]
async fn probabilities_without_others_beside_them_are_asked_for_with_one() {
    let generation = Generation { max_tokens: 7, logprobs: Some(0), ..Generation::default() };
    let (asked, pieces) = generate(&says(&[("4", Some("length"))]), generation).await;
    let pieces = pieces.expect("the generation succeeds");
    let shown: Vec<_> = pieces[0].logprobs.iter().map(|token| (token.token.as_str(), token.top.len())).collect();
    assert_eq!((&asked["logprobs"], shown), (&json!(1), vec![("4", 0)]));
}

/// The head of the stream was sent before the engine looked at the prompt.
#[rstest]
#[case::as_a_stream(false, 2)]
#[case::as_one(true, 1)]
#[tokio::test]
async fn a_prompt_beyond_the_context_is_told_in_the_servers_words(#[case] wants_whole: bool, #[case] requests: usize) {
    let server = StandIn { is_too_long: true, ..StandIn::default() };
    let generation = Generation { max_tokens: 7, wants_whole, ..Generation::default() };
    let (_, refused) = generate(&server, generation).await;
    let error = refused.expect_err("it does not fit");
    assert_eq!(error.to_string(), format!("the engine failed: HTTP status 400: {TOO_LONG}"));
    assert_eq!((error.fault(), server.asked.borrow().len()), (EngineFault::ContextLength, requests));
}

#[tokio::test]
async fn the_server_says_nothing_of_its_load_or_its_context() {
    let client = start(&StandIn::default()).await;
    client.ready().await.expect("it is healthy");
    assert_eq!((client.load().await, client.context()), (EngineLoad::default(), None));
    let nobody = OpenAi::new(OpenAiServer::TrtLlm, "http://127.0.0.1:9", "agent").expect("a URL");
    assert_eq!(nobody.ready().await.expect_err("nobody is there").kind(), "unreachable");
}
