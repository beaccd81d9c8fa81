//! What vLLM does beyond serving a checkpoint as it is, each off unless it is named.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Features of vLLM, as part of an engine's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VllmFeatures {
    /// Guesses tokens that came after the same words before, and checks the guesses in one step. It answers faster
    /// where an answer repeats the prompt, as calls of tools do. Absent means no guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ngram_speculation: Option<NgramSpeculation>,
    /// Keeps KV cache that the GPU drops in the pod's memory, where a later turn finds it again. Absent means that it
    /// is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_offload: Option<KvOffload>,
    /// How answers are held to a schema that a request names. Absent means what vLLM chooses for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_outputs: Option<StructuredOutputs>,
    /// An adapter that answers in place of the model alone. Absent means none. It requires `server: OpenAI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraAdapter>,
}

impl VllmFeatures {
    /// Whether none is named.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Speculation by n-grams of the sequence itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NgramSpeculation {
    /// Number of tokens that are guessed at once.
    #[schemars(range(min = 1, max = 32))]
    pub tokens: i32,
    /// Fewest tokens that must have come before in the same order.
    #[serde(default = "shortest")]
    #[schemars(range(min = 1, max = 32))]
    pub min_match: i32,
    /// Most tokens that are looked for; longer matches come first.
    #[serde(default = "longest")]
    #[schemars(range(min = 1, max = 32))]
    pub max_match: i32,
}

/// KV cache in the memory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KvOffload {
    /// GiB of the pod's memory that hold KV cache, over all GPUs of the pod. vLLM takes them when it starts.
    #[schemars(range(min = 1, max = 4096))]
    pub host_memory_gib: i32,
}

/// How answers are held to a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StructuredOutputs {
    /// What knows which tokens may come next.
    pub backend: StructuredOutputsBackend,
    /// Whether the spaces between the parts of JSON are fixed: one after each comma and colon with XGrammar, none with
    /// Guidance. So a model cannot write spaces without end. Outlines cannot do it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compact: bool,
}

/// An adapter of LoRA, which lies in a folder of the checkpoint as PEFT writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoraAdapter {
    /// Folder of the checkpoint, such as `adapters/sql`, with adapter_config.json and the adapter's weights. It is
    /// fetched with the checkpoint, and a part of its digest.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$")
    )]
    pub folder: String,
    /// Rank of the adapter: `r` of its adapter_config.json.
    #[schemars(range(min = 1, max = 512))]
    pub rank: i32,
}

/// What knows which tokens may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum StructuredOutputsBackend {
    /// mlc-ai's xgrammar.
    XGrammar,
    /// Microsoft's llguidance.
    Guidance,
    /// dottxt's outlines-core.
    Outlines,
}

fn shortest() -> i32 {
    2
}

fn longest() -> i32 {
    4
}
