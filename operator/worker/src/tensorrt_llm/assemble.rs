//! `assemble`: the engine, the tokenizer and the serving repository become one artifact.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use slipway_agent_runtime::backend::tokens::{Tokenizer, TokenizerError};
use slipway_backends::{
    formats::Parallelism,
    tensorrt_llm::{
        engine::{self, Engine, EngineError, File},
        repository::{self, RepositoryError, Serving},
        version::VersionError,
    },
};
use slipway_worker_contract::{BuildTask, BuilderReport, FailureClass, TensorRtLlmBuild, paths};

use crate::{
    failure::Classify,
    tree::{self, TreeError},
};

/// What is taken of a checkpoint beside its weights.
const TOKENIZER_FILES: [&str; 6] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
];

/// Says why there is no artifact.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The task is of another backend.
    #[error("the task contains no TensorRT-LLM build: operator and worker must be of the same release")]
    NoBuild,
    /// The task's version is malformed.
    #[error("the task's version is not one")]
    Version(#[source] VersionError),
    /// The tools left something else than the engine asked for.
    #[error("the engine is not the one asked for")]
    Engine(#[source] EngineError),
    /// The repository cannot be made of the image's templates.
    #[error("the image's templates cannot make a repository")]
    Repository(#[source] RepositoryError),
    /// Options without a place in the templates would silently be lost.
    #[error("the image's templates have no place for {names}")]
    Unused {
        /// The placeholders.
        names: String,
    },
    /// No fast tokenizer.
    #[error(
        "the checkpoint has no tokenizer.json, which prompts need to become tokens: save the tokenizer with save_pretrained()"
    )]
    NoTokenizer,
    /// The tokenizer cannot be used.
    #[error("the checkpoint's tokenizer cannot be used")]
    Tokenizer(#[source] TokenizerError),
    /// A folder cannot be listed.
    #[error("failed to list a folder")]
    List(#[source] TreeError),
    /// A file cannot be read or written.
    #[error("failed to {action} {}", path.display())]
    File {
        /// `read`, `write` or `copy`.
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
            Self::Engine(EngineError::Version { .. })
            | Self::Repository(_)
            | Self::Unused { .. }
            | Self::Version(_) => FailureClass::ImageMismatch,
            Self::Engine(_) | Self::NoTokenizer | Self::Tokenizer(_) => FailureClass::BadModel,
            Self::NoBuild | Self::List(_) | Self::File { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Where the parts lie.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The image's templates, a folder a model.
    pub models: PathBuf,
    /// The fetched checkpoint.
    pub checkpoint: PathBuf,
    /// The artifact in the making; its engine is there already.
    pub output: PathBuf,
}

/// Checks the engine and writes what serves it beside it.
///
/// # Errors
/// [`AssembleError`]: a rank is missing, the version or the split is another, the image is of another layout.
pub fn run(task: &BuildTask, parts: &Parts) -> Result<(), AssembleError> {
    let build = task.tensorrt_llm.as_ref().ok_or(AssembleError::NoBuild)?;
    let engine = validated(build, &parts.output.join(paths::TENSORRT_LLM_ENGINE))?;
    write_tokenizer(parts)?;
    write_models(build, &engine, parts)?;
    let versions = BTreeMap::from([("tensorrt_llm".to_owned(), build.version.clone())]);
    let report = BuilderReport { versions, durations_millis: BTreeMap::new() };
    let text = serde_json::to_string(&report).expect("a report holds only texts and numbers");
    write(&parts.output.join(paths::BUILDER_REPORT), &text)
}

fn validated(build: &TensorRtLlmBuild, folder: &Path) -> Result<Engine, AssembleError> {
    let version = build.version.parse().map_err(AssembleError::Version)?;
    let config = match fs::read_to_string(folder.join("config.json")) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(AssembleError::File { action: "read", path: folder.to_owned(), source }),
    };
    let names = if folder.is_dir() { tree::files(folder).map_err(AssembleError::List)? } else { Vec::new() };
    let size = |name: &String| fs::metadata(folder.join(name)).map_or(0, |metadata| metadata.len());
    let files: Vec<File> = names.iter().map(|name| File { name: name.clone(), size: size(name) }).collect();
    let parallelism = Parallelism { tensor: build.tensor_parallel, pipeline: build.pipeline_parallel };
    engine::validate(config.as_deref(), &files, version, parallelism).map_err(AssembleError::Engine)
}

fn write_tokenizer(parts: &Parts) -> Result<(), AssembleError> {
    if !parts.checkpoint.join("tokenizer.json").is_file() {
        return Err(AssembleError::NoTokenizer);
    }
    // What cannot be used to serve is said now.
    Tokenizer::read(&parts.checkpoint).map_err(AssembleError::Tokenizer)?;
    let mut present = TOKENIZER_FILES.iter().filter(|name| parts.checkpoint.join(name).is_file());
    present.try_for_each(|name| copy(&parts.checkpoint.join(name), &parts.output.join(paths::TOKENIZER).join(name)))
}

/// The image's own models, filled: templates and the programs beside them change together.
fn write_models(build: &TensorRtLlmBuild, engine: &Engine, parts: &Parts) -> Result<(), AssembleError> {
    let entry = build.entry;
    let template = |model: &&str| {
        let text = fs::read_to_string(parts.models.join(model).join("config.pbtxt")).ok()?;
        Some(((*model).to_owned(), text))
    };
    let templates: BTreeMap<String, String> = entry.models().iter().filter_map(template).collect();
    // The same folders where it serves, and where it is scored and measured.
    let folder = |name: &str| format!("{}/{name}", paths::ENGINE_DIR);
    let serving = Serving {
        kv_cache_reuse: build.kv_cache_reuse,
        chunked_context: build.chunked_context,
        has_paged_context: engine.has_paged_context,
        ..Serving::new(folder(paths::TENSORRT_LLM_ENGINE), folder(paths::TOKENIZER), build.max_batch_size)
    };
    let made = repository::repository(entry, &serving, &templates).map_err(AssembleError::Repository)?;
    refuse_unused(&made.unused)?;
    made.configs.iter().try_for_each(|(model, config)| write_model(parts, model, config))
}

fn write_model(parts: &Parts, name: &str, config: &str) -> Result<(), AssembleError> {
    let template = parts.models.join(name);
    let model = parts.output.join(paths::MODEL_REPOSITORY).join(name);
    // An artifact holds files, not folders: the version's folder must not be empty, as it is in some images.
    write(&model.join("1/.keep"), "")?;
    for file in tree::files(&template).map_err(AssembleError::List)?.iter().filter(|file| *file != "config.pbtxt") {
        copy(&template.join(file), &model.join(file))?;
    }
    write(&model.join("config.pbtxt"), config)
}

fn refuse_unused(unused: &BTreeSet<&'static str>) -> Result<(), AssembleError> {
    if unused.is_empty() {
        return Ok(());
    }
    Err(AssembleError::Unused { names: unused.iter().copied().collect::<Vec<_>>().join(", ") })
}

fn write(path: &Path, text: &str) -> Result<(), AssembleError> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    made.map_err(|source| AssembleError::File { action: "write", path: path.to_owned(), source })
}

fn copy(from: &Path, to: &Path) -> Result<(), AssembleError> {
    // By its bytes: an image's files may be read-only, and a copy with their modes could not be replaced.
    let made =
        to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::read(from)).and_then(|b| fs::write(to, b));
    made.map_err(|source| AssembleError::File { action: "copy", path: from.to_owned(), source })
}
