//! `check` and `init` as they are called: files, flags, and what is wrong with them.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use clap::Parser;
use kubectl_slipway::{
    init::InitArgs,
    offline::{self, CheckArgs},
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::failure::chain;

#[derive(Parser)]
enum Line {
    Check(CheckArgs),
    Init(Box<InitArgs>),
}

/// What a command line prints, and how it ends.
fn told(words: &[&str]) -> (String, String) {
    let line = Line::try_parse_from(["kubectl-slipway"].iter().chain(words)).unwrap();
    let mut out = Vec::new();
    let end = match line {
        Line::Check(args) => offline::check(&args, &mut out),
        Line::Init(args) => offline::init(&args, Some("team"), &mut out),
    };
    (String::from_utf8(out).unwrap(), end.map_or_else(|error| chain(&error), |()| "0".to_owned()))
}

fn example() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("docs/examples/no-build-vllm.yaml").display().to_string()
}

/// A folder of a checkpoint with these files.
fn checkpoint(name: &str, files: &[(&str, &str)]) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
    folder.display().to_string()
}

const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 131072}"#;
const SHAPE: &str = "hidden_size=4096,num_hidden_layers=32,num_attention_heads=32,num_key_value_heads=8,\
                     intermediate_size=14336,vocab_size=128256,max_position_embeddings=131072,architectures=LlamaForCausalLM";

#[test]
fn a_shape_is_read_from_a_file_a_folder_or_a_flag() {
    let folder = checkpoint("plain", &[("config.json", LLAMA)]);
    let file = format!("{folder}/config.json");
    let answers = [["--config", &folder], ["--config", &file], ["--shape", SHAPE]]
        .map(|model| told(&["check", "-f", &example(), model[0], model[1]]));
    assert!(answers[0].0.contains("bf16-b16   15.0"), "{}", answers[0].0);
    assert_eq!((&answers[0], &answers[0], "0"), (&answers[1], &answers[2], answers[0].1.as_str()));
}

#[test]
fn a_checkpoint_whose_weights_are_quantized_is_known_by_its_second_file() {
    let quantized = r#"{"quantization": {"quant_algo": "FP8"}}"#;
    let folder = checkpoint("quantized", &[("config.json", LLAMA), ("hf_quant_config.json", quantized)]);
    let (text, end) = told(&["check", "-f", &example(), "--config", &folder]);
    assert!(text.contains("spec.search.precision[0]: the checkpoint is quantized as FP8"), "{text}");
    assert_eq!(end, "failed to check: 1 of 1 objects would be refused");
}

#[rstest]
#[case::no_field(&["--shape", "hidden_size=4096"],
    "--shape is not one: config.json lacks num_attention_heads (a positive integer), without which memory and \
     parallelism cannot be planned")]
#[case::no_value(&["--shape", "hidden_size"],
    "--shape \"hidden_size\" is not a field of config.json with its value: write them as hidden_size=4096")]
#[case::no_file(&["--config", "/nowhere/config.json"],
    "failed to read /nowhere/config.json: No such file or directory (os error 2)")]
fn a_model_that_cannot_be_read_says_which_flag_is_wrong(#[case] model: &[&str], #[case] expected: &str) {
    let example = example();
    let words: Vec<&str> = ["check", "-f", &example].into_iter().chain(model.iter().copied()).collect();
    assert_eq!(told(&words), (String::new(), expected.to_owned()));
}

#[test]
fn a_first_manifest_has_the_namespace_that_is_asked_for() {
    let (manifest, end) = told(&["init", "--model", "hf://a/model", "--gpu", "h100"]);
    assert!(manifest.contains("metadata:\n  name: model\n  namespace: team\nspec:\n"), "{manifest}");
    assert_eq!(end, "0");
}

#[test]
fn a_first_manifest_that_cannot_be_written_prints_nothing() {
    let expected = "failed to write a manifest: --gpu is missing: backend VLLM plans engines for one GPU model; \
                    `kubectl get nodes -L nvidia.com/gpu.product` shows yours";
    assert_eq!(told(&["init", "--model", "hf://a/model"]), (String::new(), expected.to_owned()));
}
