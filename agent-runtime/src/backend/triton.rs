//! Triton's entries that generate text, over KServe gRPC (`ModelStreamInfer`, decoupled). IO.

mod configuration;
mod ensemble;
mod llm_api;
mod load;
mod sampling;
mod tensor;
mod text;
mod tokens;
mod vllm;

use std::{
    error::Error,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

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
    Backend, BackendError, EngineLoad, Generation, Piece, SamplingFields, TokenPrompts,
    inference::{
        ModelConfig, ModelConfigRequest, ModelInferRequest, ModelInferResponse, ModelReadyRequest,
        ModelStreamInferResponse, ServerReadyRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
    },
    overflow,
    tokens::Tokenizer,
};

pub use configuration::{Misfit, Misfits, Side};
use sampling::SamplingInputs;

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
    known: Arc<RwLock<Known>>,
    metrics: load::Metrics,
}

/// What is known of the model's configuration.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Whether the model that is loaded was asked for it.
    is_of_this_model: bool,
    sampling: SamplingInputs,
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
        let metrics = load::Metrics::beside(endpoint);
        Ok(Self { client, endpoint: endpoint.into(), model: model.into(), entry, known: Arc::default(), metrics })
    }

    fn failed(&self, status: Status) -> BackendError {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                BackendError::Unreachable { endpoint: self.endpoint.clone(), source: Box::new(status) }
            }
            _ => BackendError::engine(status.message().to_owned()),
        }
    }

    /// Starts a generation.
    async fn ask(&self, generation: Generation) -> Result<(Streaming<ModelStreamInferResponse>, Reader), BackendError> {
        let trace = generation.trace.clone();
        let (request, reader) = self.entry.begin(&self.model, generation, self.known().sampling)?;
        let mut client = self.client.clone();
        let response = client.model_stream_infer(traced(stream::iter([request]), trace.as_ref())).await;
        Ok((response.map_err(|status| self.failed(status))?.into_inner(), reader))
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
        if is_ready { self.probe().await } else { Err(not_ready()) }
    }

    /// Asks for the model's configuration, once for each time that it was loaded.
    async fn probe(&self) -> Result<(), BackendError> {
        if self.known().is_of_this_model {
            return Ok(());
        }
        let sampling = match self.ask_configuration().await? {
            Some(configuration) => {
                let misfit = |misfits| BackendError::Misfit { model: self.model.clone(), misfits };
                configuration::check(&self.entry, &configuration).map_err(misfit)?;
                let sampling = SamplingInputs::of(&self.entry, &configuration);
                let takes = sampling.fields().names();
                tracing::info!(model = self.model, ?takes, "the model's configuration fits");
                sampling
            }
            None => SamplingInputs::default(),
        };
        self.learn(|known| *known = Known { is_of_this_model: true, sampling });
        Ok(())
    }

    /// The model's configuration; nothing where the server keeps it shut, or knows no such question.
    async fn ask_configuration(&self) -> Result<Option<ModelConfig>, BackendError> {
        let mut request = tonic::Request::new(ModelConfigRequest { name: self.model.clone(), version: String::new() });
        request.set_timeout(READY_TIMEOUT);
        match self.client.clone().model_config(request).await {
            Ok(answer) => Ok(answer.into_inner().config),
            // Triton refuses a restricted API as unavailable. What has no cause was said by the server.
            Err(status)
                if matches!(status.code(), Code::Unimplemented | Code::Unavailable) && status.source().is_none() =>
            {
                tracing::warn!(model = self.model, said = status.message(), "the model's configuration is not told");
                Ok(None)
            }
            Err(status) => Err(self.failed(status)),
        }
    }

    fn known(&self) -> Known {
        *self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Backend for Triton {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let this = self.clone();
        let pieces = try_stream! {
            let with_fewer = this.entry.says_room().then(|| generation.clone());
            let (mut responses, mut reader) = this.ask(generation).await?;
            let mut message = responses.message().await.map_err(|status| this.failed(status))?;
            if let Some(fewer) = with_fewer.zip(message.as_ref()).and_then(|(all, refusal)| fewer(all, refusal)) {
                (responses, reader) = this.ask(fewer).await?;
                message = responses.message().await.map_err(|status| this.failed(status))?;
            }
            loop {
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
                message = responses.message().await.map_err(|status| this.failed(status))?;
            }
        };
        pieces.boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async {
            let answer = self.ask_ready().await;
            if answer.is_err() {
                // Another model may be loaded next, from another configuration.
                self.learn(|known| known.is_of_this_model = false);
            }
            answer
        })
    }

    fn sampling(&self) -> SamplingFields {
        match self.entry {
            Entry::Vllm => SamplingFields::ALL,
            Entry::Text | Entry::Tokens(_) | Entry::Ensemble | Entry::LlmApi => self.known().sampling.fields(),
        }
    }

    fn token_prompts(&self) -> TokenPrompts {
        match &self.entry {
            Entry::Tokens(tokenizer) => TokenPrompts::Of(Arc::clone(tokenizer)),
            Entry::Text | Entry::Ensemble | Entry::Vllm | Entry::LlmApi => TokenPrompts::None,
        }
    }

    fn load(&self) -> BoxFuture<'_, EngineLoad> {
        self.metrics.load()
    }
}

impl Entry {
    /// The request of a generation, as [`Triton`] sends it to a model without inputs for how tokens are chosen.
    ///
    /// # Errors
    /// The prompt has no tokens.
    pub fn request(&self, model: &str, generation: Generation) -> Result<ModelInferRequest, BackendError> {
        self.begin(model, generation, SamplingInputs::default()).map(|(request, _)| request)
    }

    /// Whether its engine refuses more tokens than its context holds behind the prompt, and says how many it does.
    /// Others generate those.
    const fn says_room(&self) -> bool {
        match self {
            Self::LlmApi => true,
            Self::Text | Self::Tokens(_) | Self::Ensemble | Self::Vllm => false,
        }
    }

    /// The request of a generation to a model with these inputs, and what reads its responses.
    fn begin(
        &self,
        model: &str,
        generation: Generation,
        inputs: SamplingInputs,
    ) -> Result<(ModelInferRequest, Reader), BackendError> {
        let sampling = generation.sampling;
        let (mut request, reader, shape): (_, _, &[usize]) = match self {
            Self::Text => (text::request(model, generation), Reader::Text, &[1]),
            Self::Tokens(tokenizer) => {
                let (request, reader) = tokens::begin(model, generation, tokenizer)?;
                (request, Reader::Tokens(reader), &[1, 1])
            }
            Self::Ensemble => {
                let (request, reader) = ensemble::begin(model, generation);
                (request, Reader::Ensemble(reader), &[1, 1])
            }
            Self::Vllm => (vllm::request(model, generation), Reader::Vllm(vllm::Reader::default()), &[1]),
            Self::LlmApi => {
                let (request, reader) = llm_api::begin(model, generation, inputs.draws(sampling));
                (request, Reader::LlmApi(reader), &[1])
            }
        };
        request.inputs.extend(inputs.tensors(sampling, shape));
        Ok((request, reader))
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

/// The generation with as many tokens as there is room for, where a refusal says that there is some.
fn fewer(all: Generation, refusal: &ModelStreamInferResponse) -> Option<Generation> {
    let max_tokens = overflow::room(&refusal.error_message).filter(|room| (1..all.max_tokens).contains(room))?;
    Some(Generation { max_tokens, ..all })
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
