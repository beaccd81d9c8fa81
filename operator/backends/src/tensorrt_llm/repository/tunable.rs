//! Parameters of `tensorrt_llm` that Triton reads when it loads the engine: their values are compared without a new
//! build.

use thiserror::Error;

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// One of upstream's words.
    Words(&'static [&'static str]),
    /// A whole number from 1.
    Number,
    /// A part of the whole, more than 0 and less than 1.
    Share,
}

const SWITCH: Takes = Takes::Words(&["true", "false"]);

/// In the templates of every release from 0.15 to 1.2. What a field of `engine.tensorRTLLM` stands for is not among
/// them.
const TUNABLE: [(&str, Takes); 10] = [
    ("batch_scheduler_policy", Takes::Words(&["guaranteed_no_evict", "max_utilization"])),
    ("kv_cache_free_gpu_mem_fraction", Takes::Share),
    ("max_tokens_in_paged_kv_cache", Takes::Number),
    ("kv_cache_host_memory_bytes", Takes::Number),
    ("max_attention_window_size", Takes::Number),
    ("sink_token_length", Takes::Number),
    ("multi_block_mode", SWITCH),
    ("cuda_graph_mode", SWITCH),
    ("cuda_graph_cache_size", Takes::Number),
    ("enable_context_fmha_fp32_acc", SWITCH),
];

/// Why a parameter cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TunableError {
    /// It is unknown, or it needs a new engine, or a field of the spec sets it.
    #[error("{name} is not a parameter that an engine reads when it is loaded; use one of {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// A value that the backend does not take.
    #[error("{name} takes {takes}, not {value}")]
    Value {
        /// The name.
        name: &'static str,
        /// What it takes.
        takes: String,
        /// The value.
        value: String,
    },
}

/// Checks a parameter and its value.
///
/// # Errors
/// The backend would ignore the parameter, or end when it reads the value.
pub fn check_tunable(name: &str, value: &str) -> Result<(), TunableError> {
    let Some((name, takes)) = TUNABLE.into_iter().find(|(known, _)| *known == name) else {
        let known = TUNABLE.map(|(known, _)| known).join(", ");
        return Err(TunableError::Unknown { name: name.to_owned(), known });
    };
    let (is_taken, words) = match takes {
        Takes::Words(words) => (words.contains(&value), words.join(" or ")),
        Takes::Number => (value.parse::<u64>().is_ok_and(|number| number > 0), "a whole number from 1".to_owned()),
        Takes::Share => (
            value.parse::<f64>().is_ok_and(|share| share > 0.0 && share < 1.0),
            "a share between 0 and 1, as in 0.85".to_owned(),
        ),
    };
    if is_taken { Ok(()) } else { Err(TunableError::Value { name, takes: words, value: value.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    /// A parameter that a template lacks would be written beside it and read by nobody.
    #[test]
    fn every_release_has_a_place_for_every_parameter() {
        let releases: Value = serde_json::from_str(include_str!("../../../tests/data/placeholders.json")).unwrap();
        for (release, models) in releases.as_object().unwrap() {
            let names = models["tensorrt_llm"]["quoted"].as_array().unwrap();
            let absent: Vec<_> = TUNABLE.iter().filter(|(name, _)| !names.contains(&Value::from(*name))).collect();
            assert_eq!(absent, Vec::<&(&str, Takes)>::new(), "{release}");
        }
    }

    #[rstest]
    #[case("batch_scheduler_policy", "max_utilization")]
    #[case("kv_cache_free_gpu_mem_fraction", "0.85")]
    #[case("max_tokens_in_paged_kv_cache", "100000")]
    #[case("cuda_graph_mode", "true")]
    fn what_the_backend_takes_is_admitted(#[case] name: &str, #[case] value: &str) {
        assert_eq!(check_tunable(name, value), Ok(()));
    }

    #[rstest]
    #[case(
        "batch_scheduler_policy",
        "fair",
        "batch_scheduler_policy takes guaranteed_no_evict or max_utilization, not fair"
    )]
    #[case(
        "kv_cache_free_gpu_mem_fraction",
        "90",
        "kv_cache_free_gpu_mem_fraction takes a share between 0 and 1, as in 0.85, not 90"
    )]
    #[case("sink_token_length", "0", "sink_token_length takes a whole number from 1, not 0")]
    #[case(
        "enable_kv_cache_reuse",
        "true",
        "enable_kv_cache_reuse is not a parameter that an engine reads when it is loaded; use one of \
         batch_scheduler_policy, kv_cache_free_gpu_mem_fraction, max_tokens_in_paged_kv_cache, \
         kv_cache_host_memory_bytes, max_attention_window_size, sink_token_length, multi_block_mode, cuda_graph_mode, \
         cuda_graph_cache_size, enable_context_fmha_fp32_acc"
    )]
    fn what_it_does_not_take_says_what_it_does(#[case] name: &str, #[case] value: &str, #[case] message: &str) {
        assert_eq!(check_tunable(name, value).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}
