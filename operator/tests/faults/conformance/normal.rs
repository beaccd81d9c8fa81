//! Answers without what changes from run to run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// UIDs and versions in the order in which they appeared, and those that each object had.
#[derive(Default)]
pub struct Normal {
    uids: Vec<String>,
    /// By UID.
    versions: BTreeMap<String, Vec<String>>,
    /// By kind and name: the UID, the first version and the latest.
    seen: BTreeMap<String, (String, String, String)>,
    /// Version and token of the latest list that had them.
    list: String,
    token: String,
}

impl Normal {
    /// A text whose `$uid(Kind/name)`, `$first(Kind/name)`, `$latest(Kind/name)`, `$list` and `$token` are what was
    /// seen.
    pub fn filled(&self, text: &str) -> String {
        let mut text = text.replace("$list", &self.list).replace("$token", &self.token);
        for (object, (uid, first, latest)) in &self.seen {
            text = text.replace(&format!("$uid({object})"), uid);
            text = text.replace(&format!("$first({object})"), first);
            text = text.replace(&format!("$latest({object})"), latest);
        }
        text
    }

    /// The answer with its values replaced.
    pub fn of(&mut self, mut body: Value) -> Value {
        for item in body.pointer_mut("/items").and_then(Value::as_array_mut).into_iter().flatten() {
            name_owned_fields(item);
        }
        name_owned_fields(&mut body);
        forget_words(&mut body);
        self.note(&body);
        if body["items"].is_array() {
            let said = |name: &str| body["metadata"][name].as_str().unwrap_or_default().to_owned();
            (self.list, self.token) = (said("resourceVersion"), said("continue"));
        }
        for item in body["items"].as_array().into_iter().flatten() {
            self.note(item);
        }
        if let Some(uid) = body["details"]["uid"].as_str() {
            place(&mut self.uids, uid);
        }
        self.replaced(body, &mut Vec::new())
    }

    /// The same of an event of a watch.
    pub fn of_event(&mut self, mut event: Value) -> Value {
        let object = self.of(event["object"].take());
        event["object"] = object;
        // It has the version of the whole store too.
        if event["type"] == "BOOKMARK" {
            event["object"]["metadata"]["resourceVersion"] = json!("of the store");
        }
        event
    }

    fn note(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let (Some(uid), Some(version)) = (metadata["uid"].as_str(), metadata["resourceVersion"].as_str()) else {
            return;
        };
        place(&mut self.uids, uid);
        place(self.versions.entry(uid.to_owned()).or_default(), version);
        // Items of a list do not say what they are.
        if object["kind"].is_null() {
            return;
        }
        let name = format!("{}/{}", object["kind"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap());
        let entry = self.seen.entry(name).or_insert_with(|| (uid.to_owned(), version.to_owned(), version.to_owned()));
        if entry.0 != uid {
            *entry = (uid.to_owned(), version.to_owned(), version.to_owned());
        }
        version.clone_into(&mut entry.2);
    }

    fn replaced(&mut self, value: Value, path: &mut Vec<String>) -> Value {
        match value {
            Value::Object(mut members) => {
                if let (Some(uid), Some(version)) = (text_of(&members, "uid"), text_of(&members, "resourceVersion")) {
                    let at = place(self.versions.entry(uid).or_default(), &version);
                    members.insert("resourceVersion".to_owned(), json!(format!("version {at} of it")));
                }
                let is_list = members.contains_key("items") && path.is_empty();
                let mut replaced: serde_json::Map<String, Value> = members
                    .into_iter()
                    .map(|(name, value)| {
                        path.push(name.clone());
                        let value = self.replaced(value, path);
                        path.pop();
                        (name, value)
                    })
                    .collect();
                // A list has the version of the whole store, which other clients change too.
                if is_list && let Some(metadata) = replaced.get_mut("metadata") {
                    metadata["resourceVersion"] = json!("of the store");
                    if metadata["continue"].as_str().is_some_and(|token| !token.is_empty()) {
                        metadata["continue"] = json!("a token");
                    }
                }
                if let Some(Value::Array(entries)) = replaced.get_mut("managedFields") {
                    entries.sort_by_key(|entry| {
                        format!("{}/{}/{}", entry["manager"], entry["operation"], entry["subresource"])
                    });
                }
                Value::Object(replaced)
            }
            Value::Array(items) => items.into_iter().map(|item| self.replaced(item, path)).collect(),
            Value::String(text) => Value::String(self.text(text, path)),
            other => other,
        }
    }

    fn text(&mut self, text: String, path: &[String]) -> String {
        let field = path.last().map_or("", String::as_str);
        match field {
            "creationTimestamp" | "deletionTimestamp" | "time" | "renewTime" => return "a time".to_owned(),
            "clusterIP" | "clusterIPs" => return "an address".to_owned(),
            _ => {}
        }
        let mut text = text;
        for (at, uid) in self.uids.iter().enumerate() {
            text = text.replace(uid.as_str(), &format!("uid {at}"));
        }
        if field == "message" {
            if text.starts_with("too old resource version: ") {
                return "too old resource version".to_owned();
            }
            for (at, version) in self.versions.values().flat_map(|versions| versions.iter().enumerate()) {
                text = text.replace(&format!("({version})"), &format!("(version {at} of it)"));
            }
        }
        text
    }
}

/// Codes of refusals whose words are those of a parser or a validator: they are compared by code, reason and field.
const OF_VALIDATION: [u64; 3] = [400, 415, 422];

fn forget_words(body: &mut Value) {
    if body.get("details").is_some_and(|details| *details == json!({})) {
        body.as_object_mut().map(|members| members.remove("details"));
    }
    if !body["code"].as_u64().is_some_and(|code| OF_VALIDATION.contains(&code)) {
        return;
    }
    body.as_object_mut().map(|members| members.remove("message"));
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        for cause in causes.iter_mut() {
            cause.as_object_mut().map(|members| members.remove("message"));
        }
        // Some are said twice, and their order is that of Go's maps.
        causes.sort_by_key(Value::to_string);
        causes.dedup();
    }
}

const MANAGED: &str = "/metadata/managedFields";

/// Replaces each manager's tree of fields by the paths of the values that it owns. Whether it owns the map around them
/// too depends on how Kubernetes' types are written in Go.
fn name_owned_fields(object: &mut Value) {
    let whole = object.clone();
    for entry in object.pointer_mut(MANAGED).and_then(Value::as_array_mut).into_iter().flatten() {
        let mut paths = Vec::new();
        leaves(&entry["fieldsV1"], &whole, String::new(), &mut paths);
        entry["fieldsV1"] = json!(paths);
    }
    // A manager that owns nothing but maps owns no value.
    if let Some(entries) = object.pointer_mut(MANAGED).and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["fieldsV1"].as_array().is_none_or(|paths| !paths.is_empty()));
    }
}

fn leaves(tree: &Value, value: &Value, path: String, found: &mut Vec<String>) {
    let below: Vec<(&String, &Value)> =
        tree.as_object().into_iter().flatten().filter(|(key, _)| key.as_str() != ".").collect();
    if below.is_empty() {
        if !value.is_null() && value.as_object().is_none_or(|members| members.is_empty() || is_one_value(&path)) {
            found.push(path);
        }
        return;
    }
    for (key, tree) in below {
        let part = match key.split_once(':') {
            Some(("f", name)) => value.get(name).cloned().unwrap_or_default(),
            Some(("k", identity)) => {
                let wanted: Value = serde_json::from_str(identity).unwrap_or_default();
                let is_it = |item: &&Value| {
                    wanted.as_object().into_iter().flatten().all(|(name, value)| item[name.as_str()] == *value)
                };
                value.as_array().into_iter().flatten().find(is_it).cloned().unwrap_or_default()
            }
            _ => json!(key),
        };
        leaves(tree, &part, format!("{path}/{key}"), found);
    }
}

/// Maps that are owned as a whole.
fn is_one_value(path: &str) -> bool {
    ["/f:selector", "/f:podSelector", "/f:data"].iter().any(|end| path.ends_with(end))
}

fn text_of(members: &serde_json::Map<String, Value>, name: &str) -> Option<String> {
    members.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The place of a value in the order of first appearance.
fn place(all: &mut Vec<String>, value: &str) -> usize {
    all.iter().position(|known| known == value).unwrap_or_else(|| {
        all.push(value.to_owned());
        all.len() - 1
    })
}
