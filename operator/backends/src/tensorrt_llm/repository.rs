//! Triton's model repository for an engine, from the templates of the image. Pure.
//!
//! The templates (`/app/all_models/inflight_batcher_llm/<model>/config.pbtxt`) and the Python beside them change
//! together, so the image's own are filled. A placeholder `${x}` stands within a quoted parameter or bare. Triton's
//! backend reads an unfilled quoted one as its default. An unfilled bare one is not protobuf text, so every bare one
//! must be known.
//!
//! `tensorrt_llm` alone is the default, to which the sidecar speaks in tokens; ensemble and BLS are upstream's entries
//! for text. Orchestrator mode is not offered: it starts ranks itself, on one node only, so that the supervisor would
//! lose them.

mod options;
mod template;
mod tunable;

use std::collections::{BTreeMap, BTreeSet};

use slipway_vocabulary::serving::EngineEntry;
use thiserror::Error;

pub use options::{BatchSchedulerPolicy, MAX_BLS_INSTANCES, Serving};
pub use template::{FillError, Filled, fill};
pub use tunable::{TunableError, check_tunable};

/// Whether an entry can serve an engine that runs so many sequences together.
///
/// # Errors
/// BLS would need more processes than a machine has.
pub fn check_entry(entry: EngineEntry, max_batch_size: u32) -> Result<(), RepositoryError> {
    match entry {
        EngineEntry::BLS if max_batch_size > MAX_BLS_INSTANCES => Err(RepositoryError::Option {
            field: "search.maxBatchSize",
            problem: format!(
                "entry BLS runs a Python process for each of {max_batch_size} sequences; use {MAX_BLS_INSTANCES} or less, or \
                 another engine.tensorRTLLM.entry"
            ),
        }),
        EngineEntry::Engine | EngineEntry::Ensemble | EngineEntry::BLS => Ok(()),
    }
}

/// Why there is no repository.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RepositoryError {
    /// The image lacks a template.
    #[error("the image has no template for {model}: it is not one of TensorRT-LLM 0.15 to 1.2")]
    NoTemplate {
        /// The model's folder.
        model: &'static str,
    },
    /// A template cannot be filled.
    #[error("{model}/config.pbtxt: {error}")]
    Fill {
        /// The model's folder.
        model: &'static str,
        /// What is wrong.
        error: FillError,
    },
    /// Options that the engine or the templates contradict.
    #[error("{field}: {problem}")]
    Option {
        /// Path of the field.
        field: &'static str,
        /// What is wrong, with the remedy.
        problem: String,
    },
}

/// A repository's configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Text of `config.pbtxt` by the model's folder; the rest of each folder is copied from the image.
    pub configs: BTreeMap<&'static str, String>,
    /// Options that a template has no place for, each set to something else than upstream's default.
    pub unused: BTreeSet<&'static str>,
}

/// Fills the image's templates, by the model's folder. `ensemble/1` is empty in the image and must be made.
///
/// # Errors
/// The options contradict each other, a template is missing, or one has a bare placeholder that is unknown.
pub fn repository(
    entry: EngineEntry,
    serving: &Serving,
    templates: &BTreeMap<String, String>,
) -> Result<Repository, RepositoryError> {
    check_entry(entry, serving.max_batch_size)?;
    serving.check()?;
    let mut configs = BTreeMap::new();
    let mut unused: BTreeSet<&'static str> = serving.parameters().keys().copied().collect();
    for model in entry.models().iter().copied() {
        let template = templates.get(model).ok_or(RepositoryError::NoTemplate { model })?;
        let values = serving.values(model, entry);
        let filled = fill(template, &values).map_err(|error| RepositoryError::Fill { model, error })?;
        unused.retain(|name| !filled.used.contains(*name));
        configs.insert(model, filled.text);
    }
    Ok(Repository { configs, unused })
}

#[cfg(test)]
mod tests;
