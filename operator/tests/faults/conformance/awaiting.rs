//! Requests about claims, pods, quotas and watches. What a real server answers may not be recorded yet: until then the
//! server in memory answers them by what its authors know.

use http::Method;
use serde_json::{Value, json};

use super::script::{APPLY, JSON, Kind, MERGE, Sample, Step};

fn claim() -> Sample {
    Sample {
        kind: "PersistentVolumeClaim",
        api: "api/v1",
        plural: "persistentvolumeclaims",
        rest: json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}}}}),
        changed: json!({"metadata": {"annotations": {"example.com/a": "1"}}}),
        refused: Some(json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
    }
}

fn pod() -> Sample {
    Sample {
        kind: "Pod",
        api: "api/v1",
        plural: "pods",
        rest: json!({"spec": {"automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "example.com/main:1", "resources": {"requests": {"cpu": "0.5"}}}]}}),
        changed: json!({"metadata": {"annotations": {"example.com/a": "1"}}}),
        refused: Some(json!({"spec": {"nodeName": "other", "restartPolicy": "Never"}})),
    }
}

const NAMESPACE: &str = "/api/v1/namespaces/conformance";
const REVISIONS: &str = "/apis/apps/v1/namespaces/conformance/controllerrevisions";

fn step(name: &str, method: Method, path: &str, content: &'static str, body: &Value) -> Step {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Step { name: name.to_owned(), method, path: path.to_owned(), content, body }
}

/// A quota counts creations, by whatever request, and no changes. Its controller stands still: the requests say what is
/// used.
fn quotas() -> Vec<Step> {
    let hard = json!({"count/controllerrevisions.apps": "1", "services": "1"});
    let used = json!({"count/controllerrevisions.apps": "0", "services": "0"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"},
        "spec": {"hard": hard}});
    let revision = |name: &str| json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name}, "revision": 1});
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}})
    };
    let (create, quotas) = (format!("{REVISIONS}?fieldManager=tests"), format!("{NAMESPACE}/resourcequotas"));
    let services = format!("{NAMESPACE}/services");
    let apply = format!("{REVISIONS}/third?fieldManager=tests");
    let status = json!({"status": {"hard": hard, "used": used}});
    vec![
        step("a quota is created", Method::POST, &format!("{quotas}?fieldManager=tests"), JSON, &quota),
        step("what counts is said", Method::PATCH, &format!("{quotas}/limits/status"), MERGE, &status),
        step("the first within a quota is created", Method::POST, &create, JSON, &revision("first")),
        step("the second beyond a quota is created", Method::POST, &create, JSON, &revision("second")),
        step("one beyond a quota is applied", Method::PATCH, &apply, APPLY, &revision("third")),
        step("the first is created again", Method::POST, &create, JSON, &revision("first")),
        step("the first is changed", Method::PATCH, &format!("{REVISIONS}/first"), MERGE, &json!({"revision": 2})),
        step("a Service within a quota is created", Method::POST, &services, JSON, &service("first")),
        step("a Service beyond a quota is created", Method::POST, &services, JSON, &service("second")),
        step("the quota is deleted", Method::DELETE, &format!("{quotas}/limits"), JSON, &Value::Null),
        step("the first is deleted", Method::DELETE, &format!("{REVISIONS}/first"), JSON, &Value::Null),
        step("the Service is deleted", Method::DELETE, &format!("{services}/first"), JSON, &Value::Null),
    ]
}

/// Watches from a version that is known, for a second each.
fn watches() -> Vec<Step> {
    let maps = format!("{NAMESPACE}/configmaps");
    let map = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "watched"}},
            "data": {"a": "1"}})
    };
    let create = format!("{maps}?fieldManager=tests");
    let merge = |name: &str, object: &str, body: &Value| {
        step(name, Method::PATCH, &format!("{maps}/{object}?fieldManager=tests"), MERGE, body)
    };
    let watch = |name: &str, selector: &str, object: &str| {
        let from = format!("resourceVersion=$first(ConfigMap/{object})&timeoutSeconds=1");
        step(name, Method::GET, &format!("{maps}?watch=true&{selector}&{from}"), JSON, &Value::Null)
    };
    let (labelled, named) = ("labelSelector=of%3Dwatched", "fieldSelector=metadata.name%3Dsecond-watched");
    vec![
        step("a watched one is created", Method::POST, &create, JSON, &map("first-watched")),
        step("another watched one is created", Method::POST, &create, JSON, &map("second-watched")),
        merge("a watched one is changed", "first-watched", &json!({"data": {"a": "2"}})),
        merge("a watched one loses its label", "second-watched", &json!({"metadata": {"labels": {"of": "other"}}})),
        merge("an unwatched one is changed", "second-watched", &json!({"data": {"a": "2"}})),
        watch("a watch by label", labelled, "first-watched"),
        watch("a watch by label, from a later version", labelled, "second-watched"),
        watch("a watch by name", named, "first-watched"),
        merge("it has its label again", "second-watched", &json!({"metadata": {"labels": {"of": "watched"}}})),
        step("a watched one is deleted", Method::DELETE, &format!("{maps}/first-watched"), JSON, &Value::Null),
        watch("a watch sees one come and one go", labelled, "second-watched"),
        step("another watched one is deleted", Method::DELETE, &format!("{maps}/second-watched"), JSON, &Value::Null),
    ]
}

/// All of them, in their order.
pub fn steps() -> Vec<Step> {
    let of_kinds = [claim(), pod()].iter().flat_map(Kind::of).collect::<Vec<_>>();
    of_kinds.into_iter().chain(quotas()).chain(watches()).collect()
}
