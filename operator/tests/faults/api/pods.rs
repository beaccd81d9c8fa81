//! What the server fills in and refuses of pods and their templates, and how long a pod has until it goes
//! (`pkg/registry/core/pod/strategy.go`, `pkg/apis/core/validation/validation.go`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    quantity::{Quantity, rewrite},
    refusal::Cause,
    write::seconds,
};

const LISTS: [&str; 2] = ["containers", "initContainers"];
const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Members of the spec that admission fills in: nobody owns them.
pub const ADMITTED: [&str; 5] = ["serviceAccountName", "serviceAccount", "priority", "preemptionPolicy", "tolerations"];

fn items<'a>(object: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    object.get(list).and_then(Value::as_array).into_iter().flatten()
}

/// The defaults of pods and templates alike.
pub fn template(spec: &mut Value) {
    fill(
        spec,
        json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {}, "schedulerName": "default-scheduler"}),
    );
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let defaults = json!({"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "resources": {}});
            fill(container, defaults);
            rewrite(container["resources"].get_mut("requests"));
            rewrite(container["resources"].get_mut("limits"));
        }
    }
}

fn fill(object: &mut Value, defaults: Value) {
    let (Some(members), Value::Object(defaults)) = (object.as_object_mut(), defaults) else { return };
    for (name, value) in defaults {
        members.entry(name).or_insert(value);
    }
}

/// What a pod has that its template lacks.
pub fn alone(object: &mut Value) {
    for list in LISTS {
        for container in object["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            // What is limited is requested.
            if let Some(limits) = container["resources"].get("limits").cloned() {
                fill(&mut container["resources"], json!({"requests": {}}));
                fill(&mut container["resources"]["requests"], limits);
            }
        }
    }
    let spec = json!({"serviceAccountName": "default", "enableServiceLinks": true, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority", "tolerations": []});
    fill(&mut object["spec"], spec);
    object["spec"]["serviceAccount"] = object["spec"]["serviceAccountName"].clone();
    for key in ["not-ready", "unreachable"].map(|key| format!("node.kubernetes.io/{key}")) {
        let is_it = |toleration: &Value| {
            let (of, effect) = (toleration["key"].as_str(), toleration["effect"].as_str());
            of.is_none_or(|of| of == key) && effect.is_none_or(|effect| effect == "NoExecute")
        };
        let tolerations = object["spec"]["tolerations"].as_array_mut().unwrap();
        if !tolerations.iter().any(is_it) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    let class = json!({"phase": "Pending", "qosClass": quality(&object["spec"])});
    fill(object, json!({"status": {}}));
    fill(&mut object["status"], class);
}

/// How surely a pod has what it asks for.
fn quality(spec: &Value) -> &'static str {
    let containers = || LISTS.into_iter().flat_map(|list| items(spec, list));
    let amount = |container: &Value, list: &str, name: &str| Quantity::of(&container["resources"][list][name]);
    let of_all = |holds: &dyn Fn(&Value, &str) -> bool| {
        containers().all(|container| ["cpu", "memory"].into_iter().all(|name| holds(container, name)))
    };
    let is_free = |container: &Value, name: &str| {
        ["requests", "limits"].into_iter().all(|list| amount(container, list, name).is_none())
    };
    let is_fixed = |container: &Value, name: &str| {
        let limit = amount(container, "limits", name);
        limit.is_some() && limit == amount(container, "requests", name)
    };
    if of_all(&is_free) {
        "BestEffort"
    } else if of_all(&is_fixed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// What cannot be as it is in a pod's spec, which is at a path.
pub fn problems(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if items(spec, "containers").next().is_none() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for (at, volume) in items(spec, "volumes").enumerate() {
        let claim = volume.get("persistentVolumeClaim");
        if claim.is_some_and(|claim| claim["claimName"].as_str().unwrap_or_default().is_empty()) {
            causes.push(Cause::required(format!("{path}.volumes[{at}].persistentVolumeClaim.claimName"), ""));
        }
    }
    let volumes: Vec<&Value> = items(spec, "volumes").map(|volume| &volume["name"]).collect();
    for list in LISTS {
        let mut names: Vec<&str> = Vec::new();
        for (at, container) in items(spec, list).enumerate() {
            let (path, name) = (format!("{path}.{list}[{at}]"), container["name"].as_str().unwrap_or_default());
            if names.contains(&name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &container["name"]));
            }
            names.push(name);
            causes.extend(of_container(container, &path, &volumes));
        }
    }
    causes
}

fn of_container(container: &Value, path: &str, volumes: &[&Value]) -> Vec<Cause> {
    let is_empty = |name: &&&str| container[**name].as_str().unwrap_or_default().is_empty();
    let missing = ["name", "image"];
    let missing = missing.iter().filter(is_empty).map(|name| Cause::required(format!("{path}.{name}"), ""));
    let mut causes: Vec<Cause> = missing.collect();
    for (at, mount) in items(container, "volumeMounts").enumerate() {
        if !volumes.contains(&&mount["name"]) {
            causes.push(Cause::not_found(format!("{path}.volumeMounts[{at}].name"), &mount["name"]));
        }
    }
    let resources = &container["resources"];
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = Quantity::of(&resources["limits"][name]);
        if limit.is_some_and(|limit| Quantity::of(request).is_some_and(|request| request > limit)) {
            let problem = format!("must be less than or equal to {name} limit");
            causes.push(Cause::invalid(format!("{path}.resources.requests"), request, &problem));
        }
    }
    causes
}

/// What cannot be as it is in the restarts of a pod, of a Job's template, or of a Deployment's.
pub fn restarts(spec: &Value, path: &str, allowed: &[&str]) -> Option<Cause> {
    let (policy, path) = (&spec["restartPolicy"], format!("{path}.restartPolicy"));
    // The default of a template is not for Jobs.
    if policy == "Always" && !allowed.contains(&"Always") {
        return Some(Cause::required(path, &format!("valid values: {}", allowed.join(", "))));
    }
    (!allowed.iter().any(|known| policy == known)).then(|| Cause::unsupported(path, policy, allowed))
}

/// The restarts of pods.
pub fn own_restarts(spec: &Value) -> Option<Cause> {
    restarts(spec, "spec", &POLICIES)
}

/// Changes that are never allowed. Images change, deadlines come nearer, and tolerations are added.
pub fn changes(spec: &Value, old: &Value) -> Vec<Cause> {
    let mut allowed = spec.clone();
    for list in LISTS {
        if items(spec, list).count() != items(old, list).count() {
            let problem = "pod updates may not add or remove containers";
            return vec![Cause::forbidden(format!("spec.{list}"), problem)];
        }
        let containers = allowed.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(items(old, list)) {
            container["image"] = old["image"].clone();
        }
    }
    let mut causes: Vec<Cause> = deadline(spec, old).into_iter().collect();
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|members| members.remove("tolerationSeconds"));
        toleration
    };
    let now: Vec<Value> = items(spec, "tolerations").map(timeless).collect();
    if items(old, "tolerations").any(|toleration| !now.contains(&timeless(toleration))) {
        let problem = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", problem));
    }
    for name in ["activeDeadlineSeconds", "tolerations"] {
        match old.get(name) {
            Some(value) => allowed[name] = value.clone(),
            None => drop(allowed.as_object_mut().map(|members| members.remove(name))),
        }
    }
    if allowed != *old {
        let problem = "pod updates may not change fields other than images, deadlines and tolerations";
        causes.push(Cause::forbidden("spec", problem));
    }
    causes
}

fn deadline(spec: &Value, old: &Value) -> Option<Cause> {
    let [new, old] = [spec, old].map(|spec| spec["activeDeadlineSeconds"].as_i64());
    let path = "spec.activeDeadlineSeconds";
    match (new, old) {
        (Some(new), Some(old)) if new > old => {
            Some(Cause::invalid(path, &json!(new), "must be less than or equal to previous value"))
        }
        (None, Some(_)) => {
            Some(Cause::invalid(path, &Value::Null, "must not update from a positive integer to nil value"))
        }
        _ => None,
    }
}

/// What a deletion makes of the time that a pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// The pod has so many seconds.
    Given(i64),
    /// It has had less already: nothing changes.
    Shorter,
    /// Its time is over, and only finalizers hold it.
    Over,
}

/// The time that a deletion gives a pod.
pub fn grace(pod: &Value, options: &Value) -> Grace {
    let asked = options["gracePeriodSeconds"].as_i64().map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let given = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        return match asked {
            _ if given == 0 => Grace::Over,
            Some(seconds) if seconds < given => Grace::Given(seconds),
            Some(_) | None => Grace::Shorter,
        };
    }
    let is_ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    let has_node = !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or_default();
    Grace::Given(if has_node && !is_ended { asked.unwrap_or(own) } else { 0 })
}

/// The pod with so many seconds from when it was first deleted.
pub fn ending(pod: &Value, grace: i64, now: Timestamp) -> Value {
    let (mut pod, metadata) = (pod.clone(), &pod["metadata"]);
    let first = metadata["deletionTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let given = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    let begun = first.map_or(now.as_second(), |end| end.as_second() - given);
    let end = Timestamp::from_second((begun + grace).max(now.as_second())).unwrap();
    if let Some(generation) = metadata["generation"].as_i64().filter(|_| first.is_none()) {
        pod["metadata"]["generation"] = json!(generation + 1);
    }
    pod["metadata"]["deletionTimestamp"] = json!(seconds(end));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod
}
