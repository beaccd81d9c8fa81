//! Where text is generated: one trait, and behind it Triton over KServe gRPC and engines' own servers. Imports no other
//! layer.

mod connect;
mod load;
mod open_ai;
mod overflow;
mod sampling;
pub mod tokens;
mod triton;

/// Messages and services of `proto/inference.proto`; written by `examples/generate_proto.rs`, not by hand.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
#[rustfmt::skip]
pub mod inference;

use std::{error::Error, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};

use serde_json::Number;
use slipway_runtime_config::Sampling;

use crate::{
    ordered_value::OrderedValue,
    outbound::{AuthoritiesError, HeadersError},
    trace_context::TraceContext,
};

pub use connect::{Asked, ConnectError, connect, entry};
pub use open_ai::{LinkError, OpenAi, OpenAiError, OpenAiServer};
pub use sampling::{SamplingField, SamplingFields};
use tokens::Tokenizer;
pub use triton::{EndpointError, Entry, Misfit, Misfits, Side, Triton};

/// What generates text. One method per thing the sidecar needs from an engine.
pub trait Backend: Send + Sync + 'static {
    /// Starts a generation. Pieces come in order; the last one carries a finish reason, and nothing follows it or an
    /// error. Dropping the stream stops the generation at the engine.
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>>;

    /// Asks whether the engine can generate now.
    ///
    /// # Errors
    /// Why it cannot.
    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Whether others run it, and other pods ask the same one. It has no first use, and its generations cost money.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Whether it sends an answer as one where that is asked for.
    fn sends_whole(&self) -> bool {
        false
    }

    /// What requests may say of how tokens are chosen; nothing before the engine was found ready, where it depends on
    /// its model.
    fn sampling(&self) -> SamplingFields {
        SamplingFields::ALL
    }

    /// Whether prompts may be put as tokens.
    fn token_prompts(&self) -> TokenPrompts {
        TokenPrompts::None
    }

    /// How many tokens a prompt and its answer may have together, where the engine has said so.
    fn context(&self) -> Option<u32> {
        None
    }

    /// How loaded the engine says that it is.
    fn load(&self) -> BoxFuture<'_, EngineLoad> {
        Box::pin(async { EngineLoad::default() })
    }
}

/// How loaded an engine is; nothing of what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineLoad {
    /// Requests that wait in its queue.
    pub waiting: Option<f64>,
    /// The share of its KV cache that is in use.
    pub kv_cache: Option<f64>,
}

/// Whether an engine takes prompts as tokens.
#[derive(Clone)]
pub enum TokenPrompts {
    /// It takes text alone.
    None,
    /// It takes those that this tokenizer makes.
    Of(Arc<Tokenizer>),
    /// It takes those of its checkpoint's tokenizer, which the client needs as well.
    OfCheckpoint,
}

/// What is to be generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Names the request in the engine's logs.
    pub id: String,
    /// The text to continue.
    pub prompt: String,
    /// The same as tokens, for an engine that takes these.
    pub tokens: Option<Vec<u32>>,
    /// The most tokens to generate.
    pub max_tokens: u32,
    /// Texts that end the generation.
    pub stop_words: Vec<String>,
    /// How the prompt is written, and so what is wanted of the answer.
    pub form: PromptForm,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What the text must be. Entries that cannot hold tokens to it leave it out.
    pub guide: Option<Guide>,
    /// What the answer of a chat is to be, for an upstream that may hold tokens to it or not.
    pub format: Option<AnswerGuide>,
    /// How many likely tokens are wanted beside each of the answer, with their probabilities; nothing for none at all.
    pub logprobs: Option<u32>,
    /// The span that the engine generates in, where runs are traced.
    pub trace: Option<TraceContext>,
    /// Whether the engine is to write all tokens that it may, wherever the text would end. Entries that cannot be told
    /// so leave it out.
    pub ignores_end: bool,
    /// Whether nobody looks at the answer before its end, so that the engine may send it as one. Asked
    /// only of those that do: see [`Backend::sends_whole`].
    pub wants_whole: bool,
}

/// What a text must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guide {
    /// An object of JSON.
    JsonObject,
    /// A value of JSON that this schema allows.
    JsonSchema(OrderedValue),
}

/// What the answer of a chat is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerGuide {
    /// Its format.
    pub guide: Guide,
    /// Whether the client demands strict adherence to its schema.
    pub is_strict: bool,
}

/// How a prompt is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PromptForm {
    /// As a text, to which the engine adds what its tokenizer puts before every text. Special tokens of the answer are
    /// left out.
    #[default]
    Plain,
    /// By a chat template, with all special tokens spelled out. Those of the answer are wanted: they mark calls.
    Rendered {
        /// The token at its beginning that the tokenizer adds by itself.
        begin: Option<Arc<str>>,
        /// The token by which the tokenizer ends a turn. Some engines leave it in the text.
        end: Option<Arc<str>>,
    },
}

impl Generation {
    /// Whether special tokens of the answer are wanted.
    pub fn wants_special_tokens(&self) -> bool {
        matches!(self.form, PromptForm::Rendered { .. })
    }

    /// The prompt for an engine that adds what its tokenizer puts before every text, and cannot be told otherwise: the
    /// model has never seen it twice.
    pub fn prompt_without_begin(&self) -> &str {
        match &self.form {
            PromptForm::Rendered { begin: Some(begin), end: _ } => {
                self.prompt.strip_prefix(begin.as_ref()).unwrap_or(&self.prompt)
            }
            PromptForm::Rendered { begin: None, end: _ } | PromptForm::Plain => &self.prompt,
        }
    }

    /// The text of the token that ends the turn, where it is wanted.
    pub fn end(&self) -> Option<&Arc<str>> {
        match &self.form {
            PromptForm::Rendered { end, begin: _ } if !self.ignores_end => end.as_ref(),
            PromptForm::Rendered { .. } | PromptForm::Plain => None,
        }
    }

    /// The same generation with that prompt.
    #[must_use]
    pub fn without_begin(mut self) -> Self {
        let begun = self.prompt.len() - self.prompt_without_begin().len();
        self.prompt.drain(..begun);
        self
    }
}

/// A piece of generated text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The new text; may be empty.
    pub text: String,
    /// Tokens of the prompt, where they are counted: by the engine, or here.
    pub prompt_tokens: Option<u32>,
    /// How many of these the engine had in its cache, where it says so.
    pub cached_tokens: Option<u32>,
    /// Tokens generated so far, this piece included.
    pub output_tokens: u32,
    /// The tokens of this piece, the end of the turn included, where the prompt was put as tokens and the engine gives
    /// them.
    pub tokens: Vec<u32>,
    /// The tokens of this piece and their probabilities, where they were asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Whether it is all of an answer that the engine sent as one: when its first token was there, nobody knows.
    pub is_whole: bool,
    /// Why the generation ended; present on the last piece only.
    pub finish: Option<FinishReason>,
}

/// A token, how likely it was, and what else was. Natural logarithms of probabilities, in the engine's own digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenLogprob {
    /// Its text.
    pub token: String,
    /// Its own.
    pub logprob: Number,
    /// Those of the likeliest tokens, the likeliest first.
    pub top: Vec<(String, Number)>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its text or wrote a stop word.
    Stop,
    /// The limit on tokens was reached.
    Length,
}

/// Why the engine did not generate.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The engine could not be reached.
    #[error("the engine at {endpoint} cannot be reached")]
    Unreachable {
        /// Its address.
        endpoint: String,
        /// What the transport said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The engine is up and says that it or its model cannot serve.
    #[error("{what} is not ready")]
    NotReady {
        /// The server or a model.
        what: String,
    },
    /// The model is another one than its entry needs.
    #[error("Triton's model {model:?} does not fit: {misfits}")]
    Misfit {
        /// Its name.
        model: String,
        /// What of its configuration does not fit.
        misfits: Misfits,
    },
    /// The key of an upstream cannot be read.
    #[error("the upstream's headers cannot be used")]
    Headers(#[source] HeadersError),
    /// The certificates of an upstream's authorities cannot be used.
    #[error("the upstream's certificate authorities cannot be used")]
    Authorities(#[source] AuthoritiesError),
    /// An upstream does not accept the key. Its own words are left out: they may have a part of it.
    #[error("the upstream refuses its credentials (HTTP status {status}); correct the files of headersFrom")]
    Denied {
        /// The status.
        status: u16,
    },
    /// An upstream has too many requests.
    #[error("the upstream takes no more requests now (HTTP status 429)")]
    Busy,
    /// The engine refused the request or failed at it.
    #[error("the engine failed: {message}")]
    Engine {
        /// The engine's own words.
        message: String,
        /// What of the request made it fail, if anything did.
        fault: EngineFault,
    },
    /// The engine's answer is not what a text-generation entry answers.
    #[error("the engine's answer cannot be read: {problem}")]
    Protocol {
        /// What is missing or malformed.
        problem: String,
    },
    /// Text and tokens cannot be turned into each other.
    #[error("the tokenizer failed")]
    Tokens(#[source] Box<dyn Error + Send + Sync>),
    /// The stream ended before the engine said why the generation ended.
    #[error("the engine ended the stream in the middle of a generation")]
    EndedEarly,
}

/// What an engine's failure is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineFault {
    /// The engine.
    Engine,
    /// The prompt, which does not fit the model's context.
    ContextLength,
    /// What the client asks of the text or of its tokens, such as a schema that the engine cannot hold tokens to.
    Wish,
    /// The request, which the server calls invalid. Whose part of it that is, the agent knows.
    Request(RequestPart),
}

/// What of a request a server calls invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// It does not say, unless in words.
    Unnamed,
    /// What the prompt says: a filter of contents stops it.
    Contents,
    /// The messages, or the one of this number; the first is 0.
    Messages(Option<usize>),
    /// The tools, or the one of this number; the first is 0.
    Tools(Option<usize>),
    /// How tokens are to be chosen.
    Sampling(SamplingField),
}

impl BackendError {
    /// An engine's failure in its own words, which also tell a prompt that is too long.
    pub fn engine(message: String) -> Self {
        let fault = if overflow::is_overflow(&message) { EngineFault::ContextLength } else { EngineFault::Engine };
        Self::Engine { message, fault }
    }

    /// What the failure is due to; nothing in the request unless the engine says so.
    pub fn fault(&self) -> EngineFault {
        match self {
            Self::Engine { fault, .. } => *fault,
            Self::Unreachable { .. }
            | Self::NotReady { .. }
            | Self::Misfit { .. }
            | Self::Headers(_)
            | Self::Authorities(_)
            | Self::Denied { .. }
            | Self::Busy
            | Self::Protocol { .. }
            | Self::Tokens(_)
            | Self::EndedEarly => EngineFault::Engine,
        }
    }

    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::NotReady { .. } => "not_ready",
            Self::Misfit { .. } => "misfit",
            Self::Headers(_) => "headers",
            Self::Authorities(_) => "certificates",
            Self::Denied { .. } => "denied",
            Self::Busy => "busy",
            Self::Engine { fault: EngineFault::Engine, .. } => "engine",
            Self::Engine { fault: EngineFault::ContextLength, .. } => "context_length",
            Self::Engine { fault: EngineFault::Wish, .. } => "wish",
            Self::Engine { fault: EngineFault::Request(_), .. } => "request",
            Self::Protocol { .. } => "protocol",
            Self::Tokens(_) => "tokens",
            Self::EndedEarly => "ended_early",
        }
    }

    /// Whether another attempt may find the engine back.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::NotReady { .. }
            | Self::Misfit { .. }
            | Self::Headers(_)
            | Self::Authorities(_)
            | Self::Denied { .. }
            | Self::Busy => true,
            Self::Engine { .. } | Self::Protocol { .. } | Self::Tokens(_) | Self::EndedEarly => false,
        }
    }
}
