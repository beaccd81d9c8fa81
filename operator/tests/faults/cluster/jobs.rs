//! The controller of Jobs: one pod each, and no second one.

use serde_json::{Value, json};

use super::{all, create_pod, is_owned_by, put_status};
use crate::api::{
    kinds::{JOBS, PODS},
    store::{Store, is_going},
};

pub fn step(store: &mut Store, now: &str) {
    for (key, job) in all(store, JOBS) {
        if is_going(&job) || ended(&job).is_some() {
            continue;
        }
        let uid = &job["metadata"]["uid"];
        let pod = all(store, PODS).into_iter().find(|(_, pod)| is_owned_by(pod, uid));
        let Some((_, pod)) = pod else {
            create_pod(store, (&key, &job), &format!("{}-pod", key.name), now);
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

/// How a Job ended, if it has.
pub fn ended(job: &Value) -> Option<&str> {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|condition| condition["status"] == "True").find_map(|condition| condition["type"].as_str())
}
