//! Watches of the operator that failed, as its log has them. Pure.

use std::collections::BTreeSet;

use serde::Deserialize;

/// What the operator says of a watch that failed.
const FAILED: &str = "a watch failed; it begins again with a list";
/// What the API server says of a version that it has forgotten, with status 410.
const FORGOTTEN: &str = "too old";

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    message: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    error: String,
}

/// Kinds whose watches were answered with 410.
pub fn forgotten(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    lines.filter(|line| line.message == FAILED && line.error.contains(FORGOTTEN)).map(|line| line.kind).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn watches_that_failed_otherwise_were_not_forgotten() {
        let log = r#"{"level":"WARN","message":"a watch failed; it begins again with a list","kind":"Pod","error":"error returned by apiserver during watch: The resourceVersion for the provided watch is too old.: Expired"}
{"level":"WARN","message":"a watch failed; it begins again with a list","kind":"Job","error":"failed to start watching object: ServiceError: client error (Connect)"}
{"level":"INFO","message":"too old","kind":"Service"}
half a lin"#;
        assert_eq!(forgotten(log), BTreeSet::from(["Pod".to_owned()]));
    }
}
