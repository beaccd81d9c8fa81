//! The entries of `metadata.managedFields`: who owns what, and by which kind of write.

use serde_json::{Value, json};

use super::{fields, kinds::Kind, refusal::Refusal};

/// Who writes, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manager<'a> {
    pub name: &'a str,
    /// `Apply` or `Update`.
    pub operation: &'static str,
    /// `status`, or nothing.
    pub subresource: Option<&'a str>,
}

impl Manager<'_> {
    fn is(&self, entry: &Value) -> bool {
        entry["manager"] == json!(self.name)
            && entry["operation"] == json!(self.operation)
            && entry.get("subresource").and_then(Value::as_str) == self.subresource
    }

    fn entry(&self, kind: &Kind, fields: Value, time: Option<Value>) -> Value {
        let mut entry = json!({
            "manager": self.name, "operation": self.operation, "apiVersion": kind.api_version(),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if let Some(time) = time {
            entry["time"] = time;
        }
        if let Some(subresource) = self.subresource {
            entry["subresource"] = json!(subresource);
        }
        entry
    }
}

fn entries(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

/// What a manager owns of an object.
pub fn owned(object: &Value, manager: Manager<'_>) -> Value {
    entries(object).iter().find(|entry| manager.is(entry)).map_or_else(|| json!({}), |entry| entry["fieldsV1"].clone())
}

/// What all others own.
pub fn owned_by_others(object: &Value, manager: Manager<'_>) -> Value {
    let all = entries(object);
    all.iter().filter(|entry| !manager.is(entry)).fold(json!({}), |all, entry| fields::union(&all, &entry["fieldsV1"]))
}

/// Another one who owns fields that a manager wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    pub manager: String,
    pub operation: String,
    pub api_version: String,
    /// Paths of the fields, such as `.spec.replicas`.
    pub fields: Vec<String>,
}

/// The others that own one of these fields.
pub fn rivals(object: &Value, manager: Manager<'_>, wanted: &Value) -> Vec<Rival> {
    let all = entries(object);
    let rival = |entry: &Value| Rival {
        manager: entry["manager"].as_str().unwrap_or_default().to_owned(),
        operation: entry["operation"].as_str().unwrap_or_default().to_owned(),
        api_version: entry["apiVersion"].as_str().unwrap_or_default().to_owned(),
        fields: fields::paths(&fields::intersection(wanted, &entry["fieldsV1"])),
    };
    let others = all.iter().filter(|entry| !manager.is(entry)).map(rival);
    others.filter(|rival| !rival.fields.is_empty()).collect()
}

/// The refusal of an application, with its rivals and the fields that they own.
pub fn conflict(rivals: &[Rival]) -> Refusal {
    let paths = rivals.iter().flat_map(|rival| rival.fields.iter().map(move |field| (rival, field)));
    // One who applies is named without a version (`printManager` of the server's conflict.go).
    let said = |rival: &Rival| match rival.operation.as_str() {
        "Update" => format!("conflict with {:?} using {}", rival.manager, rival.api_version),
        _ => format!("conflict with {:?}", rival.manager),
    };
    let causes: Vec<Value> = paths
        .map(|(rival, field)| json!({"reason": "FieldManagerConflict", "message": said(rival), "field": field}))
        .collect();
    let lines: Vec<String> = rivals
        .iter()
        .map(|rival| match rival.fields.as_slice() {
            [one] => format!("{}: {one}", said(rival)),
            more => format!("{}:\n- {}", said(rival).replacen("conflict", "conflicts", 1), more.join("\n- ")),
        })
        .collect();
    let count = causes.len();
    let noun = if count == 1 { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {count} {noun}: {}", lines.join("\n"));
    Refusal { code: 409, reason: "Conflict", message, details: json!({"causes": causes}) }
}

/// The object after a manager has written: it owns `owned`, and nobody else owns what it has `taken`. Without a time
/// it wrote what was there: an earlier time of its own stays.
pub fn recorded(kind: &Kind, object: &Value, by: (Manager<'_>, Option<&str>), owned: Value, taken: &Value) -> Value {
    let (manager, time) = by;
    let before = self::owned(object, manager);
    let mut all: Vec<Value> = Vec::new();
    for mut entry in entries(object).into_iter().filter(|entry| !manager.is(entry)) {
        entry["fieldsV1"] = fields::difference(&entry["fieldsV1"], taken);
        if entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty()) {
            all.push(entry);
        }
    }
    let earlier = entries(object).into_iter().find(|entry| manager.is(entry));
    if owned.as_object().is_some_and(|fields| !fields.is_empty()) {
        all.push(match earlier {
            Some(entry) if before == owned => entry,
            earlier => {
                let time = time.map(|time| json!(time)).or_else(|| earlier?.get("time").cloned());
                manager.entry(kind, owned, time)
            }
        });
    }
    all.sort_by_key(|entry| format!("{}/{}/{}", entry["manager"], entry["operation"], entry["subresource"]));
    let mut object = object.clone();
    object["metadata"]["managedFields"] = Value::Array(all);
    object
}
