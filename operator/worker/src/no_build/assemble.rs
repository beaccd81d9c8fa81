//! `assemble` for engines without a build: the serving repository.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use slipway_backends::no_build::{self, OwnServer, Serving};
use slipway_worker_contract::{Adapter, BuildTask, BuilderReport, FailureClass, NoBuild, paths};

use crate::{
    failure::Classify,
    repository::{
        CONFIG_FILE,
        text_format::{self, Field, SyntaxError, Value},
    },
    source::listing::is_of_adapter,
    tree::{self, TreeError},
};

/// What PEFT says of an adapter (huggingface/peft, src/peft/utils/constants.py: `CONFIG_NAME`).
const ADAPTER_CONFIG: &str = "adapter_config.json";
/// Weights that engines load.
const WEIGHTS: [&str; 3] = [".safetensors", ".bin", ".pt"];
/// One of these turns text into tokens.
const TOKENIZERS: [&str; 4] = ["tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json"];

/// Says why there is no repository.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The image is of another backend.
    #[error("the image lacks {}: check that it is Triton's image of {name} {version}", path.display())]
    NoBackend {
        /// What it should have.
        path: PathBuf,
        /// The backend's display name.
        name: &'static str,
        /// The version of the task.
        version: String,
    },
    /// The image lacks an engine's own server.
    #[error("the image lacks {lacks}: check that it is an image of {name} {version}")]
    NoServer {
        /// What it lacks.
        lacks: String,
        /// The backend's display name.
        name: &'static str,
        /// The version of the task.
        version: String,
    },
    /// The checkpoint is not one that can be served.
    #[error("the checkpoint has {lacks}: save model and tokenizer with save_pretrained()")]
    Checkpoint {
        /// What it lacks.
        lacks: &'static str,
    },
    /// The checkpoint lacks the adapter.
    #[error(
        "the checkpoint has no {folder}/{lacks}: engine.vllm.lora.folder names the folder that PEFT's save_pretrained() wrote"
    )]
    Adapter {
        /// The folder of the order.
        folder: String,
        /// What it lacks.
        lacks: &'static str,
    },
    /// The adapter has another rank.
    #[error(
        "engine.vllm.lora.rank is {ordered}, and r in {folder}/adapter_config.json is {}: write that one",
        found.map_or("no number".to_owned(), |rank| rank.to_string())
    )]
    Rank {
        /// The folder of the order.
        folder: String,
        /// The rank of the order.
        ordered: u32,
        /// The adapter's, where its file says it.
        found: Option<u64>,
    },
    /// The image's own configuration is not protobuf text.
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
            Self::NoBackend { .. } | Self::NoServer { .. } | Self::Configuration { .. } => FailureClass::ImageMismatch,
            Self::Checkpoint { .. } | Self::Adapter { .. } | Self::Rank { .. } => FailureClass::BadModel,
            Self::List(_) | Self::File { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Where the parts lie.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Folder of Triton's backends in the image.
    pub backends: PathBuf,
    /// Folder of the `llmapi` model in the image.
    pub llm_api: PathBuf,
    /// Folders of the image's programs.
    pub programs: Vec<PathBuf>,
    /// The fetched checkpoint.
    pub checkpoint: PathBuf,
    /// The artifact in the making.
    pub output: PathBuf,
}

/// Writes the repository of a task's model, or the file that an engine's own server reads.
///
/// # Errors
/// [`AssembleError`]: the image lacks the backend, or the checkpoint what is served.
pub fn run(task: &BuildTask, order: &NoBuild, parts: &Parts) -> Result<(), AssembleError> {
    check_checkpoint(&parts.checkpoint)?;
    order.adapter.iter().try_for_each(|adapter| check_adapter(&parts.checkpoint, adapter))?;
    let backend = no_build::of(order.backend);
    let model = parts.output.join(paths::MODEL_REPOSITORY).join(&task.model);
    let missing = |path| AssembleError::NoBackend { path, name: backend.product, version: order.version.clone() };
    let folder = match &backend.serving {
        Serving::TritonBackend { folder, configuration } => {
            require(parts.backends.join(folder).join("model.py")).map_err(missing)?;
            write(&model.join(CONFIG_FILE), &configuration(&task.model, &order.version))?;
            &model
        }
        Serving::TritonModel => {
            require(parts.llm_api.join("1/model.py")).map_err(missing)?;
            copy_llm_api(&parts.llm_api, &model, (&task.model, backend.arguments_file))?;
            &model
        }
        Serving::Own(server) => {
            require_server(server, &parts.programs).map_err(|lacks| AssembleError::NoServer {
                lacks,
                name: backend.product,
                version: order.version.clone(),
            })?;
            &parts.output
        }
    };
    write(&folder.join(backend.arguments_file), &order.arguments)?;
    let versions = BTreeMap::from([(backend.tool.to_owned(), order.version.clone())]);
    let report = BuilderReport { versions, durations_millis: BTreeMap::new() };
    let text = serde_json::to_string(&report).expect("a report holds only texts and numbers");
    write(&parts.output.join(paths::BUILDER_REPORT), &text)
}

fn check_checkpoint(folder: &Path) -> Result<(), AssembleError> {
    let files = tree::files(folder).map_err(AssembleError::List)?;
    let ends = |end: &str| files.iter().any(|file| file.ends_with(end) && !is_of_adapter(file));
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

/// Whether the adapter is there as PEFT writes it, with the rank that the engine is told.
fn check_adapter(checkpoint: &Path, Adapter { folder, rank }: &Adapter) -> Result<(), AssembleError> {
    let path = |name: &str| checkpoint.join(folder).join(name);
    for lacks in [ADAPTER_CONFIG, "adapter_model.safetensors"] {
        if !path(lacks).is_file() {
            return Err(AssembleError::Adapter { folder: folder.clone(), lacks });
        }
    }
    let path = path(ADAPTER_CONFIG);
    let text = fs::read(&path).map_err(|source| AssembleError::File { action: "read", path, source })?;
    let found = serde_json::from_slice::<serde_json::Value>(&text).ok().and_then(|config| config.get("r")?.as_u64());
    if found == Some(u64::from(*rank)) {
        return Ok(());
    }
    Err(AssembleError::Rank { folder: folder.clone(), ordered: *rank, found })
}

/// Whether a file is there; the file itself if it is not.
fn require(path: PathBuf) -> Result<(), PathBuf> {
    if path.is_file() { Ok(()) } else { Err(path) }
}

/// Whether the image has a server; what it lacks if not. A module is looked for and not imported, which could need a
/// GPU.
fn require_server(server: &OwnServer, folders: &[PathBuf]) -> Result<(), String> {
    let program = folders.iter().map(|folder| folder.join(server.program)).find(|path| path.is_file());
    let program = program.ok_or_else(|| format!("program {}", server.program))?;
    let Some(module) = server.module else { return Ok(()) };
    let look = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
    let found = Command::new(program).args(["-c", &look]).stdin(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("module {module} of Python")) }
}

/// The image's own model but for its arguments: its programs and its configuration change together.
fn copy_llm_api(template: &Path, model: &Path, (name, arguments): (&str, &str)) -> Result<(), AssembleError> {
    let ours = [CONFIG_FILE, arguments];
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
