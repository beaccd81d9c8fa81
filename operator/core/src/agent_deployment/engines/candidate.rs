//! An engine under consideration. Pure.

use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{
        EngineStatus,
        agent_deployment::{Precision, ServedBy},
        engine::{EngineArtifact, EngineBuild},
    },
};

/// One engine under consideration.
pub(super) struct Candidate<'a> {
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) precision: Precision,
    pub(super) served_by: ServedBy,
    /// What it is built from.
    pub(super) build: EngineBuild,
    pub(super) status: Option<&'a EngineStatus>,
}

/// What was built of it, if it was.
pub(super) fn artifact<'a>(candidate: &Candidate<'a>) -> Option<&'a EngineArtifact> {
    candidate.status?.artifact.as_ref()
}

/// Why it was not built, in words, if it has failed.
pub(super) fn failure<'a>(candidate: &Candidate<'a>) -> Option<&'a str> {
    let conditions = &candidate.status?.conditions;
    let stalled = conditions.iter().find(|c| c.type_ == ConditionType::Stalled.as_str() && c.status == "True")?;
    Some(&stalled.message)
}
