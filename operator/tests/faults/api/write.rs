//! Creates, updates and patches.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    admission,
    body::{check_declared, check_place, check_type, read, said},
    claims, fields,
    kinds::{CLAIMS, CORE_EVENTS, DEPLOYMENTS, EVENTS, Kind},
    managers::{self, Manager},
    quota::{self, Counted},
    refusal::{Cause, Refusal},
    request::Asked,
    store::{Key, Store, Writer, is_going},
};

/// An object as it is after a write, and the status of HTTP.
pub type Written = Result<(u16, Value), Refusal>;

/// What is written, by whom and when.
pub struct Write<'a> {
    pub store: &'a mut Store,
    pub now: Timestamp,
    pub writer: Writer,
}

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Write<'_> {
    /// # Errors
    /// When it exists, or cannot be.
    pub fn create(&mut self, asked: &Asked, kind: Kind, namespace: &str) -> Written {
        let object = asked.json()?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let manager = Manager {
            name: asked.parameter("fieldManager").unwrap_or("unknown"),
            operation: "Update",
            subresource: None,
        };
        let key = Key::new(kind, namespace, &name);
        let mut object = self.create_as(&key, object, manager)?;
        // What is only tried is never kept.
        if asked.parameter("dryRun").is_some() {
            object["metadata"].as_object_mut().map(|members| members.remove("resourceVersion"));
        }
        Ok((201, object))
    }

    fn create_as(&mut self, key: &Key, object: Value, manager: Manager<'_>) -> Result<Value, Refusal> {
        let mut object = read(key, object)?;
        check_place(key, &object)?;
        // Its storage says so, and not its API: the server takes that for a fault of its own.
        if object["metadata"].get("resourceVersion").is_some() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Refusal { code: 500, reason: "", ..Refusal::bad_request(message) });
        }
        let is_new = self.store.get(key).is_none();
        let uid = if is_new { self.store.next_uid(key) } else { String::from("00000000-0000-4000-8000-000000000000") };
        if key.kind.has_status && manager.subresource.is_none() {
            object.as_object_mut().map(|members| members.remove("status"));
        }
        let asked = object.clone();
        object = admission::defaulted(key.kind, object, &uid);
        // Defaults belong to nobody who applies, and to everybody else who writes.
        let owned = if manager.operation == "Apply" {
            fields::of_object(&key.kind, &asked)
        } else {
            fields::of_object(&key.kind, &admission::owned(key.kind, &object, &asked))
        };
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(key.namespace);
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!(seconds(self.now));
        if key.kind.has_generation {
            metadata["generation"] = json!(1);
        }
        if key.kind == CLAIMS {
            protect(&mut object);
        }
        refuse(key, &object, None)?;
        // Counted even if the name is taken: only the controller of quotas finds that out.
        self.count(Counted { key, object: &object, old: None })?;
        if let Some(known) = self.store.get(key) {
            let mut refusal = Refusal::exists(&key.kind, &key.name);
            if is_going(&known) {
                refusal.message = format!("object is being deleted: {}", refusal.message);
            }
            return Err(refusal);
        }
        let object = managers::recorded(&key.kind, &object, (manager, Some(&seconds(self.now))), owned, &json!({}));
        Ok((*self.store.put(key.clone(), object, self.writer)).clone())
    }

    /// Counts an object in the quotas of its namespace.
    fn count(&mut self, counted: Counted<'_>) -> Result<(), Refusal> {
        quota::admit(self.store, counted, &seconds(self.now))
    }

    /// # Errors
    /// When there is none, it has changed meanwhile, or cannot be so.
    pub fn update(&mut self, asked: &Asked, key: &Key, part: Option<&str>) -> Written {
        let old = self.known(key)?;
        let manager = Manager {
            name: asked.parameter("fieldManager").unwrap_or("unknown"),
            operation: "Update",
            subresource: part,
        };
        let object = read(key, asked.json()?)?;
        Ok((200, self.change(key, &old, object, manager)?))
    }

    /// # Errors
    /// The same of a patch, and where it cannot be carried out.
    pub fn patch(&mut self, asked: &Asked, key: &Key, part: Option<&str>) -> Written {
        let content = asked.content.split(';').next().unwrap_or_default().trim();
        if content == APPLY {
            return self.apply(asked, key, part);
        }
        let old = self.known(key)?;
        let mut object = old.clone();
        match content {
            MERGE => json_patch::merge(&mut object, &asked.json()?),
            // Of the kinds here, only events are patched so, and they have no lists that are merged.
            STRATEGIC if key.kind == EVENTS || key.kind == CORE_EVENTS => {
                json_patch::merge(&mut object, &asked.json()?)
            }
            JSON => {
                let patch: json_patch::Patch = serde_json::from_slice(&asked.body)
                    .map_err(|error| Refusal::bad_request(format!("the patch cannot be read: {error}")))?;
                json_patch::patch(&mut object, &patch).map_err(|error| Refusal {
                    code: 422,
                    reason: "Invalid",
                    ..Refusal::bad_request(format!(
                        "the server rejected our request due to an error in our request: {error}"
                    ))
                })?;
            }
            other => {
                return Err(Refusal::unsupported(format!("the body of the request was in an unknown format: {other}")));
            }
        }
        let manager = Manager {
            name: asked.parameter("fieldManager").unwrap_or("unknown"),
            operation: "Update",
            subresource: part,
        };
        let object = read(key, object)?;
        Ok((200, self.change(key, &old, object, manager)?))
    }

    fn apply(&mut self, asked: &Asked, key: &Key, part: Option<&str>) -> Written {
        let Some(name) = asked.parameter("fieldManager") else {
            return Err(Refusal {
                code: 422,
                reason: "Invalid",
                details: json!({"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [{"field": "fieldManager",
                    "reason": "FieldValueRequired", "message": "Required value: is required for apply patch"}]}),
                ..Refusal::bad_request(
                    "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: \
                     is required for apply patch",
                )
            });
        };
        let manager = Manager { name, operation: "Apply", subresource: part };
        let applied = asked.json()?;
        check_type(key, &applied)?;
        check_place(key, &applied)?;
        if applied["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        let Some(old) = self.store.get(key) else {
            if part.is_some() {
                return Err(Refusal::not_found(&key.kind, &key.name));
            }
            if applied["metadata"].get("resourceVersion").is_some() {
                return Err(Refusal::conflict(&key.kind, &key.name, "the object does not exist"));
            }
            return Ok((201, self.create_as(key, without_status(key, applied), manager)?));
        };
        let old = (*old).clone();
        let applied = if part.is_some() { applied } else { without_status(key, applied) };
        check_declared(key, &applied)?;
        let wanted = said(&read(key, applied.clone())?, &applied);
        let (owned, before) = (fields::of_object(&key.kind, &wanted), managers::owned(&old, manager));
        let mut merged = fields::merged(&key.kind, &old, &wanted);
        // What this manager no longer says goes, unless another one says it too.
        let given_up = fields::difference(&before, &owned);
        let given_up = fields::difference(&given_up, &managers::owned_by_others(&old, manager));
        merged = fields::without(&key.kind, &merged, &given_up);
        let taken = fields::changed(&key.kind, &old, &merged);
        let rivals = managers::rivals(&old, manager, &taken);
        if !rivals.is_empty() && !asked.says("force") {
            return Err(managers::conflict(&rivals));
        }
        let now = seconds(self.now);
        let time = (merged != old).then_some(now.as_str());
        let merged = managers::recorded(&key.kind, &merged, (manager, time), owned, &taken);
        Ok((200, self.settle(key, &old, merged, part)?))
    }

    /// Keeps a changed object whose changes a manager owns from now on.
    fn change(&mut self, key: &Key, old: &Value, object: Value, manager: Manager<'_>) -> Result<Value, Refusal> {
        check_place(key, &object)?;
        let mut object = restricted(old, object, manager.subresource);
        object["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
        let taken = fields::changed(&key.kind, old, &object);
        // What is gone has no owner.
        let gone = fields::difference(&fields::of_object(&key.kind, old), &fields::of_object(&key.kind, &object));
        let owned = fields::difference(&fields::union(&managers::owned(&object, manager), &taken), &gone);
        let taken = fields::union(&taken, &gone);
        let object = managers::recorded(&key.kind, &object, (manager, Some(&seconds(self.now))), owned, &taken);
        self.settle(key, old, object, manager.subresource)
    }

    /// Checks and keeps a changed object. What is as it was keeps its version.
    fn settle(&mut self, key: &Key, old: &Value, object: Value, part: Option<&str>) -> Result<Value, Refusal> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let uid = old["metadata"]["uid"].as_str().unwrap_or_default();
        if version(&object).is_some_and(|asked| Some(asked) != version(old)) {
            return Err(Refusal::conflict(&key.kind, &key.name, CHANGED));
        }
        if let Some(asked) = object["metadata"].get("uid").filter(|asked| **asked != uid) {
            let causes = [Cause::invalid("metadata.uid", asked, "field is immutable")];
            return Err(Refusal::invalid(&key.kind, &key.name, &causes));
        }
        let mut object = admission::defaulted(key.kind, restricted(old, object, part), uid);
        for kept in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "namespace",
        ] {
            match old["metadata"].get(kept) {
                Some(value) => object["metadata"][kept] = value.clone(),
                None => drop(object["metadata"].as_object_mut().map(|members| members.remove(kept))),
            }
        }
        // A Deployment counts its annotations too, which its ReplicaSets have.
        let is_annotated =
            key.kind == DEPLOYMENTS && object["metadata"].get("annotations") != old["metadata"].get("annotations");
        if key.kind.has_generation && (is_annotated || object.get("spec") != old.get("spec")) {
            object["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        refuse(key, &object, Some(old))?;
        if key.kind == CLAIMS && part.is_none() {
            claims::growth(key, &object, old)?;
            self.count(Counted { key, object: &object, old: Some(old) })?;
        }
        if is_alike(&object, old) {
            return Ok(old.clone());
        }
        Ok((*self.store.put(key.clone(), object, self.writer)).clone())
    }

    pub(super) fn known(&self, key: &Key) -> Result<Value, Refusal> {
        self.store.get(key).map(|object| (*object).clone()).ok_or_else(|| Refusal::not_found(&key.kind, &key.name))
    }
}

const CHANGED: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// As the API writes times: whole seconds.
pub fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap().to_string()
}

/// A claim goes once no pod uses it.
fn protect(claim: &mut Value) {
    let mut finalizers = claim["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!(claims::PROTECTION)) {
        finalizers.push(json!(claims::PROTECTION));
    }
    claim["metadata"]["finalizers"] = Value::Array(finalizers);
}

fn without_status(key: &Key, mut object: Value) -> Value {
    if key.kind.has_status {
        object.as_object_mut().map(|members| members.remove("status"));
    }
    object
}

/// The change without what the path does not reach: the status by its own path alone.
fn restricted(old: &Value, object: Value, part: Option<&str>) -> Value {
    let set = |object: &mut Value, name: &str, value: Option<&Value>| match value {
        Some(value) => object[name] = value.clone(),
        None => drop(object.as_object_mut().map(|members| members.remove(name))),
    };
    match part {
        None => {
            let mut object = object;
            set(&mut object, "status", old.get("status"));
            object
        }
        Some(_) => {
            let mut whole = old.clone();
            set(&mut whole, "status", object.get("status"));
            whole["metadata"]["managedFields"] = object["metadata"]["managedFields"].clone();
            if let Some(version) = object["metadata"].get("resourceVersion") {
                whole["metadata"]["resourceVersion"] = version.clone();
            }
            whole
        }
    }
}

fn refuse(key: &Key, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let causes = admission::problems(key, object, old);
    if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(&key.kind, &key.name, &causes)) }
}

/// Whether nothing but times of managers differs.
fn is_alike(a: &Value, b: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
            entry["time"] = Value::Null;
        }
        object
    };
    timeless(a) == timeless(b)
}
