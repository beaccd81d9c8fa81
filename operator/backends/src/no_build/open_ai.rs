//! What vLLM's own server is told. Pure.
//!
//! Options in a configuration file: `FlexibleArgumentParser` of vllm-project/vllm, vllm/utils/argparse_utils.py at 00da11e. Earlier
//! versions leave a boolean out that is false, so that one is written by its other name.

use serde_json::{Map, Value, json};

/// The file below the artifact's folder. vLLM wants this extension.
pub const FILE: &str = "server/config.yaml";
/// Where it listens: on loopback alone, for it asks nobody for a key.
pub const PORT: u16 = 8000;
const HOST: &str = "127.0.0.1";
/// Arguments of the server that belong to the Job.
pub const RESERVED: [&str; 12] = [
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

/// The command that serves an artifact in this folder.
#[must_use]
pub fn command(artifact: &str, checkpoint: &str) -> Vec<String> {
    ["vllm", "serve", &format!("{artifact}/{checkpoint}"), "--config", &format!("{artifact}/{FILE}")]
        .map(str::to_owned)
        .to_vec()
}

/// The command that succeeds in the server's container once it is healthy: nobody outside of the pod could ask.
#[must_use]
pub fn health_command() -> Vec<String> {
    let ask = format!("import urllib.request; urllib.request.urlopen('http://{HOST}:{PORT}/health', timeout=2)");
    vec!["python3".to_owned(), "-c".to_owned(), ask]
}

/// Adds what the server would do otherwise than Triton's backend: it takes sampling parameters from the checkpoint.
pub fn with_defaults(mut arguments: Map<String, Value>) -> Map<String, Value> {
    arguments.insert("generation_config".to_owned(), "vllm".into());
    arguments
}

/// The arguments of the engine as options of the server.
pub fn options(arguments: Map<String, Value>, model: &str) -> Map<String, Value> {
    let own = [("host", json!(HOST)), ("port", json!(PORT)), ("served-model-name", json!(model))];
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
