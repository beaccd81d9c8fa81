//! What the tools of the build flow take, typed by hand from upstream's sources. Pure.
//!
//! A value that cannot be spelled wrongly is an enum; an option that a version lacks is refused when the arguments are
//! rendered. Options whose defaults changed between versions (`--tokens_per_block` 64 to 32, `--use_paged_context_fmha`
//! and `--use_fp8_context_fmha` from disable to enable, `--gemm_plugin` from disable to unset) are fields without a
//! default. They are always passed, as are `--kv_cache_type` and `--output_timing_cache`, which otherwise lands in the
//! working folder.
//!
//! Between 0.17 and 0.20 upstream's exact build options were not read: only what 0.16 and 0.21 share is passed there.

mod build;
mod convert;
mod quantize;
mod words;

pub use build::{BuildOptions, Lora, LoraSource, Speculation};
pub use convert::{ConvertOptions, SmoothQuant, WeightOnly};
pub use quantize::QuantizeOptions;
pub use words::{
    Calibration, GemmPlugin, KvCacheType, PluginDtype, QuantFormat, QuantKvCache, SpeculativeMode, Toggle,
};

use thiserror::Error;

use crate::tensorrt_llm::version::Version;

/// Why options cannot become arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// The version's tool has no such option or word.
    #[error("{option} needs TensorRT-LLM {since} or later, not {version}: leave it out or choose a later version")]
    Since {
        /// The option, with its word where the word is new.
        option: String,
        /// The first version known to have it.
        since: Version,
        /// The version asked for.
        version: Version,
    },
    /// Upstream's tool refuses the combination.
    #[error("{first} does not go with {second}: {why}")]
    Conflict {
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// What upstream does.
        why: &'static str,
    },
}

/// Fails unless the version is known to have an option.
fn since(option: &str, version: Version, since: Version) -> Result<(), OptionError> {
    if version >= since { Ok(()) } else { Err(OptionError::Since { option: option.to_owned(), since, version }) }
}

/// Arguments in the making: `--name=value`, as upstream's own tests write them.
#[derive(Debug, Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn value(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.0.push(format!("{name}={}", value.to_string()));
        self
    }

    fn optional(&mut self, name: &str, value: Option<impl ToString>) -> &mut Self {
        if let Some(value) = value {
            self.value(name, value);
        }
        self
    }

    fn flags<const N: usize>(&mut self, flags: [(&str, bool); N]) -> &mut Self {
        self.0.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
        self
    }

    /// An option that takes several words: `--name a b`.
    fn list(&mut self, name: &str, values: &[String]) -> &mut Self {
        if !values.is_empty() {
            self.0.push(name.to_owned());
            self.0.extend(values.iter().cloned());
        }
        self
    }
}
