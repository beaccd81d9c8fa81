//! Backends without a build: a checkpoint is served as it is, by what a generated file tells the engine. Pure.
//!
//! [`of`] is the table. Each backend has a folder of its own beside this module, with one [`Backend`] for each of its
//! servers. It has versions and images, formats by GPU, share of memory, and arguments. Everything else is here, and
//! names no backend.
//!
//! All files of arguments are written as JSON, which is YAML too. Options whose defaults differ among versions are
//! always written.

mod check;
mod extra;
mod release;

use serde_json::{Map, Value};
use slipway_vocabulary::serving::NoBuildBackend;

pub(crate) use self::check::iteration;
pub use self::check::{Unbuilt, check_no_build};
pub use self::extra::ArgumentError;
pub(crate) use self::extra::{merge, value_of};
pub(crate) use self::release::{Oldest, numbers};
pub use self::release::{ReleaseError, default_version, image};
pub use crate::check::Checkpoint;
use crate::check::{Asked, Refusal};
use crate::formats::{Dtype, KvCachePrecision, Parallelism, Precision};
use crate::memory::{Estimate, Layout, Shape};
pub use crate::vllm::features::{Features, Grammar, Lora, Speculation, Structured};

/// Port of a server that takes Triton's place.
pub const OWN_SERVER_PORT: u16 = 8000;
/// Where such a server listens: on loopback alone, because it asks nobody for a key.
pub(crate) const OWN_SERVER_HOST: &str = "127.0.0.1";
/// The file that such a server reads, below the artifact's folder. Servers want this extension.
pub(crate) const OWN_SERVER_FILE: &str = "server/config.yaml";

/// What is known of one backend without a build.
#[derive(Debug)]
pub struct Backend {
    /// Value of `engine.backend`.
    pub name: &'static str,
    /// Name of its block below `engine`.
    pub block: &'static str,
    /// The engine's display name.
    pub product: &'static str,
    /// Name under which its version is recorded with an artifact.
    pub tool: &'static str,
    /// Its versions and images.
    pub releases: Releases,
    /// Precisions in which it serves a checkpoint that is not quantized. What is not of 16 bits, it makes while it
    /// loads.
    pub serves_plain: &'static [Precision],
    /// Whether it computes with weights on GPUs of an architecture.
    pub runs: fn(&Weights<'_>) -> bool,
    /// Methods whose files it reads, of those that only some backends read: see [`Checkpoint::own_layout`].
    pub methods: &'static [&'static str],
    /// Why layers cannot be split into so many groups, the value of `search.pipelineParallel` at an index.
    pub pipeline: fn(&Asked, usize, u32) -> Option<Refusal>,
    /// What it alone refuses.
    pub own_refusals: fn(&Asked, &Unbuilt) -> Vec<Refusal>,
    /// What an engine of a version and a layout takes of its fullest GPU.
    pub estimate: fn(&Unbuilt, &str, &Shape, &Layout) -> Estimate,
    /// What an engine of some sizes needs, by its share of memory and the memory of a GPU.
    pub room: fn(&Estimate, f64, f64) -> Room,
    /// Writes its arguments.
    pub arguments: fn(&Request) -> Result<Map<String, Value>, ArgumentError>,
    /// The file that holds them: below the model's folder, or below the artifact's with a server of its own.
    pub arguments_file: &'static str,
    /// Variables of its container.
    pub environment: &'static [(&'static str, &'static str)],
    /// What serves, and what the image must have for that.
    pub serving: Serving,
}

/// Weights that a backend is to compute with.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// What they are when they are loaded.
    pub precision: Precision,
    /// What they are in the checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// The backend's version.
    pub version: &'a str,
    /// The GPU's architecture, such as 89 for SM89.
    pub sm: u32,
}

/// Versions and images of a backend.
#[derive(Debug)]
pub struct Releases {
    /// A version, to show how one is written.
    pub example: &'static str,
    /// The first version that is served.
    pub oldest: Oldest,
    /// The newest image of a version, if there is one.
    pub image: fn(&str) -> Option<String>,
    /// Versions with an image, oldest first; empty where every version has one.
    pub carried: fn() -> Vec<String>,
}

/// Memory that an engine needs of one GPU for a sequence, and what it may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// The least bytes with which one sequence is served.
    pub needed: f64,
    /// The bytes that it may take.
    pub available: f64,
    /// Whose they are, in a sentence.
    pub words: &'static str,
}

/// What serves, and what the image must have for that.
#[derive(Debug)]
pub enum Serving {
    /// A backend of Triton's, and a model whose configuration is ours.
    TritonBackend {
        /// Its folder below Triton's backends.
        folder: &'static str,
        /// Writes `config.pbtxt` of a model of a name, for a version.
        configuration: fn(&str, &str) -> String,
    },
    /// A model that the image has, under our name.
    TritonModel,
    /// The engine's own server, without Triton.
    Own(OwnServer),
}

/// A server that takes Triton's place.
#[derive(Debug)]
pub struct OwnServer {
    /// The argument that makes the worker's `supervise` run it for the engine in a folder.
    pub ordered: fn(&str) -> Vec<String>,
    /// The program that the image must have.
    pub program: &'static str,
    /// The module that it runs, where it is an interpreter of Python.
    pub module: Option<&'static str>,
    /// The command that serves the artifact in a folder, with the checkpoint in a folder of it.
    pub command: fn(&str, &str) -> Vec<String>,
}

/// The configuration of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The backend.
    pub backend: NoBuildBackend,
    /// Its version.
    pub version: String,
    /// The model's name in requests to an engine's own server; with Triton it is that of its folder.
    pub model: String,
    /// Folder of the checkpoint where it is served.
    pub checkpoint: String,
    /// Weights and activations.
    pub precision: Precision,
    /// Whether the weights get this precision only while they are loaded.
    pub is_quantized_at_load: bool,
    /// Data type of what is not quantized; absent means the checkpoint's.
    pub dtype: Option<Dtype>,
    /// KV cache.
    pub kv_cache: KvCachePrecision,
    /// How it is split.
    pub parallelism: Parallelism,
    /// Tokens of the longest sequence.
    pub max_seq_len: u32,
    /// Sequences in flight.
    pub max_batch_size: u32,
    /// Tokens of an iteration.
    pub max_num_tokens: u32,
    /// The share of memory, in parts per million; [`Backend::room`] defines the whole.
    pub memory_ppm: u32,
    /// Whether prompts with the same beginning share the KV cache.
    pub prefix_caching: bool,
    /// Whether long prompts are read in pieces.
    pub chunked_prefill: bool,
    /// Features of vLLM; other backends have none.
    pub features: Features,
    /// Arguments beyond the typed ones: `name=value`.
    pub extra: Vec<String>,
}

/// What is known of a backend.
#[must_use]
pub fn of(backend: NoBuildBackend) -> &'static Backend {
    match backend {
        NoBuildBackend::SGLang => &crate::sglang::BACKEND,
        NoBuildBackend::TensorRTLLMPyTorch => &crate::tensorrt_llm_pytorch::BEHIND_TRITON,
        NoBuildBackend::TensorRTLLMPyTorchOpenAI => &crate::tensorrt_llm_pytorch::OWN_SERVER,
        NoBuildBackend::VLLM => &crate::vllm::BEHIND_TRITON,
        NoBuildBackend::VLLMOpenAI => &crate::vllm::OWN_SERVER,
    }
}

/// The text of the arguments file.
///
/// # Errors
/// An extra argument is malformed, belongs to the Job, or contradicts a field.
pub fn arguments(request: &Request) -> Result<String, ArgumentError> {
    let all = (of(request.backend).arguments)(request)?;
    Ok(format!("{:#}\n", Value::Object(all)))
}

/// The command that succeeds in the container of an engine's own server once it is healthy: nobody outside of the pod
/// could ask.
#[must_use]
pub fn health_command() -> Vec<String> {
    let url = format!("http://{OWN_SERVER_HOST}:{OWN_SERVER_PORT}/health");
    let ask = format!("import urllib.request; urllib.request.urlopen('{url}', timeout=2)");
    vec!["python3".to_owned(), "-c".to_owned(), ask]
}

impl Backend {
    /// The path of a field of its block in an `AgentDeployment`'s spec.
    #[must_use]
    pub fn field(&self, name: &str) -> String {
        format!("engine.{}.{name}", self.block)
    }

    /// Its own server, if it has one.
    #[must_use]
    pub const fn own_server(&self) -> Option<&OwnServer> {
        match &self.serving {
            Serving::Own(server) => Some(server),
            Serving::TritonBackend { .. } | Serving::TritonModel => None,
        }
    }
}

impl Request {
    /// The word for the data type.
    pub(crate) const fn dtype_word(&self) -> &'static str {
        match (self.precision, self.dtype) {
            (Precision::Fp16, _) | (_, Some(Dtype::Float16)) => "float16",
            (Precision::Bf16, _) | (_, Some(Dtype::Bfloat16)) => "bfloat16",
            (_, Some(Dtype::Float32)) => "float32",
            (_, None) => "auto",
        }
    }

    /// The share of memory, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.memory_ppm) / 1e6
    }

    /// Adds the user's arguments to typed ones; `reserved` are further names that belong to the Job.
    pub(crate) fn merged(
        &self,
        typed: Map<String, Value>,
        reserved: &[&str],
    ) -> Result<Map<String, Value>, ArgumentError> {
        merge(typed, &self.extra, &of(self.backend).field("extraArgs"), reserved)
    }
}

/// The members of an object that is written in place.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
