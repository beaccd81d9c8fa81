//! Whether a folder holds the engine that was asked for. Pure.
//!
//! `config.json` is `{version, pretrained_config, build_config}` beside one `rank<N>.engine` a GPU
//! (NVIDIA/TensorRT-LLM, tensorrt_llm/builder.py at 008b2b8). Only rank 0 writes `config.json`, so a build that lost a
//! rank looks whole by it.

use serde::Deserialize;
use thiserror::Error;

use super::version::Version;
use crate::formats::Parallelism;

/// A file of the engine's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Name within the folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// What the engine's configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// The checkpoint's architecture.
    pub architecture: String,
    /// Upstream's word for the quantization, where there is one.
    pub quantization: Option<String>,
    /// Upstream's word for the KV cache's, where there is one.
    pub kv_cache: Option<String>,
    /// Sequences in flight.
    pub max_batch_size: u32,
    /// Longest sequence.
    pub max_seq_len: u32,
    /// Tokens of an iteration.
    pub max_num_tokens: u32,
    /// Whether KV blocks can be reused and prompts be read in chunks.
    pub has_paged_context: bool,
}

/// Why the folder holds no such engine.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No `config.json`, or an empty one.
    #[error("the build left no config.json")]
    NoConfig,
    /// Not the engine's layout.
    #[error("config.json of the engine cannot be read")]
    Parse(#[source] serde_json::Error),
    /// Built by another version.
    #[error("the engine was built by TensorRT-LLM {found}, not {expected}: the image does not match its tag")]
    Version {
        /// What it says.
        found: String,
        /// What the image should carry.
        expected: Version,
    },
    /// Split otherwise.
    #[error(
        "the engine is split over {found_tensor} x {found_pipeline} GPUs, not {tensor} x {pipeline} (tensor x pipeline)"
    )]
    Parallelism {
        /// What it says.
        found_tensor: u32,
        /// What it says.
        found_pipeline: u32,
        /// What was asked for.
        tensor: u32,
        /// What was asked for.
        pipeline: u32,
    },
    /// A rank's file.
    #[error("{name} is {problem}: the build of that rank failed")]
    Rank {
        /// The file.
        name: String,
        /// `missing` or `empty`.
        problem: &'static str,
    },
}

#[derive(Deserialize)]
struct Config {
    version: String,
    pretrained_config: Pretrained,
    build_config: Build,
}

#[derive(Deserialize)]
struct Pretrained {
    architecture: String,
    mapping: Mapping,
    #[serde(default)]
    quantization: Quantization,
}

#[derive(Deserialize)]
struct Mapping {
    #[serde(default = "one")]
    tp_size: u32,
    #[serde(default = "one")]
    pp_size: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize, Default)]
struct Quantization {
    quant_algo: Option<String>,
    kv_cache_quant_algo: Option<String>,
}

#[derive(Deserialize)]
struct Build {
    max_batch_size: u32,
    max_seq_len: u32,
    max_num_tokens: u32,
    #[serde(default)]
    plugin_config: Plugins,
}

#[derive(Deserialize, Default)]
struct Plugins {
    #[serde(default)]
    use_paged_context_fmha: bool,
}

/// Reads and checks a built engine: the text of its `config.json` and a listing of its folder.
///
/// # Errors
/// [`EngineError`], the first of configuration, version, split and rank files that is wrong.
pub fn validate(
    config: Option<&str>,
    files: &[File],
    expected: Version,
    parallelism: Parallelism,
) -> Result<Engine, EngineError> {
    let text = config.filter(|text| !text.trim().is_empty()).ok_or(EngineError::NoConfig)?;
    let config: Config = serde_json::from_str(text).map_err(EngineError::Parse)?;
    if config.version.parse() != Ok(expected) {
        return Err(EngineError::Version { found: config.version, expected });
    }
    let Parallelism { tensor, pipeline } = parallelism;
    let Mapping { tp_size, pp_size } = config.pretrained_config.mapping;
    if (tp_size, pp_size) != (tensor, pipeline) {
        return Err(EngineError::Parallelism { found_tensor: tp_size, found_pipeline: pp_size, tensor, pipeline });
    }
    for rank in 0..parallelism.ranks() {
        let name = format!("rank{rank}.engine");
        match files.iter().find(|file| file.name == name).map(|file| file.size) {
            None => return Err(EngineError::Rank { name, problem: "missing" }),
            Some(0) => return Err(EngineError::Rank { name, problem: "empty" }),
            Some(_) => {}
        }
    }
    let Pretrained { architecture, quantization, .. } = config.pretrained_config;
    Ok(Engine {
        architecture,
        quantization: quantization.quant_algo,
        kv_cache: quantization.kv_cache_quant_algo,
        max_batch_size: config.build_config.max_batch_size,
        max_seq_len: config.build_config.max_seq_len,
        max_num_tokens: config.build_config.max_num_tokens,
        has_paged_context: config.build_config.plugin_config.use_paged_context_fmha,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const TP2: Parallelism = Parallelism { tensor: 2, pipeline: 1 };
    const VERSION: Version = Version::new(0, 16, 0);

    fn config(version: &str, tp_size: u32) -> String {
        serde_json::json!({
            "version": version,
            "pretrained_config": {
                "architecture": "LlamaForCausalLM",
                "dtype": "float16",
                "mapping": {"world_size": tp_size, "tp_size": tp_size, "pp_size": 1},
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "group_size": 128},
            },
            "build_config": {
                "max_input_len": 4096, "max_seq_len": 8192, "max_batch_size": 16, "max_num_tokens": 8192,
                "plugin_config": {"use_paged_context_fmha": true, "gemm_plugin": "auto"},
            },
        })
        .to_string()
    }

    fn files(sizes: &[u64]) -> Vec<File> {
        let ranks = sizes.iter().enumerate();
        ranks.map(|(rank, size)| File { name: format!("rank{rank}.engine"), size: *size }).collect()
    }

    #[test]
    fn a_whole_engine_says_what_it_is() {
        let engine = validate(Some(&config("0.16.0", 2)), &files(&[9, 9]), VERSION, TP2).unwrap();
        let expected = Engine {
            architecture: "LlamaForCausalLM".into(),
            quantization: Some("FP8".into()),
            kv_cache: Some("FP8".into()),
            max_batch_size: 16,
            max_seq_len: 8192,
            max_num_tokens: 8192,
            has_paged_context: true,
        };
        assert_eq!(engine, expected);
    }

    #[test]
    fn an_engine_of_a_build_of_the_release_is_of_that_release() {
        let engine = validate(Some(&config("1.0.3.2510", 2)), &files(&[9, 9]), Version::new(1, 0, 3), TP2);
        assert_eq!(engine.map(|engine| engine.max_batch_size).map_err(|error| error.to_string()), Ok(16));
    }

    #[rstest]
    #[case(None, &[9, 9], "the build left no config.json")]
    #[case(Some(String::new()), &[9, 9], "the build left no config.json")]
    #[case(Some("{}".into()), &[9, 9], "config.json of the engine cannot be read")]
    #[case(
        Some(config("0.17.0", 2)), &[9, 9],
        "the engine was built by TensorRT-LLM 0.17.0, not 0.16.0: the image does not match its tag"
    )]
    #[case(
        Some(config("0.16.0", 1)), &[9],
        "the engine is split over 1 x 1 GPUs, not 2 x 1 (tensor x pipeline)"
    )]
    #[case(Some(config("0.16.0", 2)), &[9], "rank1.engine is missing: the build of that rank failed")]
    #[case(Some(config("0.16.0", 2)), &[9, 0], "rank1.engine is empty: the build of that rank failed")]
    fn what_is_wrong_is_named(#[case] config: Option<String>, #[case] sizes: &[u64], #[case] message: &str) {
        let error = validate(config.as_deref(), &files(sizes), VERSION, TP2).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
