//! The steps of a TensorRT-LLM build, with small programs in the place of upstream's.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use pretty_assertions::assert_eq;
use slipway_worker::{
    failure::{self, Classify},
    finish_build::{self, Folders},
    hash,
    tensorrt_llm::assemble::{self, Parts},
};
use slipway_worker_contract::{BuildTask, EngineEntry, FailureClass, Message, Task, TensorRtLlmBuild, ToolStep};
use tempfile::TempDir;

/// As images have it, with fewer parameters: a bare placeholder must be filled, a quoted one may stay.
const TEMPLATE: &str = r#"name: "tensorrt_llm"
backend: "${triton_backend}"
max_batch_size: ${triton_max_batch_size}
model_transaction_policy { decoupled: ${decoupled_mode} }
parameters: { key: "gpt_model_path" value: { string_value: "${engine_dir}" } }
parameters: { key: "gpt_model_type" value: { string_value: "${batching_strategy}" } }
parameters: { key: "batch_scheduler_policy" value: { string_value: "${batch_scheduler_policy}" } }
parameters: { key: "max_beam_width" value: { string_value: "${max_beam_width}" } }
parameters: { key: "kv_cache_free_gpu_mem_fraction" value: { string_value: "${kv_cache_free_gpu_mem_fraction}" } }
parameters: { key: "enable_kv_cache_reuse" value: { string_value: "${enable_kv_cache_reuse}" } }
parameters: { key: "enable_chunked_context" value: { string_value: "${enable_chunked_context}" } }
parameters: { key: "exclude_input_in_output" value: { string_value: "${exclude_input_in_output}" } }
parameters: { key: "decoding_mode" value: { string_value: "${decoding_mode}" } }
"#;

/// The models around the engine, as images have them: the ensemble's version has only a file whose name begins with a
/// dot.
const AROUND: [(&str, &str); 7] = [
    (
        "preprocessing/config.pbtxt",
        "name: \"preprocessing\" backend: \"python\"\nmax_batch_size: ${triton_max_batch_size}\n\
         parameters { key: \"tokenizer_dir\" value: { string_value: \"${tokenizer_dir}\" } }\n\
         instance_group [ { count: ${preprocessing_instance_count} kind: KIND_CPU } ]\n",
    ),
    ("preprocessing/1/model.py", "pass"),
    (
        "postprocessing/config.pbtxt",
        "name: \"postprocessing\" backend: \"python\"\nmax_batch_size: ${triton_max_batch_size}\n\
         parameters { key: \"tokenizer_dir\" value: { string_value: \"${tokenizer_dir}\" } }\n\
         instance_group [ { count: ${postprocessing_instance_count} kind: KIND_CPU } ]\n",
    ),
    ("postprocessing/1/model.py", "pass"),
    ("ensemble/config.pbtxt", "name: \"ensemble\" platform: \"ensemble\"\nmax_batch_size: ${triton_max_batch_size}\n"),
    (
        "tensorrt_llm_bls/config.pbtxt",
        "name: \"tensorrt_llm_bls\" backend: \"python\"\nmax_batch_size: ${triton_max_batch_size}\n\
         model_transaction_policy { decoupled: ${decoupled_mode} }\n\
         parameters { key: \"accumulate_tokens\" value: { string_value: \"${accumulate_tokens}\" } }\n\
         instance_group [ { count: ${bls_instance_count} kind: KIND_CPU } ]\n",
    ),
    ("tensorrt_llm_bls/1/lib/decode.py", "pass"),
];

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        bench.write("checkpoint/tokenizer.json", &tokenizer());
        bench.write("checkpoint/config.json", r#"{"eos_token_id": 2}"#);
        bench.write("models/tensorrt_llm/config.pbtxt", TEMPLATE);
        bench.write("models/tensorrt_llm/1/model.py", "pass");
        bench.write("output/engine/config.json", &engine_config("0.16.0"));
        bench.write("output/engine/rank0.engine", "weights");
        bench.write("output/engine/rank1.engine", "weights");
        bench
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A program that knows the options of a `--help`, then does what its body says.
    fn program(&self, body: &str) -> String {
        let help = "usage: tool\noptions:\n  --output_dir OUTPUT_DIR\n  --dtype {float16,bfloat16}";
        let script = format!("#!/bin/sh\n[ \"$1\" = --help ] && {{ echo '{help}'; exit 0; }}\n{body}\n");
        let path = self.write("tool", &script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Result of a step that runs this body.
    fn run(&self, body: &str, arguments: &[&str]) -> Option<(FailureClass, String)> {
        let step = ToolStep {
            name: "build".into(),
            program: self.program(body),
            script: None,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        };
        self.step(task(vec![step]), "build")
    }

    /// Result of a step of a task: nothing, or why it failed. As a process of its own, because it collects every child.
    fn step(&self, task: BuildTask, name: &str) -> Option<(FailureClass, String)> {
        let log = self.write("log", "");
        let mut worker = Command::new(env!("CARGO_BIN_EXE_slipway-worker"));
        worker
            .arg("tool")
            .arg("--step")
            .arg(name)
            .arg("--task")
            .arg(self.write("task.json", &Task::Build(Box::new(task)).to_json()));
        worker.arg("--examples").arg(self.path("examples")).arg("--calibration").arg(self.path("calibration"));
        let status = worker.arg("--termination-log").arg(&log).output().unwrap().status;
        let text = fs::read_to_string(log).unwrap();
        assert_eq!(status.success(), text.is_empty(), "{text}");
        (!text.is_empty()).then(|| match Message::parse(&text).unwrap() {
            Message::Failed { class, text } => (class, text),
            Message::Succeeded { .. } => panic!("a step reports failures only"),
        })
    }

    fn parts(&self) -> Parts {
        Parts { models: self.path("models"), checkpoint: self.path("checkpoint"), output: self.path("output") }
    }
}

/// The demo's.
fn tokenizer() -> String {
    let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/model/checkpoints/react-512");
    fs::read_to_string(checkpoint.join("tokenizer.json")).unwrap()
}

fn engine_config(version: &str) -> String {
    serde_json::json!({
        "version": version,
        "pretrained_config": {"architecture": "LlamaForCausalLM", "mapping": {"tp_size": 2, "pp_size": 1}},
        "build_config": {
            "max_seq_len": 4096, "max_batch_size": 16, "max_num_tokens": 8192,
            "plugin_config": {"use_paged_context_fmha": true},
        },
    })
    .to_string()
}

fn task(steps: Vec<ToolStep>) -> BuildTask {
    let build = TensorRtLlmBuild {
        version: "0.16.0".into(),
        tensor_parallel: 2,
        pipeline_parallel: 1,
        steps,
        calibration: None,
        max_batch_size: 16,
        kv_cache_reuse: true,
        chunked_context: true,
        entry: EngineEntry::Engine,
    };
    BuildTask {
        identity: "engine-1".into(),
        model: "tensorrt_llm".into(),
        quality: None,
        tensorrt_llm: Some(build),
        no_build: None,
    }
}

#[test]
fn a_tool_gets_its_arguments() {
    let bench = Bench::new();
    let body = format!("echo \"$@\" > {}", bench.path("seen").display());
    assert_eq!(bench.run(&body, &["--output_dir=/o", "--dtype=float16"]), None);
    assert_eq!(fs::read_to_string(bench.path("seen")).unwrap(), "--output_dir=/o --dtype=float16\n");
}

#[test]
fn a_failure_is_explained_by_the_line_that_told_it() {
    let bench = Bench::new();
    let body = "echo loading; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'; \
                echo 'KeyError: rank0' >&2; exit 1";
    let text = "build exited with code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB";
    assert_eq!(bench.run(body, &[]), Some((FailureClass::InsufficientMemory, text.to_owned())));
    let full = bench.run("echo \"OSError: [Errno 28] No space left on device: '/w'\"; exit 1", &[]);
    assert_eq!(full.map(|(class, _)| class), Some(FailureClass::Infrastructure));
    let killed = Some((FailureClass::InsufficientMemory, "build exited with code 137: rank 0".to_owned()));
    assert_eq!(bench.run("echo 'rank 0'; kill -9 $$", &[]), killed);
}

#[test]
fn an_option_that_the_help_lacks_costs_no_run() {
    let bench = Bench::new();
    let body = format!("touch {}", bench.path("ran").display());
    let told = bench.run(&body, &["--dtype=nvfp4", "--fuse"]);
    let text = "build: the image's tool does not take nvfp4 for --dtype, only float16, bfloat16; \
                the image's tool has no option --fuse";
    assert_eq!(told, Some((FailureClass::ImageMismatch, text.to_owned())));
    assert!(!bench.path("ran").exists());
}

#[test]
fn an_image_without_the_script_says_where_it_was_looked_for() {
    let bench = Bench::new();
    let step = ToolStep {
        name: "convert".into(),
        program: "python3".into(),
        script: Some("llama/convert_checkpoint.py".into()),
        arguments: Vec::new(),
    };
    let told = bench.step(task(vec![step]), "convert");
    let text = format!(
        "the image has no llama/convert_checkpoint.py below {}: check that it is the image of engine.tensorRTLLM.version 0.16.0",
        bench.path("examples").display()
    );
    assert_eq!(told, Some((FailureClass::ImageMismatch, text)));
}

#[test]
fn calibration_texts_that_changed_are_not_used() {
    let bench = Bench::new();
    bench.write("calibration/train.jsonl", "{\"text\":\"b\"}\n");
    let step = ToolStep { name: "build".into(), program: bench.program("exit 0"), script: None, arguments: Vec::new() };
    let mut task = task(vec![step]);
    let of = |task: &mut BuildTask, text: &str| {
        task.tensorrt_llm.as_mut().unwrap().calibration = Some(hash::bytes(text.as_bytes()));
    };
    of(&mut task, "{\"text\":\"a\"}\n");
    let (_, text) = bench.step(task.clone(), "build").unwrap();
    assert!(text.starts_with("the calibration texts changed after"), "{text}");
    of(&mut task, "{\"text\":\"b\"}\n");
    assert_eq!(bench.step(task, "build"), None);
}

#[test]
fn an_engine_becomes_an_artifact_that_can_be_published() {
    let bench = Bench::new();
    assemble::run(&task(Vec::new()), &bench.parts()).unwrap();
    let config = fs::read_to_string(bench.path("output/model_repository/tensorrt_llm/config.pbtxt")).unwrap();
    assert!(config.contains("max_batch_size: 16\n") && config.contains("\"/slipway/engine/engine\""), "{config}");
    assert!(config.contains("\"${decoding_mode}\""), "an option that nobody set keeps the backend's default");
    let folders =
        Folders { output: bench.path("output"), store: bench.path("store"), dataset: bench.path("none"), threads: 1 };
    let result = finish_build::run(&task(Vec::new()), &folders).unwrap();
    assert_eq!(result.versions.get("tensorrt_llm").map(String::as_str), Some("0.16.0"));
    let has = |path: &str| walk(&bench.path("store")).iter().any(|file| file.ends_with(path));
    for path in ["engine/rank1.engine", "tokenizer/tokenizer.json", "tokenizer/config.json", "tensorrt_llm/1/model.py"]
    {
        assert!(has(path), "{path}");
    }
}

/// The order of an engine behind the image's models of text, and a bench whose image has them.
fn text_entry(entry: EngineEntry, model: &str) -> (Bench, BuildTask) {
    let bench = Bench::new();
    for (path, text) in AROUND {
        bench.write(&format!("models/{path}"), text);
    }
    bench.write("models/tensorrt_llm_bls/1/model.py", "pass");
    let mut task = BuildTask { model: model.to_owned(), ..task(Vec::new()) };
    task.tensorrt_llm.as_mut().unwrap().entry = entry;
    (bench, task)
}

/// What of the repository is published: its files, those that keep a folder left out.
fn published(bench: &Bench, task: &BuildTask) -> Vec<String> {
    assemble::run(task, &bench.parts()).unwrap();
    let folders =
        Folders { output: bench.path("output"), store: bench.path("store"), dataset: bench.path("none"), threads: 1 };
    finish_build::run(task, &folders).unwrap();
    let files = walk(&bench.path("store"));
    let of_repository = files.iter().filter_map(|file| file.split_once("model_repository/"));
    let mut names: Vec<String> = of_repository.map(|(_, name)| name.to_owned()).collect();
    names.retain(|name| name.matches('/').count() >= 1 && Path::new(name).extension().is_some());
    names.sort();
    names
}

#[test]
fn an_ensemble_is_published_with_the_models_that_it_calls() {
    let (bench, task) = text_entry(EngineEntry::Ensemble, "ensemble");
    let expected = [
        "ensemble/config.pbtxt",
        "postprocessing/1/model.py",
        "postprocessing/config.pbtxt",
        "preprocessing/1/model.py",
        "preprocessing/config.pbtxt",
        "tensorrt_llm/1/model.py",
        "tensorrt_llm/config.pbtxt",
    ];
    assert_eq!(published(&bench, &task), expected);
    assert!(bench.path("output/model_repository/ensemble/1").is_dir(), "Triton wants a version");
    let read = |model: &str| fs::read_to_string(bench.path(&format!("output/model_repository/{model}/config.pbtxt")));
    assert_eq!(
        read("postprocessing").unwrap(),
        "name: \"postprocessing\" backend: \"python\"\nmax_batch_size: 16\n\
         parameters { key: \"tokenizer_dir\" value: { string_value: \"/slipway/engine/tokenizer\" } }\n\
         instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    );
    assert!(read("tensorrt_llm").unwrap().contains("\"/slipway/engine/engine\""));
}

#[test]
fn bls_is_published_with_its_programs_and_a_copy_for_each_sequence() {
    let (bench, task) = text_entry(EngineEntry::BLS, "tensorrt_llm_bls");
    let files = published(&bench, &task);
    let of_bls: Vec<_> = files.iter().filter_map(|file| file.strip_prefix("tensorrt_llm_bls/")).collect();
    assert_eq!(of_bls, ["1/lib/decode.py", "1/model.py", "config.pbtxt"]);
    assert!(!files.iter().any(|file| file.starts_with("ensemble/")), "{files:?}");
    let config = fs::read_to_string(bench.path("output/model_repository/tensorrt_llm_bls/config.pbtxt")).unwrap();
    assert!(config.contains("count: 16 kind") && config.contains("string_value: \"false\""), "{config}");
}

#[test]
fn an_image_without_the_models_of_an_entry_is_named() {
    let (bench, task) = text_entry(EngineEntry::Ensemble, "ensemble");
    fs::remove_dir_all(bench.path("models/postprocessing")).unwrap();
    let error = assemble::run(&task, &bench.parts()).unwrap_err();
    assert_eq!(error.class(), FailureClass::ImageMismatch);
    assert_eq!(
        failure::chain(&error),
        "the image's templates cannot make a repository: the image has no template for postprocessing: it is not one \
         of TensorRT-LLM 0.15 to 1.2"
    );
}

fn walk(root: &Path) -> Vec<String> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    entries.map(|entry| entry.path().display().to_string()).collect()
}

#[test]
fn an_engine_that_is_another_is_refused_in_words() {
    let complaint = |change: fn(&Bench)| {
        let bench = Bench::new();
        change(&bench);
        let error = assemble::run(&task(Vec::new()), &bench.parts()).unwrap_err();
        (error.class(), failure::chain(&error))
    };
    let wrong = "the engine is not the one asked for: ";
    assert_eq!(
        complaint(|bench| fs::remove_file(bench.path("output/engine/rank1.engine")).unwrap()),
        (FailureClass::BadModel, format!("{wrong}rank1.engine is missing: the build of that rank failed"))
    );
    let (class, text) = complaint(|bench| drop(bench.write("output/engine/config.json", &engine_config("0.17.0"))));
    assert_eq!(class, FailureClass::ImageMismatch);
    assert!(text.ends_with("built by TensorRT-LLM 0.17.0, not 0.16.0: the image does not match its tag"), "{text}");
    let (class, text) = complaint(|bench| fs::remove_file(bench.path("checkpoint/tokenizer.json")).unwrap());
    assert_eq!(class, FailureClass::BadModel);
    assert!(text.starts_with("the checkpoint has no tokenizer.json"), "{text}");
    let (class, text) = complaint(|bench| drop(bench.write("checkpoint/tokenizer.json", "{}")));
    assert_eq!(class, FailureClass::BadModel);
    assert!(text.starts_with("the checkpoint's tokenizer cannot be used: "), "{text}");
    let (class, text) =
        complaint(|bench| drop(bench.write("models/tensorrt_llm/config.pbtxt", "max_batch_size: ${of_tomorrow}\n")));
    assert_eq!(class, FailureClass::ImageMismatch);
    assert!(text.contains("of_tomorrow"), "{text}");
}
