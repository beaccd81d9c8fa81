//! How a model writes its calls of tools and its thoughts. Pure.

use serde::{Deserialize, Serialize};

/// How the model writes its calls of tools and its thoughts: each dialect is that of a family of models. Absent means
/// that the checkpoint's chat template tells. `ReAct` means the plain ReAct transcript, whatever the checkpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ToolCallDialect {
    /// The transcript of lines such as `Action: lookup[Bela]`, without a chat template.
    ReAct,
    /// JSON between `<tool_call>` and `</tool_call>`: Hermes 2 and 3, Qwen 2.5 and 3, QwQ.
    Hermes,
    /// `<function=...>` with `<parameter=...>`: Qwen3-Coder.
    Qwen3Coder,
    /// An object with `name` and `parameters`, alone or behind text: Llama 3.1, 3.2 and 3.3.
    Llama3Json,
    /// A list of calls in Python: Llama 4, and Llama 3.2's smaller models.
    Llama4Pythonic,
    /// `[TOOL_CALLS]`: Mistral, Ministral, Devstral, Magistral.
    Mistral,
    /// `<｜tool▁calls▁begin｜>`: DeepSeek R1, V3 and V3.1.
    DeepSeek,
    /// Channels: gpt-oss.
    Harmony,
    /// `<|tool_call|>` or `functools[...]`: Phi-4-mini.
    Phi4,
    /// A list of calls after `<|tool_call|>`: Granite 3, and `<function_call>` of its smaller models.
    Granite,
    /// An object with `name` and `arguments` as the whole turn, for models that know no other way.
    JSON,
}

impl ToolCallDialect {
    /// All dialects.
    pub const ALL: [Self; 11] = [
        Self::ReAct,
        Self::Hermes,
        Self::Qwen3Coder,
        Self::Llama3Json,
        Self::Llama4Pythonic,
        Self::Mistral,
        Self::DeepSeek,
        Self::Harmony,
        Self::Phi4,
        Self::Granite,
        Self::JSON,
    ];
}
