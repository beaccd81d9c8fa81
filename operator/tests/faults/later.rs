//! What a later version of the operator leaves behind: objects that this one cannot read.

use serde_json::{Value, json};
use slipway_crds::labels;

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, CONTROLLER_REVISIONS, ENGINES, PROFILES},
        store::{Key, Store, Writer},
    },
    story::{AGENT, NAMESPACE},
};

/// The name of each of them.
pub const NAME: &str = "of-tomorrow";

/// Leaves them: their definitions took them, and their operator is gone.
pub fn leave(store: &mut Store) {
    let spec = json!({"model": {"uri": "http://models.example/react"}, "engine": {"backend": "OfTomorrow"}});
    let objects = [
        (AGENT_DEPLOYMENTS, json!({"spec": spec})),
        (ENGINES, json!({"spec": {"build": {"backend": "OfTomorrow"}}})),
        (PROFILES, json!({"spec": {"inputs": "of tomorrow"}})),
        (CONTROLLER_REVISIONS, json!({"revision": 99, "data": {"layout": "OfTomorrow"}})),
    ];
    for (kind, mut object) in objects {
        let key = Key::new(kind, NAMESPACE, NAME);
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        object["metadata"] = metadata(store, &key);
        store.put(key, object, Writer::Cluster);
    }
}

fn metadata(store: &mut Store, key: &Key) -> Value {
    let labels = json!({labels::APP_MANAGED_BY: labels::MANAGED_BY, labels::AGENT_DEPLOYMENT: AGENT});
    json!({"name": key.name, "namespace": key.namespace, "uid": store.next_uid(key), "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels})
}
