//! Configures TensorRT-LLM's own server. Pure.
//!
//! `trtllm-serve serve MODEL` reads `server/config.yaml`, further arguments of `tensorrt_llm.LLM`: those of the
//! `llmapi` model but for what concerns Triton. Sources are of NVIDIA/TensorRT-LLM.
//!
//! - Command line and file: tensorrt_llm/commands/serve.py at 00209af. `--extra_llm_api_options` is a name of the file
//!   in every version, and `--config` only in later ones. Host and port are options alone.
//! - What comes first: the file up to 1.2 (`update_llm_args_with_extra_dict`), and options that are written out after
//!   it (pull request 14812). So nothing is in both places. In early versions a file did not change the sizes of a
//!   batch (pull requests 7551 and 7897). What a file does not say has the server's default, such as its scheduler.
//! - A name that `LLM` does not know is an error there: its arguments are a strict pydantic model.
//! - Formats: without `guided_decoding_backend` a request's schema is dropped without a word (NVIDIA/TensorRT issue
//!   4855, about 1.2.1; docs/source/features/guided-decoding.md at 14e6b10).
//! - The image: docs/source/quick-start-guide.md of 1.1 to 1.3, `nvcr.io/nvidia/tensorrt-llm/release`. Triton's image
//!   has the wheel installed and so the program as well, but is not what upstream documents for it.

use serde_json::{Map, Value};

use super::typed;
use crate::no_build::{ArgumentError, OWN_SERVER_FILE, OWN_SERVER_HOST, OWN_SERVER_PORT, Oldest, Request};

/// Before it, a stream had no probabilities (docs/source/release-notes.md at 001eaec, the sampling of 1.2).
pub const OLDEST: Oldest = Oldest {
    numbers: [1, 2, 0],
    name: "1.2",
    does: "whose own server says how likely the tokens of a stream are",
    remedy: "1.2.0 or later, or from 1.0 on engine.tensorRTLLMPyTorch.server Triton",
};

/// Arguments that belong to the Job: of the command line, of several servers, or sizes by another name.
const RESERVED: [&str; 12] = [
    "build_config",
    "config",
    "custom_tokenizer",
    "disagg_cluster",
    "extra_llm_api_options",
    "gpus_per_node",
    "host",
    "metadata_server_config_file",
    "port",
    "postprocess_tokenizer_dir",
    "served_model_name",
    "server_role",
];

/// The typed arguments that the command line has in the file's place, or that are Triton's.
const ELSEWHERE: [&str; 3] = ["backend", "model", "triton_config"];

/// The command that serves an artifact in a folder. Requests may give the model any name.
pub fn command(artifact: &str, checkpoint: &str) -> Vec<String> {
    [
        "trtllm-serve",
        "serve",
        &format!("{artifact}/{checkpoint}"),
        "--backend",
        "pytorch",
        "--host",
        OWN_SERVER_HOST,
        "--port",
        &OWN_SERVER_PORT.to_string(),
        "--extra_llm_api_options",
        &format!("{artifact}/{OWN_SERVER_FILE}"),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The arguments of `LLM` in the file.
pub fn arguments(request: &Request) -> Result<Map<String, Value>, ArgumentError> {
    let mut typed = typed(request);
    typed.retain(|name, _| !ELSEWHERE.contains(&name.as_str()));
    // The sidecar relies on it, as the servers of vLLM and SGLang hold to schemas unasked.
    typed.insert("guided_decoding_backend".to_owned(), "xgrammar".into());
    request.merged(typed, &RESERVED)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use slipway_vocabulary::serving::NoBuildBackend;

    use super::*;
    use crate::formats::{KvCachePrecision, Parallelism, Precision};
    use crate::no_build::{arguments as written, image, of};

    fn request() -> Request {
        Request {
            backend: NoBuildBackend::TensorRTLLMPyTorchOpenAI,
            version: "1.2.1".into(),
            model: "agent".into(),
            checkpoint: "/slipway/engine/checkpoint".into(),
            precision: Precision::Bf16,
            is_quantized_at_load: false,
            dtype: None,
            kv_cache: KvCachePrecision::Fp8,
            parallelism: Parallelism { tensor: 2, pipeline: 1 },
            max_seq_len: 8192,
            max_batch_size: 64,
            max_num_tokens: 4096,
            memory_ppm: 850_000,
            prefix_caching: false,
            chunked_prefill: true,
            features: Default::default(),
            extra: Vec::new(),
        }
    }

    #[test]
    fn the_server_is_told_everything_that_a_field_says() {
        let asked = Request { extra: vec!["cuda_graph_config.enable_padding=true".into()], ..request() };
        let expected = r#"{
  "cuda_graph_config": {
    "enable_padding": true
  },
  "dtype": "bfloat16",
  "enable_chunked_prefill": true,
  "guided_decoding_backend": "xgrammar",
  "kv_cache_config": {
    "dtype": "fp8",
    "enable_block_reuse": false,
    "free_gpu_memory_fraction": 0.85
  },
  "max_batch_size": 64,
  "max_num_tokens": 4096,
  "max_seq_len": 8192,
  "pipeline_parallel_size": 1,
  "tensor_parallel_size": 2
}
"#;
        assert_eq!(written(&asked).unwrap(), expected);
        assert_eq!(
            command("/slipway/engine", "checkpoint").join(" "),
            "trtllm-serve serve /slipway/engine/checkpoint --backend pytorch --host 127.0.0.1 --port 8000 \
             --extra_llm_api_options /slipway/engine/server/config.yaml"
        );
    }

    /// Versions disagree about what comes first, so no argument may be in both places.
    #[test]
    fn nothing_is_said_by_the_command_line_and_the_file() {
        let told: Map<String, Value> = serde_json::from_str(&written(&request()).unwrap()).unwrap();
        let options = ["backend", "host", "port", "model", "extra_llm_api_options"];
        assert_eq!(options.map(|name| told.contains_key(name)), [false; 5]);
        let command = command("/slipway/engine", "checkpoint");
        assert!(told.keys().all(|name| !command.contains(&format!("--{name}"))), "{command:?}");
    }

    #[rstest]
    #[case("port=9", "port belongs to the Job: remove it")]
    #[case("backend=tensorrt", "backend belongs to the Job: remove it")]
    #[case("build_config.max_batch_size=9", "build_config belongs to the Job: remove it")]
    #[case("trust_remote_code=true", "trust_remote_code belongs to the Job: remove it")]
    #[case(
        "kv_cache_config.free_gpu_memory_fraction=0.5",
        "kv_cache_config.free_gpu_memory_fraction=0.5 contradicts kv_cache_config.free_gpu_memory_fraction=0.85: change the \
         field or the element that sets it, and remove this one"
    )]
    fn what_a_field_or_the_job_says_is_not_for_users(#[case] extra: &str, #[case] message: &str) {
        let asked = Request { extra: vec![extra.into()], ..request() };
        let error = written(&asked).unwrap_err().to_string();
        assert_eq!(error, format!("engine.tensorRTLLMPyTorch.extraArgs[0]: {message}"));
    }

    #[rstest]
    #[case("1.2.1", None, "nvcr.io/nvidia/tensorrt-llm/release:1.2.1")]
    #[case("1.3.0rc5", Some("mirror/trtllm:1"), "mirror/trtllm:1")]
    #[case(
        "1.1.0",
        None,
        "engine.tensorRTLLMPyTorch.version: 1.1.0 is older than 1.2, the first version whose own server says how likely the \
         tokens of a stream are; use 1.2.0 or later, or from 1.0 on engine.tensorRTLLMPyTorch.server \
         Triton"
    )]
    fn a_version_has_an_image_or_says_what_to_use(
        #[case] version: &str,
        #[case] named: Option<&str>,
        #[case] expected: &str,
    ) {
        let found = image(NoBuildBackend::TensorRTLLMPyTorchOpenAI, version, named);
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected);
    }

    #[test]
    fn no_version_reports_its_use() {
        let environment = of(NoBuildBackend::TensorRTLLMPyTorchOpenAI).environment;
        assert_eq!(environment, [("TRTLLM_NO_USAGE_STATS", "1")]);
    }
}
