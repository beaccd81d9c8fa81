//! What an engine is served with, as the planners need it: settings for the worker. Pure.

use slipway_crds::v1alpha1::shared::ServingConfiguration;
use slipway_worker_contract::ServeConfig;

/// The settings as the worker writes them into the model's configuration, when profiling and when serving.
pub fn serve_config(configuration: &ServingConfiguration) -> ServeConfig {
    ServeConfig {
        instances: configuration.instances.and_then(|count| u32::try_from(count).ok()),
        queue_delay_micros: configuration.queue_delay_microseconds.and_then(|delay| u64::try_from(delay).ok()),
        parameters: configuration.parameters.clone(),
        ..ServeConfig::default()
    }
}
