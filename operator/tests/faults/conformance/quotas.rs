//! Quotas. Their controller stands still: the requests say what is used, as it would. What is created within a quota,
//! the server itself counts.

use serde_json::{Value, json};

use super::{
    script::agent_deployment,
    step::{AGENTS, CLAIMS, CONFIG_MAPS, Collection, JOBS, PODS, QUOTAS, REVISIONS, Requests, SERVICES, Step},
};

fn revision(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name}, "revision": 1,
        "data": {"a": "1"}})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn job(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example.com/main:1"});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}})
}

fn pod(name: &str, resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "example.com/main:1", "resources": resources}]}})
}

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}}})
}

fn create_quota(requests: &mut Requests, name: &str, hard: &Value) {
    let quota =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}});
    requests.create(&format!("{name} is created"), QUOTAS, &quota);
}

/// What a quota's controller says of it.
fn say(requests: &mut Requests, name: &str, quota: &str, status: &Value) {
    requests.merge(name, QUOTAS.status(quota), &json!({"status": status}));
}

fn remove(requests: &mut Requests, of: Collection, name: &str) {
    requests.delete(&format!("{} {name} is deleted", of.plural), of.of(name), &Value::Null);
}

/// As long as nobody has said what is used.
fn before_anything_is_counted(requests: &mut Requests, hard: &Value) {
    let mut without_data = revision("early");
    without_data["data"].take();
    requests.create("one without data is created", REVISIONS, &without_data).comes_to(422);
    requests.create("one is created before anything is counted", REVISIONS, &revision("early"));
    remove(requests, REVISIONS, "early");
    say(requests, "it is not known what is used", "objects", &json!({"hard": hard}));
    requests.try_to_create("one is tried before it is known what is used", REVISIONS, &revision("first")).until(403);
}

/// Numbers of objects.
fn of_objects(requests: &mut Requests) {
    let hard = json!({"count/controllerrevisions.apps": "1", "services": "1", "configmaps": "0", "count/jobs.batch": "0",
        "count/agentdeployments.slipway.dev": "0"});
    create_quota(requests, "objects", &hard);
    before_anything_is_counted(requests, &hard);
    let names = hard.as_object().unwrap().keys();
    let none: serde_json::Map<String, Value> = names.map(|name| (name.clone(), json!("0"))).collect();
    say(requests, "nothing is used", "objects", &json!({"used": none}));
    requests.create("the first is created", REVISIONS, &revision("first")).until(201);
    requests.get("the first is counted", QUOTAS.of("objects"));
    requests.create("the second is created", REVISIONS, &revision("second")).comes_to(403);
    requests.apply("one more is applied", REVISIONS.of("third"), &revision("third")).comes_to(403);
    requests.create("the first is created again", REVISIONS, &revision("first")).comes_to(403);
    requests.merge("the first is changed", REVISIONS.of("first"), &json!({"revision": 2}));
    requests.create("a Service is created", SERVICES, &service("first"));
    requests.create("another Service is created", SERVICES, &service("second")).comes_to(403);
    requests.create("a ConfigMap is created", CONFIG_MAPS, &config_map("first")).comes_to(403);
    requests.create("a Job is created", JOBS, &job("first")).comes_to(403);
    requests.create("an AgentDeployment is created", AGENTS, &agent_deployment().object("first")).comes_to(403);
    requests
        .create(
            "an invalid AgentDeployment is created",
            AGENTS,
            &agent_deployment().with("first", &json!({"spec": {"engine": {"backend": "Magic"}}})),
        )
        .comes_to(422);
    remove(requests, REVISIONS, "first");
    requests.create("one more is created before that is counted", REVISIONS, &revision("second")).comes_to(403);
    say(
        requests,
        "the first is counted no longer",
        "objects",
        &json!({"used": {"count/controllerrevisions.apps": "0"}}),
    );
    requests.create("another is created", REVISIONS, &revision("second")).until(201);
    say(requests, "there is room for two", "objects", &json!({"hard": {"count/controllerrevisions.apps": "5"}}));
    requests.create("it is created again", REVISIONS, &revision("second")).until(409);
    remove(requests, REVISIONS, "second");
    remove(requests, SERVICES, "first");
    remove(requests, QUOTAS, "objects");
    requests.create("a ConfigMap is created without a quota", CONFIG_MAPS, &config_map("free")).until(201);
    remove(requests, CONFIG_MAPS, "free");
}

/// What pods use.
fn of_pods(requests: &mut Requests) {
    let hard = json!({"pods": "2", "requests.cpu": "1", "limits.memory": "2Gi", "requests.nvidia.com/gpu": "0"});
    let used = json!({"pods": "0", "requests.cpu": "0", "limits.memory": "0", "requests.nvidia.com/gpu": "0"});
    create_quota(requests, "compute", &hard);
    say(requests, "no pod is there", "compute", &json!({"hard": hard, "used": used}));
    let small = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}});
    let large = json!({"requests": {"cpu": "0.75"}, "limits": {"memory": "1536Mi"}});
    let gpu = json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}});
    requests.try_to_create("a pod that does not say what it needs", PODS, &pod("silent", &json!({}))).until(403);
    requests.create("a pod with a GPU is created", PODS, &pod("gpu", &gpu)).comes_to(403);
    requests.create("a pod is created", PODS, &pod("first", &small));
    requests.get("the pod is counted", QUOTAS.of("compute"));
    requests.create("a pod that is too large is created", PODS, &pod("second", &large)).comes_to(403);
    requests.create("another pod is created", PODS, &pod("second", &small));
    requests.create("a third pod is created", PODS, &pod("third", &small)).comes_to(403);
    remove(requests, PODS, "first");
    requests.create("a third pod is created too early", PODS, &pod("third", &small)).comes_to(403);
    requests.get("what is gone is counted still", QUOTAS.of("compute"));
    let left = json!({"pods": "1", "requests.cpu": "500m", "limits.memory": "1Gi"});
    say(requests, "the first pod is counted no longer", "compute", &json!({"used": left}));
    requests.create("a third pod is created at last", PODS, &pod("third", &small)).until(201);
    remove(requests, PODS, "second");
    remove(requests, PODS, "third");
    remove(requests, QUOTAS, "compute");
}

/// Storage.
fn of_claims(requests: &mut Requests) {
    let of_class = "slipway-local.storageclass.storage.k8s.io/requests.storage";
    let hard = json!({"persistentvolumeclaims": "2", "requests.storage": "4Gi", of_class: "1Gi"});
    let used = json!({"persistentvolumeclaims": "0", "requests.storage": "0", of_class: "0"});
    create_quota(requests, "storage", &hard);
    say(requests, "no claim is there", "storage", &json!({"hard": hard, "used": used}));
    requests.try_to_create("a claim that is too large", CLAIMS, &claim("large", "slipway-local", "5Gi")).until(403);
    requests.create("a claim too large for its class", CLAIMS, &claim("large", "slipway-local", "2Gi")).comes_to(403);
    requests.create("a claim is created", CLAIMS, &claim("first", "slipway-local", "1024Mi"));
    requests.create("a claim of another class is created", CLAIMS, &claim("second", "growing", "2Gi"));
    requests.create("a third claim is created", CLAIMS, &claim("third", "growing", "1Gi")).comes_to(403);
    requests.get("the claims are counted", QUOTAS.of("storage"));
    requests.merge("a claim has a volume", CLAIMS.of("second"), &json!({"spec": {"volumeName": "volume-d"}}));
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}});
    requests.merge("a claim is bound", CLAIMS.status("second"), &bound);
    let grown = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    requests.merge("a claim grows beyond the quota", CLAIMS.of("second"), &grown("4Gi")).comes_to(403);
    requests.merge("a claim grows", CLAIMS.of("second"), &grown("3Gi"));
    requests.get("its growth is counted", QUOTAS.of("storage"));
    for name in ["first", "second"] {
        requests.release(&format!("no pod uses {name}"), CLAIMS.of(name));
        remove(requests, CLAIMS, name);
    }
    remove(requests, QUOTAS, "storage");
}

pub fn steps() -> Vec<Step> {
    let mut requests = Requests::about("quotas");
    of_objects(&mut requests);
    of_pods(&mut requests);
    of_claims(&mut requests);
    requests.steps
}
