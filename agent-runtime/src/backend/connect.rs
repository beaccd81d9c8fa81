//! Chooses the client of an engine by its dialect. IO.

use std::{path::Path, sync::Arc};

use slipway_runtime_config::Upstream;
use slipway_vocabulary::serving::{Dialect, TextDialect};

use crate::outbound::Lookup;

use super::{
    Backend, EndpointError, Entry, OpenAi, OpenAiError, OpenAiServer, Triton,
    tokens::{Tokenizer, TokenizerError},
};

/// An engine to query.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its dialect.
    pub dialect: Dialect,
    /// Folder of its tokenizer; read only if it is asked in tokens.
    pub tokenizer: &'a Path,
    /// Address of Triton's gRPC port, or of the HTTP port of the engine's own server.
    pub endpoint: &'a str,
    /// Name of the model.
    pub model: &'a str,
    /// How it is reached where it is elsewhere than in the same pod.
    pub upstream: Option<&'a Upstream>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address of Triton cannot be used.
    #[error("failed to set up the client of Triton")]
    Triton(#[source] EndpointError),
    /// The same of a server of the OpenAI API.
    #[error("failed to set up the client of the server")]
    OpenAi(#[source] OpenAiError),
    /// The tokenizer cannot be used.
    #[error("failed to read the engine's tokenizer")]
    Tokenizer(#[source] TokenizerError),
}

/// The client of a dialect.
enum Client {
    Triton(Entry),
    OpenAi(OpenAiServer),
}

impl Client {
    fn of(dialect: Dialect, tokenizer: &Path) -> Result<Self, TokenizerError> {
        Ok(match dialect {
            Dialect::Tokens => Self::Triton(Entry::Tokens(Arc::new(Tokenizer::read(tokenizer)?))),
            Dialect::Text(TextDialect::Text) => Self::Triton(Entry::Text),
            Dialect::Text(TextDialect::Ensemble) => Self::Triton(Entry::Ensemble),
            Dialect::Text(TextDialect::Vllm) => Self::Triton(Entry::Vllm),
            Dialect::Text(TextDialect::LlmApi) => Self::Triton(Entry::LlmApi),
            Dialect::Text(TextDialect::OpenAi) => Self::OpenAi(OpenAiServer::Vllm),
            Dialect::Text(TextDialect::SgLang) => Self::OpenAi(OpenAiServer::SgLang),
            Dialect::Text(TextDialect::TrtLlm) => Self::OpenAi(OpenAiServer::TrtLlm),
            Dialect::Text(TextDialect::Completions) => Self::OpenAi(OpenAiServer::Completions),
            Dialect::Text(TextDialect::Chat) => Self::OpenAi(OpenAiServer::Chat),
        })
    }
}

/// Prepares the client of an engine; nothing is sent yet.
///
/// # Errors
/// [`ConnectError`].
pub fn connect(asked: Asked<'_>) -> Result<Arc<dyn Backend>, ConnectError> {
    let Asked { dialect, tokenizer, endpoint, model, upstream } = asked;
    Ok(match Client::of(dialect, tokenizer).map_err(ConnectError::Tokenizer)? {
        Client::Triton(entry) => Arc::new(Triton::new(endpoint, model, entry).map_err(ConnectError::Triton)?),
        Client::OpenAi(server) => {
            let client = match upstream {
                None => OpenAi::new(server, endpoint, model),
                Some(upstream) => OpenAi::elsewhere(server, endpoint, model, (upstream, Lookup::of_system())),
            };
            Arc::new(client.map_err(ConnectError::OpenAi)?)
        }
    })
}

/// Triton's entry for the dialect; `None` if Triton does not serve.
///
/// # Errors
/// The tokenizer cannot be used.
pub fn entry(dialect: Dialect, tokenizer: &Path) -> Result<Option<Entry>, TokenizerError> {
    Ok(match Client::of(dialect, tokenizer)? {
        Client::Triton(entry) => Some(entry),
        Client::OpenAi(_) => None,
    })
}
