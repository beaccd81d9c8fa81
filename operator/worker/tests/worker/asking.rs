//! Questions asked of a served engine, with a server where Triton does.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{self, State},
    http::StatusCode,
    routing::{get, post},
};
use futures::{Stream, stream};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_agent_runtime::backend::inference::{
    ModelConfig, ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelReadyRequest,
    ModelReadyResponse, ModelStreamInferResponse, ServerReadyRequest, ServerReadyResponse,
    grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
    model_infer_response::InferOutputTensor,
};
use slipway_worker::{
    failure::{self, Classify},
    http,
    profile::triton::{ServerKind, Triton},
    quality::evaluate::{self, EvaluateError, Evaluation},
};
use slipway_worker_contract::{EngineEntry, FailureClass, Message, NoBuildBackend};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

/// What the server says, and what it was told.
#[derive(Clone, Default)]
struct Server {
    /// State of the engine's model and its reason, in the index.
    engine: Option<(&'static str, &'static str)>,
    loads: Arc<Mutex<Vec<String>>>,
    health: Arc<Mutex<Health>>,
    /// What it says of its model, where it says that.
    configuration: Arc<Mutex<Option<ModelConfig>>>,
}

/// What is left of a server after a question.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Serves,
    /// It lives, without its models.
    Restarted,
    Dead,
}

struct Bench {
    dir: TempDir,
    server: Server,
    evaluation: Evaluation,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

impl Bench {
    async fn new(engine: Option<(&'static str, &'static str)>) -> Self {
        let server = Server { engine, ..Server::default() };
        let router = Router::new()
            .route("/v2/health/live", get(live))
            .route("/v2/repository/index", post(index))
            .route("/v2/repository/models/{model}/load", post(load))
            .route("/v2/models/{model}/ready", get(ready))
            .with_state(server.clone());
        let (repository, url) = listener().await;
        let (asked, endpoint) = listener().await;
        let echo = GrpcInferenceServiceServer::new(Echo(server.clone()));
        let engine = tonic::transport::Server::builder().add_service(echo);
        let tasks = [
            tokio::spawn(async move { axum::serve(repository, router).await.unwrap() }),
            tokio::spawn(async move { engine.serve_with_incoming(TcpListenerStream::new(asked)).await.unwrap() }),
        ];
        let dir = tempfile::tempdir().unwrap();
        let evaluation = Evaluation {
            triton: Triton {
                client: http::local_client().unwrap(),
                url,
                patience: Duration::from_secs(20),
                kind: ServerKind::Triton,
            },
            endpoint,
            model: "tensorrt_llm".to_owned(),
            tokenizer: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/model/checkpoints/react-512"),
            entry: EngineEntry::Engine,
            no_build: None,
            questions: dir.path().join("quality.jsonl"),
            outputs: dir.path().join("output/quality/outputs.jsonl"),
            in_flight: 2,
        };
        Self { dir, server, evaluation, tasks }
    }

    async fn ask(&self, prompts: &[&str]) -> Result<BTreeSet<String>, EvaluateError> {
        let line = |(n, prompt): (usize, &&str)| {
            let mut line = json!({"id": format!("q{n}"), "prompt": prompt, "maxTokens": 12});
            if n == 0 {
                line["stopWords"] = json!(["\n\n"]);
            }
            format!("{line}\n")
        };
        let text: String = prompts.iter().enumerate().map(line).collect();
        fs::write(&self.evaluation.questions, text).unwrap();
        evaluate::run(&self.evaluation).await?;
        Ok(fs::read_to_string(self.outputs()).unwrap().lines().map(str::to_owned).collect())
    }

    fn outputs(&self) -> PathBuf {
        self.dir.path().join("output/quality/outputs.jsonl")
    }

    fn loads(&self) -> Vec<String> {
        self.server.loads.lock().unwrap().clone()
    }
}

/// A model that was never loaded has neither version nor state.
async fn index(State(server): State<Server>) -> Json<Value> {
    let mut engine = json!({"name": "tensorrt_llm"});
    if let Some((state, reason)) = server.engine {
        engine = json!({"name": "tensorrt_llm", "version": "1", "state": state, "reason": reason});
    }
    Json(json!([engine]))
}

async fn load(State(server): State<Server>, extract::Path(model): extract::Path<String>) {
    server.loads.lock().unwrap().push(model);
}

async fn live(State(server): State<Server>) -> StatusCode {
    if *server.health.lock().unwrap() == Health::Dead { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn ready(State(server): State<Server>) -> StatusCode {
    if *server.health.lock().unwrap() == Health::Serves { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}

/// Tokens of the longest prompt that the engine takes.
const LONGEST_PROMPT: usize = 8;

/// An engine that repeats the tokens of the prompt and continues with bytes, which are tokens too. Some texts are too
/// much for its server.
struct Echo(Server);

impl Echo {
    /// What comes in place of an answer where a text harms the server.
    fn harmed(&self, text: &[u8]) -> Option<Result<ModelStreamInferResponse, Status>> {
        let (left, answer) = match text {
            b"crash" => (Health::Dead, Err(Status::internal("h2 protocol error: connection reset"))),
            b"restart" => (Health::Restarted, Err(Status::unknown("transport error"))),
            b"kill the stub" => (Health::Serves, Ok(failed("Stub process 'bls_0_1' is not healthy."))),
            _ => return None,
        };
        *self.0.health.lock().unwrap() = left;
        Some(answer)
    }
}

fn failed(words: &str) -> ModelStreamInferResponse {
    ModelStreamInferResponse { error_message: words.to_owned(), infer_response: None }
}

#[tonic::async_trait]
impl GrpcInferenceService for Echo {
    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_ready(&self, _: Request<ModelReadyRequest>) -> Result<Response<ModelReadyResponse>, Status> {
        Ok(Response::new(ModelReadyResponse { ready: true }))
    }

    async fn model_config(&self, _: Request<ModelConfigRequest>) -> Result<Response<ModelConfigResponse>, Status> {
        match self.0.configuration.lock().unwrap().clone() {
            Some(config) => Ok(Response::new(ModelConfigResponse { config: Some(config) })),
            None => Err(Status::unavailable("This protocol is restricted")),
        }
    }

    type ModelStreamInferStream = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Self::ModelStreamInferStream>, Status> {
        let request = request.into_inner().message().await?.expect("a stream carries a request");
        if let Some(prompt) = request.inputs.iter().find(|input| input.name == "text_input") {
            let text = prompt.contents.as_ref().expect("a tensor has contents").bytes_contents[0].clone();
            if let Some(answer) = self.harmed(&text) {
                return Ok(Response::new(Box::pin(stream::iter([answer]))));
            }
            let pieces = [text, b"\n".to_vec(), b"\nand more".to_vec()].map(|piece| Ok(text_answer(&piece)));
            return Ok(Response::new(Box::pin(stream::iter(pieces))));
        }
        let prompt = integers(&request, "input_ids");
        let answer = if prompt.len() > LONGEST_PROMPT {
            failed("prompt length 9000 exceeds 4096")
        } else {
            answer(&[prompt, bytes("\n\nand more")].concat())
        };
        Ok(Response::new(Box::pin(stream::iter([Ok(answer)]))))
    }
}

fn bytes(text: &str) -> Vec<i32> {
    text.bytes().map(i32::from).collect()
}

fn integers(request: &ModelInferRequest, name: &str) -> Vec<i32> {
    let input = request.inputs.iter().find(|input| input.name == name).unwrap();
    input.contents.as_ref().unwrap().int_contents.clone()
}

fn answer(tokens: &[i32]) -> ModelStreamInferResponse {
    let output =
        |name: &str| InferOutputTensor { name: name.into(), datatype: "INT32".into(), shape: vec![1], contents: None };
    let raw = |numbers: &[i32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let response = ModelInferResponse {
        outputs: vec![output("output_ids"), output("sequence_length")],
        raw_output_contents: vec![raw(tokens), raw(&[tokens.len() as i32])],
        ..ModelInferResponse::default()
    };
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) }
}

/// A piece of text, as the ensemble gives it.
fn text_answer(text: &[u8]) -> ModelStreamInferResponse {
    let output = InferOutputTensor { name: "text_output".into(), datatype: "BYTES".into(), ..Default::default() };
    let raw = [&(text.len() as u32).to_le_bytes()[..], text].concat();
    let response =
        ModelInferResponse { outputs: vec![output], raw_output_contents: vec![raw], ..ModelInferResponse::default() };
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) }
}

fn line(id: &str, output: &str) -> String {
    json!({"id": id, "output": output}).to_string()
}

#[tokio::test]
async fn every_question_is_asked_once_the_engine_is_loaded() {
    let bench = Bench::new(None).await;
    let answers = bench.ask(&["1+1?", "2+2?", "3+3?"]).await.unwrap();
    // The first has a stop word, the others end at their twelve tokens.
    let expected = [line("q0", "1+1?"), line("q1", "2+2?\n\nand mo"), line("q2", "3+3?\n\nand mo")];
    assert_eq!(answers, BTreeSet::from(expected));
    assert_eq!(bench.loads(), ["tensorrt_llm"]);
}

#[tokio::test]
async fn an_engine_that_its_processes_loaded_at_their_start_is_not_loaded_again() {
    let bench = Bench::new(Some(("READY", ""))).await;
    bench.ask(&["1+1?"]).await.unwrap();
    assert_eq!(bench.loads(), Vec::<String>::new());
}

/// The models around an engine are in one process, also where the engine is in several.
#[tokio::test]
async fn an_ensemble_is_asked_in_text_once_what_it_calls_is_loaded() {
    for (engine, expected) in [
        (None, &["preprocessing", "tensorrt_llm", "postprocessing", "ensemble"][..]),
        (Some(("READY", "")), &["preprocessing", "postprocessing", "ensemble"][..]),
    ] {
        let mut bench = Bench::new(engine).await;
        bench.evaluation.model = "ensemble".to_owned();
        bench.evaluation.entry = EngineEntry::Ensemble;
        bench.evaluation.tokenizer = bench.dir.path().join("none");
        let answers = bench.ask(&["1+1?", "2+2?"]).await.unwrap();
        assert_eq!(answers, BTreeSet::from([line("q0", "1+1?"), line("q1", "2+2?\n\nand more")]));
        assert_eq!(bench.loads(), expected);
    }
}

#[tokio::test]
async fn an_engine_that_could_not_be_loaded_at_the_start_says_why() {
    let reason = "Internal: unexpected error when creating modelInstanceState:\n CUDA out of memory;";
    let bench = Bench::new(Some(("UNAVAILABLE", reason))).await;
    let error = bench.ask(&["1+1?"]).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::InsufficientMemory);
    assert_eq!(
        failure::chain(&error),
        "the engine cannot be asked: Triton cannot load \"tensorrt_llm\": Internal: unexpected error when creating \
         modelInstanceState: CUDA out of memory"
    );
    assert_eq!(bench.loads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_question_that_the_engine_refuses_leaves_no_answers_behind() {
    let bench = Bench::new(None).await;
    let error = bench.ask(&["1+1?", "1+1+1+1+1+1?"]).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::BadModel);
    assert_eq!(
        failure::chain(&error),
        "the engine did not answer question \"q1\": the engine failed: prompt length 9000 exceeds 4096"
    );
    assert!(!bench.outputs().exists());
}

/// None of these is a bad model: the same engine may answer another attempt.
#[tokio::test]
async fn a_server_that_fails_while_its_engine_is_scored_is_worth_another_attempt() {
    for (prompt, answer, how) in [
        ("crash", "the engine failed: h2 protocol error: connection reset", "Triton at URL died"),
        (
            "restart",
            "the engine failed: transport error",
            "Triton no longer serves \"preprocessing\", as after a restart",
        ),
        (
            "kill the stub",
            "the engine failed: Stub process 'bls_0_1' is not healthy.",
            "Triton lost a process of its Python backend",
        ),
    ] {
        let mut bench = Bench::new(None).await;
        (bench.evaluation.model, bench.evaluation.entry) = ("ensemble".to_owned(), EngineEntry::Ensemble);
        let error = bench.ask(&["1+1?", prompt]).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Infrastructure, "{prompt}");
        let how = how.replace("URL", &bench.evaluation.triton.url);
        let text =
            format!("the server failed while it answered question \"q1\" ({answer}): {how}: see its container's log");
        assert_eq!(failure::chain(&error), text);
        assert!(!bench.outputs().exists());
    }
}

#[tokio::test]
async fn an_engine_whose_model_does_not_fit_is_asked_nothing_and_says_what_does_not() {
    let bench = Bench::new(None).await;
    *bench.server.configuration.lock().unwrap() = Some(ModelConfig { max_batch_size: 8, ..ModelConfig::default() });
    let error = bench.ask(&["1+1?"]).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::BadModel);
    let text = failure::chain(&error);
    let begin = "the engine cannot be asked: Triton's model \"tensorrt_llm\" does not fit: it answers a request once and \
                 cannot stream: set decoupled: true in its model_transaction_policy; it has no input \"input_ids\": ";
    assert!(text.starts_with(begin), "{text}");
    assert!(!bench.outputs().exists());
}

#[tokio::test]
async fn an_engine_without_a_tokenizer_is_not_asked() {
    let mut bench = Bench::new(None).await;
    bench.evaluation.tokenizer = bench.dir.path().join("none");
    let error = bench.ask(&["1+1?"]).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::BadModel);
    assert!(
        failure::chain(&error).starts_with("the engine cannot be asked: failed to read the engine's tokenizer: "),
        "{error}"
    );
    assert_eq!(bench.loads(), Vec::<String>::new());
}

/// vLLM's own server: it has no health until it has one, and repeats the prompt. Before it fails at one, it says how
/// it ends, as its supervisor does.
async fn open_ai(bench: &mut Bench, is_up: bool) -> JoinHandle<()> {
    let (listener, url) = listener().await;
    let ended = bench.dir.path().join("server-ended.json");
    let left = ended.clone();
    let complete = |Json(body): Json<Value>| async move {
        let class = match body["prompt"].as_str() {
            Some("crash") => Some(FailureClass::BadModel),
            Some("fill the memory") => Some(FailureClass::InsufficientMemory),
            _ => None,
        };
        if let Some(class) = class {
            let words = Message::Failed { class, text: "vllm was ended by signal 6".to_owned() };
            fs::write(left, serde_json::to_vec(&words).unwrap()).unwrap();
            return (StatusCode::INTERNAL_SERVER_ERROR, "EngineCore encountered an issue".to_owned());
        }
        let choice = json!({"index": 0, "text": body["prompt"], "finish_reason": "stop"});
        let answer = json!({"choices": [choice], "usage": {"completion_tokens": 4}});
        (StatusCode::OK, format!("data: {answer}\n\ndata: [DONE]\n\n"))
    };
    let router = Router::new().route("/v1/completions", post(complete));
    let router = if is_up { router.route("/health", get(|| async {})) } else { router };
    bench.evaluation.triton =
        Triton { url, kind: ServerKind::Own { product: "vLLM", ended }, ..bench.evaluation.triton.clone() };
    bench.evaluation.no_build = Some(NoBuildBackend::VLLMOpenAI);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
}

#[tokio::test]
async fn vllms_own_server_is_asked_once_it_is_healthy() {
    let mut bench = Bench::new(None).await;
    let server = open_ai(&mut bench, true).await;
    assert_eq!(bench.ask(&["1+1?"]).await.unwrap(), BTreeSet::from([line("q0", "1+1?")]));
    assert_eq!(bench.loads(), Vec::<String>::new());
    server.abort();
}

#[tokio::test]
async fn a_server_that_ended_before_it_was_healthy_says_how() {
    let mut bench = Bench::new(None).await;
    let server = open_ai(&mut bench, false).await;
    let text =
        "vllm exited with code 1; its last output was: ValueError: No available memory for the cache blocks".to_owned();
    let words = Message::Failed { class: FailureClass::InsufficientMemory, text: text.clone() };
    fs::write(bench.dir.path().join("server-ended.json"), serde_json::to_vec(&words).unwrap()).unwrap();
    let error = bench.ask(&["1+1?"]).await.unwrap_err();
    assert_eq!(
        (error.class(), failure::chain(&error)),
        (FailureClass::InsufficientMemory, format!("the engine cannot be asked: {text}"))
    );
    server.abort();
}

/// Its last lines may read like a refusal, but it had loaded the model.
#[tokio::test]
async fn a_server_of_its_own_that_ends_while_it_is_asked_refuses_no_model() {
    for (prompt, class) in
        [("crash", FailureClass::Infrastructure), ("fill the memory", FailureClass::InsufficientMemory)]
    {
        let mut bench = Bench::new(None).await;
        let server = open_ai(&mut bench, true).await;
        let error = bench.ask(&[prompt]).await.unwrap_err();
        let text = "the server failed while it answered question \"q0\" (the engine failed: HTTP status 500: \
                    EngineCore encountered an issue): vllm was ended by signal 6";
        assert_eq!((error.class(), failure::chain(&error).as_str()), (class, text));
        server.abort();
    }
}

#[tokio::test]
async fn a_server_that_never_gets_healthy_is_given_up() {
    let mut bench = Bench::new(None).await;
    let server = open_ai(&mut bench, false).await;
    bench.evaluation.triton.patience = Duration::from_millis(300);
    let error = bench.ask(&["1+1?"]).await.unwrap_err();
    let url = &bench.evaluation.triton.url;
    let text =
        format!("the engine cannot be asked: vLLM's server at {url} was not live after 0 s: see its container's log");
    assert_eq!((error.class(), failure::chain(&error)), (FailureClass::Infrastructure, text));
    server.abort();
}
