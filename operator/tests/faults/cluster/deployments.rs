//! The controller of Deployments, without ReplicaSets between them and their pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{all, create_pod, kubelet, pods_of, put_status, template_hash};
use crate::api::{
    kinds::{DEPLOYMENTS, PODS},
    quota::{self, Counted},
    store::{Key, Store, Writer, is_going},
};

/// Creates and removes pods.
pub fn step(store: &mut Store, now: &str) {
    for (key, deployment) in all(store, DEPLOYMENTS) {
        if is_going(&deployment) {
            continue;
        }
        let hash = template_hash(&deployment["spec"]["template"]);
        for (pod, object) in pods_of(store, &deployment) {
            // A changed template restarts what serves.
            if object["metadata"]["annotations"]["template"] != hash.as_str() {
                end(store, &pod, now);
            }
        }
        let pods = pods_of(store, &deployment);
        let wanted = usize::try_from(deployment["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or(0);
        for (pod, _) in pods.iter().skip(wanted) {
            end(store, pod, now);
        }
        for _ in pods.len()..wanted {
            let name = (0..).map(|index| format!("{}-{index}", key.name));
            let free = name.into_iter().find(|name| store.get(&Key::new(PODS, &key.namespace, name)).is_none());
            let name = free.expect("there is always another name");
            // Why there is no other pod is in the status.
            drop(create_pod(store, (&key, &deployment), &name, now));
        }
    }
}

fn end(store: &mut Store, key: &Key, now: &str) {
    let Some(pod) = store.get(key) else { return };
    let mut pod = (*pod).clone();
    pod["metadata"]["deletionTimestamp"] = json!(now);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    store.put(key.clone(), pod, Writer::Cluster);
}

/// Says in the status how the pods are.
pub fn report(store: &mut Store, now: &str) {
    for (key, deployment) in all(store, DEPLOYMENTS) {
        let pods = pods_of(store, &deployment);
        let ready: Vec<&Value> = pods.iter().map(|(_, pod)| &**pod).filter(|pod| kubelet::is_ready(pod)).collect();
        let least = deployment["spec"]["minReadySeconds"].as_i64().unwrap_or_default();
        let available = ready.iter().filter(|pod| seconds_between(&kubelet::ready_since(pod), now) >= least).count();
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
        let deadline = deployment["spec"]["progressDeadlineSeconds"].as_i64().unwrap_or(600);
        let age = seconds_between(&deployment["metadata"]["creationTimestamp"], now);
        let is_late = i64::try_from(available).unwrap_or_default() < wanted && age > deadline;
        let (progressing, reason) =
            if is_late { ("False", "ProgressDeadlineExceeded") } else { ("True", "NewReplicaSetAvailable") };
        let mut conditions = vec![json!({"type": "Progressing", "status": progressing, "reason": reason})];
        let is_short = i64::try_from(pods.len()).unwrap_or_default() < wanted;
        let pod = Key::new(PODS, &key.namespace, &key.name);
        let counted = Counted { key: &pod, object: &deployment["spec"]["template"], old: None };
        let refusal = quota::refusal(store, counted).filter(|_| is_short);
        conditions.extend(refusal.map(|refusal| {
            json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refusal.message})
        }));
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": pods.len(), "updatedReplicas": pods.len(), "readyReplicas": ready.len(),
            "availableReplicas": available,
            "conditions": conditions,
        });
        put_status(store, &key, status);
    }
}

fn seconds_between(since: &Value, now: &str) -> i64 {
    let read = |text: &str| text.parse::<Timestamp>().ok().map(|time| time.as_second());
    since.as_str().and_then(read).zip(read(now)).map_or(0, |(since, now)| now - since)
}
