//! Which versions of objects a look has read from the API server. What was found as it should be in such a version is
//! not read again when the plan of the look is carried out.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Kinds that the operator applies, whose status others write and whose generation counts the changes of the rest.
const COUNTED: [&str; 3] = ["Deployment", "HTTPRoute", "InferencePool"];

/// Kind, namespace and name.
type Place = (Cow<'static, str>, String, String);

/// An object as it was seen.
#[derive(Debug, Clone)]
pub struct Sight {
    /// Its version.
    pub version: String,
    /// Where others write its status: what else tells one version from another.
    pub metadata: Option<ObjectMeta>,
}

impl Sight {
    /// Of an object that has a version.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        let meta = object.meta();
        let metadata = COUNTED.contains(&K::kind(&()).as_ref()).then(|| ObjectMeta {
            uid: meta.uid.clone(),
            generation: meta.generation,
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
            owner_references: meta.owner_references.clone(),
            ..ObjectMeta::default()
        });
        Some(Self { version: meta.resource_version.clone()?, metadata })
    }
}

/// What a look has read. Clones are the same look.
#[derive(Debug, Clone, Default)]
pub struct Looked(Arc<Mutex<HashMap<Place, Sight>>>);

impl Looked {
    /// An object was read, or written.
    pub(super) fn note<K: Resource<DynamicType = ()>>(&self, object: &K) {
        let ObjectMeta { namespace: Some(namespace), name: Some(name), .. } = object.meta() else { return };
        let Some(sight) = Sight::of(object) else { return };
        let place = (K::kind(&()), namespace.clone(), name.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, sight);
    }

    /// An object as the look has come across it, if it has.
    pub(super) fn sight<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) -> Option<Sight> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(K::kind(&()), namespace.to_owned(), name.to_owned())).cloned()
    }
}
