//! Chooses the protocol of an engine's model by its task.

use std::path::Path;

use slipway_agent_runtime::backend::{Entry, tokens::TokenizerError};
use slipway_vocabulary::serving::{Dialect, ENGINE_MODEL, EngineEntry, NoBuildBackend, TextDialect};

/// What decides the protocol of a model.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'a> {
    /// Folder of the tokenizer, where the model takes tokens.
    pub tokenizer: Option<&'a Path>,
    /// Entry of the repository of an engine of TensorRT-LLM.
    pub entry: EngineEntry,
    /// The backend of an engine without a build.
    pub no_build: Option<NoBuildBackend>,
}

impl Spoken<'_> {
    /// The dialect of requests. An engine without a tokenizer comes from the user's builder.
    pub fn dialect(self) -> Dialect {
        match (self.no_build, self.entry, self.tokenizer) {
            (Some(backend), ..) => Dialect::Text(backend.dialect()),
            (None, EngineEntry::Engine, None) => Dialect::Text(TextDialect::Text),
            (None, entry, _) => entry.dialect(),
        }
    }

    /// The entry of a model in Triton; `None` where Triton does not serve it.
    ///
    /// # Errors
    /// The tokenizer cannot be used.
    pub fn entry(self) -> Result<Option<Entry>, TokenizerError> {
        slipway_agent_runtime::backend::entry(self.dialect(), self.tokenizer.unwrap_or(Path::new("")))
    }
}

/// The models to load before `model` is asked, itself the last.
pub fn models(model: &str, entry: EngineEntry) -> Vec<String> {
    match entry {
        EngineEntry::Engine => vec![model.to_owned()],
        EngineEntry::Ensemble | EngineEntry::BLS => entry.models().iter().map(|&model| model.to_owned()).collect(),
    }
}

/// The model whose configuration gets the settings: the engine itself, whatever calls it.
pub fn configured(model: &str, entry: EngineEntry) -> &str {
    match entry {
        EngineEntry::Engine => model,
        EngineEntry::Ensemble | EngineEntry::BLS => ENGINE_MODEL,
    }
}
