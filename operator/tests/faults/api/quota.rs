//! Quotas, as the server enforces them at every creation, and at the growth of a claim. They know what is used by their
//! status, in which the server counts what it admits, and their controller what is gone
//! (`staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go`, `pkg/quota/v1/evaluator/core`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    fields,
    kinds::{CLAIMS, CONFIG_MAPS, Kind, PODS, QUOTAS, SERVICES},
    managers::{self, Manager},
    quantity::{Quantity, rewrite},
    refusal::{Refusal, qualified},
    store::{Key, Store, Writer},
};

/// Amounts by resource.
type Amounts = BTreeMap<String, Quantity>;

/// An object that is to be, and what it was if it is there.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    pub key: &'a Key,
    pub object: &'a Value,
    pub old: Option<&'a Value>,
}

/// The resources of pods that every container must name once they are limited.
const NAMED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Counts an object in all quotas of its namespace that limit what it uses.
///
/// # Errors
/// A refusal where it would be more than one of them allows.
pub fn admit(store: &mut Store, counted: Counted<'_>, now: &str) -> Result<(), Refusal> {
    let mut charged = Vec::new();
    for (key, quota) in of_namespace(store, &counted.key.namespace) {
        let used = charge(&counted, &key.name, &quota)?;
        if used != amounts(&quota["status"]["used"]) {
            charged.push((key, quota, used));
        }
    }
    for (key, quota, used) in charged {
        let mut next = (*quota).clone();
        next["status"]["used"] = written(&used);
        let manager = Manager { name: "kube-apiserver", operation: "Update", subresource: Some("status") };
        let taken = fields::changed(&key.kind, &quota, &next);
        let owned = fields::union(&managers::owned(&quota, manager), &taken);
        let next = managers::recorded(&key.kind, &next, (manager, Some(now)), owned, &taken);
        store.put(key, next, Writer::Cluster);
    }
    Ok(())
}

/// Why an object would not be admitted.
pub fn refusal(store: &Store, counted: Counted<'_>) -> Option<Refusal> {
    let quotas = of_namespace(store, &counted.key.namespace);
    quotas.iter().find_map(|(key, quota)| charge(&counted, &key.name, quota).err())
}

fn of_namespace(store: &Store, namespace: &str) -> Vec<(Key, Arc<Value>)> {
    let quotas = store.of_kind(QUOTAS).filter(|(key, _)| key.namespace == namespace);
    quotas.map(|(key, quota)| (key.clone(), quota.clone())).collect()
}

/// What is used of a quota with one more object.
fn charge(counted: &Counted<'_>, name: &str, quota: &Value) -> Result<Amounts, Refusal> {
    let Counted { key, object, old } = *counted;
    let forbidden = |problem: String| Err(Refusal::forbidden(&key.kind, &key.name, &problem));
    let (hard, mut used) = (amounts(&quota["status"]["hard"]), amounts(&quota["status"]["used"]));
    let limited: BTreeSet<&String> = hard.keys().filter(|resource| is_of(key.kind, resource)).collect();
    if limited.is_empty() {
        return Ok(used);
    }
    if let Some(problem) = unnamed(key.kind, object, &limited) {
        return forbidden(format!("failed quota: {name}: must specify {problem}"));
    }
    if limited.iter().any(|resource| !used.contains_key(*resource)) {
        let resources: Vec<&str> = limited.iter().map(|resource| resource.as_str()).collect();
        return forbidden(format!("status unknown for quota: {name}, resources: {}", resources.join(",")));
    }
    let before = old.map(|old| usage(key.kind, old)).unwrap_or_default();
    let mut exceeded: [Vec<String>; 3] = Default::default();
    for (resource, amount) in usage(key.kind, object) {
        let requested = amount.minus(before.get(&resource).copied().unwrap_or(Quantity::ZERO));
        let (Some(most), Some(found)) = (hard.get(&resource), used.get(&resource).copied()) else { continue };
        if !requested.is_positive() {
            continue;
        }
        if found.plus(requested) > *most {
            for (list, amount) in exceeded.iter_mut().zip([requested, found, *most]) {
                list.push(format!("{resource}={amount}"));
            }
        }
        used.insert(resource, found.plus(requested));
    }
    let [requested, found, most] = exceeded.map(|list| list.join(","));
    if requested.is_empty() {
        return Ok(used);
    }
    forbidden(format!("exceeded quota: {name}, requested: {requested}, used: {found}, limited: {most}"))
}

/// The status of a quota as its controller counts it.
pub fn counted(store: &Store, key: &Key, quota: &Value) -> Value {
    let mut hard = quota["spec"]["hard"].clone();
    rewrite(Some(&mut hard));
    let mut used: Amounts = amounts(&hard).into_keys().map(|resource| (resource, Quantity::ZERO)).collect();
    for (other, object) in store.all().iter().filter(|(other, _)| other.namespace == key.namespace) {
        for (resource, amount) in usage(other.kind, object) {
            used.entry(resource).and_modify(|used| *used = used.plus(amount));
        }
    }
    json!({"hard": hard, "used": written(&used)})
}

fn amounts(of: &Value) -> Amounts {
    let amounts = of.as_object().into_iter().flatten();
    amounts.filter_map(|(resource, amount)| Some((resource.clone(), Quantity::of(amount)?))).collect()
}

fn written(amounts: &Amounts) -> Value {
    amounts.iter().map(|(resource, amount)| (resource.clone(), amount.json())).collect::<serde_json::Map<_, _>>().into()
}

/// The resource that counts objects of a kind, besides `count/`.
fn plain(kind: Kind) -> Option<&'static str> {
    [CONFIG_MAPS, SERVICES, CLAIMS, PODS].contains(&kind).then_some(kind.plural)
}

fn count_of(kind: Kind) -> String {
    format!("count/{}", qualified(kind.plural, &kind))
}

/// Whether a resource is one of a kind's.
fn is_of(kind: Kind, resource: &str) -> bool {
    let is_storage = resource == "requests.storage" || resource.contains(OF_CLASS);
    let is_compute = COMPUTE.iter().any(|name| {
        resource == *name || resource == format!("requests.{name}") || resource == format!("limits.{name}")
    });
    // A resource of a device's maker.
    let is_extended = resource.strip_prefix("requests.").is_some_and(|name| name.contains('/'));
    resource == count_of(kind)
        || plain(kind) == Some(resource)
        || (kind == CLAIMS && is_storage)
        || (kind == PODS && (is_compute || is_extended))
}

/// What a pod's containers do not say of what is limited.
fn unnamed(kind: Kind, pod: &Value, limited: &BTreeSet<&String>) -> Option<String> {
    if kind != PODS {
        return None;
    }
    let containers: Vec<&Value> =
        ["containers", "initContainers"].iter().filter_map(|list| pod["spec"][list].as_array()).flatten().collect();
    let named = NAMED.iter().filter(|resource| limited.iter().any(|limited| limited == *resource));
    let missing = named.filter_map(|resource| {
        let says = |container: &&Value| uses(container).contains_key(*resource);
        let names: BTreeSet<&str> =
            containers.iter().filter(|container| !says(container)).filter_map(|one| one["name"].as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| format!("{resource} for: {}", names.join(",")))
    });
    let mut missing: Vec<String> = missing.collect();
    missing.sort_unstable();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// What an object uses.
fn usage(kind: Kind, object: &Value) -> Amounts {
    let one = Quantity::count(1);
    let mut used = Amounts::from([(count_of(kind), one)]);
    let is_ended = ["Succeeded", "Failed"].iter().any(|phase| object["status"]["phase"] == *phase);
    if kind == PODS && is_ended {
        return used;
    }
    used.extend(plain(kind).map(|resource| (resource.to_owned(), one)));
    if kind == PODS {
        used.extend(of_pod(&object["spec"]));
    }
    if kind == CLAIMS {
        let class = object["spec"]["storageClassName"].as_str().unwrap_or_default();
        used.insert(format!("{class}{OF_CLASS}persistentvolumeclaims"), one);
        let size = Quantity::of(&object["spec"]["resources"]["requests"]["storage"]).unwrap_or(Quantity::ZERO);
        used.insert("requests.storage".to_owned(), size);
        used.insert(format!("{class}{OF_CLASS}requests.storage"), size);
    }
    used
}

/// What a pod uses at most at a time: all its containers, or one that runs before them. One that restarts goes on
/// beside those after it.
fn of_pod(spec: &Value) -> Amounts {
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for init in spec["initContainers"].as_array().into_iter().flatten() {
        let now = sum(&beside, &uses(init));
        for (resource, amount) in &now {
            let most = most.entry(resource.clone()).or_insert(*amount);
            *most = if *amount > *most { *amount } else { *most };
        }
        if init["restartPolicy"] == "Always" {
            beside = now;
        }
    }
    let containers = spec["containers"].as_array().into_iter().flatten();
    for (resource, amount) in containers.fold(beside, |all, container| sum(&all, &uses(container))) {
        let most = most.entry(resource).or_insert(amount);
        *most = if amount > *most { amount } else { *most };
    }
    most
}

fn sum(one: &Amounts, other: &Amounts) -> Amounts {
    let mut all = one.clone();
    for (resource, amount) in other {
        let known = all.get(resource).copied().unwrap_or(Quantity::ZERO);
        all.insert(resource.clone(), known.plus(*amount));
    }
    all
}

/// What a container uses, by the names that quotas have for it.
fn uses(container: &Value) -> Amounts {
    let (requests, limits) = (amounts(&container["resources"]["requests"]), amounts(&container["resources"]["limits"]));
    let mut used = Amounts::new();
    for (name, amount) in
        requests.into_iter().filter(|(name, _)| COMPUTE.contains(&name.as_str()) || name.contains('/'))
    {
        used.insert(format!("requests.{name}"), amount);
        if !name.contains('/') {
            used.insert(name, amount);
        }
    }
    let limits = limits.into_iter().filter(|(name, _)| COMPUTE.contains(&name.as_str()));
    used.extend(limits.map(|(name, amount)| (format!("limits.{name}"), amount)));
    used
}
