//! What the server fills in and refuses of Kubernetes' own kinds: defaults, canonical quantities, names, and fields
//! that never change.

use serde_json::{Value, json};

use super::{
    claims,
    kinds::{CLAIMS, CONFIG_MAPS, CONTROLLER_REVISIONS, DEPLOYMENTS, EVENTS, JOBS, Kind, PODS, QUOTAS, SERVICES},
    pods,
    quantity::{Quantity, rewrite},
    refusal::Cause,
    store::Key,
};

/// The object with what the server fills in. `uid` is the object's own.
pub fn defaulted(kind: Kind, mut object: Value, uid: &str) -> Value {
    match kind {
        SERVICES => {
            service(&mut object["spec"], uid);
            fill(&mut object, json!({"status": {"loadBalancer": {}}}));
        }
        DEPLOYMENTS => {
            fill(&mut object, json!({"status": {}}));
            fill(
                &mut object["spec"],
                json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}),
            );
            pods::template(&mut object["spec"]["template"]["spec"]);
        }
        JOBS => {
            fill(&mut object, json!({"status": {}}));
            job(&mut object, uid);
        }
        PODS => {
            pods::template(&mut object["spec"]);
            pods::alone(&mut object);
        }
        CLAIMS => claims::defaulted(&mut object),
        QUOTAS => {
            fill(&mut object, json!({"status": {}}));
            ["/spec/hard", "/status/hard", "/status/used"].iter().for_each(|path| rewrite(object.pointer_mut(path)));
        }
        _ => object = kind.schema().map_or(object.clone(), |schema| schema.defaulted(&object)),
    }
    object
}

fn fill(object: &mut Value, defaults: Value) {
    let (Some(members), Value::Object(defaults)) = (object.as_object_mut(), defaults) else { return };
    for (name, value) in defaults {
        members.entry(name).or_insert(value);
    }
}

fn service(spec: &mut Value, uid: &str) {
    let part = |at: usize| u8::from_str_radix(&uid[at..at + 2], 16).unwrap();
    let address = format!("10.96.{}.{}", part(0), part(2));
    fill(
        spec,
        json!({"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
    );
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let target = port["port"].clone();
        fill(port, json!({"protocol": "TCP", "targetPort": target}));
    }
}

/// Labels of a Job's pods.
const JOB_LABELS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"];

/// A Job's pods are found by its UID.
fn job(object: &mut Value, uid: &str) {
    let name = object["metadata"]["name"].clone();
    let spec = &mut object["spec"];
    fill(
        spec,
        json!({"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}}),
    );
    if spec["template"]["metadata"]["labels"].is_object() {
        let [owner, short_owner, job, short_job] = JOB_LABELS;
        let labels = json!({owner: uid, short_owner: uid, job: name, short_job: name});
        fill(&mut spec["template"]["metadata"]["labels"], labels);
    }
    pods::template(&mut spec["template"]["spec"]);
    // A Job without labels has those of its pods.
    let labels = spec["template"]["metadata"]["labels"].clone();
    if !labels.is_null() && object["metadata"]["labels"].as_object().is_none_or(|labels| labels.is_empty()) {
        object["metadata"]["labels"] = labels;
    }
}

/// The object without what the server alone fills in, and nobody has asked for: nobody owns it.
pub fn owned(kind: Kind, object: &Value, asked: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().map(|members| members.remove("status"));
    let admitted: &[&str] = match kind {
        PODS => &pods::ADMITTED,
        CLAIMS => &claims::ADMITTED,
        _ => &[],
    };
    for name in admitted.iter().filter(|name| asked["spec"].get(**name).is_none()) {
        object["spec"].as_object_mut().map(|members| members.remove(*name));
    }
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec.filter(|spec| spec.contains_key("clusterIP") || spec.contains_key("completionMode")) {
        ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "selector"].iter().for_each(|name| {
            let is_of_server = *name != "selector" || spec.contains_key("completionMode");
            if is_of_server {
                spec.remove(*name);
            }
        });
        let labels = spec.get_mut("template").map(|template| &mut template["metadata"]["labels"]);
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            JOB_LABELS.iter().for_each(|label| drop(labels.remove(*label)));
        }
    }
    object
}

/// What cannot be as it is in a new or changed object.
pub fn problems(key: &Key, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = names(key, object);
    if let Some(old) = old {
        causes.extend(immutable(key.kind, object, old));
    }
    match key.kind {
        EVENTS => {
            let note = object["note"].as_str().unwrap_or_default();
            if note.len() > 1024 {
                causes.push(Cause::invalid("note", &json!(note.len()), "can have at most 1024 bytes"));
            }
        }
        CONFIG_MAPS => {
            let bytes: usize = object["data"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(_, text)| text.as_str().map(str::len))
                .sum();
            if bytes > 1024 * 1024 {
                let message = "Too long: may not be more than 1048576 bytes".to_owned();
                causes.push(Cause { field: String::new(), reason: "FieldValueTooLong", message });
            }
        }
        DEPLOYMENTS => {
            let (selector, labels) =
                (&object["spec"]["selector"]["matchLabels"], &object["spec"]["template"]["metadata"]["labels"]);
            let is_met = selector.as_object().is_some_and(|all| all.iter().all(|(key, value)| labels[key] == *value));
            if !is_met {
                let problem = "`selector` does not match template `labels`";
                causes.push(Cause::invalid("spec.template.metadata.labels", labels, problem));
            }
            causes.extend(of_template(object, &["Always"]));
        }
        JOBS => causes.extend(of_template(object, &["OnFailure", "Never"])),
        PODS => {
            causes.extend(pods::problems(&object["spec"], "spec"));
            causes.extend(pods::own_restarts(&object["spec"]));
        }
        CLAIMS => causes.extend(claims::problems(object)),
        CONTROLLER_REVISIONS if object["data"].is_null() => causes.push(Cause::required("data", "data is mandatory")),
        _ => {}
    }
    if let Some(schema) = key.kind.schema() {
        causes.extend(schema.problems(object, old));
    }
    causes
}

fn of_template(object: &Value, restarts: &[&str]) -> Vec<Cause> {
    let (spec, path) = (&object["spec"]["template"]["spec"], "spec.template.spec");
    let mut causes = pods::problems(spec, path);
    causes.extend(pods::restarts(spec, path, restarts));
    causes
}

/// Whether all amounts can be read: a request with another one is not understood.
pub fn has_amounts(kind: Kind, object: &Value) -> bool {
    let is_read =
        |amounts: &Value| amounts.as_object().into_iter().flatten().all(|(_, amount)| Quantity::of(amount).is_some());
    let of_resources =
        |object: &Value| is_read(&object["resources"]["requests"]) && is_read(&object["resources"]["limits"]);
    let of_pod = |spec: &Value| {
        let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
        lists.flatten().all(of_resources)
    };
    match kind {
        PODS => of_pod(&object["spec"]),
        JOBS | DEPLOYMENTS => of_pod(&object["spec"]["template"]["spec"]),
        CLAIMS => of_resources(&object["spec"]),
        QUOTAS => is_read(&object["spec"]["hard"]),
        _ => true,
    }
}

fn names(key: &Key, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let longest = if key.kind == SERVICES || key.kind == JOBS { 63 } else { 253 };
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (c == '.' && longest > 63);
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = &key.name;
    if name.is_empty()
        || name.len() > longest
        || !name.chars().all(is_name)
        || !name.starts_with(is_end)
        || !name.ends_with(is_end)
    {
        let problem = "a lowercase RFC 1123 name must consist of lower case alphanumeric characters, '-' or '.'";
        causes.push(Cause::invalid("metadata.name", &json!(name), problem));
    }
    for (label, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let is_value = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let ends_well = |c: char| c.is_ascii_alphanumeric();
        let is_valid = text.is_empty()
            || (text.len() <= 63
                && text.chars().all(is_value)
                && text.starts_with(ends_well)
                && text.ends_with(ends_well));
        if !is_valid {
            let problem = format!(
                "label {label}: a valid label must be an empty string or consist of at most 63 alphanumeric characters, \
                 '-', '_' or '.'"
            );
            causes.push(Cause::invalid("metadata.labels", value, &problem));
        }
    }
    causes
}

/// Fields that never change, by kind.
fn immutable(kind: Kind, object: &Value, old: &Value) -> Vec<Cause> {
    let paths: &[&str] = match kind {
        JOBS => &["spec.template", "spec.selector", "spec.completions", "spec.podFailurePolicy"],
        DEPLOYMENTS => &["spec.selector"],
        SERVICES => &["spec.clusterIP"],
        CONTROLLER_REVISIONS => &["data"],
        CONFIG_MAPS if old["immutable"] == json!(true) => &["data", "binaryData", "immutable"],
        _ => &[],
    };
    let read = |object: &Value, path: &str| path.split('.').fold(object.clone(), |value, name| value[name].clone());
    let differs = |path: &&&str| read(object, path) != read(old, path);
    let cause = |path: &&str| match kind {
        CONFIG_MAPS => Cause::forbidden(*path, "field is immutable when `immutable` is set"),
        _ => Cause::invalid(*path, &read(object, path), "field is immutable"),
    };
    let mut causes: Vec<Cause> = paths.iter().filter(differs).map(cause).collect();
    match kind {
        CLAIMS => causes.extend(claims::changes(object, old)),
        PODS => causes.extend(pods::changes(&object["spec"], &old["spec"])),
        _ => {}
    }
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let held = finalizers(old);
    if !old["metadata"]["deletionTimestamp"].is_null() && finalizers(object).iter().any(|new| !held.contains(new)) {
        let problem = "no new finalizers can be added if the object is being deleted";
        causes.push(Cause::forbidden("metadata.finalizers", problem));
    }
    causes
}
