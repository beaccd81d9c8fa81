//! Gets, lists and discovery.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    kinds::{KINDS, Kind},
    refusal::Refusal,
    request::Asked,
    select,
    store::{Key, Store},
};

/// Discovery of the groups.
pub fn groups() -> Value {
    let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
    versions.extend(KINDS.iter().filter(|kind| !kind.group.is_empty()).map(|kind| (kind.group, kind.version)));
    let group = |(group, version): (&str, &str)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    };
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": versions.into_iter().map(group).collect::<Vec<_>>()})
}

/// Discovery of the kinds of a version.
///
/// # Errors
/// Where nobody serves it.
pub fn version(name: &str) -> Result<Value, Refusal> {
    let kinds = KINDS.iter().filter(|kind| kind.api_version() == name);
    let resource = |kind: &Kind| {
        json!({"name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": true, "kind": kind.kind,
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
    };
    let resources: Vec<Value> = kinds.map(resource).collect();
    if resources.is_empty() {
        return Err(Refusal::unknown_path());
    }
    Ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}))
}

/// An object as the client asked for it: whole, or its metadata alone.
pub fn shown(asked: &Asked, object: &Value) -> Value {
    if asked.accept.contains("as=PartialObjectMetadata;") {
        return json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
    }
    object.clone()
}

/// # Errors
/// Where there is no such object.
pub fn get(store: &Store, asked: &Asked, key: &Key) -> Result<Value, Refusal> {
    let object = store.get(key).ok_or_else(|| Refusal::not_found(&key.kind, &key.name))?;
    Ok(shown(asked, &object))
}

/// Objects as of some version, of which a list shows those that are selected.
pub struct Listed {
    pub objects: BTreeMap<Key, Arc<Value>>,
    pub version: u64,
}

/// # Errors
/// Where selectors or tokens cannot be read.
pub fn list(listed: &Listed, asked: &Asked, kind: Kind, namespace: Option<&str>) -> Result<Value, Refusal> {
    let start = asked.parameter("continue");
    if start.is_some_and(|start| !start.contains('/')) {
        return Err(Refusal::bad_request("continue key is not valid"));
    }
    let limit = asked.parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
    let is_whole = ["labelSelector", "fieldSelector"].iter().all(|selector| asked.parameter(selector).is_none());
    let (mut items, mut next, mut left) = (Vec::new(), None, 0);
    let of_kind = listed.objects.iter().filter(|(key, _)| key.kind == kind);
    for (key, object) in of_kind.filter(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace)) {
        let place = format!("{}/{}", key.namespace, key.name);
        if start.is_some_and(|start| place.as_str() < start) || !is_selected(asked, object)? {
            continue;
        }
        if limit.is_some_and(|limit: usize| items.len() == limit) {
            next = next.or(Some(place));
            left += 1;
            continue;
        }
        items.push(shown(asked, object));
    }
    let is_partial = asked.accept.contains("PartialObjectMetadataList");
    // Items of Kubernetes' own kinds have the type of their list.
    if !is_partial && !kind.is_custom() {
        for members in items.iter_mut().filter_map(Value::as_object_mut) {
            members.remove("apiVersion");
            members.remove("kind");
        }
    }
    let (of, version) = if is_partial {
        ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
    } else {
        (format!("{}List", kind.kind), kind.api_version())
    };
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    // Lists of custom resources always have the member.
    if next.is_some() || kind.is_custom() {
        metadata["continue"] = json!(next.unwrap_or_default());
    }
    // How many of those that are selected are left is not counted.
    if left > 0 && is_whole {
        metadata["remainingItemCount"] = json!(left);
    }
    Ok(json!({"kind": of, "apiVersion": version, "metadata": metadata, "items": items}))
}

/// # Errors
/// Where a selector cannot be read.
pub fn is_selected(asked: &Asked, object: &Value) -> Result<bool, Refusal> {
    let has_labels = select::has_labels(object, asked.parameter("labelSelector").unwrap_or_default())?;
    Ok(has_labels && select::has_fields(object, asked.parameter("fieldSelector").unwrap_or_default())?)
}
