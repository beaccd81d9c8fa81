//! Which objects were found to be what they should be, and in which version. An object of that version still is: no
//! request is needed to know it.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
};
use serde::Serialize;
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{Engine, Profile},
};
use slipway_operator_core::{inference_pool::InferencePool, plan::Child, prometheus::PrometheusRule};

use super::cache::{Caches, Kept};

/// Objects that are remembered at most, about as many as ten thousand agents have; beyond that each is compared once
/// more. Those that are gone are forgotten before.
const MOST: usize = 65_536;

type Place = (Cow<'static, str>, String, String);

#[derive(Debug, PartialEq, Eq)]
struct Found {
    resource_version: String,
    /// Hash of what it should be.
    hash: String,
}

/// The objects that were compared with the cluster's.
#[derive(Debug, Default)]
pub struct Applied(Mutex<HashMap<Place, Found>>);

impl Applied {
    /// An object of this version is what it should be.
    pub(super) fn remember<K: Resource<DynamicType = ()>>(&self, namespace: &str, found: &K, hash: &str) {
        let Some(resource_version) = found.meta().resource_version.clone() else { return };
        let place = place::<K>(namespace, found.meta().name.as_deref().unwrap_or_default());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&place) {
            // Whichever it is, it is compared once more.
            let other = all.keys().next().cloned();
            other.map(|other| all.remove(&other));
        }
        all.insert(place, Found { resource_version, hash: hash.to_owned() });
    }

    /// Whether an object was found to be what it should be in this very version, and in no later one.
    pub fn has_version<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str, version: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&place::<K>(namespace, name)).is_some_and(|found| found.resource_version == version)
    }

    /// An object is gone, or about to go.
    pub fn forget<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&place::<K>(namespace, name));
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

    /// Whether an applied object, which caches show as `C`, has the version in which it was found to be as it should.
    fn is_kept<C, K>(&self, caches: &Caches, namespace: &str, wanted: &K) -> bool
    where
        C: Kept,
        K: Resource<DynamicType = ()> + Serialize,
    {
        let name = wanted.name_any();
        let Some(resource_version) = caches.of::<C>().and_then(|cache| cache.version(namespace, &name)) else {
            return false;
        };
        let Ok(hash) = content_hash(wanted) else { return false };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(&place::<K>(namespace, &name));
        found.is_some_and(|found| found.resource_version == resource_version && found.hash == hash.short())
    }
}

/// Whether an object is there that is created once and then left alone.
fn is_there<C: Kept>(caches: &Caches, namespace: &str, wanted: &impl ResourceExt) -> bool {
    caches.of::<C>().is_some_and(|cache| cache.version(namespace, &wanted.name_any()).is_some())
}

fn place<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Place {
    (K::kind(&()), namespace.to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
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
        assert!(applied.0.lock().unwrap().is_empty());
    }
}
