//! `kubectl slipway init`: manifests that the API server accepts, and flags that say what is wrong with them.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use clap::Parser;
use kubectl_slipway::{
    check::{File, check, text},
    init::{InitArgs, Options, manifest},
};
use pretty_assertions::assert_eq;
use rstest::rstest;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: InitArgs,
}

/// The manifest of a command line, or what is wrong with it.
fn written(line: &str) -> Result<String, String> {
    let words = std::iter::once("init").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    Options::of(&line.args, None).map(|options| manifest(&options)).map_err(|error| error.to_string())
}

/// What `check` says against a manifest; empty if it accepts it.
fn refused(manifest: &str) -> String {
    let files = [File { name: "agent.yaml".to_owned(), text: manifest.to_owned() }];
    let checked = check(&files, None).unwrap();
    if checked.verdict(&files).is_ok() { String::new() } else { text(&checked) }
}

/// The manifest with its blocks of commented YAML: a comment for people has one space behind its sign.
fn uncommented(manifest: &str) -> String {
    let line = |line: &str| match line.split_once('#') {
        Some((before, after)) if before.trim().is_empty() && is_yaml(after) => format!("{before}{after}\n"),
        Some(_) | None => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

fn is_yaml(comment: &str) -> bool {
    !comment.starts_with(' ') || comment.starts_with("  ")
}

const LLAMA: &str = "--model hf://meta-llama/Llama-3.1-8B-Instruct --gpu h100";

#[test]
fn a_first_manifest_explains_itself() {
    insta::assert_snapshot!("first", written(&format!("{LLAMA} --slo p95=2s")).unwrap());
}

#[test]
fn every_flag_has_its_place() {
    let line = format!(
        "lab {LLAMA} --gpus 2 --backend tensorrtllm --version 1.2.0 --precision BF16,FP8 --max-seq-len 4096 --slo p95=2s --slo \
         TimeToFirstToken:p99.9=500ms --slo errorRate=1% --slo throughput=1.5 --trace traffic --calibration texts/lines.jsonl --secret hub --replicas 3"
    );
    insta::assert_snapshot!("every_flag", written(&line).unwrap());
}

#[rstest]
fn every_manifest_is_accepted_and_also_with_what_it_proposes_in_comments(
    #[values(
        "",
        "--backend VLLM --version 0.11.0",
        "--backend SGLang",
        "--backend TensorRTLLM",
        "--backend TensorRTLLM --precision FP8 --calibration texts",
        "--backend TensorRTLLMPyTorch",
        "--backend Custom --builder-image builder:1 --triton-image triton:1"
    )]
    backend: &str,
    #[values(
        "",
        "--slo p95=2s",
        "--slo RequestLatency:p50=500ms --slo errorRate=0.5%",
        "--trace traffic/runs.jsonl --slo p95=2s --slo throughput=2"
    )]
    objectives: &str,
    #[values("", "--replicas 4 --gpus 2 --max-seq-len 32768 --secret hugging-face", "name-of-my-own --replicas 0")]
    rest: &str,
) {
    let manifest = written(&format!("{rest} {LLAMA} {backend} {objectives}")).unwrap();
    assert_eq!(refused(&manifest), "", "{manifest}");
    assert_eq!(refused(&uncommented(&manifest)), "", "{}", uncommented(&manifest));
}

#[rstest]
#[case("--model pvc://models/llama --gpu NVIDIA-L40S", "llama", "NVIDIA-L40S")]
#[case("--model https://host/models/Qwen3_8B/ --gpu l4", "qwen3-8b", "NVIDIA-L4")]
#[case("--model hf://Qwen/Qwen3-8B@main --gpu T4", "qwen3-8b", "Tesla-T4")]
#[case(
    "--model hf://a/7b.Model-of-a-name-that-is-much-too-long-for-a-label --gpu h100",
    "b-model-of-a-name-that-is-much-too-long",
    "NVIDIA-H100-80GB-HBM3"
)]
fn a_name_is_made_of_the_models_and_a_label_of_the_gpus(#[case] line: &str, #[case] name: &str, #[case] label: &str) {
    let manifest = written(line).unwrap();
    assert_eq!(refused(&manifest), "");
    assert!(manifest.contains(&format!("  name: {name}\n")), "{manifest}");
    assert!(manifest.contains(&format!("nvidia.com/gpu.product: {label}}}")), "{manifest}");
}

#[test]
fn an_engine_of_ones_own_needs_no_gpu() {
    let manifest = written("--model hf://a/b --backend Custom --builder-image b --triton-image t").unwrap();
    assert_eq!((refused(&manifest).as_str(), manifest.contains("nvidia.com")), ("", false));
}

#[test]
fn a_gpu_without_bf16_is_proposed_fp16() {
    assert!(written("--model hf://a/b --gpu t4").unwrap().contains("#precision: [FP16]"));
}

#[rstest]
#[case("--model llama --gpu h100", "--model \"llama\" is not a reference to a checkpoint: write hf://")]
#[case("--model hf://a/b", "--gpu is missing: backend VLLM plans engines for one GPU model")]
#[case("--model hf://a/b --gpu h1000", "--gpu \"h1000\" is not a GPU whose figures are known (a10, ")]
#[case(
    "--model hf://a/b --gpu NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "--gpu \"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb\" is the MIG slice 1g.5gb of a GPU"
)]
#[case("--model hf://a/b --gpu h100 --gpus 9", "--gpus 9 is out of range: write 1 to 8")]
#[case("--model hf://a/b --gpu h100 --version 0.1.0", "--version 0.1.0: 0.1.0 is older than 0.9.0")]
#[case("--model hf://a/b --gpu h100 --backend TensorRTLLM --version 1.3.0", "--version 1.3.0: 1.3.0 no longer builds")]
#[case("--model hf://a/b --gpu h100 --precision FP32", "--precision \"FP32\" is not one of backend VLLM: write one")]
#[case("--model hf://a/b --gpu h100 --precision FP8,FP8", "--precision takes up to four different formats: FP8,FP8")]
#[case("--model hf://a/b --gpu h100 --backend TensorRTLLM --precision FP8", "--precision FP8 needs texts to calibrate")]
#[case("--model hf://a/b --gpu h100 --calibration texts", "--calibration has no effect with backend VLLM: remove it")]
#[case("--model hf://a/b --gpu h100 --slo p95", "--slo \"p95\": write PERCENTILE=DURATION such as p95=2s")]
#[case("--model hf://a/b --gpu h100 --slo p95=2s --slo p95=3s", "--slo \"p95=3s\" bounds what another one bounds")]
#[case("--model hf://a/b --gpu h100 --slo throughput=2", "--slo \"throughput=2\" requires measurements: name recorded")]
#[case("--model hf://a/b --gpu h100 --trace My/Key", "--trace \"My/Key\" is not a ConfigMap: write CONFIGMAP")]
#[case("--model hf://a/b --gpu h100 --secret My_Secret", "--secret \"My_Secret\" is not the name of a Secret")]
#[case("1st --model hf://a/b --gpu h100", "NAME \"1st\" names Services: write at most 40 lowercase letters")]
#[case("--model hf://a/77 --gpu h100", "no name can be made of hf://a/77: write one behind `init`")]
#[case("--model hf://a/b --backend Custom", "--builder-image is missing: backend Custom builds and serves with images")]
#[case("--model hf://a/b --gpu h100 --triton-image t", "--triton-image has no effect with another backend than Custom")]
fn a_flag_that_does_not_fit_is_named_with_the_remedy(#[case] line: &str, #[case] message: &str) {
    let error = written(line).unwrap_err();
    assert!(error.starts_with(message), "{error}");
}

#[test]
fn a_backend_that_does_not_exist_is_answered_with_those_that_do() {
    let error = written("--model hf://a/b --gpu h100 --backend triton").unwrap_err();
    assert!(error.contains("'--backend <BACKEND>'") && error.contains("VLLM, SGLang, TensorRTLLM"), "{error}");
}
