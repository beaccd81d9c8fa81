//! The controller of Jobs: one pod each, and no second one.

use serde_json::{Value, json};

use super::{all, create_pod, is_owned_by, put_status};
use crate::api::{
    kinds::{CORE_EVENTS, JOBS, PODS},
    store::{Key, Store, Writer, is_going},
};

pub fn step(store: &mut Store, now: &str) {
    for (key, job) in all(store, JOBS) {
        if is_going(&job) || ended(&job).is_some() {
            continue;
        }
        let uid = &job["metadata"]["uid"];
        let pod = all(store, PODS).into_iter().find(|(_, pod)| is_owned_by(pod, uid));
        let Some((_, pod)) = pod else {
            if let Err(words) = create_pod(store, (&key, &job), &format!("{}-pod", key.name), now) {
                refused(store, (&key, &job), &words, now);
            }
            continue;
        };
        let end = match pod["status"]["phase"].as_str() {
            Some("Succeeded") => Some(("Complete", json!({"succeeded": 1}))),
            Some("Failed") => Some(("Failed", json!({"failed": 1}))),
            _ => None,
        };
        let mut status = json!({"active": 1, "startTime": now});
        if let Some((type_, counts)) = end {
            status = counts;
            status["startTime"] = job["status"]["startTime"].clone();
            status["conditions"] = json!([{"type": type_, "status": "True", "lastTransitionTime": now}]);
        } else if job["status"]["active"] == 1 {
            continue;
        }
        put_status(store, &key, status);
    }
}

/// The event that says why a Job has no pod.
fn refused(store: &mut Store, (key, job): (&Key, &Value), words: &str, now: &str) {
    let event_key = Key::new(CORE_EVENTS, &key.namespace, &format!("{}.refused", key.name));
    let message = format!("Error creating: {words}");
    if store.get(&event_key).is_some_and(|known| known["message"] == message.as_str()) {
        return;
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": event_key.name, "namespace": key.namespace},
        "involvedObject": {"kind": "Job", "name": key.name, "namespace": key.namespace, "uid": job["metadata"]["uid"]},
        "type": "Warning", "reason": "FailedCreate", "message": message, "lastTimestamp": now,
    });
    store.put(event_key, event, Writer::Cluster);
}

/// How a Job ended, if it has.
pub fn ended(job: &Value) -> Option<&str> {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|condition| condition["status"] == "True").find_map(|condition| condition["type"].as_str())
}
