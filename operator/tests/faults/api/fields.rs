//! Which manager owns which fields: trees in the form of `FieldsV1`, and what follows for a server-side apply
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>).

use serde_json::{Map, Value, json};

use super::{
    kinds::{CONTROLLER_REVISIONS, Kind},
    schema::Schema,
};

/// How the items of a list are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum List {
    /// One value.
    Atomic,
    /// Each item by itself.
    Set,
    /// Each item by some of its members.
    Map(Vec<String>),
}

/// Where in an object one is: what its schema says there.
#[derive(Clone)]
pub struct Place {
    schema: Option<&'static Value>,
    field: String,
    parent: String,
    is_revision: bool,
}

impl Place {
    pub fn root(kind: &Kind) -> Self {
        let is_revision = *kind == CONTROLLER_REVISIONS;
        Self { schema: kind.schema().map(Schema::root), field: String::new(), parent: String::new(), is_revision }
    }

    fn member(&self, name: &str) -> Self {
        let below =
            self.schema.and_then(|schema| schema["properties"].get(name).or(schema.get("additionalProperties")));
        // What every object has is the same for all kinds.
        let schema = below.filter(|_| !(self.field.is_empty() && name == "metadata"));
        Self { schema, field: name.to_owned(), parent: self.field.clone(), is_revision: self.is_revision }
    }

    fn item(&self) -> Self {
        let schema = self.schema.map(|schema| &schema["items"]);
        Self { schema, field: "[]".to_owned(), parent: self.field.clone(), is_revision: self.is_revision }
    }

    /// Whether the map is one value: a selector, or data that nobody looks into.
    fn is_one(&self) -> bool {
        match self.schema {
            Some(schema) => schema["x-kubernetes-map-type"] == json!("atomic"),
            None => {
                matches!(self.field.as_str(), "selector" | "podSelector" | "namespaceSelector" | "nodeSelector")
                    || (self.is_revision && self.parent.is_empty() && self.field == "data")
            }
        }
    }

    fn list(&self) -> List {
        if let Some(schema) = self.schema {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            return match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => List::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect()),
                Some("set") => List::Set,
                _ => List::Atomic,
            };
        }
        let keys: &[&str] = match (self.parent.as_str(), self.field.as_str()) {
            (_, "finalizers") => return List::Set,
            (_, "ownerReferences") => &["uid"],
            (_, "conditions") => &["type"],
            ("[]", "ports") => &["containerPort", "protocol"],
            ("spec", "ports") => &["port", "protocol"],
            (_, "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets") => &["name"],
            (_, "volumeMounts") => &["mountPath"],
            _ => return List::Atomic,
        };
        List::Map(keys.iter().map(|&key| key.to_owned()).collect())
    }
}

/// Members of an object's metadata that nobody owns.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// The tree of an object's fields.
pub fn of_object(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        UNOWNED.iter().for_each(|name| drop(metadata.remove(*name)));
        if metadata.is_empty() {
            object.as_object_mut().map(|members| members.remove("metadata"));
        }
    }
    tree(&Place::root(kind), &object)
}

fn tree(place: &Place, value: &Value) -> Value {
    match value {
        Value::Object(_) if place.is_one() => json!({}),
        Value::Object(members) => {
            let below = |(name, value): (&String, &Value)| (format!("f:{name}"), tree(&place.member(name), value));
            Value::Object(members.iter().map(below).collect())
        }
        Value::Array(items) => match place.list() {
            List::Atomic => json!({}),
            List::Set => Value::Object(items.iter().map(|item| (format!("v:{item}"), json!({}))).collect()),
            List::Map(keys) => {
                let below = |item: &Value| {
                    let mut owned = tree(&place.item(), item);
                    owned["."] = json!({});
                    (format!("k:{}", identity(&keys, item)), owned)
                };
                Value::Object(items.iter().map(below).collect())
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => json!({}),
    }
}

/// The members that identify an item. A port without a protocol is one of TCP.
fn identity(keys: &[String], item: &Value) -> Value {
    let of_item = |key: &String| {
        let found = item.get(key).cloned();
        let default = (key == "protocol").then(|| json!("TCP"));
        Some((key.clone(), found.or(default)?))
    };
    Value::Object(keys.iter().filter_map(of_item).collect())
}

fn leaf(tree: &Value) -> bool {
    tree.as_object().is_none_or(|members| members.keys().all(|key| key == "."))
}

/// Fields of both trees.
pub fn union(a: &Value, b: &Value) -> Value {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return json!({}) };
    let mut all = a.clone();
    for (key, below) in b {
        let merged = all.get(key).map_or_else(|| below.clone(), |own| union(own, below));
        all.insert(key.clone(), merged);
    }
    Value::Object(all)
}

/// Fields of the first tree that the second lacks.
pub fn difference(a: &Value, b: &Value) -> Value {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return json!({}) };
    let mut left = Map::new();
    for (key, below) in a {
        match b.get(key) {
            None => drop(left.insert(key.clone(), below.clone())),
            Some(_) if leaf(below) => {}
            Some(other) => {
                let rest = difference(below, other);
                if rest.as_object().is_some_and(|rest| !rest.is_empty()) {
                    left.insert(key.clone(), rest);
                }
            }
        }
    }
    Value::Object(left)
}

/// Fields of the first tree that the second has too.
pub fn intersection(a: &Value, b: &Value) -> Value {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return json!({}) };
    let mut both = Map::new();
    for (key, below) in a.iter().filter(|(key, _)| *key != ".") {
        let Some(other) = b.get(key) else { continue };
        let shared = intersection(below, other);
        if leaf(below) || shared.as_object().is_some_and(|shared| !shared.is_empty()) {
            both.insert(key.clone(), shared);
        }
    }
    Value::Object(both)
}

/// The paths of a tree's leaves, as `.spec.replicas` or `.spec.ports[port=80,protocol="TCP"].name`.
pub fn paths(tree: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (key, below) in tree.as_object().into_iter().flatten().filter(|(key, _)| *key != ".") {
        let here = match key.split_once(':') {
            Some(("f", name)) => format!(".{name}"),
            Some(("k", identity)) => {
                let members: Map<String, Value> = serde_json::from_str(identity).unwrap_or_default();
                let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", members.join(","))
            }
            Some((_, item)) => format!("[={item}]"),
            None => continue,
        };
        if leaf(below) {
            found.push(here);
        } else {
            found.extend(paths(below).into_iter().map(|path| format!("{here}{path}")));
        }
    }
    found
}

/// The fields of a tree whose values differ between two objects.
pub fn changed(kind: &Kind, before: &Value, after: &Value) -> Value {
    changes(&Place::root(kind), &of_object(kind, after), Some(before), after)
}

fn changes(place: &Place, owned: &Value, before: Option<&Value>, after: &Value) -> Value {
    let Some(members) = owned.as_object().filter(|members| !members.is_empty()) else { return json!({}) };
    let mut found = Map::new();
    for (key, below) in members.iter().filter(|(key, _)| *key != ".") {
        let (place, old, new) = below_of(place, key, before, after);
        let Some(new) = new else { continue };
        if old.as_ref() == Some(&new) {
            continue;
        }
        let is_whole = old.is_none() || leaf(below);
        let part = if is_whole { below.clone() } else { changes(&place, below, old.as_ref(), &new) };
        found.insert(key.clone(), part);
    }
    Value::Object(found)
}

/// Where a key of a tree leads to in two objects.
fn below_of(place: &Place, key: &str, before: Option<&Value>, after: &Value) -> (Place, Option<Value>, Option<Value>) {
    let read = |value: &Value| match key.split_once(':') {
        Some(("f", name)) => value.get(name).cloned(),
        Some(("k", identity_of)) => {
            let List::Map(keys) = place.list() else { return None };
            let wanted: Value = serde_json::from_str(identity_of).ok()?;
            value.as_array()?.iter().find(|item| identity(&keys, item) == wanted).cloned()
        }
        Some(("v", item)) => {
            let wanted: Value = serde_json::from_str(item).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted).cloned()
        }
        _ => None,
    };
    let below = match key.split_once(':') {
        Some(("f", name)) => place.member(name),
        _ => place.item(),
    };
    (below, before.and_then(read), read(after))
}

/// The live object with all that an applied one says; lists of the cluster's are merged item by item.
pub fn merged(kind: &Kind, live: &Value, applied: &Value) -> Value {
    merge(&Place::root(kind), live, applied)
}

fn merge(place: &Place, live: &Value, applied: &Value) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !place.is_one() => {
            let mut all = live.clone();
            for (name, value) in applied {
                let below = all.get(name).map_or_else(|| value.clone(), |own| merge(&place.member(name), own, value));
                all.insert(name.clone(), below);
            }
            Value::Object(all)
        }
        (Value::Array(live), Value::Array(applied)) => match place.list() {
            List::Atomic => Value::Array(applied.clone()),
            List::Set => {
                let more = live.iter().filter(|item| !applied.contains(item));
                applied.iter().chain(more).cloned().collect()
            }
            List::Map(keys) => merge_by_key(place, &keys, live, applied),
        },
        _ => applied.clone(),
    }
}

/// Items in the order of the one who applies, those of others after them.
fn merge_by_key(place: &Place, keys: &[String], live: &[Value], applied: &[Value]) -> Value {
    let of = |item: &Value| identity(keys, item);
    let own = applied.iter().map(|item| {
        let known = live.iter().find(|other| of(other) == of(item));
        known.map_or_else(|| item.clone(), |known| merge(&place.item(), known, item))
    });
    let others = live.iter().filter(|item| applied.iter().all(|own| of(own) != of(item))).cloned();
    own.chain(others).collect()
}

/// The object without the fields of a tree.
pub fn without(kind: &Kind, object: &Value, fields: &Value) -> Value {
    let mut object = object.clone();
    remove(&Place::root(kind), &mut object, fields);
    object
}

fn remove(place: &Place, value: &mut Value, fields: &Value) {
    for (key, below) in fields.as_object().into_iter().flatten() {
        let is_whole = leaf(below) || below.get(".").is_some();
        match (key.split_once(':'), &mut *value) {
            (Some(("f", name)), Value::Object(members)) => {
                let Some(member) = members.get_mut(name) else { continue };
                if leaf(below) {
                    members.remove(name);
                } else {
                    remove(&place.member(name), member, below);
                    if is_emptied(member) {
                        members.remove(name);
                    }
                }
            }
            (Some(("k", wanted)), Value::Array(items)) => {
                let (List::Map(keys), Ok(wanted)) = (place.list(), serde_json::from_str::<Value>(wanted)) else {
                    continue;
                };
                let is_it = |item: &Value| identity(&keys, item) == wanted;
                if is_whole {
                    items.retain(|item| !is_it(item));
                } else if let Some(item) = items.iter_mut().find(|item| is_it(item)) {
                    remove(&place.item(), item, below);
                }
            }
            (Some(("v", wanted)), Value::Array(items)) => {
                let wanted: Value = serde_json::from_str(wanted).unwrap_or_default();
                items.retain(|item| *item != wanted);
            }
            _ => {}
        }
    }
}

fn is_emptied(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
