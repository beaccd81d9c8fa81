//! A quota on numbers of objects, as the server enforces it at every creation
//! (`staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go`).

use std::collections::BTreeMap;

use super::{
    kinds::{CLAIMS, CONFIG_MAPS, PODS, SERVICES},
    refusal::{Refusal, qualified},
    store::{Key, Store},
};

/// The name of the namespace's quota.
const NAME: &str = "team";

/// Most objects by resource, such as `count/jobs.batch` and `pods`.
pub type Quota = BTreeMap<&'static str, usize>;

/// Why an object cannot be created, if it would be more than the quota allows.
pub fn refusal(store: &Store, key: &Key) -> Option<Refusal> {
    let is_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
    let of_kind = || store.of_kind(key.kind).filter(|(other, _)| other.namespace == key.namespace);
    let counted = format!("count/{}", qualified(key.kind.plural, &key.kind));
    let used = |resource: &str| match resource {
        _ if resource == counted => Some(of_kind().count()),
        // A pod that has ended counts no more.
        "pods" if key.kind == PODS => {
            Some(of_kind().filter(|(_, pod)| !pod["status"]["phase"].as_str().is_some_and(is_ended)).count())
        }
        _ if [CONFIG_MAPS, SERVICES, CLAIMS].contains(&key.kind) && resource == key.kind.plural => {
            Some(of_kind().count())
        }
        _ => None,
    };
    let exceeded = store.quota.iter().filter_map(|(resource, hard)| {
        let used = used(resource)?;
        (used + 1 > *hard).then(|| {
            let of = |number: usize| format!("{resource}={number}");
            (of(1), of(used), of(*hard))
        })
    });
    let (requested, used, limited): (Vec<_>, Vec<_>, Vec<_>) = exceeded.collect();
    let listed = |numbers: &[String]| numbers.join(",");
    let (requested, used, limited) = (listed(&requested), listed(&used), listed(&limited));
    let problem = format!("exceeded quota: {NAME}, requested: {requested}, used: {used}, limited: {limited}");
    (!requested.is_empty()).then(|| Refusal::forbidden(&key.kind, &key.name, &problem))
}
