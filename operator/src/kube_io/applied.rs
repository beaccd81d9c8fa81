//! Which objects were found to be what they should be, and in which version. An object of that version still is: no
//! request is needed to know it. Nor is it where only the status has changed since.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
};

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Service},
    networking::v1::NetworkPolicy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
};
use serde::Serialize;
use serde_json::Value;
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{Engine, Profile},
};
use slipway_operator_core::{inference_pool::InferencePool, plan::Child, prometheus::PrometheusRule};

use super::{
    cache::{Caches, Kept},
    difference,
    looked::Sight,
};

/// Objects that are remembered at most, about as many as ten thousand agents have; beyond that each is compared once
/// more. Those that are gone are forgotten before.
const MOST: usize = 65_536;

/// Kind, namespace and name of an object: two hashes of them. Nobody can find another place that has both, for each
/// process hashes by keys of its own.
type Place = [u64; 2];

/// All texts are hashes here: an entry takes a few words, and no pieces of its own.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    resource_version: u64,
    /// What it should be.
    wanted: u64,
    /// Of a kind whose status others write: which object it was, and how often all else had changed.
    changes: Option<u64>,
}

/// The objects that were compared with the cluster's.
#[derive(Debug, Default)]
pub struct Applied {
    all: Mutex<HashMap<Place, Found>>,
    hashes: [RandomState; 2],
}

impl Applied {
    /// An object of this version is what it should be.
    pub(super) fn remember<K: Resource<DynamicType = ()>>(&self, namespace: &str, found: &K, hash: &str) {
        let Some(Sight { version, metadata }) = Sight::of(found) else { return };
        let changes = metadata.as_ref().and_then(|metadata| self.changes(metadata));
        let place = self.place::<K>(namespace, found.meta().name.as_deref().unwrap_or_default());
        let found = Found { resource_version: self.hash(&version), wanted: self.hash(hash), changes };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&place) {
            // Whichever it is, it is compared once more.
            let other = all.keys().next().copied();
            other.map(|other| all.remove(&other));
        }
        all.insert(place, found);
    }

    /// Whether an object was found to be what it should be in this very version, and in no later one.
    pub fn has_version<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str, version: &str) -> bool {
        let (place, version) = (self.place::<K>(namespace, name), self.hash(version));
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&place).is_some_and(|found| found.resource_version == version)
    }

    /// Whether an object that was seen so is what it should be: it was found so in this version, or in one from which
    /// only its status differs.
    pub(super) fn is_known<K: Resource<DynamicType = ()>>(
        &self,
        (namespace, name): (&str, &str),
        (wanted, hash): (&Value, &str),
        seen: &Sight,
    ) -> bool {
        let (place, hash) = (self.place::<K>(namespace, name), self.hash(hash));
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = all.get(&place).filter(|found| found.wanted == hash) else { return false };
        found.resource_version == self.hash(&seen.version)
            || found.changes.is_some()
                && found.changes == seen.metadata.as_ref().and_then(|metadata| self.changes(metadata))
                && has_metadata(wanted, seen)
    }

    /// An object is gone, or about to go.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        let place = self.place::<K>(namespace, name);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }

    /// Whether a child is what it should be, as far as caches show.
    pub fn holds(&self, caches: &Caches, namespace: &str, child: &Child) -> bool {
        match child {
            Child::ConfigMap(object) => self.is_kept::<ConfigMap, _>(caches, namespace, object.as_ref()),
            Child::Service(object) => self.is_kept::<Service, _>(caches, namespace, object.as_ref()),
            Child::Deployment(object) => self.is_kept::<Deployment, _>(caches, namespace, object.as_ref()),
            Child::ControllerRevision(object) => {
                self.is_kept::<ControllerRevision, _>(caches, namespace, object.as_ref())
            }
            Child::HttpRoute(object) => self.is_kept::<HttpRoute, _>(caches, namespace, object.as_ref()),
            Child::InferencePool(object) => self.is_kept::<InferencePool, _>(caches, namespace, object.as_ref()),
            Child::NetworkPolicy(object) => self.is_kept::<NetworkPolicy, _>(caches, namespace, object.as_ref()),
            Child::PrometheusRule(object) => {
                self.is_kept::<PartialObjectMeta<PrometheusRule>, _>(caches, namespace, object.as_ref())
            }
            Child::PersistentVolumeClaim(object) => {
                is_there::<DeserializeGuard<PersistentVolumeClaim>>(caches, namespace, object.as_ref())
            }
            Child::Job(object) => is_there::<Job>(caches, namespace, object.as_ref()),
            Child::Engine(object) => is_there::<DeserializeGuard<Engine>>(caches, namespace, object.as_ref()),
            Child::Profile(object) => is_there::<DeserializeGuard<Profile>>(caches, namespace, object.as_ref()),
        }
    }

    /// Whether an applied object, which caches show as `C`, is as it was when it was found to be as it should.
    fn is_kept<C, K>(&self, caches: &Caches, namespace: &str, wanted: &K) -> bool
    where
        C: Kept,
        K: Resource<DynamicType = ()> + Serialize,
    {
        let name = wanted.name_any();
        let Some(cache) = caches.of::<C>() else { return false };
        let Some(version) = cache.version(namespace, &name) else { return false };
        let (Ok(value), Ok(hash)) = (serde_json::to_value(wanted), content_hash(wanted)) else { return false };
        let is_known = |seen: &Sight| self.is_known::<K>((namespace, &name), (&value, hash.short()), seen);
        // Objects are kept as text: that of this version need not be read.
        is_known(&Sight { version, metadata: None })
            || cache.get(namespace, &name).and_then(|object| Sight::of(&object)).as_ref().is_some_and(is_known)
    }

    fn place<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) -> Place {
        let place = (K::kind(&()), namespace, name);
        self.hashes.each_ref().map(|hashes| hashes.hash_one(&place))
    }

    /// Which object it is, and how often all but its status has changed: labels and annotations are not counted.
    fn changes(&self, metadata: &ObjectMeta) -> Option<u64> {
        let [hashes, _] = &self.hashes;
        Some(hashes.hash_one((metadata.uid.as_ref()?, metadata.generation?)))
    }

    fn hash(&self, text: &str) -> u64 {
        let [hashes, _] = &self.hashes;
        hashes.hash_one(text)
    }
}

/// Whether an object's labels, annotations and owners are what they should be.
fn has_metadata(wanted: &Value, seen: &Sight) -> bool {
    let seen = seen.metadata.as_ref().and_then(|metadata| serde_json::to_value(metadata).ok());
    seen.is_some_and(|seen| difference::holds(&wanted["metadata"], &seen))
}

/// Whether an object is there that is created once and then left alone.
fn is_there<C: Kept>(caches: &Caches, namespace: &str, wanted: &impl ResourceExt) -> bool {
    caches.of::<C>().is_some_and(|cache| cache.version(namespace, &wanted.name_any()).is_some())
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kube_io::cache::cache;

    fn service(version: &str, app: &str) -> Service {
        let metadata = json!({"namespace": "team", "name": "a", "resourceVersion": version, "labels": {"app": app}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn an_object_is_what_it_should_be_as_long_as_neither_it_nor_the_wish_changes() {
        let (shown, mut writer) = cache();
        let mut caches = Caches::default();
        caches.add(shown);
        for event in [Event::Init, Event::InitApply(service("7", "x")), Event::InitDone] {
            writer.take(event);
        }
        let (applied, wanted) = (Applied::default(), service("", "x"));
        let child = |service: &Service| Child::Service(Box::new(service.clone()));
        assert!(!applied.holds(&caches, "team", &child(&wanted)), "nobody has compared it");
        applied.remember("team", &service("7", "x"), content_hash(&wanted).unwrap().short());
        assert!(applied.holds(&caches, "team", &child(&wanted)));
        assert!(!applied.holds(&caches, "team", &child(&service("", "y"))), "another wish");
        assert!(!applied.holds(&caches, "other", &child(&wanted)));
        writer.take(Event::Apply(service("8", "x")));
        assert!(!applied.holds(&caches, "team", &child(&wanted)), "another version");
        applied.remember("team", &service("8", "x"), content_hash(&wanted).unwrap().short());
        assert!(applied.holds(&caches, "team", &child(&wanted)));
        assert_eq!(["7", "8"].map(|version| applied.has_version::<Service>("team", "a", version)), [false, true]);
        applied.forget::<ConfigMap>("team", "a");
        assert!(applied.holds(&caches, "team", &child(&wanted)), "an object of another kind is gone");
        applied.forget::<Service>("team", "a");
        assert!(!applied.holds(&caches, "team", &child(&wanted)), "it is gone");
        assert!(applied.all.lock().unwrap().is_empty());
    }

    #[rstest]
    #[case::the_version(json!({"resourceVersion": "7", "generation": 1}), true)]
    #[case::a_status(json!({}), true)]
    #[case::an_annotation_of_somebody(json!({"annotations": {"deployment.kubernetes.io/revision": "2"}}), true)]
    #[case::a_field(json!({"generation": 4}), false)]
    #[case::a_label_that_is_gone(json!({"labels": {}}), false)]
    #[case::another_owner(json!({"ownerReferences": []}), false)]
    #[case::another_object(json!({"uid": "other"}), false)]
    fn of_an_object_with_a_status_all_else_tells_versions_apart(#[case] seen: Value, #[case] expected: bool) {
        let deployment = |differs: &Value| -> Deployment {
            let owner =
                json!({"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "name": "a", "uid": "o"});
            let mut metadata = json!({"namespace": "team", "name": "a", "uid": "u", "resourceVersion": "8",
                "generation": 3, "labels": {"app": "x"}, "ownerReferences": [owner]});
            differs.as_object().into_iter().flatten().for_each(|(key, value)| metadata[key] = value.clone());
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let applied = Applied::default();
        let found = deployment(&json!({"resourceVersion": "7"}));
        let mut wanted = json!(found);
        let asked_for = ["namespace", "name", "labels", "ownerReferences"];
        wanted["metadata"].as_object_mut().unwrap().retain(|key, _| asked_for.contains(&key.as_str()));
        applied.remember("team", &found, "hash");
        let sight = Sight::of(&deployment(&seen)).unwrap();
        let is_known = |hash| applied.is_known::<Deployment>(("team", "a"), (&wanted, hash), &sight);
        assert_eq!((is_known("hash"), is_known("another")), (expected, false));
    }
}
