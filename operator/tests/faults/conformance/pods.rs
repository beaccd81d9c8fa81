//! Pods: what the server makes of them, what may change of one that runs, and how it ends.

use serde_json::{Value, json};

use super::{
    script::{Kind, Sample},
    step::{DEPLOYMENTS, JOBS, PODS, Requests, Step},
};

fn sample() -> Sample {
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

/// A pod with other members of its spec. Nobody has its node, and so nobody starts it.
fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"of": "pods"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "main", "image": "example.com/main:1"}]}});
    json_patch::merge(&mut pod, &json!({"spec": spec}));
    pod
}

fn resources(resources: &Value) -> Value {
    json!({"containers": [{"name": "main", "image": "example.com/main:1", "resources": resources}]})
}

const ON_A_NODE: &str = "elsewhere";

fn created(requests: &mut Requests) {
    let gpu = resources(&json!({"limits": {"nvidia.com/gpu": "1"}}));
    let fixed = resources(&json!({"limits": {"cpu": "1", "memory": "1024Mi"}}));
    let tolerant = json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 5}], "restartPolicy": "OnFailure"});
    for (name, what, spec) in [
        ("plain", "that asks for nothing", json!({})),
        ("gpu", "with a GPU", gpu),
        ("fixed", "with all that it asks for", fixed),
        ("tolerant", "with a toleration", tolerant),
    ] {
        requests.create(&format!("one {what} is created"), PODS, &pod(name, &spec));
    }
    let mut ready = pod("told", &json!({}));
    ready["status"] = json!({"phase": "Running"});
    requests.create("one with a status is created", PODS, &ready);
    for name in ["gpu", "fixed", "tolerant", "told"] {
        requests.delete(&format!("{name} is deleted"), PODS.of(name), &Value::Null);
    }
}

fn refused(requests: &mut Requests) {
    let main = json!({"name": "main", "image": "example.com/main:1"});
    let with = |other: Value| {
        let mut container = main.clone();
        json_patch::merge(&mut container, &other);
        json!({"containers": [container]})
    };
    let too_much = json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}});
    let mistakes = [
        ("without containers", json!({"containers": []}), 422),
        ("of a container without a name", with(json!({"name": null})), 422),
        ("of a container without an image", with(json!({"image": null})), 422),
        ("of two containers of one name", json!({"containers": [main, main]}), 422),
        ("that restarts sometimes", json!({"restartPolicy": "Sometimes"}), 422),
        ("that mounts what it has not", with(json!({"volumeMounts": [{"name": "a", "mountPath": "/a"}]})), 422),
        ("that asks for more than it may have", with(too_much), 422),
        (
            "with a claim without a name",
            json!({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]}),
            422,
        ),
        ("with an amount that is not a number", resources(&json!({"requests": {"cpu": "much"}})), 400),
    ];
    for (name, spec, code) in mistakes {
        requests.create(&format!("one {name} is created"), PODS, &pod("wrong", &spec)).comes_to(code);
    }
    let mounted = with(json!({"volumeMounts": [{"name": "a", "mountPath": "/a"}]}));
    let mut template = json!({"metadata": {"labels": {"app": "a"}}, "spec": mounted});
    template["spec"]["restartPolicy"] = json!("Never");
    let job = |template: &Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "wrong"}, "spec": {"template": template}});
    requests.create("a Job of pods that mount what they have not", JOBS, &job(&template)).comes_to(422);
    let always = json!({"spec": {"containers": [main]}});
    requests.create("a Job of pods that always restart", JOBS, &job(&always)).comes_to(422);
    template["spec"] = json!({"containers": [main], "restartPolicy": "Never"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wrong"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    requests.create("a Deployment of pods that never restart", DEPLOYMENTS, &deployment).comes_to(422);
}

fn changed(requests: &mut Requests) {
    let path = PODS.of("runs");
    let spec = |spec: Value| json!({"spec": spec});
    requests.create("one with a node is created", PODS, &pod("runs", &json!({"nodeName": ON_A_NODE})));
    requests.patch(
        "its image is changed",
        path.clone(),
        &json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/main:2"}]),
    );
    for (name, seconds, code) in [
        ("it has a deadline", json!(100), 200),
        ("its deadline comes nearer", json!(50), 200),
        ("its deadline is put off", json!(200), 422),
        ("it has no deadline any longer", Value::Null, 422),
    ] {
        requests.merge(name, path.clone(), &spec(json!({"activeDeadlineSeconds": seconds}))).comes_to(code);
    }
    let gpu = json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"});
    let add = json!([{"op": "add", "path": "/spec/tolerations/-", "value": gpu}]);
    requests.patch("it tolerates more", path.clone(), &add);
    requests
        .patch("it tolerates less", path.clone(), &json!([{"op": "remove", "path": "/spec/tolerations/2"}]))
        .comes_to(422);
    let env = json!([{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A", "value": "1"}]}]);
    requests.patch("its environment is changed", path.clone(), &env).comes_to(422);
    let more = json!([{"op": "add", "path": "/spec/containers/-",
        "value": {"name": "more", "image": "example.com/more:1"}}]);
    requests.patch("it has another container", path.clone(), &more).comes_to(422);
    requests.merge("it has another node", path.clone(), &spec(json!({"nodeName": "other"}))).comes_to(422);
    requests.merge("one without a node has one", PODS.of("plain"), &spec(json!({"nodeName": ON_A_NODE}))).comes_to(422);
    let state = json!({"name": "main", "image": "example.com/main:2", "imageID": "example.com/main@sha256:2e",
        "ready": true, "started": true, "restartCount": 0, "lastState": {},
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let status = json!({"status": {"phase": "Running", "containerStatuses": [state],
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    requests.merge("it runs", PODS.status("runs"), &status);
    requests.merge("it runs still", PODS.status("runs"), &status);
    requests.merge("its spec is changed by its status", PODS.status("runs"), &spec(json!({"nodeName": "other"})));
    requests.merge("the status of one that is missing", PODS.status("missing"), &status).comes_to(404);
    requests.get("it is as it was", path);
}

fn deleted(requests: &mut Requests) {
    let path = PODS.of("runs");
    let grace = |seconds: i64| json!({"gracePeriodSeconds": seconds});
    let other = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}});
    requests.delete("another of its name is deleted", path.clone(), &other).comes_to(409);
    requests.delete("it is deleted", path.clone(), &json!({"propagationPolicy": "Background"}));
    requests.delete("it is deleted once more", path.clone(), &Value::Null);
    requests.delete("it is given more time", path.clone(), &grace(60));
    requests.delete("it is given less time", path.clone(), &grace(5));
    requests.delete("it is given less than no time", path.clone(), &grace(-1));
    requests.create("one of its name is created while it is going", PODS, &pod("runs", &json!({}))).comes_to(409);
    requests.merge("it is labelled while it is going", path.clone(), &json!({"metadata": {"labels": {"team": "a"}}}));
    let over = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "$uid(Pod/runs)"}});
    requests.delete("its node has ended it", path.clone(), &over);
    requests.get("it is gone", path).comes_to(404);
    requests.delete("one without a node is given time", PODS.of("plain"), &grace(100));
    requests.get("it went at once", PODS.of("plain")).comes_to(404);
    let once = json!({"nodeName": ON_A_NODE, "restartPolicy": "Never", "terminationGracePeriodSeconds": 7});
    requests.create("one that runs once is created", PODS, &pod("once", &once));
    requests.merge("it has ended", PODS.status("once"), &json!({"status": {"phase": "Succeeded"}}));
    requests.delete("one that has ended is deleted", PODS.of("once"), &Value::Null);
    requests.get("it went at once too", PODS.of("once")).comes_to(404);
    let mut held = pod("held", &once);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    requests.create("one that somebody holds is created", PODS, &held);
    requests.delete("it is deleted in its own time", PODS.of("held"), &Value::Null);
    requests.delete("its node has ended it, and somebody holds it", PODS.of("held"), &grace(0));
    requests.delete("it is deleted while it is held", PODS.of("held"), &grace(0));
    requests.release("nobody holds it", PODS.of("held"));
    requests.get("all are gone", PODS.path());
}

pub fn steps() -> Vec<Step> {
    let sample = sample();
    let mut requests = Requests::about("pods");
    requests.steps = Kind::of(&sample);
    created(&mut requests);
    refused(&mut requests);
    changed(&mut requests);
    deleted(&mut requests);
    requests.steps
}
