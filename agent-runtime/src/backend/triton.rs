//! Triton's entries that generate text, over KServe gRPC (`ModelStreamInfer`, decoupled). IO.

mod ensemble;
mod llm_api;
mod tensor;
mod text;
mod tokens;
mod vllm;

use std::{sync::Arc, time::Duration};

use async_stream::try_stream;
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use tonic::{
    Code, Status, Streaming,
    metadata::AsciiMetadataValue,
    transport::{Channel, Endpoint},
};

use crate::trace_context::TraceContext;

use super::{
    Backend, BackendError, Generation, Piece, TokenPrompts,
    inference::{
        ModelInferRequest, ModelInferResponse, ModelReadyRequest, ModelStreamInferResponse, ServerReadyRequest,
        grpc_inference_service_client::GrpcInferenceServiceClient,
    },
    tokens::Tokenizer,
};

/// Triton is in the same pod: a connection that takes longer is not coming.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a readiness question may take, so that a stuck server reads as unready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long Triton may take to close the stream of a generation whose last piece it has sent.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The same after the text reached a stop word. An engine that knows the word's tokens ends by itself at this moment;
/// another computes a few tokens for nothing.
const STOP_TIMEOUT: Duration = Duration::from_millis(50);

/// A Triton server and the entry in its model repository.
///
/// The channel connects on first use and again after a loss; one stream carries one generation, so that dropping the
/// stream cancels exactly that generation.
#[derive(Clone)]
pub struct Triton {
    client: GrpcInferenceServiceClient<Channel>,
    endpoint: String,
    model: String,
    entry: Entry,
}

/// What an entry takes and gives.
#[derive(Clone)]
pub enum Entry {
    /// Text, and the reason of its end.
    Text,
    /// Tokens: an engine of TensorRT-LLM itself. They become text here.
    Tokens(Arc<Tokenizer>),
    /// Text, with the tensors of TensorRT-LLM's ensemble and BLS.
    Ensemble,
    /// Text, with the tensors of Triton's vLLM backend.
    Vllm,
    /// Text, with the tensors of TensorRT-LLM's `llmapi` model.
    LlmApi,
}

/// The endpoint is not a URI.
#[derive(Debug, thiserror::Error)]
#[error("triton.endpoint: {endpoint:?} is not an address; write it as http://127.0.0.1:8001")]
pub struct EndpointError {
    endpoint: String,
    #[source]
    source: tonic::transport::Error,
}

/// Reads the responses of one generation.
enum Reader {
    Text,
    Tokens(tokens::Reader),
    Ensemble(ensemble::Reader),
    Vllm(vllm::Reader),
    LlmApi(llm_api::Reader),
}

/// A piece, and what is left to do for it.
enum Read {
    /// More follow.
    More(Piece),
    /// The last, and how long Triton may take to close the stream before a reset ends the generation at the engine.
    Last(Piece, Duration),
}

impl Triton {
    /// Prepares a channel to `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// The endpoint is not a URI.
    pub fn new(endpoint: &str, model: &str, entry: Entry) -> Result<Self, EndpointError> {
        let channel = Endpoint::from_shared(endpoint.to_owned())
            .map_err(|source| EndpointError { endpoint: endpoint.into(), source })?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        let client = GrpcInferenceServiceClient::new(channel);
        Ok(Self { client, endpoint: endpoint.into(), model: model.into(), entry })
    }

    fn failed(&self, status: Status) -> BackendError {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                BackendError::Unreachable { endpoint: self.endpoint.clone(), source: Box::new(status) }
            }
            _ => BackendError::engine(status.message().to_owned()),
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
        let is_ready = match client.model_ready(model).await {
            Ok(answer) => answer.get_ref().ready,
            // Triton answers so for a model that is not loaded (yet).
            Err(status) if matches!(status.code(), Code::NotFound | Code::InvalidArgument) => false,
            Err(status) => return Err(self.failed(status)),
        };
        if is_ready { Ok(()) } else { Err(not_ready()) }
    }
}

impl Backend for Triton {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let this = self.clone();
        let pieces = try_stream! {
            let trace = generation.trace.clone();
            let (request, mut reader) = this.entry.begin(&this.model, generation)?;
            let mut client = this.client.clone();
            let response = client.model_stream_infer(traced(stream::iter([request]), trace.as_ref())).await;
            let mut responses = response.map_err(|status| this.failed(status))?.into_inner();
            loop {
                let message = responses.message().await.map_err(|status| this.failed(status))?;
                let read = match message {
                    None => Some(reader.end()?),
                    Some(message) if !message.error_message.is_empty() => {
                        Err(BackendError::engine(message.error_message))?
                    }
                    Some(message) => message.infer_response.map(|response| reader.read(response)).transpose()?.flatten(),
                };
                match read {
                    None => {}
                    Some(Read::More(piece)) => yield piece,
                    Some(Read::Last(piece, patience)) => {
                        // Before the piece is handed out: who reads the last one does not ask again.
                        tokio::spawn(end_in_order(responses, patience));
                        yield piece;
                        return;
                    }
                }
            }
        };
        pieces.boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.ask_ready())
    }

    fn token_prompts(&self) -> TokenPrompts {
        match &self.entry {
            Entry::Tokens(tokenizer) => TokenPrompts::Of(Arc::clone(tokenizer)),
            Entry::Text | Entry::Ensemble | Entry::Vllm | Entry::LlmApi => TokenPrompts::None,
        }
    }
}

impl Entry {
    /// The request of a generation, as [`Triton`] sends it.
    ///
    /// # Errors
    /// The prompt has no tokens.
    pub fn request(&self, model: &str, generation: Generation) -> Result<ModelInferRequest, BackendError> {
        self.begin(model, generation).map(|(request, _)| request)
    }

    /// The request of a generation, and what reads its responses.
    fn begin(&self, model: &str, generation: Generation) -> Result<(ModelInferRequest, Reader), BackendError> {
        match self {
            Self::Text => Ok((text::request(model, generation), Reader::Text)),
            Self::Tokens(tokenizer) => {
                let (request, reader) = tokens::begin(model, generation, tokenizer)?;
                Ok((request, Reader::Tokens(reader)))
            }
            Self::Ensemble => {
                let (request, reader) = ensemble::begin(model, generation);
                Ok((request, Reader::Ensemble(reader)))
            }
            Self::Vllm => Ok((vllm::request(model, generation), Reader::Vllm(vllm::Reader::default()))),
            Self::LlmApi => {
                let (request, reader) = llm_api::begin(model, generation);
                Ok((request, Reader::LlmApi(reader)))
            }
        }
    }
}

impl Reader {
    /// Reads one response; `None` for the empty response that Triton may send to close a decoupled request.
    fn read(&mut self, response: ModelInferResponse) -> Result<Option<Read>, BackendError> {
        if response.outputs.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Text => text::read(&response).map(Some),
            Self::Tokens(reader) => reader.read(&response).map(Some),
            Self::Ensemble(reader) => reader.read(&response).map(Some),
            Self::Vllm(reader) => reader.read(&response).map(Some),
            Self::LlmApi(reader) => reader.read(&response).map(Some),
        }
    }

    /// The stream has ended.
    fn end(&mut self) -> Result<Read, BackendError> {
        match self {
            Self::Text | Self::Vllm(_) | Self::LlmApi(_) => Err(BackendError::EndedEarly),
            Self::Tokens(reader) => reader.end(),
            Self::Ensemble(reader) => Ok(reader.end()),
        }
    }
}

/// A request in its span. Triton reads the same headers as servers of HTTP.
fn traced<T>(message: T, trace: Option<&TraceContext>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    for (name, value) in trace.into_iter().flat_map(TraceContext::pairs) {
        if let Ok(value) = AsciiMetadataValue::try_from(value) {
            request.metadata_mut().insert(name, value);
        }
    }
    request
}

/// Waits until Triton closes the stream of a finished generation. Triton 2.51 does not always free a request whose
/// stream is reset between its last response and its end, and then never unloads the model.
async fn end_in_order(mut responses: Streaming<ModelStreamInferResponse>, patience: Duration) {
    let rest = async { while let Ok(Some(_)) = responses.message().await {} };
    // Past this the engine is stuck or goes on, and a reset does no harm.
    let _ = tokio::time::timeout(patience, rest).await;
}
