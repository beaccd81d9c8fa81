//! The arguments that this crate makes are read by real argparse parsers, made of upstream's tables.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Map, Value, json};
use slipway_backends::formats::{Dtype, KvCachePrecision, Parallelism, Precision};
use slipway_backends::tensorrt_llm::family::ModelFamily;
use slipway_backends::tensorrt_llm::options::{
    BuildOptions, Calibration, ConvertOptions, GemmPlugin, QuantFormat, QuantKvCache, QuantizeOptions, SmoothQuant,
    Toggle, WeightOnly,
};
use slipway_backends::tensorrt_llm::recipe::{
    Command, EngineRequest, ExtraArguments, Folders, RecipeError, Tool, commands, gemm_plugin,
};
use slipway_backends::tensorrt_llm::version::{RELEASES, Release, Version, find};

mod upstream;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Arguments for one parser.
struct Case {
    tool: &'static str,
    version: &'static str,
    argv: Vec<String>,
}

/// What the parser made of each: every option's value, or its error.
fn parse(cases: &[Case]) -> Vec<Result<Map<String, Value>, String>> {
    let mut python = Process::new("python3")
        .arg(folder().join("argparse_check.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs: the tests check arguments with its argparse");
    let lines: Vec<String> = cases
        .iter()
        .map(|Case { tool, version, argv }| json!({"tool": tool, "version": version, "argv": argv}).to_string())
        .collect();
    let mut input = python.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || input.write_all((lines.join("\n") + "\n").as_bytes()));
    let output = python.wait_with_output().expect("python3 ends");
    writer.join().expect("the writer ends").expect("python3 reads its input");
    assert!(output.status.success(), "argparse_check.py failed");
    let text = String::from_utf8(output.stdout).expect("the answers are text");
    let answers: Vec<_> = text.lines().map(answer).collect();
    assert_eq!(answers.len(), cases.len(), "one answer a case");
    answers
}

fn answer(line: &str) -> Result<Map<String, Value>, String> {
    let answer: Value = serde_json::from_str(line).expect("an answer is JSON");
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer["values"].as_object().expect("values are an object").clone()),
    }
}

/// The tables that a version's arguments must satisfy: both neighbours' where upstream's own was not read.
fn tables(tool: Tool, version: Version) -> (&'static str, Vec<&'static str>) {
    let line = |major, minor| version.is_at_least(major, minor);
    let newest = match () {
        () if line(1, 2) => "1.2.0",
        () if line(1, 1) => "1.1.0",
        () => "1.0.0",
    };
    match tool {
        Tool::Convert if line(1, 0) => ("convert", vec!["1.0.0"]),
        Tool::Convert if line(0, 17) => ("convert", vec!["0.15.0", "1.0.0"]),
        Tool::Convert => ("convert", vec!["0.15.0"]),
        Tool::Build if line(1, 0) => ("build", vec![newest]),
        Tool::Build if line(0, 21) => ("build", vec!["0.21.0"]),
        Tool::Build if line(0, 17) => ("build", vec!["0.16.0", "0.21.0"]),
        Tool::Build => ("build", vec!["0.16.0"]),
        Tool::Quantize if line(1, 0) => ("quantize", vec![newest]),
        Tool::Quantize if line(0, 21) => ("quantize", vec!["0.21.0"]),
        Tool::Quantize if line(0, 19) => ("quantize", vec!["0.19.0", "0.20.0"]),
        Tool::Quantize if line(0, 17) => ("quantize", vec!["0.17.0"]),
        Tool::Quantize => ("quantize", vec!["0.16.0"]),
    }
}

fn folders() -> Folders {
    let text = |text: &str| text.to_owned();
    Folders { examples: text("/app/examples"), model: text("/model"), work: text("/work"), engine: text("/engine") }
}

fn engine(release: Release, precision: Precision) -> EngineRequest {
    let calibration = Calibration { dataset: "/calibration".into(), samples: 256, max_tokens: 1024 };
    EngineRequest {
        release,
        family: ModelFamily::Llama,
        is_prequantized: false,
        precision,
        kv_cache: KvCachePrecision::Auto,
        dtype: Dtype::Bfloat16,
        parallelism: Parallelism::SINGLE,
        calibration: Some(calibration),
        build: BuildOptions {
            max_batch_size: Some(64),
            max_seq_len: Some(8192),
            max_num_tokens: Some(8192),
            gemm_plugin: gemm_plugin(precision),
            ..BuildOptions::new("", "")
        },
        gpus: 1,
        extra: ExtraArguments::default(),
    }
}

/// Every release with every precision, KV cache, split and set of options that goes together.
fn covering_set() -> Vec<EngineRequest> {
    let mut requests = Vec::new();
    for release in RELEASES {
        for precision in Precision::ALL {
            for kv_cache in [KvCachePrecision::Auto, KvCachePrecision::Fp8, KvCachePrecision::Int8] {
                for (tensor, pipeline) in [(1, 1), (2, 1), (2, 2), (4, 1)] {
                    let parallelism = Parallelism { tensor, pipeline };
                    let base = EngineRequest { kv_cache, parallelism, ..engine(release, precision) };
                    let index = requests.len();
                    requests.push(EngineRequest { build: varied(base.build.clone(), index), gpus: tensor, ..base });
                }
            }
        }
    }
    requests
}

/// Options in turn, so that each occurs with each version.
fn varied(build: BuildOptions, index: usize) -> BuildOptions {
    match index % 5 {
        0 => BuildOptions { tokens_per_block: 64, paged_context_fmha: Toggle::Disable, ..build },
        1 => BuildOptions { multiple_profiles: Some(Toggle::Enable), use_fused_mlp: Some(Toggle::Enable), ..build },
        2 => BuildOptions { reduce_fusion: Some(Toggle::Enable), user_buffer: Some(Toggle::Enable), ..build },
        3 => BuildOptions { gemm_plugin: GemmPlugin::Disable, weight_streaming: true, strip_plan: true, ..build },
        _ => BuildOptions { max_beam_width: Some(4), gather_generation_logits: true, ..build },
    }
}

#[test]
fn every_generated_argument_list_is_read_as_it_was_meant() {
    let mut cases = Vec::new();
    for request in covering_set() {
        let commands = match commands(&request, &folders()) {
            Ok(commands) => commands,
            Err(RecipeError::KvCache { .. } | RecipeError::Options(_) | RecipeError::NoFormat(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        for Command { tool, argv } in commands {
            let skipped = if tool == Tool::Build { 1 } else { 2 };
            let (tool, versions) = tables(tool, request.release.version);
            cases.extend(versions.into_iter().map(|version| Case { tool, version, argv: argv[skipped..].to_vec() }));
        }
    }
    let different: BTreeSet<(&str, &str, &[String])> =
        cases.iter().map(|case| (case.tool, case.version, case.argv.as_slice())).collect();
    assert!(different.len() >= 500, "only {} different argument lists", different.len());
    for (case, values) in cases.iter().zip(parse(&cases)) {
        let values = values.unwrap_or_else(|error| panic!("{} {} {:?}: {error}", case.tool, case.version, case.argv));
        for argument in &case.argv {
            assert_eq!(meant(argument), read(argument, &values), "{} {}: {argument}", case.tool, case.version);
        }
    }
}

/// What an argument says, as text.
fn meant(argument: &str) -> Option<String> {
    Some(argument.split_once('=').map_or("true", |(_, value)| value).to_owned())
}

/// What the parser read for an argument's option, by its whole name: an abbreviation would not be found.
fn read(argument: &str, values: &Map<String, Value>) -> Option<String> {
    let name = argument.split('=').next().unwrap_or_default().trim_start_matches("--");
    values.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

#[test]
fn upstreams_own_command_lines_are_reproduced() {
    let (mut cases, mut names) = (Vec::new(), Vec::new());
    for (name, tool, argv) in upstream::reproduced() {
        let text =
            std::fs::read_to_string(folder().join(format!("data/upstream/{name}.txt"))).expect("the case exists");
        let line = text.lines().find(|line| !line.starts_with('#')).expect("the file has a command");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let first = words.iter().position(|word| word.starts_with("--")).expect("the command has options");
        cases.push(Case { tool, version: "1.0.0", argv: words[first..].to_vec() });
        cases.push(Case { tool, version: "1.0.0", argv });
        names.push(name);
    }
    let files = std::fs::read_dir(folder().join("data/upstream")).expect("the folder exists").count();
    assert_eq!(files, names.len(), "every kept command line is reproduced");
    assert!(files >= 20);
    let values = parse(&cases);
    for (name, pair) in names.iter().zip(values.chunks(2)) {
        let [upstreams, ours] = pair else { panic!("cases come in pairs") };
        let upstreams = completed(upstreams.clone().unwrap_or_else(|error| panic!("{name}: {error}")));
        let mut ours = ours.clone().unwrap_or_else(|error| panic!("{name}: {error}"));
        // Ours is always named; theirs lands in the working folder.
        if upstreams.get("output_timing_cache") == Some(&json!("model.cache")) {
            ours.insert("output_timing_cache".into(), json!("model.cache"));
        }
        assert_eq!(ours, upstreams, "{name}");
    }
}

/// A build without `--kv_cache_type` uses the paged one.
fn completed(mut values: Map<String, Value>) -> Map<String, Value> {
    if values.contains_key("checkpoint_dir") && !values.contains_key("kv_cache_type") {
        values.insert("kv_cache_type".into(), json!("paged"));
    }
    values
}

#[test]
fn a_wrong_flag_word_or_version_fails_as_upstream_fails() {
    let case = |tool, version, argument: &str| Case { tool, version, argv: vec![argument.to_owned()] };
    let cases = [
        case("build", "1.0.0", "--tp_size=2"),
        case("build", "0.16.0", "--kv_cache_type=PAGED"),
        case("build", "0.16.0", "--gemm_plugin=nvfp4"),
        case("build", "0.16.0", "--norm_quant_fusion=enable"),
        case("build", "1.2.0", "--auto_parallel=2"),
        case("build", "1.0.0", "--max_batch_size=many"),
        case("build", "1.0.0", "--use_paged_context_fmha=true"),
        case("quantize", "0.16.0", "--qformat=nvfp4"),
        case("quantize", "0.17.0", "--quantize_lm_head"),
        case("convert", "0.15.0", "--use_nvfp4"),
    ];
    let errors: Vec<String> = parse(&cases).into_iter().map(|values| values.expect_err("it is wrong")).collect();
    let starts = [
        "unrecognized arguments: --tp_size=2",
        "argument --kv_cache_type: invalid choice: 'PAGED'",
        "argument --gemm_plugin: invalid choice: 'nvfp4'",
        "unrecognized arguments: --norm_quant_fusion=enable",
        "unrecognized arguments: --auto_parallel=2",
        "argument --max_batch_size: invalid int value: 'many'",
        "argument --use_paged_context_fmha: invalid choice: 'true'",
        "argument --qformat: invalid choice: 'nvfp4'",
        "unrecognized arguments: --quantize_lm_head",
        "unrecognized arguments: --use_nvfp4",
    ];
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn what_a_version_lacks_is_refused_before_upstream_sees_it() {
    let message = |version: &str, request: &dyn Fn(EngineRequest) -> EngineRequest| {
        let request = request(engine(find(version).unwrap(), Precision::Nvfp4));
        commands(&request, &folders()).unwrap_err().to_string()
    };
    assert_eq!(
        message("0.16.0", &|request| request),
        "engine.tensorRTLLM: --qformat=nvfp4 needs TensorRT-LLM 0.17.0 or later, not 0.16.0: leave it out or choose a \
         later version"
    );
    let with_gemm = |request: EngineRequest| EngineRequest {
        build: BuildOptions { gemm_plugin: GemmPlugin::Nvfp4, ..request.build.clone() },
        ..request
    };
    assert_eq!(
        message("0.20.0", &with_gemm),
        "engine.tensorRTLLM: --gemm_plugin=nvfp4 needs TensorRT-LLM 0.21.0 or later, not 0.20.0: leave it out or choose \
         a later version"
    );
    assert_eq!(
        message("1.2.1", &|request| EngineRequest { kv_cache: KvCachePrecision::Int8, ..request }),
        "search.kvCachePrecision: INT8 does not go with precision NVFP4: use FP8 or Auto, as its attention computes in \
         FP8 or 16 bits"
    );
}

#[test]
fn combinations_that_upstream_refuses_are_refused_here() {
    let version = Version::new(1, 0, 0);
    let refused = |build: BuildOptions| build.arguments(version).unwrap_err().to_string();
    let base = || BuildOptions::new("checkpoint", "engine");
    assert_eq!(
        refused(BuildOptions { multiple_profiles: Some(Toggle::Enable), opt_num_tokens: Some(64), ..base() }),
        "--multiple_profiles=enable does not go with --opt_num_tokens: profiles choose their own sizes"
    );
    assert_eq!(
        refused(BuildOptions { weight_streaming: true, ..base() }),
        "--weight_streaming does not go with --gemm_plugin: streamed weights need --gemm_plugin=disable"
    );
    assert_eq!(
        refused(BuildOptions { user_buffer: Some(Toggle::Enable), ..base() }),
        "--user_buffer does not go with --reduce_fusion: user buffers need --reduce_fusion=enable"
    );
    let convert = ConvertOptions {
        weight_only: Some(WeightOnly::Int8),
        smooth_quant: Some(SmoothQuant { alpha: 0.5, per_token: false, per_channel: false }),
        ..ConvertOptions::new("model", "checkpoint", Dtype::Float16)
    };
    assert_eq!(
        convert.arguments().unwrap_err().to_string(),
        "--use_weight_only does not go with --smoothquant: the script takes the first it finds"
    );
    let heads = QuantizeOptions { quantize_lm_head: true, ..QuantizeOptions::new("m", "o", QuantFormat::Fp8) };
    assert!(heads.arguments(Version::new(0, 18, 0)).is_err() && heads.arguments(version).is_ok());
}

#[test]
fn one_engine_of_each_kind_is_made_by_these_commands() {
    let cases = [
        ("0.15.0", Precision::Int8WeightOnly, KvCachePrecision::Auto, 1),
        ("0.16.0", Precision::Fp16, KvCachePrecision::Auto, 1),
        ("0.16.0", Precision::Fp8, KvCachePrecision::Fp8, 1),
        ("0.18.2", Precision::Bf16, KvCachePrecision::Fp8, 2),
        ("0.20.0", Precision::Int4WeightOnly, KvCachePrecision::Int8, 1),
        ("0.21.0", Precision::Int8SmoothQuant, KvCachePrecision::Int8, 1),
        ("1.0.3", Precision::Int4Awq, KvCachePrecision::Auto, 2),
        ("1.1.0", Precision::W4A8Awq, KvCachePrecision::Fp8, 1),
        ("1.2.1", Precision::Nvfp4, KvCachePrecision::Fp8, 4),
    ];
    let mut text = String::new();
    for (version, precision, kv_cache, tensor) in cases {
        let parallelism = Parallelism { tensor, pipeline: 1 };
        let request =
            EngineRequest { kv_cache, parallelism, gpus: tensor, ..engine(find(version).unwrap(), precision) };
        text += &format!("{version} {} kv {kv_cache:?} tp {tensor}\n", precision.name());
        for command in commands(&request, &folders()).unwrap() {
            text += &format!("  {}\n", command.argv.join(" "));
        }
    }
    let file = folder().join("data/commands.txt");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&file, &text).expect("the fixture is written");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text, "set UPDATE_FIXTURES to accept");
}

/// NVIDIA/TensorRT-LLM, docs/source/performance/performance-tuning-guide/useful-build-time-flags.md: "Multiple
/// Profiles", and "GEMM Plugin" for FP8. The defaults stay, for engines of every version exist.
#[test]
fn what_upstream_advises_for_fp8_takes_two_fields_and_is_no_default() {
    let flags = |build: BuildOptions| {
        let request = EngineRequest { build, ..engine(find("1.2.1").unwrap(), Precision::Fp8) };
        let [_, build] = commands(&request, &folders()).unwrap();
        let is_asked = |flag: &String| flag.starts_with("--gemm_plugin") || flag.starts_with("--multiple_profiles");
        build.argv.into_iter().filter(is_asked).collect::<Vec<_>>()
    };
    let default = engine(find("1.2.1").unwrap(), Precision::Fp8).build;
    let advised =
        BuildOptions { gemm_plugin: GemmPlugin::Disable, multiple_profiles: Some(Toggle::Enable), ..default.clone() };
    assert_eq!(flags(default), ["--gemm_plugin=auto"]);
    assert_eq!(flags(advised), ["--gemm_plugin=disable", "--multiple_profiles=enable"]);
}

#[test]
fn arguments_for_a_tool_that_is_not_used_are_refused() {
    let extra = ExtraArguments { convert: vec!["--load_by_shard".into()], ..ExtraArguments::default() };
    let request = EngineRequest { extra, ..engine(find("1.0.0").unwrap(), Precision::Fp8) };
    assert_eq!(
        commands(&request, &folders()).unwrap_err().to_string(),
        "engine.tensorRTLLM.extraArgs.convert: that tool does not make precision FP8; remove the arguments"
    );
    let kv =
        QuantizeOptions { kv_cache: Some(QuantKvCache::Int8), ..QuantizeOptions::new("m", "o", QuantFormat::Int4Awq) };
    assert!(kv.arguments(Version::new(0, 16, 0)).unwrap().contains(&"--kv_cache_dtype=int8".to_owned()));
}

/// Options of each family's script, as its own parser names them: NVIDIA/TensorRT-LLM, examples/models/core, at the
/// commits in the documentation of `family`.
const SCRIPTS: [(ModelFamily, &str, &[&str]); 4] = [
    (
        ModelFamily::Qwen2,
        "models/core/qwen",
        &[
            "--model_dir",
            "--tp_size",
            "--pp_size",
            "--dtype",
            "--use_weight_only",
            "--weight_only_precision",
            "--calib_dataset",
            "--smoothquant",
            "--per_channel",
            "--per_token",
            "--int8_kv_cache",
            "--output_dir",
            "--workers",
        ],
    ),
    (
        ModelFamily::Phi3,
        "models/core/phi",
        &[
            "--model_dir",
            "--tp_size",
            "--pp_size",
            "--dtype",
            "--use_weight_only",
            "--weight_only_precision",
            "--output_dir",
            "--workers",
        ],
    ),
    (
        ModelFamily::Gemma,
        "models/core/gemma",
        &["--ckpt-type", "--model-dir", "--output-model-dir", "--world-size", "--dtype"],
    ),
    (
        ModelFamily::Nemotron,
        "models/core/gpt",
        &[
            "--model_dir",
            "--tp_size",
            "--pp_size",
            "--dtype",
            "--use_weight_only",
            "--weight_only_precision",
            "--output_dir",
            "--workers",
        ],
    ),
];

#[test]
fn every_family_is_told_what_its_script_knows() {
    for (family, script, known) in SCRIPTS {
        for kv_cache in [KvCachePrecision::Auto, KvCachePrecision::Int8] {
            for precision in Precision::ALL {
                let request = EngineRequest { family, kv_cache, ..engine(find("1.0.0").unwrap(), precision) };
                let Ok([command, _]) = commands(&request, &folders()) else { continue };
                if command.tool == Tool::Quantize {
                    continue;
                }
                assert_eq!(command.argv[1], format!("/app/examples/{script}/convert_checkpoint.py"));
                let names = command.argv[2..].iter().map(|argument| argument.split('=').next().unwrap_or_default());
                let unknown: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
                // What only quantize.py makes of a family is refused before: Gemma's script is asked for 16 bits alone.
                let is_made = slipway_backends::tensorrt_llm::family::precisions(family, "").contains(&precision);
                assert!(!is_made || unknown.is_empty(), "{family:?} {}: {unknown:?}", precision.name());
            }
        }
    }
}

#[test]
fn a_checkpoint_that_is_quantized_already_is_only_converted() {
    let request = EngineRequest { is_prequantized: true, ..engine(find("1.0.0").unwrap(), Precision::Int4Awq) };
    let [command, _] = commands(&request, &folders()).unwrap();
    assert_eq!(
        command.argv.join(" "),
        "python3 /app/examples/models/core/llama/convert_checkpoint.py --model_dir=/model --output_dir=/work/checkpoint \
         --dtype=bfloat16 --tp_size=1 --pp_size=1"
    );
    let with_cache = EngineRequest { kv_cache: KvCachePrecision::Fp8, ..request };
    assert_eq!(
        commands(&with_cache, &folders()).unwrap_err().to_string(),
        "search.kvCachePrecision: of a checkpoint that is quantized already only Auto is made: use Auto"
    );
}
