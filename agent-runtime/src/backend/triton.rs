//! Triton's text-generation entry over KServe gRPC (`ModelStreamInfer`, decoupled). IO.
//!
//! Tensor names are those of the TensorRT-LLM ensemble, without a batch dimension: in `text_input`, `max_tokens`,
//! `stop_words`, `stream`; out `text_output` (the new piece), `output_tokens` (so far) and `finish_reason`.

use std::time::Duration;

use async_stream::try_stream;
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};

use super::{
    Backend, BackendError, FinishReason, Generation, Piece,
    inference::{
        InferTensorContents, ModelInferRequest, ModelInferResponse, ModelReadyRequest, ModelStreamInferResponse,
        ServerReadyRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
        model_infer_request::InferInputTensor,
    },
};

/// Triton is in the same pod: a connection that takes longer is not coming.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a readiness question may take, so that a stuck server reads as unready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long Triton may take to close the stream of a generation whose last piece it has sent.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A Triton server and the entry in its model repository.
///
/// The channel connects on first use and again after a loss; one stream carries one generation, so that dropping the
/// stream cancels exactly that generation.
#[derive(Clone)]
pub struct Triton {
    client: GrpcInferenceServiceClient<Channel>,
    endpoint: String,
    model: String,
}

/// The endpoint is no URI.
#[derive(Debug, thiserror::Error)]
#[error("triton.endpoint: {endpoint:?} is not an address; write it as http://127.0.0.1:8001")]
pub struct EndpointError {
    endpoint: String,
    #[source]
    source: tonic::transport::Error,
}

impl Triton {
    /// Prepares a channel to `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// The endpoint is no URI.
    pub fn new(endpoint: &str, model: &str) -> Result<Self, EndpointError> {
        let channel = Endpoint::from_shared(endpoint.to_owned())
            .map_err(|source| EndpointError { endpoint: endpoint.into(), source })?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        Ok(Self { client: GrpcInferenceServiceClient::new(channel), endpoint: endpoint.into(), model: model.into() })
    }

    fn failed(&self, status: Status) -> BackendError {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                BackendError::Unreachable { endpoint: self.endpoint.clone(), source: Box::new(status) }
            }
            _ => BackendError::Engine { message: status.message().to_owned() },
        }
    }

    async fn ask_ready(&self) -> Result<(), BackendError> {
        let mut client = self.client.clone();
        let mut server = tonic::Request::new(ServerReadyRequest {});
        server.set_timeout(READY_TIMEOUT);
        let answer = client.server_ready(server).await.map_err(|status| self.failed(status))?;
        if !answer.into_inner().ready {
            return Err(BackendError::NotReady { what: "the Triton server".into() });
        }
        let mut model = tonic::Request::new(ModelReadyRequest { name: self.model.clone(), version: String::new() });
        model.set_timeout(READY_TIMEOUT);
        let not_ready = || BackendError::NotReady { what: format!("Triton's model {:?}", self.model) };
        match client.model_ready(model).await {
            Ok(answer) if answer.get_ref().ready => Ok(()),
            Ok(_) => Err(not_ready()),
            // Triton answers so for a model that is not loaded (yet).
            Err(status) if matches!(status.code(), Code::NotFound | Code::InvalidArgument) => Err(not_ready()),
            Err(status) => Err(self.failed(status)),
        }
    }
}

impl Backend for Triton {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let this = self.clone();
        let pieces = try_stream! {
            let request = infer_request(&this.model, generation);
            let mut client = this.client.clone();
            let response = client.model_stream_infer(stream::iter([request])).await;
            let mut responses = response.map_err(|status| this.failed(status))?.into_inner();
            loop {
                let message = responses.message().await.map_err(|status| this.failed(status))?;
                let message = message.ok_or(BackendError::EndedEarly)?;
                if !message.error_message.is_empty() {
                    Err(BackendError::Engine { message: message.error_message })?;
                } else if let Some(piece) = message.infer_response.map(read_piece).transpose()?.flatten() {
                    if piece.finish.is_some() {
                        // Before the piece is handed out: who reads the last one does not ask again.
                        tokio::spawn(end_in_order(responses));
                        yield piece;
                        return;
                    }
                    yield piece;
                }
            }
        };
        pieces.boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.ask_ready())
    }
}

/// Waits until Triton closes the stream of a finished generation. Triton 2.51 does not always free a request whose stream
/// is reset between its last response and its end, and then never unloads the model.
async fn end_in_order(mut responses: Streaming<ModelStreamInferResponse>) {
    let rest = async { while let Ok(Some(_)) = responses.message().await {} };
    // Past this the engine is stuck, and a reset does no more harm.
    let _ = tokio::time::timeout(END_TIMEOUT, rest).await;
}

fn infer_request(model: &str, generation: Generation) -> ModelInferRequest {
    let Generation { id, prompt, max_tokens, stop_words } = generation;
    let max_tokens = i32::try_from(max_tokens).unwrap_or(i32::MAX);
    let mut inputs = vec![
        tensor("text_input", "BYTES", 1, bytes(vec![prompt])),
        tensor("max_tokens", "INT32", 1, InferTensorContents { int_contents: vec![max_tokens], ..Default::default() }),
        tensor("stream", "BOOL", 1, InferTensorContents { bool_contents: vec![true], ..Default::default() }),
    ];
    if !stop_words.is_empty() {
        inputs.push(tensor("stop_words", "BYTES", stop_words.len(), bytes(stop_words)));
    }
    ModelInferRequest { model_name: model.into(), model_version: String::new(), id, inputs }
}

fn tensor(name: &str, datatype: &str, length: usize, contents: InferTensorContents) -> InferInputTensor {
    let shape = vec![i64::try_from(length).unwrap_or(i64::MAX)];
    InferInputTensor { name: name.into(), datatype: datatype.into(), shape, contents: Some(contents) }
}

fn bytes(texts: Vec<String>) -> InferTensorContents {
    InferTensorContents { bytes_contents: texts.into_iter().map(String::into_bytes).collect(), ..Default::default() }
}

/// Reads one response; `None` for the empty response that Triton may send to close a decoupled request.
fn read_piece(response: ModelInferResponse) -> Result<Option<Piece>, BackendError> {
    if response.outputs.is_empty() {
        return Ok(None);
    }
    let text = read_text(&response, "text_output")?;
    let output_tokens = read_count(&response, "output_tokens")?;
    let finish = match read_text(&response, "finish_reason")?.as_str() {
        "" => None,
        "stop" => Some(FinishReason::Stop),
        "length" => Some(FinishReason::Length),
        other => return Err(protocol(format!("finish_reason is {other:?}; expected \"\", \"stop\" or \"length\""))),
    };
    Ok(Some(Piece { text, output_tokens, finish }))
}

fn raw<'a>(response: &'a ModelInferResponse, name: &str) -> Result<&'a [u8], BackendError> {
    let index = response.outputs.iter().position(|output| output.name == name);
    let contents = index.and_then(|index| response.raw_output_contents.get(index));
    contents.map(Vec::as_slice).ok_or_else(|| protocol(format!("output {name:?} is missing")))
}

/// The one element of a BYTES tensor: four bytes of little-endian length, then the text.
fn read_text(response: &ModelInferResponse, name: &str) -> Result<String, BackendError> {
    let raw = raw(response, name)?;
    let (length, text) = raw.split_first_chunk().ok_or_else(|| protocol(format!("output {name:?} has no element")))?;
    if usize::try_from(u32::from_le_bytes(*length)) != Ok(text.len()) {
        return Err(protocol(format!("output {name:?} is not one text")));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn read_count(response: &ModelInferResponse, name: &str) -> Result<u32, BackendError> {
    let raw: [u8; 4] =
        raw(response, name)?.try_into().map_err(|_| protocol(format!("output {name:?} is not one INT32")))?;
    u32::try_from(i32::from_le_bytes(raw)).map_err(|_| protocol(format!("output {name:?} is negative")))
}

fn protocol(problem: String) -> BackendError {
    BackendError::Protocol { problem }
}
