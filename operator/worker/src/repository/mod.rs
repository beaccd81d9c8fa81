//! Triton model repositories: whether one is complete, and its configuration with overrides.
//!
//! Layout: <https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md>.

pub mod overrides;
pub mod text_format;

use std::{
    fs,
    path::{Path, PathBuf},
};

use slipway_worker_contract::FailureClass;
use text_format::{Field, SyntaxError, scalar};

use crate::failure::Classify;

/// The configuration's file name in a model's folder.
pub const CONFIG_FILE: &str = "config.pbtxt";

/// Says what a model repository lacks.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The builder wrote no repository at all.
    #[error("the builder wrote no folder {}", root.display())]
    NoRepository {
        /// Where it should be.
        root: PathBuf,
    },
    /// A model's folder is not there; names those that are.
    #[error("the model repository has no model {model:?}; it has {found:?}")]
    NoModel {
        /// The wanted model.
        model: String,
        /// The models that are there.
        found: Vec<String>,
    },
    /// No configuration, or an unreadable one.
    #[error("model {model:?} has no readable {CONFIG_FILE}")]
    ReadConfig {
        /// The model.
        model: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A configuration that is not protobuf text.
    #[error("the {CONFIG_FILE} of model {model:?} is damaged or has an unfilled placeholder")]
    ParseConfig {
        /// The model.
        model: String,
        /// Where.
        #[source]
        source: SyntaxError,
    },
    /// A configuration of another model.
    #[error("the {CONFIG_FILE} in folder {model:?} has name {found:?}: Triton refuses a name that is not the folder's")]
    NameMismatch {
        /// The folder.
        model: String,
        /// The name in the configuration.
        found: String,
    },
    /// Nothing says what runs the model.
    #[error("the {CONFIG_FILE} of model {model:?} has neither backend nor platform")]
    NoBackend {
        /// The model.
        model: String,
    },
    /// No folder with a number for a name.
    #[error("model {model:?} has no version folder (as in {model}/1)")]
    NoVersion {
        /// The model.
        model: String,
    },
    /// A version folder without what the backend loads.
    #[error("version {version} of model {model:?} has no {expected}: the builder wrote half a repository")]
    NoModelFile {
        /// The model.
        model: String,
        /// The version folder.
        version: String,
        /// The file that is missing.
        expected: String,
    },
    /// A folder cannot be listed.
    #[error("failed to list {}", path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl Classify for RepositoryError {
    fn class(&self) -> FailureClass {
        match self {
            Self::List { .. } => FailureClass::Infrastructure,
            Self::NoRepository { .. }
            | Self::NoModel { .. }
            | Self::ReadConfig { .. }
            | Self::ParseConfig { .. }
            | Self::NameMismatch { .. }
            | Self::NoBackend { .. }
            | Self::NoVersion { .. }
            | Self::NoModelFile { .. } => FailureClass::BadModel,
        }
    }
}

/// Checks that a repository holds `model` and that each of its models is complete enough for Triton to try.
///
/// # Errors
/// [`RepositoryError`] names the model and what it lacks.
pub fn check(root: &Path, model: &str) -> Result<(), RepositoryError> {
    if !root.is_dir() {
        return Err(RepositoryError::NoRepository { root: root.to_owned() });
    }
    let models = folders(root)?;
    if !models.iter().any(|m| m == model) {
        return Err(RepositoryError::NoModel { model: model.to_owned(), found: models });
    }
    models.iter().try_for_each(|name| check_model(&root.join(name), name))
}

fn check_model(folder: &Path, model: &str) -> Result<(), RepositoryError> {
    let text = fs::read_to_string(folder.join(CONFIG_FILE))
        .map_err(|source| RepositoryError::ReadConfig { model: model.to_owned(), source })?;
    let config =
        text_format::parse(&text).map_err(|source| RepositoryError::ParseConfig { model: model.to_owned(), source })?;
    if let Some(found) = scalar(&config, "name").filter(|found| !found.is_empty() && *found != model) {
        return Err(RepositoryError::NameMismatch { model: model.to_owned(), found: found.to_owned() });
    }
    let Some(runtime) = runtime(&config) else { return Err(RepositoryError::NoBackend { model: model.to_owned() }) };
    let versions: Vec<String> = folders(folder)?.into_iter().filter(|v| v.parse::<u64>().is_ok()).collect();
    if versions.is_empty() {
        return Err(RepositoryError::NoVersion { model: model.to_owned() });
    }
    versions.iter().try_for_each(|version| check_version(folder, model, version, model_file(&config, runtime)))
}

fn check_version(folder: &Path, model: &str, version: &str, file: ModelFile) -> Result<(), RepositoryError> {
    let path = folder.join(version);
    let (present, expected) = match file {
        ModelFile::None => return Ok(()),
        ModelFile::Named(name) => (path.join(&name).exists(), name),
        ModelFile::Any => (has_entry(&path)?, "file".to_owned()),
    };
    if present {
        return Ok(());
    }
    Err(RepositoryError::NoModelFile { model: model.to_owned(), version: version.to_owned(), expected })
}

/// What a version folder must hold.
enum ModelFile {
    /// Nothing: an ensemble has no file of its own.
    None,
    /// This file.
    Named(String),
    /// Something: the backend has rules of its own.
    Any,
}

fn model_file(config: &[Field], runtime: &str) -> ModelFile {
    if let Some(name) = scalar(config, "default_model_filename").filter(|name| !name.is_empty()) {
        return ModelFile::Named(name.to_owned());
    }
    match runtime {
        "ensemble" => ModelFile::None,
        "python" => ModelFile::Named("model.py".to_owned()),
        "onnxruntime" | "onnxruntime_onnx" => ModelFile::Named("model.onnx".to_owned()),
        "tensorrt" | "tensorrt_plan" => ModelFile::Named("model.plan".to_owned()),
        "pytorch" | "pytorch_libtorch" => ModelFile::Named("model.pt".to_owned()),
        // The engine may lie elsewhere (parameter gpt_model_path); its version folder is empty in the shipped layout.
        "tensorrtllm" => ModelFile::None,
        _ => ModelFile::Any,
    }
}

fn runtime(config: &[Field]) -> Option<&str> {
    ["backend", "platform"].into_iter().find_map(|field| scalar(config, field).filter(|value| !value.is_empty()))
}

fn folders(path: &Path) -> Result<Vec<String>, RepositoryError> {
    let list = || -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    };
    list().map_err(|source| RepositoryError::List { path: path.to_owned(), source })
}

fn has_entry(path: &Path) -> Result<bool, RepositoryError> {
    let mut entries = fs::read_dir(path).map_err(|source| RepositoryError::List { path: path.to_owned(), source })?;
    Ok(entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "name: \"agent\"\nbackend: \"python\"\nmax_batch_size: 0\n";

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn complaint(files: &[(&str, &str)]) -> String {
        let dir = repository(files);
        crate::failure::chain(&check(dir.path(), "agent").unwrap_err())
    }

    #[test]
    fn a_complete_repository_passes_with_its_ensemble() {
        let dir = repository(&[
            ("agent/config.pbtxt", CONFIG),
            ("agent/1/model.py", "pass"),
            ("all/config.pbtxt", "platform: \"ensemble\""),
            ("all/1/.keep", ""),
        ]);
        check(dir.path(), "agent").unwrap();
    }

    #[test]
    fn half_a_repository_is_refused_with_what_is_missing() {
        assert!(complaint(&[("other/config.pbtxt", CONFIG)]).ends_with("has no model \"agent\"; it has [\"other\"]"));
        assert!(complaint(&[("agent/1/model.py", "")]).starts_with("model \"agent\" has no readable config.pbtxt: No"));
        assert_eq!(
            complaint(&[("agent/config.pbtxt", CONFIG)]),
            "model \"agent\" has no version folder (as in agent/1)"
        );
        assert_eq!(
            complaint(&[("agent/config.pbtxt", CONFIG), ("agent/1/weights.bin", "")]),
            "version 1 of model \"agent\" has no model.py: the builder wrote half a repository"
        );
    }

    #[test]
    fn a_configuration_that_triton_would_refuse_is_refused_here() {
        assert_eq!(
            complaint(&[("agent/config.pbtxt", "name: \"echo\" backend: \"python\"")]),
            "the config.pbtxt in folder \"agent\" has name \"echo\": Triton refuses a name that is not the folder's"
        );
        assert_eq!(
            complaint(&[("agent/config.pbtxt", "max_batch_size: 0")]),
            "the config.pbtxt of model \"agent\" has neither backend nor platform"
        );
        assert_eq!(
            complaint(&[("agent/config.pbtxt", "max_batch_size: ${size}")]),
            "the config.pbtxt of model \"agent\" is damaged or has an unfilled placeholder: line 1: expected a value, \
             found '$'"
        );
    }

    #[test]
    fn a_builder_that_wrote_nothing_is_told_where_it_should_have() {
        let text = check(Path::new("/nonexistent/model_repository"), "agent").unwrap_err().to_string();
        assert_eq!(text, "the builder wrote no folder /nonexistent/model_repository");
    }
}
