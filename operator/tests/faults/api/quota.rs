//! Quotas on numbers of objects, as the server enforces them at every creation
//! (`staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go`).

use serde_json::Value;

use super::{
    kinds::{CLAIMS, CONFIG_MAPS, PODS, QUOTAS, SERVICES},
    refusal::{Refusal, qualified},
    store::{Key, Store},
};

/// Why an object cannot be created, if it would be more than a quota allows.
pub fn refusal(store: &Store, key: &Key) -> Option<Refusal> {
    let mut quotas = store.of_kind(QUOTAS).filter(|(quota, _)| quota.namespace == key.namespace);
    quotas.find_map(|(quota, object)| of_quota(store, key, (&quota.name, &object["spec"]["hard"])))
}

fn of_quota(store: &Store, key: &Key, (name, hard): (&str, &Value)) -> Option<Refusal> {
    let mut exceeded: [Vec<String>; 3] = Default::default();
    for (resource, most) in hard.as_object().into_iter().flatten() {
        let most: usize = most.as_str().map_or(most.to_string(), str::to_owned).parse().unwrap();
        let Some(used) = used(store, key, resource).filter(|used| used + 1 > most) else { continue };
        for (list, number) in exceeded.iter_mut().zip([1, used, most]) {
            list.push(format!("{resource}={number}"));
        }
    }
    let [requested, used, limited] = exceeded.map(|list| list.join(","));
    let problem = format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}");
    (!requested.is_empty()).then(|| Refusal::forbidden(&key.kind, &key.name, &problem))
}

/// How many objects count, if the resource is one of this kind.
fn used(store: &Store, key: &Key, resource: &str) -> Option<usize> {
    let is_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
    let of_kind = || store.of_kind(key.kind).filter(|(other, _)| other.namespace == key.namespace);
    let is_plain = [CONFIG_MAPS, SERVICES, CLAIMS].contains(&key.kind) && resource == key.kind.plural;
    if is_plain || resource == format!("count/{}", qualified(key.kind.plural, &key.kind)) {
        return Some(of_kind().count());
    }
    // A pod that has ended counts no more.
    let is_live = |pod: &Value| !pod["status"]["phase"].as_str().is_some_and(is_ended);
    (key.kind == PODS && resource == "pods").then(|| of_kind().filter(|(_, pod)| is_live(pod)).count())
}
