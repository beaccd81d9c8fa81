//! A cluster beside the API server: what Kubernetes' controllers, a kubelet, a volume provisioner and a gateway do, one
//! step at a time. Each step follows from what the server has, and from the time that the test says it is.

mod collector;
mod deployments;
mod jobs;
pub mod kubelet;
pub mod quotas;
pub mod volume;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use slipway_crds::{identity::content_hash, labels};

use crate::api::{
    State,
    kinds::{CLAIMS, JOBS, Kind, PODS, ROUTES},
    quota::{self, Counted},
    store::{Key, Store, Writer, is_going},
    write::seconds,
};

/// The words in a prompt by which the pods of its revision never become ready.
pub const BROKEN: &str = "BROKEN";

/// One step of everything in the cluster. Says whether anything happened.
pub fn step(state: &mut State) -> bool {
    let before = state.store.version();
    let now = seconds(state.now());
    collector::step(&mut state.store, &now);
    bind_claims(&mut state.store);
    jobs::step(&mut state.store, &now);
    deployments::step(&mut state.store, &now);
    kubelet::step(&mut state.store, &now);
    deployments::report(&mut state.store, &now);
    accept_routes(&mut state.store, &now);
    quotas::step(&mut state.store);
    state.store.version() != before
}

/// Objects of a kind as they are at the beginning of a step.
fn all(store: &Store, kind: Kind) -> Vec<(Key, Arc<Value>)> {
    store.of_kind(kind).map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
}

/// Writes an object's status, if it differs.
fn put_status(store: &mut Store, key: &Key, status: Value) {
    let Some(known) = store.get(key) else { return };
    if known["status"] != status {
        let mut object = (*known).clone();
        object["status"] = status;
        store.put(key.clone(), object, Writer::Cluster);
    }
}

/// Whether a controller of this UID owns an object.
fn is_owned_by(object: &Value, uid: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["uid"] == *uid)
}

fn owner(key: &Key, object: &Value) -> Value {
    json!({"apiVersion": key.kind.api_version(), "kind": key.kind.kind, "name": key.name, "controller": true,
        "blockOwnerDeletion": true, "uid": object["metadata"]["uid"]})
}

/// Pods of a controller that are not going, by name.
fn pods_of(store: &Store, owner: &Value) -> Vec<(Key, Arc<Value>)> {
    let uid = &owner["metadata"]["uid"];
    let mut pods = all(store, PODS);
    pods.retain(|(_, pod)| is_owned_by(pod, uid) && !is_going(pod));
    pods
}

/// A pod of a controller's template.
///
/// # Errors
/// With the server's words where it refuses one more.
fn create_pod(store: &mut Store, (key, object): (&Key, &Value), name: &str, now: &str) -> Result<(), String> {
    let (template, of) = (&object["spec"]["template"], Key::new(PODS, &key.namespace, name));
    let counted = Counted { key: &of, object: template, old: None };
    quota::admit(store, counted, now).map_err(|refusal| refusal.message)?;
    let uid = store.next_uid(&of);
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(key.namespace);
    metadata["uid"] = json!(uid);
    metadata["creationTimestamp"] = json!(now);
    metadata["ownerReferences"] = json!([owner(key, object)]);
    metadata["annotations"]["template"] = json!(template_hash(template));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"],
        "status": {"phase": "Pending"}});
    store.put(of, pod, Writer::Cluster);
    Ok(())
}

fn template_hash(template: &Value) -> String {
    content_hash(template).unwrap().short().to_owned()
}

fn bind_claims(store: &mut Store) {
    for (key, claim) in all(store, CLAIMS) {
        if claim["status"]["phase"] != "Bound" {
            let mut object = (*claim).clone();
            object["spec"]["volumeName"] = json!("volume");
            object["status"] = json!({"phase": "Bound"});
            store.put(key, object, Writer::Cluster);
        }
    }
}

fn accept_routes(store: &mut Store, now: &str) {
    for (key, route) in all(store, ROUTES) {
        let generation = &route["metadata"]["generation"];
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": generation,
                "lastTransitionTime": now})
        };
        let known = route["status"]["parents"][0]["conditions"][0]["observedGeneration"].clone();
        if known != *generation {
            let parents: Vec<Value> = route["spec"]["parentRefs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|parent| {
                    json!({"parentRef": parent, "controllerName": "example.com/gateway",
                        "conditions": [condition("Accepted"), condition("ResolvedRefs")]})
                })
                .collect();
            put_status(store, &key, json!({"parents": parents}));
        }
    }
}

/// Jobs that have not ended and are not going, by what they are there for.
pub fn live_jobs(store: &Store) -> BTreeMap<String, Vec<String>> {
    let is_live = |job: &Value| !is_going(job) && jobs::ended(job).is_none();
    let mut live: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, job) in store.of_kind(JOBS).filter(|(_, job)| is_live(job)) {
        let identity = key.name.rsplit_once('-').map_or(key.name.as_str(), |(identity, _)| identity);
        live.entry(fetched(job).unwrap_or(identity).to_owned()).or_default().push(key.name.clone());
    }
    live
}

/// The content that a Job is to fetch, from whatever place and under whatever name.
pub fn fetched(job: &Value) -> Option<&str> {
    job["metadata"]["annotations"][labels::FETCH_CONTENT].as_str()
}

/// Pods that are ready and stay so, with these labels.
pub fn ready_pods(store: &Store, selector: &Value) -> usize {
    let has_labels = |pod: &Value| {
        let mut wanted = selector.as_object().into_iter().flatten();
        wanted.all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    };
    store.of_kind(PODS).filter(|(_, pod)| has_labels(pod) && !is_going(pod) && kubelet::is_ready(pod)).count()
}
