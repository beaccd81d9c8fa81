//! Arguments that users add to the typed ones. Pure.
//!
//! `extraArgs` reaches options that this crate does not type. It never overrides a typed option: identity, memory
//! checks and the serving repository are derived from the typed ones, and would otherwise be of another engine.

use thiserror::Error;

/// Options that only the Job's own layout may set, or that make the tool do something else than build.
const RESERVED: [&str; 9] = [
    "--build_config",
    "--checkpoint_dir",
    "--dry_run",
    "--help",
    "--model_config",
    "--model_dir",
    "--output_dir",
    "--output_timing_cache",
    "--visualize_network",
];

/// Options that make ranks beyond tensor and pipeline parallelism. `world_size` is the product of all
/// (NVIDIA/TensorRT-LLM, examples/models/core/llama/convert_checkpoint.py at 368f8f2: `tp_size * pp_size * cp_size`),
/// and `--auto_parallel` chooses its own split (tensorrt_llm/commands/build.py at 42a7b09).
const RANKS: [&str; 2] = ["--auto_parallel", "--cp_size"];

/// Other spellings of options, from upstream's parsers.
const ALIASES: [(&str, &str); 3] = [
    ("--max_decoder_seq_len", "--max_seq_len"),
    ("--max_multimodal_len", "--max_prompt_embedding_table_size"),
    ("--paged_kv_cache", "--kv_cache_type"),
];

/// Why an extra argument is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtraError {
    /// Not an option where one is expected.
    #[error("{field}: {text:?} is not an option: write each as --name=value, or --name for a switch")]
    NotAnOption {
        /// Path of the list element.
        field: String,
        /// What was written.
        text: String,
    },
    /// Set by the Job.
    #[error("{field}: {option} belongs to the Job: remove it")]
    Reserved {
        /// Path of the list element.
        field: String,
        /// The option.
        option: String,
    },
    /// Splits the engine over GPUs that nobody counts.
    #[error(
        "{field}: {option} splits the engine beyond search.tensorParallel and search.pipelineParallel, by which its GPUs are counted: \
         remove it, and use these"
    )]
    Ranks {
        /// Path of the list element.
        field: String,
        /// The option.
        option: &'static str,
    },
    /// Set by a typed field to another value.
    #[error("{field}: {extra} contradicts {typed}, which a typed field sets: change that field and remove it here")]
    Contradiction {
        /// Path of the list element.
        field: String,
        /// What was written.
        extra: String,
        /// The argument in force.
        typed: String,
    },
}

/// Appends users' arguments to typed ones. What a typed option already says is left out.
///
/// `field` is the path of the list, such as `engine.tensorRTLLM.extraArgs.build`.
///
/// # Errors
/// An element is not an option, is reserved, or contradicts a typed option. As argparse takes unambiguous beginnings of
/// names for the whole, a beginning of a typed or reserved option counts as that option.
pub fn merge(typed: Vec<String>, extra: &[String], field: &str) -> Result<Vec<String>, ExtraError> {
    let mut merged = typed.clone();
    for (index, text) in extra.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name =
            option_name(text).ok_or_else(|| ExtraError::NotAnOption { field: field.clone(), text: text.clone() })?;
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, option)| option);
        if let Some(option) = RESERVED.iter().find(|option| option.starts_with(name)) {
            return Err(ExtraError::Reserved { field, option: (*option).to_owned() });
        }
        // One GPU is what the option has without being named.
        let is_one = text.split_once('=').is_some_and(|(_, value)| value == "1");
        if let Some(option) = RANKS.iter().find(|option| option.starts_with(name) && !is_one) {
            return Err(ExtraError::Ranks { field, option });
        }
        match typed.iter().find(|argument| option_name(argument).is_some_and(|option| option.starts_with(name))) {
            Some(argument) if argument == text => {}
            Some(argument) => {
                return Err(ExtraError::Contradiction { field, extra: text.clone(), typed: argument.clone() });
            }
            None => merged.push(text.clone()),
        }
    }
    Ok(merged)
}

/// The name of `--name` or `--name=value`.
pub(crate) fn option_name(argument: &str) -> Option<&str> {
    let name = argument.split('=').next().unwrap_or_default();
    let letters = name.strip_prefix("--")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (!letters.is_empty() && letters.bytes().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    const TYPED: [&str; 3] = ["--output_dir=/out", "--max_seq_len=4096", "--gemm_plugin=auto"];

    #[test]
    fn what_no_field_types_is_appended_and_what_one_says_already_is_left_out() {
        let extra =
            strings(&["--profiling_verbosity=detailed", "--gemm_plugin=auto", "--monitor_memory", "--cp_size=1"]);
        let merged = merge(strings(&TYPED), &extra, "engine.tensorRTLLM.extraArgs.build").unwrap();
        let expected = [&TYPED[..], &["--profiling_verbosity=detailed", "--monitor_memory", "--cp_size=1"]].concat();
        assert_eq!(merged, strings(&expected));
    }

    #[rstest]
    #[case(
        "--gemm_plugin=fp8",
        "--gemm_plugin=fp8 contradicts --gemm_plugin=auto, which a typed field sets: change that field and remove it here"
    )]
    #[case(
        "--max_decoder_seq_len=1",
        "--max_decoder_seq_len=1 contradicts --max_seq_len=4096, which a typed field sets: change that field and remove it here"
    )]
    #[case(
        "--gemm=fp8",
        "--gemm=fp8 contradicts --gemm_plugin=auto, which a typed field sets: change that field and remove it here"
    )]
    #[case("--out=/etc", "--output_dir belongs to the Job: remove it")]
    #[case(
        "--cp_size=2",
        "--cp_size splits the engine beyond search.tensorParallel and search.pipelineParallel, by which its GPUs are counted: \
         remove it, and use these"
    )]
    #[case(
        "--auto_par=8",
        "--auto_parallel splits the engine beyond search.tensorParallel and search.pipelineParallel, by which its GPUs are counted: \
         remove it, and use these"
    )]
    #[case("--dry_run", "--dry_run belongs to the Job: remove it")]
    #[case("; rm -rf /", "\"; rm -rf /\" is not an option: write each as --name=value, or --name for a switch")]
    #[case("--", "\"--\" is not an option: write each as --name=value, or --name for a switch")]
    fn a_contradiction_names_the_element(#[case] extra: &str, #[case] message: &str) {
        let error = merge(strings(&TYPED), &strings(&["--strip_plan", extra]), "extraArgs.build").unwrap_err();
        assert_eq!(error.to_string(), format!("extraArgs.build[1]: {message}"));
    }
}
