//! Records status. Writes IO.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slipway_crds::labels;
use thiserror::Error;

use super::{difference, undeclared};

/// Why a status or an event is not recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The API server did not accept the status.
    #[error("failed to write the status of {kind} {name}")]
    Status {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not accept the event.
    #[error("failed to publish the event {reason} of {name}")]
    Event {
        /// Reason of the event.
        reason: &'static str,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Writes the status, if it differs from the observed one. Gives the object as it is then; nothing if nothing was
/// written.
///
/// Definitions that are older than this operator lack fields of its status. They are left out, and [`lost`] tells
/// which.
///
/// The resource version of the observed object goes along: a decision that was made on an object that has since changed
/// is refused as a conflict, and made again.
///
/// # Errors
/// When the API server refuses.
pub async fn status<K, S>(
    client: &Client,
    object: &K,
    observed: Option<&S>,
    wanted: &S,
) -> Result<Option<K>, RecordError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq,
{
    if observed == Some(wanted) {
        return Ok(None);
    }
    let name = object.name_any();
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let patch = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "resourceVersion": object.resource_version() },
        "status": wanted,
    });
    let params = PatchParams::apply(labels::STATUS_FIELD_MANAGER).force();
    let mut written = api.patch_status(&name, &params, &Patch::Apply(&patch)).await;
    if let Some(kept) = written.as_ref().err().and_then(|error| undeclared::without(error, &patch)) {
        written = api.patch_status(&name, &params, &Patch::Apply(&kept)).await;
    }
    let refused = |source| RecordError::Status { kind: K::kind(&()).into_owned(), name, source: Box::new(source) };
    written.map(Some).map_err(refused)
}

/// Rewrites the status of an object that this release may be unable to read, whatever its form. `rewrite` gives the
/// status as it should be, or none; nothing is written where it is so already. Gives whether something was.
///
/// # Errors
/// When the API server refuses.
pub async fn rewritten_status<K>(
    client: &Client,
    (namespace, name): (&str, &str),
    rewrite: impl FnOnce(&Value) -> Option<Value>,
) -> Result<bool, RecordError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let refused = |source| RecordError::Status {
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()));
    let Some(found) = api.get_opt(name).await.map_err(refused)? else { return Ok(false) };
    let object = serde_json::to_value(&found).map_err(|error| refused(kube::Error::SerdeError(error)))?;
    let Some(status) = rewrite(&object).filter(|status| object.get("status") != Some(status)) else {
        return Ok(false);
    };
    let patch = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "resourceVersion": found.resource_version() },
        "status": status,
    });
    let params = PatchParams::apply(labels::STATUS_FIELD_MANAGER).force();
    api.patch_status(name, &params, &Patch::Apply(&patch)).await.map_err(refused)?;
    Ok(true)
}

/// The first field of a status that was not kept: the CRD of the cluster is older than this operator. Decisions follow
/// from the status, so what is lost is decided, written and told again at each look.
pub fn lost<K: Serialize, S: Serialize>(wanted: &S, written: &K) -> Option<String> {
    let wanted = serde_json::to_value(wanted).ok()?;
    let written = serde_json::to_value(written).ok()?;
    let field = difference::dropped(&wanted, written.get("status").unwrap_or(&Value::Null))?;
    Some(if field.is_empty() { "status".to_owned() } else { format!("status.{field}") })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crd_that_is_older_than_the_operator_is_found_by_what_it_does_not_keep() {
        let wanted = json!({"phase": "Serving", "told": [{"reason": "Stalled"}]});
        let lost_of = |written: Value| lost(&wanted, &written);
        assert_eq!(lost_of(json!({"status": wanted.clone()})), None);
        assert_eq!(lost_of(json!({"status": {"phase": "Serving"}})).as_deref(), Some("status.told"));
        assert_eq!(lost_of(json!({})).as_deref(), Some("status"));
    }
}
