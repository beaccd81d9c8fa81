//! Commands that need no cluster: `check` and `init`. Reads files, and writes IO.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Map, Value};
use slipway_backends::config_json::{self, ConfigError, ConfigFigures};
use thiserror::Error;

use crate::{
    check::{self, File, Unfit},
    init::{InitArgs, InitError, Options, manifest},
    output::{Format, OutputError, document},
};

/// File of a checkpoint that has the model's shape.
const CONFIG: &str = "config.json";
/// File of a checkpoint in which Model Optimizer says how it quantized.
const QUANT_CONFIG: &str = "hf_quant_config.json";

/// Flags of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Files of YAML or JSON; - is standard input.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The checkpoint's config.json, or the folder that has it: estimates the memory of the engines, and says what the
    /// operator would refuse.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The shape of the model in place of a file, by the names of config.json:
    /// hidden_size=4096,num_hidden_layers=32,num_attention_heads=32,num_key_value_heads=8,intermediate_size=14336,
    /// vocab_size=128256,max_position_embeddings=131072. Also head_dim where it is not hidden_size divided by the
    /// heads, and tie_word_embeddings=true where the model has one table of embeddings
    #[arg(long, value_name = "FIELD=NUMBER,...", value_delimiter = ',', conflicts_with = "config")]
    shape: Vec<String>,
    /// Writes a document for programs.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Why a command without a cluster failed.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// A file cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// A file does not say the model's shape.
    #[error("--config {path} has no shape")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is missing.
        #[source]
        source: ConfigError,
    },
    /// The flag does not say the model's shape.
    #[error("--shape is not one")]
    Shape(#[source] ConfigError),
    /// A part of the flag is not a field with a number.
    #[error("--shape {0:?} is not a field of config.json with its value: write them as hidden_size=4096")]
    Field(String),
    /// Manifests are not fit to be applied.
    #[error("failed to check")]
    Unfit(#[source] Unfit),
    /// Flags make no manifest.
    #[error("failed to write a manifest")]
    Init(#[source] InitError),
    /// The manifest of the flags would be refused.
    #[error("the manifest of these flags would be refused:\n{0}")]
    Refused(String),
    /// The document cannot be made.
    #[error("failed to show the answer")]
    Output(#[source] OutputError),
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// Checks files, and prints an answer for each object in them.
///
/// # Errors
/// When a file cannot be read, or an object would be refused.
pub fn check(args: &CheckArgs, out: &mut (dyn Write + Send)) -> Result<(), OfflineError> {
    let files = args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let model = match &args.config {
        Some(path) => Some(config(path)?),
        None => shape(&args.shape)?,
    };
    let checked = check::check(&files, model.as_ref()).map_err(OfflineError::Unfit)?;
    let written = match args.output {
        Some(format) => document(format, &checked).map_err(OfflineError::Output)?,
        None => check::text(&checked),
    };
    out.write_all(written.as_bytes()).map_err(OfflineError::Write)?;
    checked.verdict(&files).map_err(OfflineError::Unfit)
}

/// Prints the manifest of some flags.
///
/// # Errors
/// When a flag does not fit.
pub fn init(args: &InitArgs, namespace: Option<&str>, out: &mut (dyn Write + Send)) -> Result<(), OfflineError> {
    let options = Options::of(args, namespace).map_err(OfflineError::Init)?;
    let text = manifest(&options);
    // What flags cannot show, the rules of the API do.
    let file = File { name: "the manifest".to_owned(), text: text.clone() };
    let checked = check::check(std::slice::from_ref(&file), None).map_err(OfflineError::Unfit)?;
    if checked.verdict(std::slice::from_ref(&file)).is_err() {
        return Err(OfflineError::Refused(check::text(&checked)));
    }
    out.write_all(text.as_bytes()).map_err(OfflineError::Write)
}

fn read(path: &Path) -> Result<File, OfflineError> {
    let is_standard_input = path.as_os_str() == "-";
    let name = if is_standard_input { "standard input".to_owned() } else { path.display().to_string() };
    let text = if is_standard_input { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|source| OfflineError::Read { path: path.to_owned(), source })?;
    Ok(File { name, text })
}

/// The figures of a config.json, or of the folder of a checkpoint.
fn config(path: &Path) -> Result<ConfigFigures, OfflineError> {
    let path = if path.is_dir() { path.join(CONFIG) } else { path.to_owned() };
    let config = fs::read(&path).map_err(|source| OfflineError::Read { path: path.clone(), source })?;
    // Only some checkpoints have it.
    let quant_config = fs::read(path.with_file_name(QUANT_CONFIG)).ok();
    config_json::read(&config, quant_config.as_deref()).map_err(|source| OfflineError::Config { path, source })
}

/// The figures of fields that a flag names; none without any.
fn shape(fields: &[String]) -> Result<Option<ConfigFigures>, OfflineError> {
    if fields.is_empty() {
        return Ok(None);
    }
    let mut config = Map::new();
    for field in fields {
        let unknown = || OfflineError::Field(field.clone());
        let (name, value) = field.split_once('=').ok_or_else(unknown)?;
        // Numbers, true and false; architectures are a list of one name.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let value = if name == "architectures" { Value::from(vec![value]) } else { value };
        if name.is_empty() {
            return Err(unknown());
        }
        config.insert(name.to_owned(), value);
    }
    let config = Value::Object(config).to_string();
    config_json::read(config.as_bytes(), None).map(Some).map_err(OfflineError::Shape)
}
