//! The contract with Triton, against a stand-in that speaks the same protocol over a real connection, and, on request,
//! against a real one: `SLIPWAY_TEST_TRITON=http://127.0.0.1:8001 cargo test ... -- --ignored real_triton`.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::backend::{
    Backend, BackendError, Entry, FinishReason, Generation, Piece, Triton,
    inference::{
        InferTensorContents, ModelConfig, ModelConfigRequest, ModelConfigResponse, ModelInferRequest,
        ModelInferResponse, ModelReadyRequest, ModelReadyResponse, ModelStreamInferResponse, ServerReadyRequest,
        ServerReadyResponse,
        grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
        model_infer_request::InferInputTensor,
        model_infer_response::InferOutputTensor,
    },
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::fixture::or_hang;

/// What the stand-in does with a generation.
#[derive(Clone, Debug)]
pub enum Behavior {
    /// Sends these and ends the stream.
    Sends(Vec<ModelStreamInferResponse>),
    /// Sends these to the first request, those to the second, and so on.
    InTurn(Vec<Vec<ModelStreamInferResponse>>),
    /// Sends these and keeps the stream open.
    SendsAndHangs(Vec<ModelStreamInferResponse>),
    /// Sends these and ends the stream when it is told to.
    SendsAndWaits(Vec<ModelStreamInferResponse>, Arc<Notify>),
}

/// A server that speaks the protocol.
#[derive(Clone)]
pub struct StandIn {
    behavior: Behavior,
    is_server_ready: bool,
    pub model_ready: watch::Sender<Result<bool, Status>>,
    /// What it says of the model; by default nothing, as a server does that keeps this API shut.
    pub configuration: watch::Sender<Result<ModelConfig, Status>>,
    pub seen: watch::Sender<Seen>,
}

#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub requests: Vec<ModelInferRequest>,
    pub cancelled: usize,
    pub ended: usize,
    /// How often the model's configuration was asked for.
    pub configurations: usize,
}

#[tonic::async_trait]
impl GrpcInferenceService for StandIn {
    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: self.is_server_ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Result<Response<ModelReadyResponse>, Status> {
        assert_eq!(request.into_inner(), ModelReadyRequest { name: "agent".into(), version: String::new() });
        self.model_ready.borrow().clone().map(|ready| Response::new(ModelReadyResponse { ready }))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        assert_eq!(request.into_inner(), ModelConfigRequest { name: "agent".into(), version: String::new() });
        self.seen.send_modify(|seen| seen.configurations += 1);
        self.configuration.borrow().clone().map(|config| Response::new(ModelConfigResponse { config: Some(config) }))
    }

    type ModelStreamInferStream = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Self::ModelStreamInferStream>, Status> {
        let infer = request.into_inner().message().await?.expect("a stream carries a request");
        self.seen.send_modify(|seen| seen.requests.push(infer));
        let (sender, receiver) = mpsc::channel(8);
        let number = self.seen.borrow().requests.len();
        let (behavior, seen) = (self.behavior.clone(), self.seen.clone());
        tokio::spawn(async move {
            let (responses, hangs, end) = match behavior {
                Behavior::Sends(responses) => (responses, false, None),
                Behavior::InTurn(mut each) => (each.remove(number - 1), false, None),
                Behavior::SendsAndHangs(responses) => (responses, true, None),
                Behavior::SendsAndWaits(responses, end) => (responses, false, Some(end)),
            };
            for response in responses {
                sender.send(Ok(response)).await.expect("the client reads");
            }
            if let Some(end) = end {
                end.notified().await;
                let reset = sender.is_closed();
                seen.send_modify(|seen| if reset { seen.cancelled += 1 } else { seen.ended += 1 });
            }
            if hangs {
                sender.closed().await;
                seen.send_modify(|seen| seen.cancelled += 1);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

pub fn stand_in(behavior: Behavior) -> StandIn {
    let shut = Status::unavailable("This protocol is restricted, expecting header 'no'");
    let configuration = watch::Sender::new(Err(shut));
    StandIn {
        behavior,
        is_server_ready: true,
        model_ready: watch::Sender::new(Ok(true)),
        configuration,
        seen: watch::Sender::default(),
    }
}

async fn serve(server: StandIn) -> Triton {
    let endpoint = start(server).await;
    Triton::new(&endpoint, "agent", Entry::Text).expect("the endpoint is a URI")
}

/// Starts the stand-in and returns its address.
pub async fn start(server: StandIn) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    let router = Server::builder().add_service(GrpcInferenceServiceServer::new(server));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    endpoint
}

pub fn output(name: &str, datatype: &str) -> InferOutputTensor {
    InferOutputTensor { name: name.into(), datatype: datatype.into(), shape: vec![1], contents: None }
}

pub fn text_bytes(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("texts are short").to_le_bytes();
    [&length[..], text.as_bytes()].concat()
}

/// A response as Triton's python backend makes it: raw contents in the order of the outputs.
pub fn response(text: &str, tokens: i32, finish: &str) -> ModelStreamInferResponse {
    let infer_response = ModelInferResponse {
        model_name: "agent".into(),
        outputs: vec![
            output("text_output", "BYTES"),
            output("finish_reason", "BYTES"),
            output("output_tokens", "INT32"),
        ],
        raw_output_contents: vec![text_bytes(text), text_bytes(finish), tokens.to_le_bytes().to_vec()],
        ..ModelInferResponse::default()
    };
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(infer_response) }
}

fn generation() -> Generation {
    Generation {
        id: "run-1".into(),
        prompt: "Question: é?\n".into(),
        max_tokens: 7,
        stop_words: vec!["\n\n".into()],
        ..Generation::default()
    }
}

async fn collect(backend: &Triton) -> Result<Vec<Piece>, BackendError> {
    let pieces: Vec<_> = or_hang(backend.generate(generation()).collect()).await;
    pieces.into_iter().collect()
}

#[tokio::test]
async fn a_generation_arrives_piece_by_piece() {
    let empty =
        ModelStreamInferResponse { error_message: String::new(), infer_response: Some(ModelInferResponse::default()) };
    let responses = vec![response("Answer: ", 8, ""), response("ü", 9, ""), response("", 9, "stop"), empty];
    let backend = serve(stand_in(Behavior::Sends(responses))).await;
    let piece =
        |text: &str, output_tokens, finish| Piece { text: text.into(), output_tokens, finish, ..Piece::default() };
    assert_eq!(
        collect(&backend).await.expect("the generation succeeds"),
        [piece("Answer: ", 8, None), piece("ü", 9, None), piece("", 9, Some(FinishReason::Stop))]
    );
}

#[tokio::test]
async fn the_request_has_the_tensors_of_the_ensemble() {
    let server = stand_in(Behavior::Sends(vec![response("", 1, "length")]));
    let seen = server.seen.subscribe();
    let backend = serve(server).await;
    collect(&backend).await.expect("the generation succeeds");
    let tensor = |name: &str, datatype: &str, contents| InferInputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: vec![1],
        contents: Some(contents),
    };
    let bytes = |text: &str| InferTensorContents { bytes_contents: vec![text.into()], ..Default::default() };
    let expected = ModelInferRequest {
        model_name: "agent".into(),
        model_version: String::new(),
        id: "run-1".into(),
        inputs: vec![
            tensor("text_input", "BYTES", bytes("Question: é?\n")),
            tensor("max_tokens", "INT32", InferTensorContents { int_contents: vec![7], ..Default::default() }),
            tensor("stream", "BOOL", InferTensorContents { bool_contents: vec![true], ..Default::default() }),
            tensor("stop_words", "BYTES", bytes("\n\n")),
        ],
    };
    assert_eq!(seen.borrow().requests, [expected]);
}

#[tokio::test]
async fn a_finished_generation_is_never_reset_before_the_engine_has_ended_it() {
    let end = Arc::new(Notify::new());
    let server = stand_in(Behavior::SendsAndWaits(vec![response("Answer: 5", 9, "stop")], end.clone()));
    let mut seen = server.seen.subscribe();
    let backend = serve(server).await;
    let mut pieces = backend.generate(generation());
    or_hang(pieces.next()).await.expect("a piece comes").expect("the generation succeeds");
    drop(pieces);
    // On the same connection a reset would arrive before this question.
    or_hang(backend.ready()).await.expect("the server is ready");
    end.notify_one();
    or_hang(seen.wait_for(|seen| seen.ended + seen.cancelled > 0)).await.expect("the server lives");
    assert_eq!((seen.borrow().ended, seen.borrow().cancelled), (1, 0));
}

#[tokio::test]
async fn dropping_the_stream_cancels_at_the_engine() {
    let server = stand_in(Behavior::SendsAndHangs(vec![response("Answer", 6, "")]));
    let mut seen = server.seen.subscribe();
    let backend = serve(server).await;
    let mut pieces = backend.generate(generation());
    or_hang(pieces.next()).await.expect("a piece comes").expect("the generation begins");
    assert_eq!(seen.borrow().cancelled, 0);
    drop(pieces);
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

fn without(name: &str) -> ModelStreamInferResponse {
    let mut response = response("x", 1, "");
    let infer = response.infer_response.as_mut().expect("it was just made");
    let index = infer.outputs.iter().position(|output| output.name == name).expect("the output exists");
    infer.outputs.remove(index);
    infer.raw_output_contents.remove(index);
    response
}

#[rstest]
#[case::engine(vec![ModelStreamInferResponse { error_message: "prompt too long".into(), infer_response: None }],
    "engine", "the engine failed: prompt too long")]
#[case::ended(vec![response("Answer", 6, "")], "ended_early",
    "the engine ended the stream in the middle of a generation")]
#[case::no_text(vec![without("text_output")], "protocol",
    "the engine's answer cannot be read: output \"text_output\" is missing")]
#[case::no_tokens(vec![without("output_tokens")], "protocol",
    "the engine's answer cannot be read: output \"output_tokens\" is missing")]
#[case::finish(vec![response("", 1, "eos")], "protocol",
    "the engine's answer cannot be read: finish_reason is \"eos\"; expected \"\", \"stop\" or \"length\"")]
#[case::negative(vec![response("", -1, "stop")], "protocol",
    "the engine's answer cannot be read: output \"output_tokens\" is negative")]
#[tokio::test]
async fn a_generation_that_fails_says_why(
    #[case] responses: Vec<ModelStreamInferResponse>,
    #[case] kind: &str,
    #[case] message: &str,
) {
    let backend = serve(stand_in(Behavior::Sends(responses))).await;
    let error = collect(&backend).await.expect_err("the generation fails");
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    assert!(!error.is_unavailable());
}

#[tokio::test]
async fn an_engine_that_is_not_there_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    drop(listener);
    let backend = Triton::new(&endpoint, "agent", Entry::Text).expect("the endpoint is a URI");
    let expected = format!("the engine at {endpoint} cannot be reached");
    let error = collect(&backend).await.expect_err("nothing listens");
    assert_eq!((error.is_unavailable(), error.to_string()), (true, expected.clone()));
    assert_eq!(backend.ready().await.expect_err("nothing listens").to_string(), expected);
}

#[rstest]
#[case::server(false, Ok(true), "the Triton server is not ready")]
#[case::model(true, Ok(false), "Triton's model \"agent\" is not ready")]
#[case::unknown(true, Err(Status::not_found("no such model")), "Triton's model \"agent\" is not ready")]
#[tokio::test]
async fn readiness_is_the_servers_and_the_models(
    #[case] is_server_ready: bool,
    #[case] model_ready: Result<bool, Status>,
    #[case] message: &str,
) {
    let model_ready = watch::Sender::new(model_ready);
    let server = StandIn { is_server_ready, model_ready, ..stand_in(Behavior::Sends(Vec::new())) };
    let error = serve(server).await.ready().await.expect_err("something is not ready");
    assert_eq!((error.is_unavailable(), error.to_string().as_str()), (true, message));
}

#[tokio::test]
async fn a_ready_engine_is_ready() {
    assert!(serve(stand_in(Behavior::Sends(Vec::new()))).await.ready().await.is_ok());
}

#[tokio::test]
async fn an_endpoint_that_is_no_address_is_refused() {
    let error = Triton::new("not an address", "agent", Entry::Text).err().expect("the endpoint is refused");
    assert_eq!(
        error.to_string(),
        "triton.endpoint: \"not an address\" is not an address; write it as http://127.0.0.1:8001"
    );
}

/// The same contract against a real Triton that serves a text-generation entry named `agent`.
#[tokio::test]
#[ignore = "needs a Triton; name its gRPC port in SLIPWAY_TEST_TRITON"]
async fn real_triton_streams_ends_and_cancels() {
    let endpoint = std::env::var("SLIPWAY_TEST_TRITON").expect("SLIPWAY_TEST_TRITON names a gRPC port");
    let backend = Arc::new(Triton::new(&endpoint, "agent", Entry::Text).expect("the endpoint is a URI"));
    backend.ready().await.expect("the model is ready");
    let asks = |max_tokens, stop_words: &[&str]| Generation {
        id: "contract".into(),
        prompt: "Question: What is 17+4?\n".into(),
        max_tokens,
        stop_words: stop_words.iter().map(|word| (*word).into()).collect(),
        ..Generation::default()
    };
    let all = async |generation| {
        let pieces: Vec<_> = or_hang(backend.generate(generation).collect()).await;
        pieces.into_iter().collect::<Result<Vec<Piece>, _>>().expect("the generation succeeds")
    };
    let stopped = all(asks(64, &["\n\n"])).await;
    assert!(stopped.len() > 1, "one piece only: {stopped:?}");
    assert_eq!(stopped.iter().rev().map(|piece| piece.finish).next(), Some(Some(FinishReason::Stop)));
    assert!(stopped.iter().rev().skip(1).all(|piece| piece.finish.is_none()));
    assert!(stopped.windows(2).all(|pair| pair[0].output_tokens <= pair[1].output_tokens));
    let limited = all(asks(3, &[])).await;
    let last = limited.last().expect("a last piece comes");
    assert_eq!((last.output_tokens, last.finish), (3, Some(FinishReason::Length)));
    // A text this model goes on with for hundreds of tokens; its log tells after how many it was cancelled.
    let rambling = Generation { prompt: "a".repeat(24), ..asks(200, &[]) };
    let mut dropped = backend.generate(rambling);
    or_hang(dropped.next()).await.expect("a piece comes").expect("the generation begins");
    drop(dropped);
    let refused: Vec<_> = or_hang(backend.generate(asks(0, &[])).collect()).await;
    let error = refused.into_iter().next().expect("an answer comes").expect_err("no tokens are asked for");
    assert_eq!(error.kind(), "engine", "{error}");
}
