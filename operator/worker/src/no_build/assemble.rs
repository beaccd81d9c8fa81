//! `assemble` for engines without a build: the serving repository.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use slipway_backends::no_build::{Backend, vllm_configuration};
use slipway_worker_contract::{BuildTask, BuilderReport, FailureClass, NoBuild, NoBuildBackend, paths};

use crate::{
    failure::Classify,
    repository::{
        CONFIG_FILE,
        text_format::{self, Field, SyntaxError, Value},
    },
    tree::{self, TreeError},
};

/// Weights that vLLM and TensorRT-LLM load.
const WEIGHTS: [&str; 3] = [".safetensors", ".bin", ".pt"];
/// One of these turns text into tokens.
const TOKENIZERS: [&str; 4] = ["tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json"];

/// Says why there is no repository.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The image is of another backend.
    #[error("the image has no {}: is it Triton's image of {name} {version}?", path.display())]
    NoBackend {
        /// What it should have.
        path: PathBuf,
        /// The backend, as people call it.
        name: &'static str,
        /// The version of the task.
        version: String,
    },
    /// The image lacks a program.
    #[error("the image has no program {program}: is it an image of vLLM {version}?")]
    NoProgram {
        /// The program.
        program: &'static str,
        /// The version of the task.
        version: String,
    },
    /// The checkpoint is not one that can be served.
    #[error("the checkpoint has {lacks}: save model and tokenizer with save_pretrained()")]
    Checkpoint {
        /// What it lacks.
        lacks: &'static str,
    },
    /// The image's own configuration is no protobuf text.
    #[error("failed to read {}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: SyntaxError,
    },
    /// A folder cannot be listed.
    #[error("failed to list a folder")]
    List(#[source] TreeError),
    /// A file cannot be read or written.
    #[error("failed to {action} {}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for AssembleError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoBackend { .. } | Self::NoProgram { .. } | Self::Configuration { .. } => FailureClass::ImageMismatch,
            Self::Checkpoint { .. } => FailureClass::BadModel,
            Self::List(_) | Self::File { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Where the parts lie.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Folder of Triton's vLLM backend in the image.
    pub vllm: PathBuf,
    /// Folder of the `llmapi` model in the image.
    pub llm_api: PathBuf,
    /// Folders of the image's programs.
    pub programs: Vec<PathBuf>,
    /// The fetched checkpoint.
    pub checkpoint: PathBuf,
    /// The artifact in the making.
    pub output: PathBuf,
}

/// Writes the repository of a task's model, or the file that vLLM's own server reads.
///
/// # Errors
/// [`AssembleError`]: the image lacks the backend, or the checkpoint what is served.
pub fn run(task: &BuildTask, order: &NoBuild, parts: &Parts) -> Result<(), AssembleError> {
    check_checkpoint(&parts.checkpoint)?;
    let model = parts.output.join(paths::MODEL_REPOSITORY).join(&task.model);
    let (folder, backend, tool) = match order.backend {
        NoBuildBackend::VLLM => {
            require(&parts.vllm.join("model.py"), "vLLM", order)?;
            write(&model.join(CONFIG_FILE), &vllm_configuration(&task.model))?;
            (&model, Backend::Vllm, "vllm")
        }
        NoBuildBackend::VLLMOpenAI => {
            require_program("vllm", order, &parts.programs)?;
            (&parts.output, Backend::VllmOpenAi, "vllm")
        }
        NoBuildBackend::TensorRTLLMPyTorch => {
            require(&parts.llm_api.join("1/model.py"), "TensorRT-LLM", order)?;
            copy_llm_api(&parts.llm_api, &model, &task.model)?;
            (&model, Backend::PyTorch, "tensorrt_llm")
        }
    };
    write(&folder.join(backend.arguments_file()), &order.arguments)?;
    let versions = BTreeMap::from([(tool.to_owned(), order.version.clone())]);
    let report = BuilderReport { versions, durations_millis: BTreeMap::new() };
    let text = serde_json::to_string(&report).expect("a report holds only texts and numbers");
    write(&parts.output.join(paths::BUILDER_REPORT), &text)
}

fn check_checkpoint(folder: &Path) -> Result<(), AssembleError> {
    let files = tree::files(folder).map_err(AssembleError::List)?;
    let ends = |end: &str| files.iter().any(|file| file.ends_with(end));
    let lacks = if !folder.join("config.json").is_file() {
        "no config.json"
    } else if !WEIGHTS.iter().any(|end| ends(end)) {
        "no weights (.safetensors, .bin or .pt)"
    } else if !TOKENIZERS.iter().any(|name| folder.join(name).is_file()) {
        "no tokenizer"
    } else {
        return Ok(());
    };
    Err(AssembleError::Checkpoint { lacks })
}

fn require(path: &Path, name: &'static str, order: &NoBuild) -> Result<(), AssembleError> {
    if path.is_file() {
        return Ok(());
    }
    Err(AssembleError::NoBackend { path: path.to_owned(), name, version: order.version.clone() })
}

fn require_program(program: &'static str, order: &NoBuild, folders: &[PathBuf]) -> Result<(), AssembleError> {
    if folders.iter().any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    Err(AssembleError::NoProgram { program, version: order.version.clone() })
}

/// The image's own model but for its arguments: its programs and its configuration change together.
fn copy_llm_api(template: &Path, model: &Path, name: &str) -> Result<(), AssembleError> {
    let ours = [CONFIG_FILE, Backend::PyTorch.arguments_file()];
    let files = tree::files(template).map_err(AssembleError::List)?;
    for file in files.iter().filter(|file| !ours.contains(&file.as_str()) && !file.contains("__pycache__")) {
        let from = template.join(file);
        let text = fs::read(&from).map_err(|source| AssembleError::File { action: "read", path: from, source })?;
        write_bytes(&model.join(file), &text)?;
    }
    let path = template.join(CONFIG_FILE);
    let text = fs::read_to_string(&path).map_err(|source| AssembleError::File {
        action: "read",
        path: path.clone(),
        source,
    })?;
    let named = named(&text, name).map_err(|source| AssembleError::Configuration { path, source })?;
    write(&model.join(CONFIG_FILE), &named)
}

/// A configuration under another model's name.
fn named(config: &str, name: &str) -> Result<String, SyntaxError> {
    let mut fields = text_format::parse(config)?;
    fields.retain(|field| field.name != "name");
    fields.insert(0, Field { name: "name".to_owned(), value: Value::Text(name.to_owned()) });
    Ok(text_format::write(&fields))
}

fn write(path: &Path, text: &str) -> Result<(), AssembleError> {
    write_bytes(path, text.as_bytes())
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), AssembleError> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    made.map_err(|source| AssembleError::File { action: "write", path: path.to_owned(), source })
}
