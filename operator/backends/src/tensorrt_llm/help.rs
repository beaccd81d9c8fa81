//! Whether a tool takes what it is about to be given, from its `--help`. Pure.
//!
//! The typed options follow upstream's sources; the image has the last word. One `--help` before the step costs
//! seconds, an unknown option after the weights were loaded costs GPU time. Words are checked where the help lists them
//! as `{a,b}`.

use std::collections::BTreeMap;

use thiserror::Error;

use super::extra::option_name;

/// What a tool's help does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Missing {
    /// An option.
    #[error("the image's tool has no option {0}")]
    Option(String),
    /// A word of an option.
    #[error("the image's tool does not take {word} for {option}, only {known}")]
    Word {
        /// The option.
        option: String,
        /// The word.
        word: String,
        /// Words that it takes.
        known: String,
    },
    /// Not a help text.
    #[error("the image's tool printed no help: {0}")]
    NoHelp(String),
}

/// Finds what a help text lacks of the arguments behind the program.
#[must_use]
pub fn missing(help: &str, arguments: &[String]) -> Vec<Missing> {
    let options = options(help);
    if options.is_empty() {
        return vec![Missing::NoHelp(super::failure::last_line(help).to_owned())];
    }
    arguments.iter().filter_map(|argument| lacks(&options, argument)).collect()
}

fn lacks(options: &BTreeMap<String, Vec<String>>, argument: &str) -> Option<Missing> {
    let option = option_name(argument)?;
    let Some(words) = options.get(option) else {
        return Some(Missing::Option(option.to_owned()));
    };
    let (_, word) = argument.split_once('=')?;
    let is_known = words.is_empty() || words.iter().any(|known| known == word);
    (!is_known).then(|| Missing::Word { option: option.to_owned(), word: word.to_owned(), known: words.join(", ") })
}

/// Every option that starts a line of the help or follows another on it, with the words in braces behind it.
fn options(help: &str) -> BTreeMap<String, Vec<String>> {
    let mut options = BTreeMap::new();
    for line in help.lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
        // Behind two blanks argparse explains; what is named there need not exist.
        let signature = line.split("  ").next().unwrap_or_default();
        let words = signature.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(words, _)| words);
        let words: Vec<String> =
            words.iter().flat_map(|words| words.split(',')).map(|word| word.trim().to_owned()).collect();
        let names = signature.split([' ', ',', '=']).filter(|name| name.starts_with("--"));
        options.extend(names.map(|name| (name.to_owned(), words.clone())));
    }
    options
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const HELP: &str = "usage: quantize.py [-h] [--model_dir MODEL_DIR] [--qformat {fp8,int4_awq}]

options:
  -h, --help            show this help message and exit
  --model_dir MODEL_DIR
                        Model path, not --ckpt_dir
  --qformat {fp8,int8_sq,int4_awq}
                        Quantization format.
  --smoothquant SMOOTHQUANT, -sq SMOOTHQUANT
  --max_seq_len, --max_decoder_seq_len MAX_SEQ_LEN  Longest; see --gone
";

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn what_the_help_lists_is_not_missing() {
        let arguments =
            strings(&["--model_dir=/m", "--qformat=fp8", "--smoothquant=0.5", "--max_decoder_seq_len=8", "word"]);
        assert_eq!(missing(HELP, &arguments), []);
    }

    #[test]
    fn options_and_words_that_the_help_lacks_are_named() {
        let arguments = strings(&["--qformat=nvfp4", "--ckpt_dir=/c", "--gone"]);
        let found: Vec<String> = missing(HELP, &arguments).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "the image's tool does not take nvfp4 for --qformat, only fp8, int8_sq, int4_awq",
                "the image's tool has no option --ckpt_dir",
                "the image's tool has no option --gone",
            ]
        );
    }

    #[test]
    fn a_tool_that_fails_has_no_help() {
        let output = "Traceback (most recent call last):\nImportError: libcuda.so.1: cannot open shared object file\n";
        let message = missing(output, &strings(&["--x"]))[0].to_string();
        assert_eq!(
            message,
            "the image's tool printed no help: ImportError: libcuda.so.1: cannot open shared object file"
        );
    }
}
