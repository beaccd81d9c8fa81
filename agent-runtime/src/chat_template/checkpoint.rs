//! The files of a checkpoint that say how a conversation is written. Reads files.
//!
//! `chat_template.jinja` comes before the `chat_template` of `tokenizer_config.json`; that is a text, or a list of
//! named ones, of which `tool_use` is for prompts with tools. `additional_chat_templates` holds further ones by name.
//! The special tokens are those of `tokenizer_config.json`, and of `special_tokens_map.json` where it has none.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ChatTemplate, CompileError};

/// Special tokens that templates find by these names.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// The templates of a checkpoint.
pub struct Checkpoint {
    /// For every prompt, where there is no other.
    default: ChatTemplate,
    /// For prompts with tools.
    tool_use: Option<ChatTemplate>,
    /// What the tokenizer puts before every text.
    begin: Option<Arc<str>>,
    /// What ends a turn.
    end: Option<Arc<str>>,
}

/// Why a checkpoint's templates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadCheckpointError {
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file is not JSON of the expected shape.
    #[error("{} is not the configuration of a tokenizer: save it again with save_pretrained()", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// There are templates, and none for every prompt.
    #[error("the checkpoint has chat templates named {names}, and none of them is \"default\"")]
    NoDefault {
        /// The names.
        names: String,
    },
    /// A template is malformed.
    #[error("failed to compile the chat template {name:?} of the checkpoint")]
    Compile {
        /// The template's name.
        name: String,
        /// Where it is wrong.
        #[source]
        source: CompileError,
    },
}

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    chat_template: Option<Written>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(String),
    Several(Vec<Named>),
}

#[derive(Deserialize)]
struct Named {
    name: String,
    template: String,
}

/// Writes members of a chat completion's body, for a server that has a template of its own. By the word in its comment
/// it is known to write calls of tools.
const MESSAGES: &str =
    "{\"messages\": {{ messages | tojson }}{% if tools %}, \"tools\": {{ tools | tojson }}{% endif %}}{# tool_calls #}";

impl Checkpoint {
    /// The checkpoint of a server that takes messages and tools as they are: its prompts are JSON.
    ///
    /// # Errors
    /// None that is known.
    pub fn of_messages() -> Result<Self, CompileError> {
        let default = ChatTemplate::compile(MESSAGES, &BTreeMap::new())?;
        Ok(Self { default, tool_use: None, begin: None, end: None })
    }

    /// Reads a checkpoint's folder; nothing if it has no template.
    ///
    /// # Errors
    /// [`ReadCheckpointError`] names the file or the template.
    pub fn read(folder: &Path) -> Result<Option<Self>, ReadCheckpointError> {
        let config: TokenizerConfig = read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        let mut tokens: Map<String, Value> = read_json(&folder.join("special_tokens_map.json"))?.unwrap_or_default();
        tokens.extend(config.others.into_iter().filter(|(_, token)| !token.is_null()));
        let adds_begin = tokens.get("add_bos_token").and_then(Value::as_bool);
        let tokens = special_tokens(&tokens);
        let begin = match tokens.get("bos_token") {
            Some(token) if adds_begin.map_or_else(|| begins_with(folder, token), Ok)? => {
                Some(Arc::from(token.as_str()))
            }
            Some(_) | None => None,
        };
        let mut templates: BTreeMap<String, String> = match config.chat_template {
            None => BTreeMap::new(),
            Some(Written::One(template)) => BTreeMap::from([(DEFAULT.to_owned(), template)]),
            Some(Written::Several(all)) => all.into_iter().map(|Named { name, template }| (name, template)).collect(),
        };
        if let Some(template) = read_text(&folder.join("chat_template.jinja"))? {
            templates.insert(DEFAULT.to_owned(), template);
        }
        if let Some(template) = read_text(&folder.join(format!("additional_chat_templates/{TOOL_USE}.jinja")))? {
            templates.insert(TOOL_USE.to_owned(), template);
        }
        Self::of(&templates, &tokens, begin)
    }

    fn of(
        templates: &BTreeMap<String, String>,
        tokens: &BTreeMap<String, String>,
        begin: Option<Arc<str>>,
    ) -> Result<Option<Self>, ReadCheckpointError> {
        let compile = |name: &str| {
            let template = templates.get(name).map(|source| ChatTemplate::compile(source, tokens)).transpose();
            template.map_err(|source| ReadCheckpointError::Compile { name: name.to_owned(), source })
        };
        match compile(DEFAULT)? {
            Some(default) => {
                let end = tokens.get("eos_token").filter(|end| !end.is_empty()).map(|end| Arc::from(end.as_str()));
                Ok(Some(Self { default, tool_use: compile(TOOL_USE)?, begin, end }))
            }
            None if templates.is_empty() => Ok(None),
            None => {
                let names = templates.keys().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
                Err(ReadCheckpointError::NoDefault { names })
            }
        }
    }

    /// The token that the tokenizer puts before every text by itself, as text.
    pub fn begin(&self) -> Option<&Arc<str>> {
        self.begin.as_ref()
    }

    /// The token by which the tokenizer ends a turn, as text.
    pub fn end(&self) -> Option<&Arc<str>> {
        self.end.as_ref()
    }

    /// The template of a prompt, by whether it has tools.
    pub fn template(&self, has_tools: bool) -> &ChatTemplate {
        self.tool_use.as_ref().filter(|_| has_tools).unwrap_or(&self.default)
    }
}

/// What is read of `tokenizer.json`.
#[derive(Default, Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    post_processor: Value,
}

/// Whether a tokenizer puts a token before every text.
fn begins_with(folder: &Path, token: &str) -> Result<bool, ReadCheckpointError> {
    let file: TokenizerFile = read_json(&folder.join("tokenizer.json"))?.unwrap_or_default();
    let inner = file.post_processor.get("processors").and_then(Value::as_array);
    let all = std::iter::once(&file.post_processor).chain(inner.into_iter().flatten());
    let first =
        |processor: &Value| processor.pointer("/single/0/SpecialToken/id").and_then(Value::as_str) == Some(token);
    Ok(all.into_iter().any(first))
}

/// The texts of special tokens, which are written plainly or as objects.
fn special_tokens(tokens: &Map<String, Value>) -> BTreeMap<String, String> {
    let text = |name: &str| match tokens.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(token) => token.get("content")?.as_str().map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    SPECIAL_TOKENS.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect()
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, ReadCheckpointError> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let shape = |source| ReadCheckpointError::Shape { path: path.to_owned(), source };
    serde_json::from_str(&text).map(Some).map_err(shape)
}

fn read_text(path: &Path) -> Result<Option<String>, ReadCheckpointError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReadCheckpointError::Read { path: path.to_owned(), source }),
    }
}
