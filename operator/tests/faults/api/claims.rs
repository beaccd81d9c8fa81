//! What the server fills in and refuses of claims of volumes
//! (`pkg/apis/core/validation/validation.go`, `plugin/pkg/admission/storage`).

use serde_json::{Value, json};

use super::{
    quantity::{Quantity, rewrite},
    refusal::{Cause, Refusal},
    store::Key,
};

/// The class of claims that ask for no other. Its volumes do not grow.
const DEFAULT_CLASS: &str = "slipway-local";
/// The class whose volumes grow.
const GROWING_CLASS: &str = "growing";
/// Who writes finalizers of claims.
pub const PROTECTION: &str = "kubernetes.io/pvc-protection";

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Members of the spec that admission fills in: nobody owns them.
pub const ADMITTED: [&str; 1] = ["storageClassName"];

pub fn defaulted(claim: &mut Value) {
    rewrite(claim["spec"].pointer_mut("/resources/requests"));
    rewrite(claim.pointer_mut("/status/capacity"));
    for (part, name, value) in [
        ("spec", "volumeMode", "Filesystem"),
        ("spec", "storageClassName", DEFAULT_CLASS),
        ("status", "phase", "Pending"),
    ] {
        if claim[part].get(name).is_none() {
            claim[part][name] = json!(value);
        }
    }
}

fn size(claim: &Value) -> Option<Quantity> {
    Quantity::of(&claim["spec"]["resources"]["requests"]["storage"])
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

/// What cannot be as it is.
pub fn problems(claim: &Value) -> Vec<Cause> {
    let (spec, mut causes) = (&claim["spec"], Vec::new());
    let modes: Vec<&Value> = spec["accessModes"].as_array().into_iter().flatten().collect();
    if modes.is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let is_known = |mode: &&&Value| MODES.iter().any(|known| **mode == known);
    let unknown = modes.iter().filter(|mode| !is_known(mode));
    causes.extend(unknown.map(|mode| Cause::unsupported("spec.accessModes", mode, &MODES)));
    let alone = modes.iter().filter(|mode| **mode == "ReadWriteOncePod").count();
    if alone > 0 && modes.iter().filter(is_known).count() > alone {
        let problem = "may not use ReadWriteOncePod with other access modes";
        causes.push(Cause::forbidden("spec.accessModes", problem));
    }
    match size(claim) {
        None => causes.push(Cause::required("spec.resources[storage]", "")),
        Some(size) if size.is_positive() => {}
        Some(size) => {
            causes.push(Cause::invalid("spec.resources[storage]", &size.json(), "must be greater than zero"));
        }
    }
    let class = spec["storageClassName"].as_str().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if !class.chars().all(is_name) {
        causes.push(Cause::invalid("spec.storageClassName", &json!(class), "a lowercase RFC 1123 subdomain is wanted"));
    }
    if !VOLUME_MODES.iter().any(|mode| spec["volumeMode"] == *mode) {
        causes.push(Cause::unsupported("spec.volumeMode", &spec["volumeMode"], &VOLUME_MODES));
    }
    causes
}

/// Changes that are never allowed. A volume is bound once, and a bound one may grow, or shrink to what it has.
pub fn changes(claim: &Value, old: &Value) -> Vec<Cause> {
    let (mut causes, mut allowed) = (Vec::new(), claim["spec"].clone());
    if old["spec"]["volumeName"].as_str().unwrap_or_default().is_empty() {
        keep(&mut allowed, "volumeName", &old["spec"]);
    }
    if is_bound(old) {
        keep(&mut allowed["resources"]["requests"], "storage", &old["spec"]["resources"]["requests"]);
    }
    if allowed != old["spec"] {
        let problem = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                       bound claims";
        causes.push(Cause::forbidden("spec", problem));
    }
    let capacity = Quantity::of(&old["status"]["capacity"]["storage"]).unwrap_or(Quantity::ZERO);
    if size(claim) < size(old) && size(claim) <= Some(capacity) {
        let problem = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", problem));
    }
    if claim["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        causes.push(Cause::invalid("volumeMode", &claim["spec"]["volumeMode"], "field is immutable"));
    }
    causes
}

fn keep(object: &mut Value, name: &str, of: &Value) {
    match of.get(name) {
        Some(value) => object[name] = value.clone(),
        None => drop(object.as_object_mut().map(|members| members.remove(name))),
    }
}

/// Why a valid claim cannot grow.
pub fn growth(key: &Key, claim: &Value, old: &Value) -> Result<(), Refusal> {
    if size(claim) <= size(old) || claim["spec"]["storageClassName"] == GROWING_CLASS {
        return Ok(());
    }
    let problem = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
    Err(Refusal::forbidden(&key.kind, &key.name, problem))
}
