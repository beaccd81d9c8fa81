//! What of an applied object a definition does not know. Pure.
//!
//! A server-side apply of a field that the schema lacks fails as a whole, with 500 and the paths of all such fields;
//! any other write drops them. The words are those of structured-merge-diff (`typed/validate.go`), in which the paths
//! are given in no other form.

use serde_json::Value;

const UNDECLARED: &str = ": field not declared in schema";

/// The object without the fields that the refusal names; nothing if it was refused for another reason.
pub fn without(refusal: &kube::Error, object: &Value) -> Option<Value> {
    let kube::Error::Api(status) = refusal else { return None };
    let parts: Vec<&str> = status.message.split(UNDECLARED).collect();
    let (_, before) = parts.split_last()?;
    let paths: Vec<&str> = before.iter().filter_map(|text| text.rfind(" .").map(|at| &text[at + 1..])).collect();
    let mut kept = object.clone();
    paths.iter().for_each(|path| remove(&mut kept, path));
    (kept != *object).then_some(kept)
}

/// Removes a field by its path, such as `.status.slo[name="p95"].odd`: a field that one item may not have, none may.
fn remove(value: &mut Value, path: &str) {
    if let Some(rest) = path.strip_prefix('[') {
        let rest = rest.split_once(']').map_or("", |(_, rest)| rest);
        value.as_array_mut().into_iter().flatten().for_each(|item| remove(item, rest));
        return;
    }
    let path = path.trim_start_matches('.');
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let Some(members) = value.as_object_mut() else { return };
    if rest.is_empty() {
        members.remove(name);
    } else if let Some(member) = members.get_mut(name) {
        remove(member, rest);
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn refused(message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "")))
    }

    /// As a server of Kubernetes 1.34 says it.
    const TWO: &str = "failed to create typed patch object (/s; slipway.dev/v1alpha1, Kind=AgentDeployment): errors:\n  \
                       .status.slo[name=\"p95\"].odd: field not declared in schema\n  \
                       .status.strange: field not declared in schema";

    #[test]
    fn fields_that_the_definition_lacks_are_left_out_at_every_item() {
        let object = json!({"status": {"stage": "Serving", "strange": {"a": 1},
            "slo": [{"name": "p95", "odd": 1}, {"name": "p50", "odd": 2, "met": true}]}});
        let kept = json!({"status": {"stage": "Serving", "slo": [{"name": "p95"}, {"name": "p50", "met": true}]}});
        assert_eq!(without(&refused(TWO), &object), Some(kept));
    }

    #[test]
    fn another_refusal_leaves_nothing_out() {
        let object = json!({"status": {"stage": "Serving"}});
        assert_eq!(without(&refused("Operation cannot be fulfilled on engines.slipway.dev"), &object), None);
        assert_eq!(without(&refused(TWO), &object), None, "it has none of these fields");
    }
}
