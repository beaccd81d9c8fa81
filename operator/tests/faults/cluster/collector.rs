//! The garbage collector: what nobody owns any more goes, and what is deleted in the foreground goes last.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{all, is_owned_by};
use crate::api::{
    kinds::{KINDS, PODS},
    store::{Key, Store, Writer, is_going},
};

pub fn step(store: &mut Store, now: &str) {
    // What goes makes others go: until nothing does.
    loop {
        let before = store.version();
        orphans(store, now);
        foreground(store, now);
        if store.version() == before {
            return;
        }
    }
}

fn everything(store: &Store) -> Vec<(Key, Arc<Value>)> {
    KINDS.into_iter().flat_map(|kind| all(store, kind)).collect()
}

/// Objects whose owners are all gone.
fn orphans(store: &mut Store, now: &str) {
    for (key, object) in everything(store) {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if !owners.is_empty() && !owners.iter().any(|owner| is_there(store, &key, owner)) {
            delete(store, &key, now);
        }
    }
}

/// Whether the very owner is there: one of its name and another UID is somebody else.
fn is_there(store: &Store, dependent: &Key, owner: &Value) -> bool {
    let Some(kind) =
        KINDS.into_iter().find(|kind| owner["kind"] == kind.kind && owner["apiVersion"] == kind.api_version())
    else {
        return true;
    };
    let key = Key::new(kind, &dependent.namespace, owner["name"].as_str().unwrap_or_default());
    store.get(&key).is_some_and(|found| found["metadata"]["uid"] == owner["uid"])
}

/// Deletes as the collector does: a pod is given its time.
fn delete(store: &mut Store, key: &Key, now: &str) {
    let Some(object) = store.get(key) else { return };
    if is_going(&object) {
        return;
    }
    if key.kind == PODS {
        let mut pod = (*object).clone();
        pod["metadata"]["deletionTimestamp"] = json!(now);
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        store.put(key.clone(), pod, Writer::Cluster);
    } else {
        store.remove(key, Writer::Cluster);
    }
}

/// Owners that wait for their dependents.
fn foreground(store: &mut Store, now: &str) {
    for (key, object) in everything(store) {
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let (ours, others): (Vec<Value>, Vec<Value>) =
            finalizers.into_iter().partition(|finalizer| finalizer == "foregroundDeletion" || finalizer == "orphan");
        if !is_going(&object) || ours.is_empty() {
            continue;
        }
        let uid = &object["metadata"]["uid"];
        let dependents = everything(store).into_iter().filter(|(_, dependent)| is_owned_by(dependent, uid));
        let dependents: Vec<Key> = dependents.map(|(key, _)| key).collect();
        if ours.contains(&json!("orphan")) {
            for dependent in &dependents {
                leave(store, dependent, uid);
            }
        } else if !dependents.is_empty() {
            for dependent in &dependents {
                delete(store, dependent, now);
            }
            continue;
        }
        let mut object = (*object).clone();
        object["metadata"]["finalizers"] = Value::Array(others);
        store.put(key, object, Writer::Cluster);
    }
}

/// A dependent of an owner that goes alone.
fn leave(store: &mut Store, dependent: &Key, uid: &Value) {
    let Some(object) = store.get(dependent) else { return };
    let mut object = (*object).clone();
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| owner["uid"] != *uid);
    }
    store.put(dependent.clone(), object, Writer::Cluster);
}
