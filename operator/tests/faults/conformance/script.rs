//! The requests: what the operator, its users and controllers ask an API server, and what they get wrong.

use http::Method;
use serde_json::{Value, json};

use super::step::{APPLY, JSON, JSON_PATCH, MERGE, Step};

/// A kind with a small object of it.
pub struct Sample {
    pub kind: &'static str,
    pub api: &'static str,
    pub plural: &'static str,
    /// What the object has besides its metadata.
    pub rest: Value,
    /// A change of it.
    pub changed: Value,
    /// A change that is never allowed.
    pub refused: Option<Value>,
}

impl Sample {
    fn api_version(&self) -> &'static str {
        self.api.trim_start_matches("apis/").trim_start_matches("api/")
    }

    fn collection(&self) -> String {
        format!("/{}/namespaces/conformance/{}", self.api, self.plural)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    pub fn object(&self, name: &str) -> Value {
        let mut object = self.rest.clone();
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(self.kind);
        object["metadata"] = json!({"name": name, "labels": {"of": "conformance"}});
        object
    }

    /// The object with other members.
    pub fn with(&self, name: &str, other: &Value) -> Value {
        let mut object = self.object(name);
        json_patch::merge(&mut object, other);
        object
    }
}

/// A kind of which any change is allowed, by its name, its API and its plural.
fn sample((kind, api, plural): (&'static str, &'static str, &'static str), rest: Value, changed: Value) -> Sample {
    Sample { kind, api, plural, rest, changed, refused: None }
}

/// Kinds that the operator writes.
fn samples() -> Vec<Sample> {
    let pod = json!({"containers": [{"name": "main", "image": "example.com/main:1",
        "resources": {"requests": {"cpu": "0.5", "memory": "2048Mi"}}}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let deployment = sample(
        ("Deployment", "apis/apps/v1", "deployments"),
        json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        json!({"spec": {"replicas": 3}}),
    );
    let other_pods = json!({"spec": {"template": {"metadata": {"labels": {"app": "b"}}}}});
    vec![
        sample(("ConfigMap", "api/v1", "configmaps"), json!({"data": {"a": "1"}}), json!({"data": {"b": "2"}})),
        sample(
            ("Service", "api/v1", "services"),
            json!({"spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}}),
            json!({"spec": {"selector": {"app": "b"}}}),
        ),
        Sample { refused: Some(other_pods), ..deployment },
        sample(
            ("ControllerRevision", "apis/apps/v1", "controllerrevisions"),
            json!({"revision": 1, "data": {"a": "1"}}),
            json!({"revision": 2}),
        ),
        sample(
            ("Job", "apis/batch/v1", "jobs"),
            json!({"spec": {"backoffLimit": 0, "template": once}}),
            json!({"spec": {"suspend": true}}),
        ),
        sample(
            ("Lease", "apis/coordination.k8s.io/v1", "leases"),
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
            json!({"spec": {"holderIdentity": "b"}}),
        ),
        sample(
            ("NetworkPolicy", "apis/networking.k8s.io/v1", "networkpolicies"),
            json!({"spec": {"podSelector": {"matchLabels": {"app": "a"}}, "policyTypes": ["Ingress"]}}),
            json!({"spec": {"policyTypes": ["Ingress", "Egress"]}}),
        ),
        agent_deployment(),
    ]
}

pub fn agent_deployment() -> Sample {
    Sample {
        kind: "AgentDeployment",
        api: "apis/slipway.dev/v1alpha1",
        plural: "agentdeployments",
        rest: json!({"spec": {
            "model": {"uri": "http://models.example/react"},
            "engine": {"backend": "Custom",
                "custom": {"builderImage": "example.com/builder:1", "tritonImage": "example.com/triton:1"}},
            "search": {"precision": ["FP32"]},
            "agent": {"systemPrompt": "Answer."},
        }}),
        changed: json!({"spec": {"agent": {"systemPrompt": "Answer briefly."}}}),
        refused: Some(json!({"spec": {"engine": {"backend": "Magic"}}})),
    }
}

/// The requests of one kind.
pub struct Kind<'a> {
    sample: &'a Sample,
    steps: Vec<Step>,
}

impl<'a> Kind<'a> {
    /// The requests about a kind, in their order.
    pub fn of(sample: &'a Sample) -> Vec<Step> {
        let mut kind = Self { sample, steps: Vec::new() };
        kind.missing();
        kind.created();
        kind.listed();
        kind.changed();
        kind.applied();
        kind.deleted();
        kind.steps
    }

    fn ask(&mut self, name: &str, method: Method, path: String, content: &'static str, body: &Value) {
        let name = format!("{}: {name}", self.sample.kind);
        self.steps.push(Step::new(name, method, path, content, body));
    }

    fn get(&mut self, name: &str, path: String) {
        self.ask(name, Method::GET, path, JSON, &Value::Null);
    }

    fn apply(&mut self, name: &str, manager: &str, body: &Value) {
        let object = body["metadata"]["name"].as_str().unwrap_or("a").to_owned();
        let path = format!("{}?fieldManager={manager}", self.sample.path(&object));
        self.ask(name, Method::PATCH, path, APPLY, body);
    }

    fn merge(&mut self, name: &str, body: &Value) {
        self.ask(name, Method::PATCH, format!("{}?fieldManager=tests", self.sample.path("a")), MERGE, body);
    }

    fn delete(&mut self, name: &str, object: &str, options: &Value) {
        self.ask(name, Method::DELETE, self.sample.path(object), JSON, options);
    }

    fn of_object(&self) -> String {
        format!("{}/a", self.sample.kind)
    }

    /// What there is not can neither be read nor changed nor deleted.
    fn missing(&mut self) {
        let (collection, path) = (self.sample.collection(), self.sample.path("a"));
        self.get("one that is missing is read", path);
        self.merge("one that is missing is patched", &json!({"metadata": {"labels": {"of": "b"}}}));
        self.delete("one that is missing is deleted", "a", &Value::Null);
        self.get("an empty list", format!("{collection}?labelSelector=of%3Dconformance"));
    }

    fn created(&mut self) {
        let create = format!("{}?fieldManager=tests", self.sample.collection());
        let (one, another) = (self.sample.object("a"), self.sample.object("b"));
        self.ask("one is created", Method::POST, create.clone(), JSON, &one);
        self.ask("it is created again", Method::POST, create.clone(), JSON, &one);
        self.get("it is read", self.sample.path("a"));
        self.apply("another is applied", "applier", &another);
        self.apply("it is applied again", "applier", &another);
        let mut strange = one.clone();
        strange["kind"] = json!("Strange");
        self.ask("an object of another kind is created", Method::POST, create.clone(), JSON, &strange);
        let elsewhere = self.sample.with("c", &json!({"metadata": {"namespace": "elsewhere"}}));
        self.ask("one of another namespace is created", Method::POST, create.clone(), JSON, &elsewhere);
        let versioned = self.sample.with("c", &json!({"metadata": {"resourceVersion": "1"}}));
        self.ask("one with a version is created", Method::POST, create.clone(), JSON, &versioned);
        let labelled = self.sample.with("c", &json!({"metadata": {"labels": {"of": "not a value"}}}));
        self.ask("one with a bad label is created", Method::POST, create.clone(), JSON, &labelled);
        let named = self.sample.with("Not_A_Name", &json!({}));
        self.ask("one with a bad name is created", Method::POST, create, JSON, &named);
    }

    fn listed(&mut self) {
        let collection = self.sample.collection();
        self.get("a list by label", format!("{collection}?labelSelector=of%3Dconformance"));
        self.get("a list by another label", format!("{collection}?labelSelector=of%3Dother"));
        self.get("a list by name", format!("{collection}?fieldSelector=metadata.name%3Db"));
        self.get("the first page of a list", format!("{collection}?labelSelector=of%3Dconformance&limit=1"));
        self.get("a list by a selector that cannot be read", format!("{collection}?labelSelector=a%20b"));
    }

    fn changed(&mut self) {
        let (kind, path) = (self.of_object(), self.sample.path("a"));
        let changed = self.sample.changed.clone();
        self.merge("it is changed", &changed);
        self.merge("it is changed to what it is", &changed);
        let stale = json!({"metadata": {"resourceVersion": format!("$first({kind})"), "labels": {"of": "other"}}});
        self.merge("it is changed as of an earlier version", &stale);
        let stranger = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "labels": {"of": "other"}}});
        self.merge("it is changed as another object", &stranger);
        let whole = self.sample.with("a", &json!({"metadata": {"resourceVersion": format!("$first({kind})")}}));
        self.ask("it is replaced as of an earlier version", Method::PUT, path.clone(), JSON, &whole);
        let renamed = self.sample.with("other", &json!({}));
        self.ask("it is replaced by one of another name", Method::PUT, path.clone(), JSON, &renamed);
        let patch = json!([{"op": "test", "path": "/metadata/name", "value": "other"}]);
        self.ask("a test of a patch fails", Method::PATCH, path.clone(), JSON_PATCH, &patch);
        let patch = json!([{"op": "replace", "path": "/metadata/labels/of", "value": "patched"}]);
        self.ask("it is patched", Method::PATCH, format!("{path}?fieldManager=patcher"), JSON_PATCH, &patch);
        self.ask("a patch of an unknown format", Method::PATCH, path, "application/strange", &json!({}));
        if let Some(refused) = self.sample.refused.clone() {
            self.merge("it is changed to what cannot be", &refused);
        }
    }

    fn applied(&mut self) {
        let sample = self.sample;
        let labels = |of: &str| {
            json!({"apiVersion": sample.api_version(), "kind": sample.kind,
                "metadata": {"name": "a", "labels": {"of": of}}})
        };
        self.apply("a label of another manager is applied", "rival", &labels("rival"));
        self.apply("a label of another manager is taken by force", "rival&force=true", &labels("rival"));
        let annotated = json!({"apiVersion": sample.api_version(), "kind": sample.kind,
            "metadata": {"name": "a", "annotations": {"example.com/b": "1"}}});
        self.apply("what a manager no longer applies goes", "rival", &annotated);
        let path = self.sample.path("a");
        self.ask("nobody applies", Method::PATCH, path, APPLY, &annotated);
    }

    fn deleted(&mut self) {
        let kind = self.of_object();
        let other = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}});
        self.delete("another object of its name is deleted", "a", &other);
        let stale =
            json!({"preconditions": {"uid": format!("$uid({kind})"), "resourceVersion": format!("$first({kind})")}});
        self.delete("it is deleted as of an earlier version", "a", &stale);
        self.merge("somebody holds it", &json!({"metadata": {"finalizers": ["example.com/held"]}}));
        let it = json!({"preconditions": {"uid": format!("$uid({kind})"), "resourceVersion": format!("$latest({kind})")},
            "propagationPolicy": "Background"});
        self.delete("it is deleted while it is held", "a", &it);
        self.get("it is going", self.sample.path("a"));
        self.delete("it is deleted while it is going", "a", &Value::Null);
        self.merge("a going one is held by another", &json!({"metadata": {"finalizers": ["example.com/other"]}}));
        self.merge("it is held no longer", &json!({"metadata": {"finalizers": []}}));
        self.get("it is gone", self.sample.path("a"));
        self.delete("the other is deleted", "b", &json!({"propagationPolicy": "Background"}));
        self.get("all are gone", format!("{}?labelSelector=of%3Dconformance", self.sample.collection()));
    }
}

/// What the status of our own kinds takes, and what their rules refuse.
fn of_status(sample: &Sample) -> Vec<Step> {
    let mut kind = Kind { sample, steps: Vec::new() };
    let create = format!("{}?fieldManager=tests", sample.collection());
    let with_status = sample.with("s", &json!({"status": {"stage": "Serving"}}));
    kind.ask("one is created with a status", Method::POST, create.clone(), JSON, &with_status);
    let status = |status: &Value| {
        json!({"apiVersion": sample.api_version(), "kind": sample.kind,
        "metadata": {"name": "s"}, "status": status})
    };
    let path = |query: &str| format!("{}/status{query}", sample.path("s"));
    let serving = json!({"stage": "Serving", "observedGeneration": 1});
    kind.ask("a status is applied", Method::PATCH, path("?fieldManager=slipway"), APPLY, &status(&serving));
    kind.ask("a status is applied again", Method::PATCH, path("?fieldManager=slipway"), APPLY, &status(&serving));
    let unknown = json!({"stage": "Serving", "strange": 1});
    let two = json!({"stage": "Serving", "strange": 1, "slo": [{"name": "p95", "odd": 1}]});
    kind.ask("two unknown fields are applied", Method::PATCH, path("?fieldManager=slipway"), APPLY, &status(&two));
    kind.ask("an unknown field is applied", Method::PATCH, path("?fieldManager=slipway"), APPLY, &status(&unknown));
    kind.ask(
        "a status is patched",
        Method::PATCH,
        path("?fieldManager=tests"),
        MERGE,
        &json!({"status": {"stage": "Stalled"}, "spec": {"agent": {"systemPrompt": "Not by this path."}}}),
    );
    kind.ask(
        "a status of another type",
        Method::PATCH,
        path("?fieldManager=tests"),
        MERGE,
        &json!({"status": {"observedGeneration": "one"}}),
    );
    kind.ask("a status of an earlier version", Method::PATCH, path("?fieldManager=tests"), MERGE,
        &json!({"metadata": {"resourceVersion": format!("$first({}/s)", sample.kind)}, "status": {"stage": "Building"}}));
    kind.get("it has a status", sample.path("s"));
    for (name, spec) in refused_specs() {
        let object = sample.with("bad", &spec);
        kind.ask(&format!("one {name} is created"), Method::POST, create.clone(), JSON, &object);
    }
    kind.delete("the one with a status is deleted", "s", &Value::Null);
    kind.steps
}

/// Specs that cannot be, with words for them.
fn refused_specs() -> [(&'static str, Value); 7] {
    [
        ("without a model", json!({"spec": {"model": null}})),
        ("with a number for a text", json!({"spec": {"agent": {"systemPrompt": 7}}})),
        ("with an unknown field", json!({"spec": {"strange": 1}})),
        ("with an unsupported value", json!({"spec": {"engine": {"backend": "Magic"}}})),
        ("against a rule", json!({"spec": {"alerts": {"burnRate": true}}})),
        (
            "with too many items",
            json!({"spec": {"search": {"precision": ["FP32", "FP16", "BF16", "FP8", "INT8", "INT4", "FP32",
            "FP32", "FP32"]}}}),
        ),
        ("with two mistakes", json!({"spec": {"agent": {"systemPrompt": 7, "maxSteps": 0}}})),
    ]
}

/// Requests that no kind has.
fn astray() -> Vec<Step> {
    let namespace = "/api/v1/namespaces/conformance";
    let broken = |name: &str, method: Method, path: String, content, body: &str| Step {
        body: body.to_owned(),
        ..Step::new(name.to_owned(), method, path, content, &Value::Null)
    };
    vec![
        broken("a kind that nobody serves", Method::GET, format!("{namespace}/strangers"), JSON, ""),
        broken("a group that nobody serves", Method::GET, "/apis/strange.example/v1/things".to_owned(), JSON, ""),
        broken("a body that is not JSON", Method::POST, format!("{namespace}/configmaps"), JSON, "{"),
        broken("a body that is empty", Method::POST, format!("{namespace}/configmaps"), JSON, ""),
        broken("an object is posted to", Method::POST, format!("{namespace}/configmaps/a"), JSON, "{}"),
        broken(
            "a map of numbers",
            Method::POST,
            format!("{namespace}/configmaps"),
            JSON,
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "numbers"}, "data": {"a": 1}}"#,
        ),
        broken(
            "an immutable map",
            Method::POST,
            format!("{namespace}/configmaps?fieldManager=tests"),
            JSON,
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fixed"}, "data": {"a": "1"}, "immutable": true}"#,
        ),
        broken(
            "an immutable map is changed",
            Method::PATCH,
            format!("{namespace}/configmaps/fixed"),
            MERGE,
            r#"{"data": {"a": "2"}}"#,
        ),
        broken("an immutable map is deleted", Method::DELETE, format!("{namespace}/configmaps/fixed"), JSON, ""),
    ]
}

/// All requests, in their order.
pub fn steps() -> Vec<Step> {
    let samples = samples();
    let mut steps = astray();
    steps.extend(samples.iter().flat_map(Kind::of));
    steps.extend(of_status(&agent_deployment()));
    steps
}
