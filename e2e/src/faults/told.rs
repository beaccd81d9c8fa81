//! What a story has led to: what there is, and what the operator has created and deleted. Reads IO; what is said about
//! it is pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
};
use kube::{
    Api,
    api::{DynamicObject, GroupVersionKind, ListParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use slipway_crds::{
    conditions::ConditionType,
    labels,
    v1alpha1::{AgentDeployment, Engine, Profile},
};

use crate::{
    namespace::{Namespace, Outcome, ScenarioError},
    operator::Write,
};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Objects by kind and name, without what differs from one telling to the next; of pods, how many there are of a sort.
pub type End = BTreeMap<String, String>;

/// How often each object was created and deleted.
pub type Commits = BTreeMap<String, usize>;

/// What there is now.
///
/// # Errors
/// When the API server refuses.
pub async fn end(namespace: &Namespace) -> Outcome<End> {
    let (mut end, mut pods) = (End::new(), BTreeMap::<String, usize>::new());
    for kind in kinds() {
        for object in list(namespace, &kind).await? {
            let shown = shown(&kind.kind, &object.data).to_string().replace(namespace.name(), "NAMESPACE");
            let name = object.metadata.name.clone().unwrap_or_default();
            if kind.kind == "Pod" {
                let labels = object.metadata.labels.unwrap_or_default();
                let of =
                    [labels::APP_COMPONENT, labels::REVISION].map(|key| labels.get(key).map_or("", String::as_str));
                *pods.entry(format!("Pods of {} {shown}", of.join(" "))).or_default() += 1;
            } else if !is_by_the_clock(&name) {
                end.insert(format!("{} {name}", kind.kind), shown);
            }
        }
    }
    end.extend(pods.into_iter().map(|(sort, count)| (sort, count.to_string())));
    Ok(end)
}

/// Waits until nothing is left that an agent owned.
///
/// # Errors
/// When something is still there after `limit`, with its name.
pub async fn wait_until_forgotten(namespace: &Namespace, agent: &str, limit: Duration) -> Outcome<()> {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let left = owned_by(namespace, agent).await?;
        if left.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            let what = format!("{agent} in {}: all that it owned is gone", namespace.name());
            return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last: left.join(", ") });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Names of the objects that an agent owns.
async fn owned_by(namespace: &Namespace, agent: &str) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for kind in kinds() {
        for object in list(namespace, &kind).await? {
            let owners = object.metadata.owner_references.unwrap_or_default();
            if owners.iter().any(|owner| owner.kind == "AgentDeployment" && owner.name == agent) {
                names.push(format!("{} {}", kind.kind, object.metadata.name.unwrap_or_default()));
            }
        }
    }
    Ok(names)
}

/// Waits until everything is as it was after an undisturbed story.
///
/// # Errors
/// When it does not become so, with what differs.
pub async fn wait_for(namespace: &Namespace, expected: &End, limit: Duration) -> Outcome<()> {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let lines = differences(expected, &end(namespace).await?);
        if lines.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            let what = format!("the end of the undisturbed story in {}", namespace.name());
            return Err(ScenarioError::TimedOut { what, seconds: limit.as_secs(), last: lines.join("\n") });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Lines that say what two ends, or two counts, differ in.
pub fn differences<T>(expected: &BTreeMap<String, T>, found: &BTreeMap<String, T>) -> Vec<String>
where
    T: PartialEq + ToString,
{
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let text = |all: &BTreeMap<String, T>, name: &str| all.get(name).map_or("nothing".to_owned(), T::to_string);
    let differ = names.into_iter().filter(|name| expected.get(*name) != found.get(*name));
    differ.map(|name| format!("{name}: {}, not {}", text(found, name), text(expected, name))).collect()
}

/// What was created and deleted in a namespace, events apart.
pub fn commits(writes: &[Write], namespace: &str) -> Commits {
    let mut commits = Commits::new();
    for write in writes.iter().filter(|write| write.is_committed()) {
        let object = write.object_ref.clone().unwrap_or_default();
        let is_meant = object.namespace == namespace
            && object.subresource.is_empty()
            && object.resource != "events"
            && !is_by_the_clock(&object.name);
        let happened = match write.verb.as_str() {
            _ if write.is_creation() => "created",
            "delete" => "deleted",
            _ => continue,
        };
        if is_meant {
            *commits.entry(format!("{happened} {} {}", object.resource, object.name)).or_default() += 1;
        }
    }
    commits
}

/// What is remembered of users comes by the hour, whatever happens.
fn is_by_the_clock(name: &str) -> bool {
    name.ends_with("-drift")
}

/// Kinds that the operator writes or waits for.
fn kinds() -> Vec<ApiResource> {
    let route = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    vec![
        ApiResource::erase::<AgentDeployment>(&()),
        ApiResource::erase::<Engine>(&()),
        ApiResource::erase::<Profile>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<ControllerRevision>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::from_gvk(&route),
        ApiResource::erase::<Pod>(&()),
    ]
}

async fn list(namespace: &Namespace, kind: &ApiResource) -> Outcome<Vec<DynamicObject>> {
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    // People make the first.
    let params = ListParams::default();
    let params = if kind.kind == "AgentDeployment" { params } else { params.labels(&ours) };
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client(), namespace.name(), kind);
    let listed = api.list(&params).await.map_err(|source| ScenarioError::Kubernetes {
        action: format!("list {} in {}", kind.plural, namespace.name()),
        source: Box::new(source),
    })?;
    Ok(listed.items)
}

/// What of an object must be the same however often the operator was disturbed.
fn shown(kind: &str, object: &Value) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    match kind {
        "AgentDeployment" => {
            let rollout = &status["rollout"];
            json!({
                "conditions": conditions(status), "stage": status["stage"], "stable": rollout["stable"],
                "canary": rollout["canary"], "rejected": rollout["rejected"], "readyPods": status["readyPods"],
            })
        }
        "Engine" | "Profile" => json!({"spec": spec, "conditions": conditions(status)}),
        "Job" => json!({
            "conditions": conditions(status), "succeeded": status["succeeded"], "failed": status["failed"],
        }),
        "Deployment" => json!({"spec": spec, "ready": status["readyReplicas"]}),
        "Service" => json!({"selector": spec["selector"], "ports": spec["ports"]}),
        "ControllerRevision" => object["revision"].clone(),
        "HTTPRoute" => spec.clone(),
        "PersistentVolumeClaim" => status["phase"].clone(),
        "Pod" => {
            let containers = status["containerStatuses"].as_array().into_iter().flatten();
            let restarts: i64 = containers.filter_map(|container| container["restartCount"].as_i64()).sum();
            json!({"phase": status["phase"], "restarts": restarts})
        }
        _ => Value::Null,
    }
}

/// Conditions that depend on what users met, and when.
const OF_USERS: [ConditionType; 4] =
    [ConditionType::SLOMet, ConditionType::WorkloadDrift, ConditionType::BehaviorDrift, ConditionType::JudgeTrusted];

/// The other conditions, without their times and words, which have figures.
fn conditions(status: &Value) -> Vec<String> {
    let is_of_users = |condition: &&Value| OF_USERS.iter().any(|of_users| condition["type"] == of_users.as_str());
    let all = status["conditions"].as_array().into_iter().flatten().filter(|condition| !is_of_users(condition));
    let text = |condition: &Value| {
        let [kind, is_true, reason] = ["type", "status", "reason"].map(|key| condition[key].as_str().unwrap_or("-"));
        format!("{kind}={is_true} {reason}")
    };
    let mut lines: Vec<String> = all.map(text).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn write(verb: &str, (namespace, resource, name): (&str, &str, &str), code: u16) -> Write {
        let write = json!({
            "verb": verb, "objectRef": {"resource": resource, "namespace": namespace, "name": name},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z", "responseStatus": {"code": code},
            "user": {"username": "operator"},
        });
        serde_json::from_value(write).unwrap()
    }

    #[test]
    fn what_was_refused_or_was_there_already_is_no_creation() {
        let (job, service) = (("a", "jobs", "build-1f-1"), ("a", "services", "waiter"));
        let writes = [
            write("create", job, 201),
            write("create", job, 409),
            write("patch", service, 201),
            write("patch", service, 200),
            write("delete", service, 200),
            write("create", ("a", "events", "waiter.1"), 201),
            write("create", ("b", "jobs", "build-1f-1"), 201),
            write("patch", ("a", "configmaps", "waiter-drift"), 201),
        ];
        let once = |what: &str| (what.to_owned(), 1);
        let expected = ["created jobs build-1f-1", "created services waiter", "deleted services waiter"].map(once);
        assert_eq!(commits(&writes, "a"), Commits::from(expected));
    }

    #[test]
    fn what_two_ends_differ_in_is_named() {
        let of = |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<End>();
        let (expected, found) = (of(&[("Job a", "1"), ("Job b", "1")]), of(&[("Job b", "2"), ("Job c", "1")]));
        let lines = ["Job a: nothing, not 1", "Job b: 2, not 1", "Job c: 1, not nothing"];
        assert_eq!(differences(&expected, &found), lines);
        assert_eq!(differences(&expected, &expected), Vec::<String>::new());
    }

    #[test]
    fn words_and_times_of_conditions_are_no_part_of_an_end() {
        let agent = |message: &str| {
            let words = json!({"message": message, "lastTransitionTime": message});
            let mut condition = json!({"type": "Ready", "status": "True", "reason": "Serving"});
            condition.as_object_mut().unwrap().extend(words.as_object().cloned().unwrap());
            shown("AgentDeployment", &json!({"status": {"conditions": [condition]}}))
        };
        assert_eq!((agent("one"), agent("one")["conditions"].clone()), (agent("two"), json!(["Ready=True Serving"])));
    }
}
