//! What an engine is served with, as the planners need it: paths in a pod, and settings for the worker. Pure.

use slipway_crds::v1alpha1::shared::ServingConfiguration;
use slipway_worker_contract::{ServeConfig, paths};

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
