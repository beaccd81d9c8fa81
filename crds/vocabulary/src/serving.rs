//! What serves an engine, and what follows from that: who takes its requests, how they are put, which models Triton
//! loads. Pure.
//!
//! [`ServedBy`] is the one answer. A new backend without a build is a variant of [`NoBuildBackend`], and the compiler
//! asks for its answers in this file.

use serde::{Deserialize, Serialize};

/// Name of the one model where no other is given.
pub const MODEL: &str = "agent";

/// Name of an engine of TensorRT-LLM in its repository.
pub const ENGINE_MODEL: &str = "tensorrt_llm";

/// Models of the image's serving repository that can receive requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum EngineEntry {
    /// The engine itself. The sidecar converts text to tokens and back.
    #[default]
    Engine,
    /// Triton's ensemble of tokenizer, engine and detokenizer.
    Ensemble,
    /// The same in Python, with Triton's business logic scripting.
    BLS,
}

/// Backend of an engine without a build. Absent with other backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum NoBuildBackend {
    /// TensorRT-LLM's PyTorch flow, behind Triton.
    TensorRTLLMPyTorch,
    /// The same with TensorRT-LLM's own server, `trtllm-serve`.
    TensorRTLLMPyTorchOpenAI,
    /// vLLM, behind Triton.
    VLLM,
    /// vLLM's own server.
    VLLMOpenAI,
    /// SGLang's own server.
    SGLang,
}

/// What serves an engine. It is written as three optional members, of which at most one group is present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum ServedBy {
    /// Triton, with the repository that the user's builder wrote.
    #[default]
    Custom,
    /// Triton's TensorRT-LLM backend.
    TensorRtLlm {
        /// Number of processes, each with a GPU.
        ranks: u32,
        /// Model of the repository that receives requests.
        entry: EngineEntry,
    },
    /// A backend that serves the checkpoint as it is.
    NoBuild(NoBuildBackend),
}

/// The family of a model whose checkpoint TensorRT-LLM's tools convert, by the script that does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ModelFamily {
    /// Llama, Mistral and Mixtral.
    #[default]
    Llama,
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Phi-2.
    Phi,
    /// Phi-3, Phi-3.5 and Phi-4.
    Phi3,
    /// Gemma and Gemma 2.
    Gemma,
    /// Nemotron.
    Nemotron,
}

impl ModelFamily {
    /// Whether it is Llama's.
    #[must_use]
    pub fn is_llama(&self) -> bool {
        *self == Self::Llama
    }
}

/// What takes the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Triton. Its repository API loads models.
    Triton,
    /// The backend's own server. It has one model, and loads it before it answers.
    Own,
}

/// How requests are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As tokens, so that the client needs the tokenizer.
    Tokens,
    /// As text.
    Text(TextDialect),
}

/// How text is put to an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextDialect {
    /// Our own tensors: the names of TensorRT-LLM's ensemble without a batch dimension, and with the reason of the end.
    #[default]
    Text,
    /// The tensors of TensorRT-LLM's ensemble and BLS.
    Ensemble,
    /// The tensors of Triton's vLLM backend.
    Vllm,
    /// The tensors of TensorRT-LLM's `llmapi` model.
    LlmApi,
    /// JSON over HTTP, as vLLM's own server reads it.
    OpenAi,
    /// The same, as SGLang's server reads it.
    SgLang,
    /// The same, as TensorRT-LLM's server reads it.
    TrtLlm,
    /// The same, for a server of any make: what OpenAI's completions have, and nothing else.
    Completions,
    /// Messages and tools, as OpenAI's chat completions have them.
    Chat,
}

/// How [`ServedBy`] is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tensorrt_llm_ranks: Option<u32>,
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine")]
    tensorrt_llm_entry: EngineEntry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_build: Option<NoBuildBackend>,
}

impl EngineEntry {
    /// Whether it is the default, which is omitted when written.
    pub fn is_engine(&self) -> bool {
        *self == Self::Engine
    }

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "Engine",
            Self::Ensemble => "Ensemble",
            Self::BLS => "BLS",
        }
    }

    /// Name of the model that receives requests.
    pub const fn model(self) -> &'static str {
        match self {
            Self::Engine => ENGINE_MODEL,
            Self::Ensemble => "ensemble",
            Self::BLS => "tensorrt_llm_bls",
        }
    }

    /// Models that Triton loads, each before those that call it.
    pub const fn models(self) -> &'static [&'static str] {
        match self {
            Self::Engine => &[ENGINE_MODEL],
            Self::Ensemble => &["preprocessing", ENGINE_MODEL, "postprocessing", "ensemble"],
            Self::BLS => &["preprocessing", ENGINE_MODEL, "postprocessing", "tensorrt_llm_bls"],
        }
    }

    /// How requests are put.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Engine => Dialect::Tokens,
            Self::Ensemble | Self::BLS => Dialect::Text(TextDialect::Ensemble),
        }
    }
}

impl NoBuildBackend {
    /// Every backend without a build.
    pub const ALL: [Self; 5] =
        [Self::TensorRTLLMPyTorch, Self::TensorRTLLMPyTorchOpenAI, Self::VLLM, Self::VLLMOpenAI, Self::SGLang];

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TensorRTLLMPyTorch => "TensorRTLLMPyTorch",
            Self::TensorRTLLMPyTorchOpenAI => "TensorRTLLMPyTorchOpenAI",
            Self::VLLM => "VLLM",
            Self::VLLMOpenAI => "VLLMOpenAI",
            Self::SGLang => "SGLang",
        }
    }

    /// What takes the requests.
    pub const fn server(self) -> Server {
        match self {
            Self::TensorRTLLMPyTorch | Self::VLLM => Server::Triton,
            Self::TensorRTLLMPyTorchOpenAI | Self::VLLMOpenAI | Self::SGLang => Server::Own,
        }
    }

    /// How requests are put.
    pub const fn dialect(self) -> TextDialect {
        match self {
            Self::TensorRTLLMPyTorch => TextDialect::LlmApi,
            Self::TensorRTLLMPyTorchOpenAI => TextDialect::TrtLlm,
            Self::VLLM => TextDialect::Vllm,
            Self::VLLMOpenAI => TextDialect::OpenAi,
            Self::SGLang => TextDialect::SgLang,
        }
    }
}

impl ServedBy {
    /// Reads the three members that stand for it in the API.
    pub fn of(ranks: Option<u32>, entry: EngineEntry, no_build: Option<NoBuildBackend>) -> Self {
        match (no_build, ranks) {
            (Some(backend), _) => Self::NoBuild(backend),
            (None, Some(ranks)) => Self::TensorRtLlm { ranks, entry },
            (None, None) => Self::Custom,
        }
    }

    /// Number of processes that serve an engine of TensorRT-LLM.
    pub const fn ranks(self) -> Option<u32> {
        match self {
            Self::TensorRtLlm { ranks, .. } => Some(ranks),
            Self::Custom | Self::NoBuild(_) => None,
        }
    }

    /// Entry of an engine of TensorRT-LLM; the default with other backends.
    pub const fn entry(self) -> EngineEntry {
        match self {
            Self::TensorRtLlm { entry, .. } => entry,
            Self::Custom | Self::NoBuild(_) => EngineEntry::Engine,
        }
    }

    /// The backend, if nothing was built.
    pub const fn no_build(self) -> Option<NoBuildBackend> {
        match self {
            Self::NoBuild(backend) => Some(backend),
            Self::Custom | Self::TensorRtLlm { .. } => None,
        }
    }

    /// What takes the requests.
    pub const fn server(self) -> Server {
        match self {
            Self::Custom | Self::TensorRtLlm { .. } => Server::Triton,
            Self::NoBuild(backend) => backend.server(),
        }
    }

    /// How requests are put.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Custom => Dialect::Text(TextDialect::Text),
            Self::TensorRtLlm { entry, .. } => entry.dialect(),
            Self::NoBuild(backend) => Dialect::Text(backend.dialect()),
        }
    }

    /// Whether requests are put as tokens.
    pub const fn takes_tokens(self) -> bool {
        matches!(self.dialect(), Dialect::Tokens)
    }

    /// Name of the model that receives requests.
    pub const fn model(self) -> &'static str {
        match self {
            Self::Custom | Self::NoBuild(_) => MODEL,
            Self::TensorRtLlm { entry, .. } => entry.model(),
        }
    }

    /// Models that are loaded, in this order.
    pub const fn models(self) -> &'static [&'static str] {
        match self {
            Self::Custom | Self::NoBuild(_) => &[MODEL],
            Self::TensorRtLlm { entry, .. } => entry.models(),
        }
    }

    /// Model whose configuration gets the plan's settings: an engine itself, whatever calls it.
    pub const fn configured(self) -> &'static str {
        match self {
            Self::Custom | Self::NoBuild(_) => MODEL,
            Self::TensorRtLlm { .. } => ENGINE_MODEL,
        }
    }

    /// Whether the model is loaded once, when the server starts. Triton's API reaches one process: several load their
    /// engine when they start.
    pub const fn is_loaded_at_start(self) -> bool {
        match self {
            Self::TensorRtLlm { ranks, .. } => ranks > 1,
            Self::Custom | Self::NoBuild(_) => matches!(self.server(), Server::Own),
        }
    }
}

impl TextDialect {
    /// Whether it is our own, which is omitted when written.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the engine holds tokens to a schema, and gives their probabilities: engines' own servers do.
    pub const fn takes_formats(self) -> bool {
        match self {
            Self::OpenAi | Self::SgLang | Self::TrtLlm => true,
            Self::Vllm | Self::Text | Self::Ensemble | Self::LlmApi | Self::Completions | Self::Chat => false,
        }
    }
}

impl From<Written> for ServedBy {
    fn from(written: Written) -> Self {
        let Written { tensorrt_llm_ranks, tensorrt_llm_entry, no_build } = written;
        Self::of(tensorrt_llm_ranks, tensorrt_llm_entry, no_build)
    }
}

impl From<ServedBy> for Written {
    fn from(served_by: ServedBy) -> Self {
        Self {
            tensorrt_llm_ranks: served_by.ranks(),
            tensorrt_llm_entry: served_by.entry(),
            no_build: served_by.no_build(),
        }
    }
}

#[cfg(test)]
mod tests;
