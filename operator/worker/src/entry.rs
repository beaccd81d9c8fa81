//! How the model of an engine is spoken to.

use std::{path::Path, sync::Arc};

use slipway_agent_runtime::backend::{
    Entry,
    tokens::{Tokenizer, TokenizerError},
};
use slipway_backends::{launch::ENGINE_MODEL, repository};
use slipway_worker_contract::{EngineEntry, NoBuildBackend};

/// What decides how a model is spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'a> {
    /// Folder of the tokenizer, where the model takes tokens.
    pub tokenizer: Option<&'a Path>,
    /// What of the repository of an engine of TensorRT-LLM is asked.
    pub entry: EngineEntry,
    /// The backend of an engine without a build.
    pub no_build: Option<NoBuildBackend>,
}

/// The entry of a model in Triton: the tensors of a backend without a build, or of the models around an engine of TensorRT-LLM, else
/// tokens where there is a tokenizer, else text. None where Triton does not serve it.
///
/// # Errors
/// The tokenizer cannot be used.
pub fn entry(spoken: Spoken<'_>) -> Result<Option<Entry>, TokenizerError> {
    Ok(Some(match (spoken.no_build, spoken.entry, spoken.tokenizer) {
        (Some(NoBuildBackend::VLLMOpenAI), ..) => return Ok(None),
        (Some(NoBuildBackend::VLLM), ..) => Entry::Vllm,
        (Some(NoBuildBackend::TensorRTLLMPyTorch), ..) => Entry::LlmApi,
        (None, EngineEntry::Ensemble | EngineEntry::BLS, _) => Entry::Ensemble,
        (None, EngineEntry::Engine, Some(folder)) => Entry::Tokens(Arc::new(Tokenizer::read(folder)?)),
        (None, EngineEntry::Engine, None) => Entry::Text,
    }))
}

/// The repository's word for an entry.
pub fn of_repository(entry: EngineEntry) -> repository::Entry {
    match entry {
        EngineEntry::Engine => repository::Entry::Engine,
        EngineEntry::Ensemble => repository::Entry::Ensemble,
        EngineEntry::BLS => repository::Entry::Bls,
    }
}

/// The models to load before `model` is asked, itself the last.
pub fn models(model: &str, entry: EngineEntry) -> Vec<String> {
    match entry {
        EngineEntry::Engine => vec![model.to_owned()],
        EngineEntry::Ensemble | EngineEntry::BLS => {
            of_repository(entry).models().iter().map(|&model| model.to_owned()).collect()
        }
    }
}

/// The model whose configuration gets the settings: the engine itself, whatever calls it.
pub fn configured(model: &str, entry: EngineEntry) -> &str {
    match entry {
        EngineEntry::Engine => model,
        EngineEntry::Ensemble | EngineEntry::BLS => ENGINE_MODEL,
    }
}
