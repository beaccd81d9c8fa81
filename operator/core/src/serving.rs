//! How an engine is served: what Triton loads of its repository, and which of it is asked. Pure.

use slipway_backends::{launch::ENGINE_MODEL, repository::Entry};
use slipway_crds::v1alpha1::{
    agent_deployment::{EngineEntry, NoBuildBackend},
    profile::ProfiledEngine,
    shared::ServingConfiguration,
};
use slipway_worker_contract::{self as contract, ServeConfig, paths};

/// Name of the model in the repository of other backends.
const MODEL: &str = "agent";

/// What decides how an engine is served and spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Serving {
    /// Processes that serve an engine of TensorRT-LLM, each with a GPU; absent with other backends.
    pub tensorrt_llm_ranks: Option<u32>,
    /// What of the repository of an engine of TensorRT-LLM is asked.
    pub entry: EngineEntry,
    /// The backend of an engine without a build; absent with other backends.
    pub no_build: Option<NoBuildBackend>,
}

impl Serving {
    /// The engine of a campaign.
    pub fn of_profiled(engine: &ProfiledEngine) -> Self {
        let ranks = engine.tensorrt_llm_ranks.and_then(|ranks| u32::try_from(ranks).ok());
        Self { tensorrt_llm_ranks: ranks, entry: engine.tensorrt_llm_entry, no_build: engine.no_build }
    }

    fn repository_entry(self) -> Option<Entry> {
        self.tensorrt_llm_ranks.map(|_| match self.entry {
            EngineEntry::Engine => Entry::Engine,
            EngineEntry::Ensemble => Entry::Ensemble,
            EngineEntry::BLS => Entry::Bls,
        })
    }

    /// The model that is asked.
    pub fn model(self) -> &'static str {
        self.repository_entry().map_or(MODEL, Entry::name)
    }

    /// The models that Triton loads, in this order.
    pub fn models(self) -> &'static [&'static str] {
        self.repository_entry().map_or(&[MODEL], Entry::models)
    }

    /// The model whose configuration gets the plan's settings: an engine itself, whatever calls it.
    pub fn configured(self) -> &'static str {
        self.repository_entry().map_or(MODEL, |_| ENGINE_MODEL)
    }

    /// Whether prompts are sent as tokens, so that whoever asks needs the tokenizer.
    pub fn takes_tokens(self) -> bool {
        self.repository_entry() == Some(Entry::Engine)
    }

    /// The entry as the worker knows it.
    pub fn entry_on_the_wire(self) -> contract::EngineEntry {
        on_the_wire(self.entry)
    }
}

/// The worker's word for an entry.
pub fn on_the_wire(entry: EngineEntry) -> contract::EngineEntry {
    match entry {
        EngineEntry::Engine => contract::EngineEntry::Engine,
        EngineEntry::Ensemble => contract::EngineEntry::Ensemble,
        EngineEntry::BLS => contract::EngineEntry::BLS,
    }
}

/// Where the tokenizer of an engine of TensorRT-LLM lies in a pod.
pub fn tokenizer_folder() -> String {
    format!("{}/{}", paths::ENGINE_DIR, paths::TOKENIZER)
}

/// The settings as the worker writes them into the model's configuration, when profiling and when serving.
pub fn serve_config(configuration: &ServingConfiguration) -> ServeConfig {
    ServeConfig {
        instances: configuration.instances.and_then(|count| u32::try_from(count).ok()),
        parameters: configuration.parameters.clone(),
        ..ServeConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::custom(None, EngineEntry::Engine, ("agent", &["agent"][..], "agent", false))]
    #[case::engine(Some(2), EngineEntry::Engine, ("tensorrt_llm", &["tensorrt_llm"][..], "tensorrt_llm", true))]
    #[case::ensemble(
        Some(1),
        EngineEntry::Ensemble,
        ("ensemble", &["preprocessing", "tensorrt_llm", "postprocessing", "ensemble"][..], "tensorrt_llm", false)
    )]
    #[case::bls(
        Some(1),
        EngineEntry::BLS,
        ("tensorrt_llm_bls", &["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"][..], "tensorrt_llm", false)
    )]
    fn what_is_asked_what_is_loaded_and_what_is_configured(
        #[case] tensorrt_llm_ranks: Option<u32>,
        #[case] entry: EngineEntry,
        #[case] expected: (&str, &[&str], &str, bool),
    ) {
        let serving = Serving { tensorrt_llm_ranks, entry, no_build: None };
        assert_eq!((serving.model(), serving.models(), serving.configured(), serving.takes_tokens()), expected);
    }
}
