//! What the operator asks of a Job.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{Digest, NoBuild, ProfileTask, QualityMetric, SweepTask, TensorRtLlmBuild};

/// Orders one Job; the verb of the worker's command line says which kind it expects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Task {
    /// For `slipway-worker resolve`.
    Resolve(ResolveTask),
    /// For `slipway-worker fetch`.
    Fetch(FetchTask),
    /// For `slipway-worker finish-build`.
    Build(Box<BuildTask>),
    /// For `slipway-worker quality`.
    Quality(QualityTask),
    /// For `slipway-worker profile`.
    Profile(Box<ProfileTask>),
    /// For `slipway-worker sweep`.
    Sweep(SweepTask),
}

/// Asks what a model URI stands for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveTask {
    /// `hf://org/name@revision`, `pvc://claim/path` or `http(s)://...`.
    pub uri: String,
    /// Whether the backend can do without the shape in `config.json`.
    pub shape: ShapeNeed,
}

/// Says whether a source without a readable shape is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShapeNeed {
    /// `config.json` must give layers, heads, hidden size and vocabulary.
    Required,
    /// A shape is reported where there is one (Custom backends, a tokenizer apart).
    Optional,
}

/// Asks for a resolved source in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchTask {
    /// The pinned URI that `resolve` returned.
    pub uri: String,
    /// The digest that `resolve` returned; the fetched files must have it.
    pub source_digest: Digest,
}

/// Names one engine artifact of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineRef {
    /// The Engine's identity hash, as it names the object: lowercase letters, digits and hyphens.
    pub identity: String,
    /// SHA-256 of the manifest's bytes.
    pub manifest_digest: Digest,
}

/// Asks to check, hash and publish what a builder wrote, and to score it if it has been evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildTask {
    /// The Engine's identity hash.
    pub identity: String,
    /// The model's name in the repository (`agent`).
    pub model: String,
    /// Present if the builder's `evaluate` ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityTask>,
    /// Present if the vendor's tools build, not a container of the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensorrt_llm: Option<TensorRtLlmBuild>,
    /// Present if nothing is built and the checkpoint is served as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_build: Option<NoBuild>,
}

/// Asks to score raw outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QualityTask {
    /// How one output is scored.
    pub metric: QualityMetric,
    /// Confidence of the one-sided bound on the drop, in parts per million (950000 is 95 %).
    pub confidence_ppm: u32,
    /// The engine to compare with; its scores are read from the store. Absent for the reference itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<EngineRef>,
    /// The scored engine, for the `quality` verb; `finish-build` knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineRef>,
}

/// The options file of a Custom builder, `build.json` beside the task file ([`crate::paths::TASK_FILE`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomBuild {
    /// `FP32`, `INT8`, ...
    pub precision: String,
    /// The variant of the model, where the user declares any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The user's options, as they stand in the spec.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// What a builder may leave in [`crate::paths::BUILDER_REPORT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuilderReport {
    /// Tool to version, as in `{"tensorrt": "10.3.0"}`.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Step to milliseconds.
    #[serde(default)]
    pub durations_millis: BTreeMap<String, u64>,
}

/// Says why a task file cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// No JSON of this shape; the parser's words name the field.
    Syntax(String),
    /// A task of another kind than the verb.
    Kind {
        /// The verb's kind.
        expected: &'static str,
        /// The file's kind.
        found: &'static str,
    },
}

impl Task {
    /// Returns the value of the `kind` field.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "Resolve",
            Self::Fetch(_) => "Fetch",
            Self::Build(_) => "Build",
            Self::Quality(_) => "Quality",
            Self::Profile(_) => "Profile",
            Self::Sweep(_) => "Sweep",
        }
    }

    /// Parses a task file.
    ///
    /// # Errors
    /// [`TaskError::Syntax`] with the field that is unknown, missing or of the wrong type.
    pub fn parse(bytes: &[u8]) -> Result<Self, TaskError> {
        serde_json::from_slice(bytes).map_err(|e| TaskError::Syntax(e.to_string()))
    }

    /// Writes the task file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a task is plain data with text keys")
    }

    /// Makes the error for a verb that got another verb's task.
    pub fn unexpected(&self, expected: &'static str) -> TaskError {
        TaskError::Kind { expected, found: self.kind() }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => {
                write!(f, "the task file is not understood: {reason}; operator and worker must be of the same release")
            }
            Self::Kind { expected, found } => {
                write!(f, "the task file holds a {found} task, this verb needs a {expected} task")
            }
        }
    }
}

impl std::error::Error for TaskError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_its_file() {
        let task = Task::Build(Box::new(BuildTask {
            identity: "eng-0f".into(),
            model: "agent".into(),
            quality: Some(QualityTask {
                metric: QualityMetric::ExactMatch,
                confidence_ppm: 950_000,
                reference: None,
                engine: None,
            }),
            tensorrt_llm: None,
            no_build: None,
        }));
        assert_eq!(Task::parse(task.to_json().as_bytes()).unwrap(), task);
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = Task::parse(br#"{"kind":"Resolve","uri":"hf://a/b","shape":"Required","mirror":"x"}"#).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("unknown field `mirror`"), "{text}");
        assert!(text.contains("same release"), "{text}");
    }

    #[test]
    fn a_task_of_another_verb_names_both() {
        let task = Task::Resolve(ResolveTask { uri: "hf://a/b".into(), shape: ShapeNeed::Optional });
        assert_eq!(
            task.unexpected("Fetch").to_string(),
            "the task file holds a Resolve task, this verb needs a Fetch task"
        );
    }
}
