//! Engines' own servers: `POST /v1/completions` over HTTP/1.1, answered by server-sent events. IO.
//!
//! Requests and answers: <https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html>, and
//! <https://docs.sglang.io/basic_usage/openai_api_completions.html>. A connection that closes before the end of an
//! answer ends the generation at the engine.

mod reader;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_stream::try_stream;
use futures::{
    future::BoxFuture,
    stream::{BoxStream, Stream, StreamExt},
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, header::HeaderMap, redirect};
use serde::Deserialize;
use serde_json::{Value, json};

use self::reader::{Read, Reader, failure};
use crate::events::Events;

use super::{Backend, BackendError, EngineFault, Generation, Guide, Piece, TokenPrompts, sampling, tokens::StopWords};

/// The server is in the same pod: a connection that takes longer is not coming.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a readiness question may take, so that a stuck server reads as unready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may take to end an answer after its last event.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters kept of a refusal that is not JSON.
const REFUSAL_CHARACTERS: usize = 400;

/// A server and the model that it serves.
///
/// A request has a connection of its own while it runs, so that dropping the stream cancels exactly that generation.
#[derive(Clone)]
pub struct OpenAi {
    client: Client,
    server: OwnServer,
    endpoint: String,
    model: String,
    /// How many tokens the model's context holds, once the server has said so.
    context: Arc<OnceLock<u32>>,
}

/// What `/v1/models` answers, as far as it is read. Both servers say how long a context is.
#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    max_model_len: Option<u32>,
}

/// A prompt's tokens, and how many the context holds: what vLLM's `/tokenize` answers.
#[derive(Deserialize)]
struct Tokenized {
    count: u32,
    max_model_len: u32,
}

/// Whose server it is, where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnServer {
    /// vLLM's. It keeps back what may become a stop word.
    Vllm,
    /// SGLang's. It sends the beginning of a stop word before it knows the word, so text is cut here. Upstream would
    /// remove the word from text that was already sent.
    SgLang,
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
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

impl OpenAi {
    /// Prepares a client of `endpoint`, such as `http://127.0.0.1:8000`; nothing is sent yet.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub fn new(server: OwnServer, endpoint: &str, model: &str) -> Result<Self, OpenAiError> {
        let client = Client::builder()
            .tls_certs_only([])
            .no_proxy()
            .http1_only()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(OpenAiError::Client)?;
        let (endpoint_of, model) = (endpoint.trim_end_matches('/').to_owned(), model.to_owned());
        let this = Self { client, server, endpoint: endpoint_of, model, context: Arc::default() };
        let endpoint = this.endpoint.clone();
        this.health().build().map_err(|source| OpenAiError::Endpoint { endpoint, source })?;
        Ok(this)
    }

    fn health(&self) -> RequestBuilder {
        self.client.get(format!("{}/health", self.endpoint)).timeout(READY_TIMEOUT)
    }

    fn unreachable(&self, source: reqwest::Error) -> BackendError {
        BackendError::Unreachable { endpoint: self.endpoint.clone(), source: Box::new(source) }
    }

    /// Asks for a generation; where its tokens do not fit the context after the prompt, for as many as do.
    async fn ask(&self, generation: Generation) -> Result<Response, BackendError> {
        let asked = self.post(generation.clone()).await;
        let Err(error @ BackendError::Engine { fault: EngineFault::ContextLength, .. }) = asked else { return asked };
        let Some(Tokenized { count, max_model_len }) = self.count(&generation).await else { return Err(error) };
        let count = generation.tokens.as_ref().map_or(count, |tokens| u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        match max_model_len.saturating_sub(count) {
            0 => Err(error),
            room => self.post(Generation { max_tokens: room.min(generation.max_tokens), ..generation }).await,
        }
    }

    /// Counts a prompt's tokens; nothing where the server does not say. Asked only after a refusal, so that no run
    /// waits for it.
    async fn count(&self, generation: &Generation) -> Option<Tokenized> {
        let request = self.client.post(format!("{}/tokenize", self.endpoint)).timeout(READY_TIMEOUT);
        let mut question = json!({ "model": self.model, "prompt": generation.prompt });
        if generation.wants_special_tokens() {
            question["add_special_tokens"] = json!(false);
        }
        let request = request.json(&question);
        let response = request.send().await.ok().filter(|response| response.status().is_success())?;
        response.json().await.ok()
    }

    /// Asks how long the model's context is, unless that is known. A server that does not say is as good as any other.
    async fn learn_context(&self) {
        if self.context.get().is_some() {
            return;
        }
        let request = self.client.get(format!("{}/v1/models", self.endpoint)).timeout(READY_TIMEOUT);
        let Ok(response) = request.send().await else { return };
        let Ok(Models { data }) = response.json().await else { return };
        let served = data.into_iter().find(|model| model.id == self.model);
        if let Some(length) = served.and_then(|model| model.max_model_len) {
            tracing::info!(length, "the model's context is known");
            self.context.get_or_init(|| length);
        }
    }

    async fn post(&self, generation: Generation) -> Result<Response, BackendError> {
        let request = self.client.post(format!("{}/v1/completions", self.endpoint));
        let has_wish = generation.guide.is_some() || generation.logprobs.is_some();
        let mut headers = HeaderMap::new();
        generation.trace.iter().for_each(|trace| trace.write(&mut headers));
        // The server names the request so in its log.
        let request = request.headers(headers).header("x-request-id", &generation.id).json(&body(
            self.server,
            &self.model,
            generation,
        ));
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(self.server.not_ready());
        }
        let text = response.text().await.map_err(|source| self.unreachable(source))?;
        let message = failure(&text).unwrap_or_else(|| text.trim().chars().take(REFUSAL_CHARACTERS).collect());
        match BackendError::engine(format!("HTTP status {}: {message}", status.as_u16())) {
            // What only some requests ask for is refused: a schema without a grammar, too many likely tokens.
            BackendError::Engine { message, fault: EngineFault::Engine }
                if has_wish && matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) =>
            {
                Err(BackendError::Engine { message, fault: EngineFault::Wish })
            }
            error => Err(error),
        }
    }
}

impl Backend for OpenAi {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        let this = self.clone();
        let pieces = try_stream! {
            let mut reader = Reader::new(this.server.cut_here(&generation.stop_words));
            let mut body = this.ask(generation).await?.bytes_stream();
            let mut events = Events::default();
            while let Some(bytes) = body.next().await {
                let bytes = bytes.map_err(|source| this.unreachable(source))?;
                let ended = events.push(&bytes);
                for data in ended.map_err(|error| BackendError::Protocol { problem: error.to_string() })? {
                    match reader.read(&String::from_utf8_lossy(&data))? {
                        None => {}
                        Some(Read::More(piece)) => yield piece,
                        Some(Read::Last(piece)) => {
                            // Before the piece is handed out: who reads the last one does not ask again.
                            tokio::spawn(end_in_order(body));
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
        Box::pin(async {
            let answer = self.health().send().await.map_err(|source| self.unreachable(source))?;
            if !answer.status().is_success() {
                return Err(self.server.not_ready());
            }
            self.learn_context().await;
            Ok(())
        })
    }

    fn token_prompts(&self) -> TokenPrompts {
        TokenPrompts::OfCheckpoint
    }

    fn context(&self) -> Option<u32> {
        self.context.get().copied()
    }
}

impl OwnServer {
    fn not_ready(self) -> BackendError {
        let what = match self {
            Self::Vllm => "vLLM's server",
            Self::SgLang => "SGLang's server",
        };
        BackendError::NotReady { what: what.into() }
    }

    /// Stop words that the server leaves to us.
    fn cut_here(self, stop_words: &[String]) -> StopWords {
        match self {
            Self::Vllm => StopWords::default(),
            Self::SgLang => StopWords::new(stop_words.to_vec()),
        }
    }
}

/// The request of a generation.
fn body(server: OwnServer, model: &str, generation: Generation) -> Value {
    let is_rendered = generation.wants_special_tokens();
    let generation = match server {
        OwnServer::Vllm => generation,
        OwnServer::SgLang => generation.without_begin(),
    };
    let Generation {
        id: _,
        prompt,
        tokens,
        max_tokens,
        stop_words,
        form: _,
        sampling: chosen,
        guide,
        logprobs,
        ignores_end,
        trace: _,
    } = generation;
    let has_tokens = tokens.is_some();
    let mut body = json!({
        "model": model,
        "prompt": tokens.map_or_else(|| json!(prompt), |tokens| json!(tokens)),
        "max_tokens": max_tokens,
        "stream": true,
        // Every event says how many tokens there are so far.
        "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    });
    sampling::write(chosen, &mut body);
    let has_stop_words = !stop_words.is_empty();
    if has_stop_words {
        body["stop"] = json!(stop_words);
    }
    if let Some(guide) = guide {
        write_guide(server, guide, &mut body);
    }
    if let Some(top) = logprobs {
        body["logprobs"] = json!(top);
    }
    if has_tokens {
        // Servers that do not know it give none.
        body["return_token_ids"] = json!(true);
    }
    if is_rendered {
        body["skip_special_tokens"] = json!(false);
        if server == OwnServer::Vllm {
            body["add_special_tokens"] = json!(false);
        }
    }
    if ignores_end {
        body["ignore_eos"] = json!(true);
    }
    if server == OwnServer::SgLang && has_stop_words {
        // Without stop words it would leave the token in the text at which a turn ends.
        body["no_stop_trim"] = json!(true);
    }
    body
}

/// Holds tokens to a format: both servers' names of it for `/v1/completions`.
fn write_guide(server: OwnServer, guide: Guide, body: &mut Value) {
    match (server, guide) {
        (OwnServer::Vllm, Guide::JsonObject) => body["response_format"] = json!({ "type": "json_object" }),
        (OwnServer::Vllm, Guide::JsonSchema(schema)) => {
            let named = json!({ "name": "answer", "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
        (OwnServer::SgLang, Guide::JsonObject) => body["json_schema"] = json!("{\"type\":\"object\"}"),
        (OwnServer::SgLang, Guide::JsonSchema(schema)) => body["json_schema"] = json!(schema.to_string()),
    }
}

/// Reads what follows the last event, so that the connection can be used again.
async fn end_in_order(mut rest: impl Stream<Item = reqwest::Result<impl AsRef<[u8]>>> + Unpin) {
    let all = async { while let Some(Ok(_)) = rest.next().await {} };
    // Past this the connection is closed, which does no harm.
    let _ = tokio::time::timeout(END_TIMEOUT, all).await;
}
