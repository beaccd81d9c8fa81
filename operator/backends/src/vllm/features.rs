//! Features of vLLM beyond serving a checkpoint: their arguments, the versions that know them, and what contradicts
//! them. Pure.
//!
//! Sources are vllm-project/vllm at 0.25.0: vllm/config/speculative.py (`prompt_lookup_min` may not exceed
//! `prompt_lookup_max`), vllm/config/cache.py (`kv_offloading_size`: GiB over all ranks), vllm/config/vllm.py
//! (`_post_init_kv_transfer_config`) and vllm/config/structured_outputs.py (`disable_any_whitespace`).

use serde_json::{Map, Value, json};

use crate::check::{Asked, Problem, Refusal};
use crate::memory::{Estimate, GIB};
use crate::no_build::numbers;

/// Features of an engine; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Speculation by n-grams.
    pub speculation: Option<Speculation>,
    /// GiB of host memory that hold KV cache.
    pub offload_gib: Option<u32>,
    /// What holds answers to a schema.
    pub structured: Option<Structured>,
    /// The adapter that answers; only with vLLM's own server.
    pub lora: Option<Lora>,
}

impl Features {
    /// Adds what features take of each GPU to what an engine takes that runs so many sequences with a vocabulary:
    /// logits in FP32 of every guess.
    ///
    /// vLLM 0.25.0 had 0.47 GiB less for the KV cache with four guesses for each of 256 sequences, and a vocabulary of
    /// 128,256. These logits are 0.49 GiB.
    #[must_use]
    pub fn on_top(&self, sizes: Estimate, (sequences, vocabulary): (u32, u32)) -> Estimate {
        let guesses = f64::from(self.speculation.as_ref().map_or(0, |of| of.tokens)) * f64::from(sequences);
        Estimate { activations: sizes.activations + 4.0 * guesses * f64::from(vocabulary), ..sizes }
    }
}

/// Speculation by n-grams of the sequence itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speculation {
    /// Tokens guessed at once.
    pub tokens: u32,
    /// Fewest tokens that must match.
    pub min_match: u32,
    /// Most tokens that are looked for.
    pub max_match: u32,
}

/// An adapter of LoRA in a folder of the checkpoint. What it takes of a GPU is not estimated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lora {
    /// The folder.
    pub folder: String,
    /// The adapter's rank.
    pub rank: u32,
}

impl Lora {
    /// The options of vLLM's own server under which the adapter answers to a name, and that of the model alone. They
    /// are those of `e2e/gpu/features.py`, which vLLM 0.25.0 took.
    pub(super) fn options(&self, name: &str, checkpoint: &str) -> (Map<String, Value>, String) {
        let module = json!({"name": name, "path": format!("{checkpoint}/{}", self.folder)});
        let max_rank = MAX_RANKS.iter().find(|most| **most >= self.rank).copied().unwrap_or(self.rank);
        let options = [
            ("enable_lora", json!(true)),
            ("max_loras", json!(1)),
            ("max_lora_rank", json!(max_rank)),
            ("lora_modules", json!([module.to_string()])),
        ];
        (options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), format!("{name}-base"))
    }
}

/// Values of `max_lora_rank` (vllm-project/vllm, vllm/config/lora.py at v0.26.0: `MaxLoRARanks`, without 1 and 320).
const MAX_RANKS: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];

/// What holds answers to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structured {
    /// The library.
    pub grammar: Grammar,
    /// Whether the spaces between parts of JSON are fixed.
    pub is_compact: bool,
}

/// A library that knows which tokens may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// xgrammar.
    XGrammar,
    /// llguidance.
    Guidance,
    /// outlines-core.
    Outlines,
}

impl Grammar {
    const fn word(self) -> &'static str {
        match self {
            Self::XGrammar => "xgrammar",
            Self::Guidance => "guidance",
            Self::Outlines => "outlines",
        }
    }

    const fn writes_compactly(self) -> bool {
        match self {
            Self::XGrammar | Self::Guidance => true,
            Self::Outlines => false,
        }
    }
}

/// A field of `engine.vllm`, and the first version whose argument for it is known.
type Since = (&'static str, &'static str, [u16; 3]);

/// `speculative_config` as one object; what older versions take has not been looked up.
const SPECULATION: Since = ("ngramSpeculation", "0.9.0", [0, 9, 0]);
/// `kv_offloading_size`: older than pull request 32421, which made `native` its backend by default.
const OFFLOAD: Since = ("kvOffload", "0.14.0", [0, 14, 0]);
/// `structured_outputs_config` took the place of `guided_decoding_backend` (pull request 22772).
const STRUCTURED: Since = ("structuredOutputs", "0.11.0", [0, 11, 0]);

/// A list of JSON in a file of options: before 0.10.2 such a list was written as Python has it (pull request 23528).
const LORA: Since = ("lora", "0.11.0", [0, 11, 0]);

fn field(name: &str) -> String {
    format!("engine.vllm.{name}")
}

/// Adds the arguments of `AsyncEngineArgs` that turn features on.
pub fn add(features: &Features, arguments: &mut Map<String, Value>) {
    if let Some(Speculation { tokens, min_match, max_match }) = features.speculation {
        let config = json!({
            "method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_min": min_match, "prompt_lookup_max": max_match,
        });
        arguments.insert("speculative_config".to_owned(), config);
    }
    if let Some(gib) = features.offload_gib {
        arguments.insert("kv_offloading_size".to_owned(), gib.into());
        arguments.insert("kv_offloading_backend".to_owned(), "native".into());
    }
    if let Some(Structured { grammar, is_compact }) = features.structured {
        let mut config = Map::from_iter([("backend".to_owned(), grammar.word().into())]);
        if is_compact {
            config.insert("disable_any_whitespace".to_owned(), true.into());
        }
        arguments.insert("structured_outputs_config".to_owned(), config.into());
    }
}

/// What speaks against features; `host_memory` is the limit of the pod's container in bytes, if it has one.
pub fn refusals(asked: &Asked, features: &Features, host_memory: Option<u64>) -> Vec<Refusal> {
    let named = [
        (features.speculation.is_some(), SPECULATION),
        (features.offload_gib.is_some(), OFFLOAD),
        (features.structured.is_some(), STRUCTURED),
        (features.lora.is_some(), LORA),
    ];
    let version = &asked.version;
    let is_too_old = |first: [u16; 3]| numbers(version).is_some_and(|numbers| numbers < first);
    let too_old = named.into_iter().filter(|(is_named, (_, _, first))| *is_named && is_too_old(*first));
    let too_old = too_old.map(|(_, (name, since, _))| {
        Refusal::new(field(name), Problem::FeatureVersion { version: version.clone(), since })
    });
    let matches = features.speculation.filter(|of| of.min_match > of.max_match).map(|of| {
        let problem = Problem::Matches { least: of.min_match, most: of.max_match };
        Refusal::new(field("ngramSpeculation.minMatch"), problem)
    });
    let compact = features.structured.filter(|of| of.is_compact && !of.grammar.writes_compactly());
    let compact = compact.map(|_| Refusal::new(field("structuredOutputs.compact"), Problem::Compact));
    too_old.chain(matches).chain(compact).chain(too_much_memory(features, host_memory)).collect()
}

/// vLLM pins the whole cache when it starts: a container whose limit it exceeds is killed, and started again for ever.
fn too_much_memory(features: &Features, host_memory: Option<u64>) -> Option<Refusal> {
    let (gib, limit) = (features.offload_gib?, host_memory? as f64 / GIB);
    (f64::from(gib) >= limit)
        .then(|| Refusal::new(field("kvOffload.hostMemoryGib"), Problem::HostMemory { cache: gib, limit: GIB * limit }))
}

#[cfg(test)]
mod tests;
