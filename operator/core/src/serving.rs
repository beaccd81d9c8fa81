//! What an engine is served with, as the planners need it: paths in a pod, and settings for the worker. Pure.

use slipway_crds::v1alpha1::{agent_deployment::ServedBy, shared::ServingConfiguration};
use slipway_worker_contract::{ServeConfig, paths};

/// Where the tokenizer of an engine of TensorRT-LLM lies in a pod.
pub fn tokenizer_folder() -> String {
    format!("{}/{}", paths::ENGINE_DIR, paths::TOKENIZER)
}

/// Where the files of the checkpoint lie in a pod that say how a conversation is written; nothing where the user's
/// builder made the engine.
pub fn checkpoint_folder(served_by: ServedBy) -> Option<String> {
    match served_by {
        ServedBy::Custom => None,
        ServedBy::TensorRtLlm { .. } => Some(tokenizer_folder()),
        ServedBy::NoBuild(_) => Some(format!("{}/{}", paths::ENGINE_DIR, paths::CHECKPOINT)),
    }
}

/// The settings as the worker writes them into the model's configuration, when profiling and when serving.
pub fn serve_config(configuration: &ServingConfiguration) -> ServeConfig {
    ServeConfig {
        instances: configuration.instances.and_then(|count| u32::try_from(count).ok()),
        queue_delay_micros: configuration.queue_delay_microseconds.and_then(|delay| u64::try_from(delay).ok()),
        parameters: configuration.parameters.clone(),
        ..ServeConfig::default()
    }
}
