//! The rules in CEL. Pure.

use kube_cel::Validator;
use serde_json::Value;

use crate::problem::{Finding, Problem, RuleKind, type_of};

/// The rules of a schema that an object breaks. Its structure is sound and its defaults are filled in.
#[must_use]
pub fn findings(schema: &Value, object: &Value) -> Vec<Finding> {
    let Err(errors) = Validator::new().validate(schema, object, None) else { return Vec::new() };
    let finding = |error: kube_cel::ValidationError| {
        let path = error.field_path.trim_start_matches('.').to_owned();
        let found = at(object, &path).map_or("object", type_of);
        let kind = RuleKind::of(error.reason.as_deref());
        Finding { path, problem: Problem::Rule { kind, found, message: error.message } }
    };
    errors.into_vec().into_iter().map(finding).collect()
}

/// The value at a path such as `spec.slo.objectives[0].max`, if there is one.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer: String = path.split(['.', '[']).map(|part| format!("/{}", part.trim_end_matches(']'))).collect();
    object.pointer(&pointer)
}
