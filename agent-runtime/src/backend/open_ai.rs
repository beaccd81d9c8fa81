//! Servers of the OpenAI API: engines' own, and upstreams of any make. IO.
//!
//! `POST /v1/completions`, or `/v1/chat/completions` of an upstream that takes nothing else, answered by server-sent
//! events. Requests and answers: <https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html>,
//! <https://docs.sglang.io/basic_usage/openai_api_completions.html>, tensorrt_llm/serve/openai_protocol.py of
//! NVIDIA/TensorRT-LLM at 0076e93 and <https://platform.openai.com/docs/api-reference/chat>. A connection that closes
//! before the end of an answer ends the generation at the engine.

mod answer;
mod broken;
mod chat;
mod link;
mod load;
mod near;
mod reader;
mod refusal;
mod request;
mod room;
mod server;
mod turn;
mod words;

use std::{
    error::Error,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_stream::try_stream;
use futures::{
    future::{BoxFuture, FutureExt},
    stream::{BoxStream, StreamExt},
};
use hyper::body::Bytes;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use slipway_runtime_config::Upstream;

use self::{
    answer::Answer,
    link::{Link, Refused},
    near::Near,
    reader::Read,
    request::ChatFields,
    words::Words,
};
use crate::{
    aside::{LONG, aside},
    events::Events,
    outbound::Lookup,
};

use super::{Backend, BackendError, EngineLoad, Generation, Piece, TokenPrompts, load::Said};

pub use link::LinkError;

/// How long a readiness question may take, so that a stuck server reads as unready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an upstream's readiness holds. Others than we pay for it, or count its requests.
const READY_TIME: Duration = Duration::from_secs(15);
/// Most bytes that are read of the list of models, and of an answer in one piece. What a server sends beyond them is
/// left.
const MODELS_BYTES: usize = 4 * 1024 * 1024;
const WHOLE_BYTES: usize = 64 * 1024 * 1024;
/// The header that names a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A server and the model that it serves.
///
/// A request has a connection of its own while it runs, so that dropping the stream cancels exactly that generation.
#[derive(Clone)]
pub struct OpenAi(Arc<Inner>);

struct Inner {
    link: Link,
    server: OpenAiServer,
    endpoint: String,
    /// Where it generates; nothing where that is not an address, which a request says.
    generations: Option<Url>,
    /// The way to there in the same pod, which is shorter than the link's.
    near: Option<Near>,
    model: String,
    /// How many tokens the model's context holds, once the server has said so.
    context: OnceLock<u32>,
    /// Whether the server has refused the earlier name of the limit on tokens.
    takes_later_limit: AtomicBool,
    /// When an upstream was ready last.
    ready_at: Mutex<Option<Instant>>,
    /// What the server last said of its load.
    said: Said,
}

/// What `/v1/models` answers, as far as it is read. Engines' own servers say how long a context is.
#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    max_model_len: Option<u32>,
    /// The model below an adapter, whose length vLLM does not say (vllm-project/vllm,
    /// vllm/entrypoints/openai/serving_models.py: `show_available_models`).
    #[serde(default)]
    parent: Option<String>,
}

/// The answer to a request that was taken, and what is kept of the words in it.
type Taken = (Answer, Words);

/// Whose server it is, where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAiServer {
    /// vLLM's. It keeps back what may become a stop word.
    Vllm,
    /// SGLang's. It sends the beginning of a stop word before it knows the word, so text is cut here. Upstream would
    /// remove the word from text that was already sent.
    SgLang,
    /// TensorRT-LLM's, `trtllm-serve`. It refuses fields that it does not know. It sees a stop word only as the tokens
    /// that the word has by itself, and sends these as they come, so text is cut here.
    TrtLlm,
    /// Of any make, with `/v1/completions`. It is sent what OpenAI's API has and nothing else.
    Completions,
    /// Of any make, with `/v1/chat/completions`. Prompts are messages and tools.
    Chat,
}

/// Why the client could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenAiError {
    /// The endpoint is not a URL.
    #[error("triton.endpoint: {endpoint:?} is not an address; write it as http://127.0.0.1:8000")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: reqwest::Error,
    },
    /// There is no way to it.
    #[error("failed to set up the way to the server")]
    Link(#[source] LinkError),
}

impl OpenAi {
    /// Prepares a client of a server in the same pod, such as `http://127.0.0.1:8000`; nothing is sent yet.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub fn new(server: OpenAiServer, endpoint: &str, model: &str) -> Result<Self, OpenAiError> {
        let link = Link::beside().map_err(OpenAiError::Link)?;
        let Link::Beside(client) = &link else { return Ok(Self::of(link, server, endpoint, model)) };
        client
            .get(endpoint)
            .build()
            .map_err(|source| OpenAiError::Endpoint { endpoint: endpoint.to_owned(), source })?;
        Ok(Self::of(link, server, endpoint, model))
    }

    /// The same of a server elsewhere.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub fn elsewhere(
        server: OpenAiServer,
        endpoint: &str,
        model: &str,
        (upstream, lookup): (&Upstream, Lookup),
    ) -> Result<Self, OpenAiError> {
        let link = Link::to(upstream, lookup).map_err(OpenAiError::Link)?;
        Ok(Self::of(link, server, endpoint, model))
    }

    fn of(link: Link, server: OpenAiServer, endpoint: &str, model: &str) -> Self {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let generations = Url::parse(&format!("{endpoint}{}", server.path())).ok();
        let near = generations.as_ref().filter(|_| !link.is_elsewhere()).and_then(Near::new);
        Self(Arc::new(Inner {
            link,
            server,
            generations,
            near,
            endpoint,
            model: model.to_owned(),
            context: OnceLock::new(),
            takes_later_limit: AtomicBool::new(false),
            ready_at: Mutex::default(),
            said: Said::default(),
        }))
    }
}

impl Inner {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.endpoint)
    }

    fn unreachable(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> BackendError {
        BackendError::Unreachable { endpoint: self.endpoint.clone(), source: source.into() }
    }

    /// Asks once, and a chat once more for each field that the server may not know.
    async fn post(&self, generation: &Generation) -> Result<Taken, Refused> {
        let has_later_limit = self.takes_later_limit.load(Ordering::Relaxed);
        let mut fields = ChatFields { has_later_limit, has_format: generation.format.is_some() };
        loop {
            match self.send(generation, fields).await {
                Ok(taken) => {
                    self.takes_later_limit.store(fields.has_later_limit, Ordering::Relaxed);
                    return Ok(taken);
                }
                Err(refused) => {
                    let words = refused.of_request().filter(|_| self.server == OpenAiServer::Chat);
                    fields = words.and_then(|words| fields.after(words)).ok_or(refused)?;
                }
            }
        }
    }

    async fn send(&self, generation: &Generation, fields: ChatFields) -> Result<Taken, Refused> {
        let has_wish = generation.guide.is_some() || generation.logprobs.is_some();
        let mut headers = HeaderMap::new();
        generation.trace.iter().for_each(|trace| trace.write(&mut headers));
        let body = self.body(generation, fields);
        // The server names the request so in its log.
        headers.extend(HeaderValue::try_from(&generation.id).ok().map(|id| (REQUEST_ID, id)));
        let (answer, words) = match &self.near {
            Some(near) => {
                let answer = near.post(&headers, body).await;
                (Answer::Near(answer.map_err(|source| Refused::finally(self.unreachable(source)))?), Words::All)
            }
            None => {
                let (request, words) = self.generations().await.map_err(Refused::finally)?;
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let answer = request.headers(headers).body(body).send().await.map_err(|source| {
                    // What was sent may be under way unless there was no connection.
                    let again = source.is_connect().then_some(Duration::ZERO);
                    Refused { error: self.unreachable(source), again }
                })?;
                (Answer::Far(answer), words)
            }
        };
        if answer.status().is_success() {
            Ok((answer, words))
        } else {
            Err(self.refusal(answer, &words, has_wish).await)
        }
    }

    /// The body of a request. That of a long prompt is written while the thread's other runs go on elsewhere.
    fn body(&self, generation: &Generation, fields: ChatFields) -> Bytes {
        let body = || match self.server {
            OpenAiServer::Chat => request::chat(&self.model, generation, fields),
            OpenAiServer::Vllm | OpenAiServer::SgLang | OpenAiServer::TrtLlm | OpenAiServer::Completions => {
                request::completion(self.server, &self.model, generation)
            }
        };
        let write = || Bytes::from(serde_json::to_vec(&body()).unwrap_or_default());
        let tokens = generation.tokens.as_ref().map_or(0, |tokens| tokens.len() * size_of::<u32>());
        if generation.prompt.len() + tokens > LONG { aside(write) } else { write() }
    }

    async fn generations(&self) -> Result<(RequestBuilder, Words), BackendError> {
        match &self.generations {
            Some(url) => self.link.request(Method::POST, url.clone()).await,
            None => self.link.request(Method::POST, self.url(self.server.path())).await,
        }
    }

    async fn ask_ready(&self) -> Result<(), BackendError> {
        if self.link.is_elsewhere() {
            return self.ask_upstream().await;
        }
        let (health, _) = self.link.request(Method::GET, self.url("/health")).await?;
        let answer = health.timeout(READY_TIMEOUT).send().await.map_err(|source| self.unreachable(source))?;
        if !answer.status().is_success() {
            return Err(self.server.not_ready());
        }
        if self.context.get().is_none()
            && let Ok((request, _)) = self.link.request(Method::GET, self.url("/v1/models")).await
            && let Ok(answer) = request.timeout(READY_TIMEOUT).send().await
        {
            self.learn_context(answer).await;
        }
        Ok(())
    }

    /// An upstream that answers is there, whatever of its API it has. Its key must be good.
    async fn ask_upstream(&self) -> Result<(), BackendError> {
        let last = *self.ready_at.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < READY_TIME) {
            return Ok(());
        }
        let (request, _) = self.link.request(Method::GET, self.url("/v1/models")).await?;
        let answer = request.timeout(READY_TIMEOUT).send().await.map_err(|source| self.unreachable(source))?;
        match answer.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(BackendError::Denied { status: status.as_u16() });
            }
            status if status.is_server_error() => return Err(self.server.not_ready()),
            _ => {}
        }
        *self.ready_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if self.context.get().is_none() {
            self.learn_context(answer).await;
        }
        Ok(())
    }

    /// Learns how long the model's context is. A server that does not say is as good as any other.
    async fn learn_context(&self, answer: Response) {
        let Ok(answer) = Answer::Far(answer).body(MODELS_BYTES).await else { return };
        let Ok(Models { data }) = serde_json::from_slice(&answer) else { return };
        let of = |name: &str| data.iter().find(|model| model.id == name);
        let served = of(&self.model);
        let below = served.and_then(|model| of(model.parent.as_deref()?));
        if let Some(length) = [served, below].into_iter().flatten().find_map(|model| model.max_model_len) {
            tracing::info!(length, "the model's context is known");
            self.context.get_or_init(|| length);
        }
    }
}

impl Backend for OpenAi {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let this = Arc::clone(&self.0);
        let pieces = try_stream! {
            let mut reader = this.server.reader(&generation);
            let is_whole = generation.wants_whole && !this.server.is_of_any_make();
            let mut unanswered = this.server.breaks_off().then(|| generation.clone());
            let place = this.link.place().await;
            let (mut answer, words) = this.ask(generation).await?;
            if is_whole {
                let text = answer.whole(WHOLE_BYTES).await.map_err(|source| this.unreachable(source))?;
                yield reader.whole(&String::from_utf8_lossy(&text))?;
                return;
            }
            let mut events = Events::default();
            while let Some(bytes) = this.next(&mut answer, &mut unanswered).await? {
                let ended = events.push(&bytes);
                for data in ended.map_err(|error| BackendError::Protocol { problem: error.to_string() })? {
                    match reader.read(&String::from_utf8_lossy(&data)).map_err(|error| words.keep_in(error))? {
                        None => {}
                        Some(Read::More(piece)) => yield piece,
                        Some(Read::Cut(piece)) => {
                            // The engine goes on until the connection closes.
                            drop(answer);
                            drop(place);
                            yield piece;
                            return;
                        }
                        Some(Read::Last(piece)) => {
                            // Before the piece is handed out: who reads the last one does not ask again.
                            let mut end = answer.end_in_order().boxed();
                            if (&mut end).now_or_never().is_none() {
                                tokio::spawn(end);
                            }
                            drop(place);
                            yield piece;
                            return;
                        }
                    }
                }
            }
            yield reader.end()?;
        };
        pieces.boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.0.ask_ready())
    }

    fn is_elsewhere(&self) -> bool {
        self.0.link.is_elsewhere()
    }

    fn sends_whole(&self) -> bool {
        // Others have gateways before them, which end connections without a sign of life.
        !self.0.server.is_of_any_make()
    }

    fn token_prompts(&self) -> TokenPrompts {
        if self.0.server.is_of_any_make() { TokenPrompts::None } else { TokenPrompts::OfCheckpoint }
    }

    fn context(&self) -> Option<u32> {
        self.0.context.get().copied()
    }

    fn load(&self) -> BoxFuture<'_, EngineLoad> {
        Box::pin(self.0.load())
    }
}
