//! Configures vLLM's own server. Pure.
//!
//! `vllm serve` reads `server/config.yaml`, its options in their long form
//! (<https://docs.vllm.ai/en/stable/configuration/serve_args.html>); they are made of the arguments of Triton's
//! backend. Options in a configuration file: `FlexibleArgumentParser` of vllm-project/vllm,
//! vllm/utils/argparse_utils.py at 00da11e. Earlier versions leave a boolean out that is false, so that one is written
//! by its other name.

use serde_json::{Map, Value, json};

use super::typed;
use crate::no_build::{ArgumentError, OWN_SERVER_FILE, OWN_SERVER_HOST, OWN_SERVER_PORT, Request};

/// Arguments of the server that belong to the Job.
const RESERVED: [&str; 12] = [
    "api_key",
    "api_server_count",
    "config",
    "grpc",
    "headless",
    "host",
    "port",
    "root_path",
    "served_model_name",
    "ssl_certfile",
    "ssl_keyfile",
    "uds",
];

/// The command that serves an artifact in a folder.
pub fn command(artifact: &str, checkpoint: &str) -> Vec<String> {
    ["vllm", "serve", &format!("{artifact}/{checkpoint}"), "--config", &format!("{artifact}/{OWN_SERVER_FILE}")]
        .map(str::to_owned)
        .to_vec()
}

/// The options of the server.
pub fn arguments(request: &Request) -> Result<Map<String, Value>, ArgumentError> {
    let mut typed = typed(request);
    // Unlike Triton's backend, the server would take sampling parameters from the checkpoint.
    typed.insert("generation_config".to_owned(), "vllm".into());
    let mut model = request.model.clone();
    if let Some(lora) = &request.features.lora {
        // Whoever asks for the model is answered by the adapter.
        let (of_adapter, base) = lora.options(&model, &request.checkpoint);
        typed.extend(of_adapter);
        model = base;
    }
    request.merged(typed, &RESERVED).map(|arguments| options(arguments, &model))
}

fn options(arguments: Map<String, Value>, model: &str) -> Map<String, Value> {
    let own = [("host", json!(OWN_SERVER_HOST)), ("port", json!(OWN_SERVER_PORT)), ("served-model-name", json!(model))];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    // The checkpoint is named on the command line.
    let of_engine = arguments.into_iter().filter(|(name, _)| name != "model").map(|(name, value)| {
        let name = name.replace('_', "-");
        match value {
            Value::Bool(false) => (format!("no-{name}"), Value::Bool(true)),
            Value::Object(_) => (name, Value::String(value.to_string())),
            value => (name, value),
        }
    });
    own.chain(of_engine).collect()
}
