//! A request of a script, and how scripts are written.

use http::Method;
use serde_json::{Value, json};

/// One request.
pub struct Step {
    /// What it is about. Answers are recorded by it.
    pub name: String,
    pub method: Method,
    pub path: String,
    pub content: &'static str,
    pub accept: &'static str,
    pub body: String,
    /// The code that it is expected to come to.
    pub code: Option<u16>,
    /// Whether it is asked again until it comes to that: admission hears of quotas a moment later than clients do.
    pub is_patient: bool,
}

pub const JSON: &str = "application/json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
/// An object's metadata alone.
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Step {
    pub fn new(name: String, method: Method, path: String, content: &'static str, body: &Value) -> Self {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Self { name, method, path, content, accept: JSON, body, code: None, is_patient: false }
    }

    /// Whether it is answered by events.
    pub fn is_watch(&self) -> bool {
        self.path.contains("?watch=true")
    }

    /// It comes to another code than such requests usually do.
    pub fn comes_to(&mut self, code: u16) -> &mut Self {
        self.code = Some(code);
        self
    }

    /// It is asked until it comes to a code. What it does before that must leave nothing behind.
    pub fn until(&mut self, code: u16) {
        self.comes_to(code).is_patient = true;
    }

    pub fn accepts(&mut self, accept: &'static str) -> &mut Self {
        self.accept = accept;
        self
    }
}

/// The objects of a kind in the namespace.
#[derive(Clone, Copy)]
pub struct Collection {
    pub api: &'static str,
    pub plural: &'static str,
}

impl Collection {
    pub fn path(self) -> String {
        format!("/{}/namespaces/conformance/{}", self.api, self.plural)
    }

    pub fn of(self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    pub fn status(self, name: &str) -> String {
        format!("{}/{name}/status", self.path())
    }
}

pub const AGENTS: Collection = Collection { api: "apis/slipway.dev/v1alpha1", plural: "agentdeployments" };
pub const CLAIMS: Collection = Collection { api: "api/v1", plural: "persistentvolumeclaims" };
pub const CONFIG_MAPS: Collection = Collection { api: "api/v1", plural: "configmaps" };
pub const DEPLOYMENTS: Collection = Collection { api: "apis/apps/v1", plural: "deployments" };
pub const JOBS: Collection = Collection { api: "apis/batch/v1", plural: "jobs" };
pub const PODS: Collection = Collection { api: "api/v1", plural: "pods" };
pub const QUOTAS: Collection = Collection { api: "api/v1", plural: "resourcequotas" };
pub const REVISIONS: Collection = Collection { api: "apis/apps/v1", plural: "controllerrevisions" };
pub const SERVICES: Collection = Collection { api: "api/v1", plural: "services" };

/// Requests about one thing, in their order.
pub struct Requests {
    about: &'static str,
    pub steps: Vec<Step>,
}

impl Requests {
    pub fn about(about: &'static str) -> Self {
        Self { about, steps: Vec::new() }
    }

    fn ask(&mut self, name: &str, method: Method, path: String, content: &'static str, body: &Value) -> &mut Step {
        let code = if method == Method::POST { 201 } else { 200 };
        let name = format!("{}: {name}", self.about);
        self.steps.push(Step { code: Some(code), ..Step::new(name, method, path, content, body) });
        self.steps.last_mut().unwrap()
    }

    pub fn get(&mut self, name: &str, path: String) -> &mut Step {
        self.ask(name, Method::GET, path, JSON, &Value::Null)
    }

    pub fn create(&mut self, name: &str, of: Collection, object: &Value) -> &mut Step {
        self.ask(name, Method::POST, format!("{}?fieldManager=tests", of.path()), JSON, object)
    }

    /// A creation that changes nothing.
    pub fn try_to_create(&mut self, name: &str, of: Collection, object: &Value) -> &mut Step {
        self.ask(name, Method::POST, format!("{}?fieldManager=tests&dryRun=All", of.path()), JSON, object)
    }

    pub fn merge(&mut self, name: &str, path: String, body: &Value) -> &mut Step {
        self.ask(name, Method::PATCH, format!("{path}?fieldManager=tests"), MERGE, body)
    }

    pub fn patch(&mut self, name: &str, path: String, body: &Value) -> &mut Step {
        self.ask(name, Method::PATCH, format!("{path}?fieldManager=tests"), JSON_PATCH, body)
    }

    pub fn apply(&mut self, name: &str, path: String, body: &Value) -> &mut Step {
        self.ask(name, Method::PATCH, format!("{path}?fieldManager=applier"), APPLY, body)
    }

    pub fn delete(&mut self, name: &str, path: String, options: &Value) -> &mut Step {
        self.ask(name, Method::DELETE, path, JSON, options)
    }

    /// Nobody holds an object any longer.
    pub fn release(&mut self, name: &str, path: String) -> &mut Step {
        self.merge(name, path, &json!({"metadata": {"finalizers": null}}))
    }
}
