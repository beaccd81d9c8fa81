//! Answers for programs: documents of JSON or YAML in place of text. Pure.
//!
//! A document has an `apiVersion` and a `kind` of its own. Members keep their names and meanings within a version;
//! new ones may be added. Parts of the API's status appear as the API has them.

use clap::ValueEnum;
use serde::Serialize;
use thiserror::Error;

/// The version of the documents.
pub const API_VERSION: &str = "cli.slipway.dev/v1alpha1";

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON, indented.
    Json,
    /// YAML.
    Yaml,
}

/// What a command shows, as a type.
pub trait Shown: Serialize {
    /// The `kind` of its document.
    const KIND: &'static str;
}

/// Why a document cannot be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// As JSON.
    #[error("failed to write JSON")]
    Json(#[source] serde_json::Error),
    /// As YAML.
    #[error("failed to write YAML")]
    Yaml(#[source] serde_norway::Error),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    shown: &'a T,
}

/// The document of what is shown, with a line end.
///
/// # Errors
/// When a value has no form in the format.
pub fn document<T: Shown>(format: Format, shown: &T) -> Result<String, OutputError> {
    let document = Document { api_version: API_VERSION, kind: T::KIND, shown };
    match format {
        Format::Json => serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(OutputError::Json),
        Format::Yaml => serde_norway::to_string(&document).map_err(OutputError::Yaml),
    }
}

/// The same as one of several documents that follow each other.
///
/// # Errors
/// When a value has no form in the format.
pub fn one_of_several<T: Shown>(format: Format, shown: &T) -> Result<String, OutputError> {
    let text = document(format, shown)?;
    Ok(match format {
        Format::Json => text,
        Format::Yaml => format!("---\n{text}"),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Example {
        ready_pods: i32,
    }

    impl Shown for Example {
        const KIND: &'static str = "Example";
    }

    #[test]
    fn a_document_says_its_version_and_its_kind_before_its_members() {
        let written = |format| document(format, &Example { ready_pods: 2 }).unwrap_or_default();
        let json =
            "{\n  \"apiVersion\": \"cli.slipway.dev/v1alpha1\",\n  \"kind\": \"Example\",\n  \"readyPods\": 2\n}\n";
        assert_eq!(written(Format::Json), json);
        assert_eq!(written(Format::Yaml), "apiVersion: cli.slipway.dev/v1alpha1\nkind: Example\nreadyPods: 2\n");
    }

    #[test]
    fn documents_that_follow_each_other_can_be_told_apart() {
        let written = |format| one_of_several(format, &Example { ready_pods: 2 }).unwrap_or_default();
        assert!(written(Format::Json).starts_with("{\n"));
        assert!(written(Format::Yaml).starts_with("---\napiVersion: "));
    }
}
