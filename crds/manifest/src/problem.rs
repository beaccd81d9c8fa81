//! What is wrong with a field, in the API server's words. Pure.
//!
//! The words are those of `k8s.io/apimachinery/pkg/util/validation/field` and `k8s.io/kube-openapi/pkg/validation`.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// A field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Path from the object's root: `spec.slo.objectives[0].max`.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        let Problem::UnknownField { nearest } = &self.problem else {
            // A rule about the whole object has no path.
            let separator = if path.is_empty() { "" } else { ": " };
            return write!(f, "{path}{separator}{}", self.detail());
        };
        write!(f, "strict decoding error: unknown field {path:?}")?;
        nearest.as_ref().map_or(Ok(()), |nearest| write!(f, ": did you mean {nearest:?}?"))
    }
}

impl Finding {
    /// What is wrong, without the field's path before it: the message of a cause in the API server's answer.
    #[must_use]
    pub fn detail(&self) -> String {
        let Self { path, problem } = self;
        match problem {
            Problem::Range { value, bound } => format!("Invalid value: {value}: {path} in body {bound}"),
            Problem::Type { expected, found } => {
                format!("Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}")
            }
            Problem::Pattern { value, pattern } => {
                format!("Invalid value: {value}: {path} in body should match '{pattern}'")
            }
            other => other.to_string(),
        }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Problem {
    /// The schema has no such field; kubectl refuses it, and other clients lose it.
    #[error("unknown field")]
    UnknownField {
        /// A field of this place whose name is alike.
        nearest: Option<String>,
    },
    /// The schema requires it.
    #[error("Required value")]
    Required,
    /// It has another type.
    #[error("must be of type {expected}")]
    Type {
        /// As in the schema.
        expected: String,
        /// What is there: `string`, `null`.
        found: &'static str,
    },
    /// It is none of a few values.
    #[error("Unsupported value: {value}: supported values: {}", listed(supported))]
    Unsupported {
        /// What is there.
        value: Value,
        /// What may be there.
        supported: Vec<Value>,
    },
    /// A number, or a count of characters, items or members, is out of its bounds.
    #[error("{bound}")]
    Range {
        /// What is there: the number itself, the text, or the number of items.
        value: Value,
        /// What it should be.
        bound: Bound,
    },
    /// There is too much of it.
    #[error("{0}")]
    TooMuch(#[from] TooMuch),
    /// A text that does not match.
    #[error("should match '{pattern}'")]
    Pattern {
        /// What is there.
        value: Value,
        /// A regular expression.
        pattern: String,
    },
    /// An item has the keys of an earlier one.
    #[error("Duplicate value: {0}")]
    Duplicate(Value),
    /// A name that Kubernetes does not take.
    #[error("Invalid value: {value:?}: {remedy}")]
    Name {
        /// What is there.
        value: String,
        /// What to write.
        remedy: &'static str,
    },
    /// A rule of the definition is broken, or cannot be evaluated.
    #[error("{}{message}", kind.prefix(found))]
    Rule {
        /// What kind of refusal the rule says that it is.
        kind: RuleKind,
        /// The type of what is there.
        found: &'static str,
        /// The rule's own words.
        message: String,
    },
}

impl Problem {
    /// Whether the API server evaluates no rule of an object with this problem
    /// (`k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go`: `hasBlockingErr`).
    #[must_use]
    pub fn keeps_rules_unchecked(&self) -> bool {
        match self {
            Self::Required | Self::Type { .. } | Self::Unsupported { .. } | Self::TooMuch(_) => true,
            Self::UnknownField { .. }
            | Self::Range { .. }
            | Self::Pattern { .. }
            | Self::Duplicate(_)
            | Self::Name { .. }
            | Self::Rule { .. } => false,
        }
    }
}

/// A bound that a value is held to.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Bound {
    /// `minimum`.
    #[error("should be greater than or equal to {0}")]
    AtLeast(Value),
    /// `maximum`.
    #[error("should be less than or equal to {0}")]
    AtMost(Value),
    /// `minLength`.
    #[error("should be at least {0} chars long")]
    Characters(u64),
    /// `minItems`.
    #[error("should have at least {0} items")]
    Items(u64),
}

/// Why there is too much of something.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TooMuch {
    /// `maxLength`.
    #[error("Too long: may not be more than {0} bytes")]
    Characters(u64),
    /// `maxItems`.
    #[error("Too many: {count}: must have at most {most} items")]
    Items {
        /// Items that are there.
        count: usize,
        /// Items that may be there.
        most: u64,
    },
    /// `maxProperties`.
    #[error("Too many: {count}: must have at most {most} items")]
    Members {
        /// Members that are there.
        count: usize,
        /// Members that may be there.
        most: u64,
    },
}

/// The `reason` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// `FieldValueInvalid`, and a rule without a reason.
    Invalid,
    /// `FieldValueRequired`.
    Required,
    /// `FieldValueForbidden`.
    Forbidden,
    /// `FieldValueDuplicate`.
    Duplicate,
}

impl RuleKind {
    /// Reads the reason of a rule; an unknown one is as none.
    #[must_use]
    pub fn of(reason: Option<&str>) -> Self {
        match reason {
            Some("FieldValueRequired") => Self::Required,
            Some("FieldValueForbidden") => Self::Forbidden,
            Some("FieldValueDuplicate") => Self::Duplicate,
            _ => Self::Invalid,
        }
    }

    fn prefix(self, found: &str) -> String {
        match self {
            Self::Invalid => format!("Invalid value: {found:?}: "),
            Self::Required => "Required value: ".to_owned(),
            Self::Forbidden => "Forbidden: ".to_owned(),
            Self::Duplicate => format!("Duplicate value: {found:?}: "),
        }
    }
}

/// The name of a value's type, as JSON Schema has it.
#[must_use]
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn listed(values: &[Value]) -> String {
    values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}
