//! Engines without a build: the repository around a checkpoint, and both as one artifact.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_worker::{
    failure::{self, Classify},
    finish_build::{self, Folders},
    hash,
    materialize::{self, MaterializeTask},
    no_build::{self, Parts},
};
use slipway_worker_contract::{
    Adapter, BuildTask, EngineRef, FailureClass, Manifest, NoBuild, NoBuildBackend, ServeConfig, paths,
};
use tempfile::TempDir;

const ARGUMENTS: &str = "{\n  \"model\": \"/slipway/engine/checkpoint\"\n}\n";
const CHECKPOINT: [(&str, &str); 4] = [
    ("config.json", "{}"),
    ("model-00001-of-00002.safetensors", "one"),
    ("model-00002-of-00002.safetensors", "two"),
    ("tokenizer.json", "{}"),
];
/// As the image has it, with a comment, a list of messages, and what is not taken.
const LLM_API: [(&str, &str); 5] = [
    (
        "config.pbtxt",
        "# upstream's\nname: \"tensorrt_llm\"\nbackend: \"python\"\ninstance_group [ { count: 1 kind : KIND_CPU } ]\n\
         input [\n  { name: \"text_input\" data_type: TYPE_STRING dims: [ -1 ] },\n  ## optional\n  \
         { name: \"streaming\" data_type: TYPE_BOOL dims: [ 1 ] optional: true }\n]\n",
    ),
    ("1/model.py", "import helpers"),
    ("1/helpers.py", "pass"),
    ("1/model.yaml", "model: TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
    ("1/__pycache__/helpers.cpython-312.pyc", "compiled"),
];

/// A store with a checkpoint, and an image's folders.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        for (path, text) in CHECKPOINT {
            bench.write(&format!("store/{}/{path}", paths::checkpoint_files(&hash::bytes(b"model"))), text);
        }
        bench.write(&format!("store/{}/checkpoint.json", paths::checkpoint(&hash::bytes(b"model"))), "[]");
        bench.write("backends/vllm/model.py", "import vllm");
        bench.write("bin/vllm", "#!/usr/bin/env python3");
        bench.write("bin/trtllm-serve", "#!/usr/bin/env python3");
        bench.program("bin/python3", "#!/bin/sh\n# A module is looked for.\nexit 0\n");
        for (path, text) in LLM_API {
            bench.write(&format!("llmapi/{path}"), text);
        }
        bench
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, relative: &str, text: &str) {
        self.write(relative, text);
        fs::set_permissions(self.path(relative), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn checkpoint(&self) -> PathBuf {
        self.path("store").join(paths::checkpoint_files(&hash::bytes(b"model")))
    }

    fn assemble(&self, backend: NoBuildBackend) -> Result<BuildTask, no_build::AssembleError> {
        self.assemble_order(order(backend))
    }

    fn assemble_order(&self, order: NoBuild) -> Result<BuildTask, no_build::AssembleError> {
        let parts = Parts {
            backends: self.path("backends"),
            llm_api: self.path("llmapi"),
            programs: vec![self.path("empty"), self.path("bin")],
            checkpoint: self.checkpoint(),
            output: self.path("output"),
        };
        let task = BuildTask {
            identity: "engine-1".into(),
            model: "agent".into(),
            quality: None,
            tensorrt_llm: None,
            no_build: Some(order.clone()),
        };
        no_build::run(&task, &order, &parts).map(|()| task)
    }

    fn finish(&self, task: &BuildTask) -> Result<EngineRef, finish_build::FinishError> {
        let (output, store, dataset) = (self.path("output"), self.path("store"), self.path("dataset.jsonl"));
        let built = finish_build::run(task, &Folders { output, store, dataset, threads: 2 })?;
        assert_eq!(built.versions.values().collect::<Vec<_>>(), ["1.2.3"]);
        Ok(EngineRef { identity: task.identity.clone(), manifest_digest: built.manifest_digest })
    }
}

fn order(backend: NoBuildBackend) -> NoBuild {
    let checkpoint = hash::bytes(b"model");
    NoBuild { backend, version: "1.2.3".into(), checkpoint, arguments: ARGUMENTS.into(), adapter: None }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn an_adapter_is_a_folder_of_the_checkpoint_that_peft_wrote() {
    let bench = Bench::new();
    let of_rank = |rank| NoBuild {
        adapter: Some(Adapter { folder: "adapters/sql".into(), rank }),
        ..order(NoBuildBackend::VLLMOpenAI)
    };
    let refusal = || {
        let error = bench.assemble_order(of_rank(8)).unwrap_err();
        (error.class(), error.to_string())
    };
    let told = |lacks: &str| {
        let words = "engine.vllm.lora.folder names the folder that PEFT's save_pretrained() wrote";
        (FailureClass::BadModel, format!("the checkpoint has no adapters/sql/{lacks}: {words}"))
    };
    assert_eq!(refusal(), told("adapter_config.json"));
    let adapter = format!("store/{}/adapters/sql", paths::checkpoint_files(&hash::bytes(b"model")));
    bench.write(&format!("{adapter}/adapter_config.json"), r#"{"r": 16}"#);
    assert_eq!(refusal(), told("adapter_model.safetensors"));
    bench.write(&format!("{adapter}/adapter_model.safetensors"), "adapter");
    let told = "engine.vllm.lora.rank is 8, and r in adapters/sql/adapter_config.json is 16: write that one";
    assert_eq!(refusal(), (FailureClass::BadModel, told.to_owned()));
    let task = bench.assemble_order(of_rank(16)).unwrap();
    let engine = bench.finish(&task).unwrap();
    let artifact = bench.path("store").join(paths::engine(&engine));
    let placed = artifact.join(paths::CHECKPOINT).join("adapters/sql/adapter_model.safetensors");
    assert_eq!(fs::read_to_string(placed).unwrap(), "adapter");
}

#[rstest]
#[case::vllm(NoBuildBackend::VLLM, &["agent/1/model.json", "agent/config.pbtxt"])]
#[case::tensorrt_llm(
    NoBuildBackend::TensorRTLLMPyTorch,
    &["agent/1/helpers.py", "agent/1/model.py", "agent/1/model.yaml", "agent/config.pbtxt"]
)]
fn a_checkpoint_and_its_repository_are_one_artifact(#[case] backend: NoBuildBackend, #[case] repository: &[&str]) {
    let bench = Bench::new();
    let task = bench.assemble(backend).unwrap();
    let engine = bench.finish(&task).unwrap();

    let artifact = bench.path("store").join(paths::engine(&engine));
    let manifest = Manifest::parse(&fs::read(artifact.join(paths::MANIFEST_FILE)).unwrap()).unwrap();
    let found: Vec<String> = manifest.files.into_iter().map(|file| file.path).collect();
    let checkpoint = CHECKPOINT.iter().map(|(path, _)| format!("checkpoint/{path}"));
    let expected: Vec<_> = checkpoint.chain(repository.iter().map(|path| format!("model_repository/{path}"))).collect();
    assert_eq!(found, expected);
    let weights = "model-00001-of-00002.safetensors";
    let placed = artifact.join(paths::CHECKPOINT).join(weights);
    assert_eq!(inode(&placed), inode(&bench.checkpoint().join(weights)), "the store holds the weights once");

    let target = bench.path("engine");
    let order = MaterializeTask {
        engine,
        store: bench.path("store"),
        target: target.clone(),
        model: "agent".into(),
        serve: ServeConfig::default(),
        threads: 2,
    };
    materialize::run(&order).unwrap();
    assert_eq!(fs::read_to_string(target.join(paths::CHECKPOINT).join(weights)).unwrap(), "one");
    let arguments = repository.iter().find(|path| path.ends_with(".json") || path.ends_with(".yaml")).unwrap();
    assert_eq!(fs::read_to_string(target.join(paths::MODEL_REPOSITORY).join(arguments)).unwrap(), ARGUMENTS);
}

#[rstest]
#[case(NoBuildBackend::VLLMOpenAI)]
#[case(NoBuildBackend::SGLang)]
#[case(NoBuildBackend::TensorRTLLMPyTorchOpenAI)]
fn an_engines_own_server_has_a_file_of_options_and_no_repository(#[case] backend: NoBuildBackend) {
    let bench = Bench::new();
    let task = bench.assemble(backend).unwrap();
    let engine = bench.finish(&task).unwrap();

    let artifact = bench.path("store").join(paths::engine(&engine));
    let manifest = Manifest::parse(&fs::read(artifact.join(paths::MANIFEST_FILE)).unwrap()).unwrap();
    let found: Vec<String> = manifest.files.into_iter().map(|file| file.path).collect();
    let checkpoint = CHECKPOINT.iter().map(|(path, _)| format!("checkpoint/{path}"));
    assert_eq!(found, checkpoint.chain(["server/config.yaml".to_owned()]).collect::<Vec<_>>());

    let (store, target) = (bench.path("store"), bench.path("engine"));
    let (model, serve) = ("agent".into(), ServeConfig::default());
    materialize::run(&MaterializeTask { engine, store, target: target.clone(), model, serve, threads: 2 }).unwrap();
    assert_eq!(fs::read_to_string(target.join("server/config.yaml")).unwrap(), ARGUMENTS);
}

#[test]
fn the_same_checkpoint_and_arguments_are_the_same_artifact() {
    let bench = Bench::new();
    let first = bench.finish(&bench.assemble(NoBuildBackend::VLLM).unwrap()).unwrap();
    assert_eq!(bench.finish(&bench.assemble(NoBuildBackend::VLLM).unwrap()).unwrap(), first);
}

#[test]
fn the_images_own_model_is_served_under_our_name() {
    let bench = Bench::new();
    bench.assemble(NoBuildBackend::TensorRTLLMPyTorch).unwrap();
    let config = fs::read_to_string(bench.path("output/model_repository/agent/config.pbtxt")).unwrap();
    assert!(config.starts_with("name: \"agent\"\nbackend: \"python\"\n"), "{config}");
    assert!(config.contains("name: \"text_input\"") && config.contains("name: \"streaming\""), "{config}");
}

fn refusal(bench: &Bench, backend: NoBuildBackend) -> (FailureClass, String) {
    let error = bench.assemble(backend).unwrap_err();
    let text = failure::chain(&error).replace(&format!("{}/", bench.dir.path().display()), "");
    (error.class(), text)
}

#[rstest]
#[case(
    "backends/vllm/model.py",
    NoBuildBackend::VLLM,
    "the image lacks backends/vllm/model.py: check that it is Triton's image of vLLM 1.2.3"
)]
#[case("bin/vllm", NoBuildBackend::VLLMOpenAI, "the image lacks program vllm: check that it is an image of vLLM 1.2.3")]
#[case(
    "bin/python3",
    NoBuildBackend::SGLang,
    "the image lacks program python3: check that it is an image of SGLang 1.2.3"
)]
#[case(
    "bin/trtllm-serve",
    NoBuildBackend::TensorRTLLMPyTorchOpenAI,
    "the image lacks program trtllm-serve: check that it is an image of TensorRT-LLM 1.2.3"
)]
#[case(
    "llmapi/1/model.py",
    NoBuildBackend::TensorRTLLMPyTorch,
    "the image lacks llmapi/1/model.py: check that it is Triton's image of TensorRT-LLM 1.2.3"
)]
fn an_image_without_the_backend_is_named(#[case] file: &str, #[case] backend: NoBuildBackend, #[case] text: &str) {
    let bench = Bench::new();
    fs::remove_file(bench.path(file)).unwrap();
    assert_eq!(refusal(&bench, backend), (FailureClass::ImageMismatch, text.to_owned()));
}

#[test]
fn an_image_with_another_python_is_named() {
    let bench = Bench::new();
    bench.program("bin/python3", "#!/bin/sh\nexit 1\n");
    let text = "the image lacks module sglang of Python: check that it is an image of SGLang 1.2.3";
    assert_eq!(refusal(&bench, NoBuildBackend::SGLang), (FailureClass::ImageMismatch, text.to_owned()));
}

#[rstest]
#[case(&["config.json"], "no config.json")]
#[case(&["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], "no weights (.safetensors, .bin or .pt)")]
#[case(&["tokenizer.json"], "no tokenizer")]
fn a_checkpoint_that_cannot_be_served_says_what_it_lacks(#[case] files: &[&str], #[case] lacks: &str) {
    let bench = Bench::new();
    files.iter().for_each(|file| fs::remove_file(bench.checkpoint().join(file)).unwrap());
    let text = format!("the checkpoint has {lacks}: save model and tokenizer with save_pretrained()");
    assert_eq!(refusal(&bench, NoBuildBackend::VLLM), (FailureClass::BadModel, text));
}

#[test]
fn a_checkpoint_that_was_collected_is_no_engine() {
    let bench = Bench::new();
    let task = bench.assemble(NoBuildBackend::VLLM).unwrap();
    let digest = hash::bytes(b"model");
    fs::remove_file(bench.path("store").join(paths::checkpoint(&digest)).join("checkpoint.json")).unwrap();
    let error = bench.finish(&task).unwrap_err();
    let text = format!(
        "failed to add the checkpoint: the store has no checkpoint {digest}: it was collected or never fetched"
    );
    assert_eq!((error.class(), failure::chain(&error)), (FailureClass::Infrastructure, text));
}
