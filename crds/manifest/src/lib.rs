//! What an API server says of an object of slipway.dev, without one. Pure.
//!
//! [`Definitions::check`] does what the API server does with a new object, in its order. It removes nulls, holds the
//! object to the structural schema ([`schema`]) and its metadata to the rules of names ([`metadata`]), fills in
//! defaults, and evaluates the rules in CEL ([`rules`]). Problems have the API server's words, so that a
//! person reads the same here and there.

pub mod metadata;
pub mod nulls;
pub mod problem;
pub mod rules;
pub mod schema;

use std::collections::BTreeMap;

use kube_cel::apply_defaults;
use serde_json::Value;
use thiserror::Error;

pub use self::{
    problem::{Finding, Problem},
    schema::Structure,
};

/// An object that is as the API server would accept it, its defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted(pub Value);

/// Why an object is not accepted.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Refused {
    /// Its group is not this one: there is nothing to say.
    #[error("{api_version} {kind} is not of slipway.dev")]
    Foreign {
        /// As the object has it.
        api_version: String,
        /// As the object has it.
        kind: String,
    },
    /// The group has no such kind, or not in this version.
    #[error("no kind {kind:?} in {api_version}: write {known}")]
    UnknownKind {
        /// As the object has it.
        api_version: String,
        /// As the object has it.
        kind: String,
        /// What may be written.
        known: String,
    },
    /// What is wrong with it, in the order of its fields.
    #[error("{}", lines(findings, *has_unchecked_rules))]
    Invalid {
        /// At least one.
        findings: Vec<Finding>,
        /// Whether its rules could not be evaluated, because a value that they read is not what it should be.
        has_unchecked_rules: bool,
    },
}

/// The schemas of slipway.dev, by apiVersion and kind.
#[derive(Debug, Clone)]
pub struct Definitions(BTreeMap<(String, String), Structure>);

const GROUP: &str = "slipway.dev";
/// What the API server says where it could not evaluate the rules.
pub const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                             errors to complete validation";

impl Default for Definitions {
    fn default() -> Self {
        Self::new()
    }
}

impl Definitions {
    /// The definitions of this release.
    #[must_use]
    pub fn new() -> Self {
        let mut schemas = BTreeMap::new();
        for definition in slipway_crds::definitions() {
            let (group, kind) = (&definition.spec.group, &definition.spec.names.kind);
            for version in &definition.spec.versions {
                let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
                schemas.insert((format!("{group}/{}", version.name), kind.clone()), Structure::new(schema));
            }
        }
        Self(schemas)
    }

    /// What the API server makes of a new object.
    ///
    /// # Errors
    /// When it would refuse the object, or when the object is of another group.
    pub fn check(&self, object: &Value) -> Result<Accepted, Refused> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let Some(structure) = self.0.get(&(api_version.clone(), kind.clone())) else {
            return Err(self.without_schema(api_version, kind));
        };
        let schema = structure.schema();
        let mut object = object.clone();
        // A new object's status is not its author's: the API server drops it.
        object.as_object_mut().map(|members| members.remove("status"));
        nulls::remove(schema, &mut object);
        let mut findings = metadata::findings(&object["metadata"]);
        findings.extend(structure.findings(&object));
        let object = apply_defaults(schema, &object);
        let has_unchecked_rules = findings.iter().any(|finding| finding.problem.keeps_rules_unchecked());
        if !has_unchecked_rules {
            findings.extend(rules::findings(schema, &object));
        }
        if findings.is_empty() { Ok(Accepted(object)) } else { Err(Refused::Invalid { findings, has_unchecked_rules }) }
    }

    fn without_schema(&self, api_version: String, kind: String) -> Refused {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if group != GROUP {
            return Refused::Foreign { api_version, kind };
        }
        let known = self.0.keys().map(|(version, kind)| format!("{kind} of {version}")).collect::<Vec<_>>();
        Refused::UnknownKind { api_version, kind, known: known.join(", ") }
    }
}

fn lines(findings: &[Finding], has_unchecked_rules: bool) -> String {
    let lines = findings.iter().map(ToString::to_string);
    lines.chain(has_unchecked_rules.then(|| UNCHECKED.to_owned())).collect::<Vec<_>>().join("\n")
}
