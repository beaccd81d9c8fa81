//! Claims of volumes: what the operator creates for its store, what people change of it, and what a binder says of it.

use serde_json::{Value, json};

use super::{
    script::{Kind, Sample},
    step::{CLAIMS, METADATA, Requests, Step},
};

fn sample() -> Sample {
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

/// The claim that the operator makes, in a class.
fn claim(name: &str, class: Option<&str>, size: &str) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "slipway", "app.kubernetes.io/component": "store"});
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}});
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = json!(class);
    }
    claim
}

fn request(size: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": size}}}})
}

fn created(requests: &mut Requests) {
    let all = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dslipway%2Capp.kubernetes.io%2Fcomponent%3Dstore";
    requests.get("metadata of one that is missing", CLAIMS.of("store")).accepts(METADATA).comes_to(404);
    requests.create("one without a class is created", CLAIMS, &claim("store", None, "20Gi"));
    requests.create("it is created again", CLAIMS, &claim("store", None, "20Gi")).comes_to(409);
    requests.get("its metadata", CLAIMS.of("store")).accepts(METADATA);
    requests.get("those of stores", format!("{}?{all}", CLAIMS.path()));
    requests.create("one of no class is created", CLAIMS, &claim("classless", Some(""), "2048Mi"));
    requests.create("one of half a unit is created", CLAIMS, &claim("half", Some("growing"), "1.5Gi"));
    let mut ready = claim("ready", Some("growing"), "1Gi");
    ready["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    requests.create("one with a status is created", CLAIMS, &ready);
}

fn refused(requests: &mut Requests) {
    let mistakes = [
        ("without access modes", json!({"spec": {"accessModes": null}}), 422),
        ("without a size", json!({"spec": {"resources": null}}), 422),
        ("of an unknown access mode", json!({"spec": {"accessModes": ["Sometimes"]}}), 422),
        ("of one pod and of many", json!({"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteMany"]}}), 422),
        ("of nothing", request("0"), 422),
        ("of less than nothing", request("-1Gi"), 422),
        ("of an amount that is not a number", request("much"), 400),
        ("of a class that is not a name", json!({"spec": {"storageClassName": "Not A Class"}}), 422),
        ("of an unknown volume mode", json!({"spec": {"volumeMode": "Tape"}}), 422),
        ("with two mistakes", json!({"spec": {"accessModes": null, "resources": null}}), 422),
    ];
    for (name, mistake, code) in mistakes {
        let mut wrong = claim("wrong", Some("growing"), "1Gi");
        json_patch::merge(&mut wrong, &mistake);
        requests.create(&format!("one {name} is created"), CLAIMS, &wrong).comes_to(code);
    }
}

/// Before it has a volume, and once it has.
fn bound(requests: &mut Requests) {
    let (path, status) = (CLAIMS.of("ready"), CLAIMS.status("ready"));
    let spec = |spec: Value| json!({"spec": spec});
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]}});
    requests.merge("one without a volume grows", path.clone(), &request("2Gi")).comes_to(422);
    let other = spec(json!({"storageClassName": "slipway-local"}));
    requests.merge("its class is changed", path.clone(), &other).comes_to(422);
    requests.merge("its volume mode is changed", path.clone(), &spec(json!({"volumeMode": "Block"}))).comes_to(422);
    requests.merge("it has a volume", path.clone(), &spec(json!({"volumeName": "volume-a"})));
    requests.merge("it has another volume", path.clone(), &spec(json!({"volumeName": "volume-b"}))).comes_to(422);
    requests.merge("it has none any longer", path.clone(), &spec(json!({"volumeName": null}))).comes_to(422);
    requests.merge("the status of one that is missing", CLAIMS.status("missing"), &bound).comes_to(404);
    requests.merge("it is bound", status.clone(), &bound);
    requests.merge("it is bound again", status.clone(), &bound);
    requests.merge("its size is changed by its status", status, &request("9Gi"));
    requests.merge("it is labelled", path.clone(), &json!({"metadata": {"labels": {"team": "a"}}}));
    requests.merge("it grows", path.clone(), &request("2Gi"));
    requests.merge("it grows by no more", path.clone(), &request("2048Mi"));
    requests.merge("it shrinks to more than it has", path.clone(), &request("1536Mi"));
    requests.merge("it shrinks to what it has", path.clone(), &request("1Gi")).comes_to(422);
    requests
        .merge("its access modes are changed", path.clone(), &spec(json!({"accessModes": ["ReadWriteOnce"]})))
        .comes_to(422);
    let mut applied = claim("ready", Some("growing"), "3Gi");
    requests.apply("its size is applied by another", path.clone(), &applied).comes_to(409);
    applied["spec"]["resources"]["requests"]["storage"] = json!("1536Mi");
    requests.apply("its size is applied as it is", path.clone(), &applied);
    requests.get("it is as it was", path);
    let store = json!({"spec": {"volumeName": "volume-c"}});
    requests.merge("one of a class that does not grow has a volume", CLAIMS.of("store"), &store);
    requests.merge("it is bound too", CLAIMS.status("store"), &bound);
    requests.merge("one of a class that does not grow grows", CLAIMS.of("store"), &request("21Gi")).comes_to(403);
}

fn deleted(requests: &mut Requests) {
    let path = CLAIMS.of("store");
    let it = json!({"preconditions": {"uid": "$uid(PersistentVolumeClaim/store)"}, "propagationPolicy": "Background"});
    requests.delete("it is deleted", path.clone(), &it);
    requests.delete("it is deleted once more", path.clone(), &it);
    requests.get("it is going", path.clone());
    requests
        .create("one of its name is created while it is going", CLAIMS, &claim("store", None, "20Gi"))
        .comes_to(409);
    requests.apply("one of its name is applied while it is going", path.clone(), &claim("store", None, "20Gi"));
    requests.release("no pod uses it", path.clone());
    requests.get("it is gone", path.clone()).comes_to(404);
    requests.create("another of its name is created", CLAIMS, &claim("store", None, "20Gi"));
    requests.delete("the other is deleted", path.clone(), &it);
    requests.release("no pod uses the other", path);
    for name in ["classless", "half", "ready"] {
        requests.release(&format!("no pod will use {name}"), CLAIMS.of(name));
        requests.delete(&format!("{name} is deleted"), CLAIMS.of(name), &Value::Null);
    }
    requests.get("all are gone", CLAIMS.path());
}

pub fn steps() -> Vec<Step> {
    let sample = sample();
    let mut requests = Requests::about("claims");
    requests.steps = Kind::of(&sample);
    // Nobody but its controller knows that no pod uses the other one.
    requests.release("no pod uses the second", CLAIMS.of("b"));
    created(&mut requests);
    refused(&mut requests);
    bound(&mut requests);
    deleted(&mut requests);
    requests.steps
}
