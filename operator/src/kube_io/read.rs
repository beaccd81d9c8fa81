//! Gets and lists objects. Reads IO.

use std::{cmp::Reverse, fmt::Debug, sync::Arc};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::APIGroup};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{DeserializeGuard, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tracing::warn;

use super::{
    cache::Caches,
    looked::Looked,
    memo::{Meaning, Memo},
};

/// Why objects cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The API server did not list a kind.
    #[error("failed to list {kind} in namespace {namespace}")]
    List {
        /// Kind of the objects.
        kind: String,
        /// The namespace.
        namespace: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not say which groups and kinds it serves.
    #[error("failed to list the groups of the API")]
    Groups(#[source] Box<kube::Error>),
    /// The API server did not return an object.
    #[error("failed to get {kind} {name}")]
    Get {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Objects that are read for the latest that are wanted.
const MOST_LOOKED_AT: usize = 10;

/// A kind that can be read: namespaced, and known at compile time.
pub trait Read:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
impl<K> Read for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Where observations come from: whatever the operator decides on is read here, so that a cache has one place to stand.
/// What is written is compared with the cluster itself ([`super::apply`]), and a lease is never read from a cache.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    /// What is read from them where they have it; only a glance is.
    caches: Option<Arc<Caches>>,
    memo: Arc<Memo>,
    /// Takes note of what is read, where a look has begun.
    looked: Option<Looked>,
}

impl Reader {
    /// Reads with a connection: everything from the API server, as it is now.
    pub fn new(client: Client) -> Self {
        Self { client, caches: None, memo: Arc::default(), looked: None }
    }

    /// The same reader, which glances at caches. Nothing may be written on the ground of what it shows.
    #[must_use]
    pub fn glancing_at(&self, caches: Arc<Caches>) -> Self {
        Self { caches: Some(caches), ..self.clone() }
    }

    /// The same reader for one look, and what that will have read.
    pub fn looking(&self) -> (Self, Looked) {
        let looked = Looked::default();
        (Self { looked: Some(looked.clone()), ..self.clone() }, looked)
    }

    /// Lists the objects of a kind by label.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn list<K>(&self, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
    where
        K: Read,
    {
        if let Some(cache) = self.caches.as_ref().and_then(|caches| caches.of::<K>()) {
            return Ok(cache.list(namespace, selector));
        }
        self.list_with(namespace, ListParams::default().labels(selector)).await
    }

    /// Lists the objects of a kind by the values of fields.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn list_by_field<K>(&self, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
    where
        K: Read,
    {
        self.list_with(namespace, ListParams::default().fields(selector)).await
    }

    async fn list_with<K>(&self, namespace: &str, params: ListParams) -> Result<Vec<K>, ReadError>
    where
        K: Read,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let list = api.list(&params).await.map_err(|source| ReadError::List {
            kind: K::kind(&()).into_owned(),
            namespace: namespace.to_owned(),
            source: Box::new(source),
        })?;
        list.items.iter().for_each(|object| self.note(object));
        Ok(list.items)
    }

    /// Lists those objects of a kind of ours that this version can read.
    ///
    /// After a rollback of the operator there may be objects of a newer version. One of them must not keep every
    /// AgentDeployment of its namespace from being looked at: it is left alone, and missing to those who need it.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn list_readable<K>(&self, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
    where
        K: Read,
    {
        Ok(readable(self.list::<DeserializeGuard<K>>(namespace, selector).await?))
    }

    /// Gives the objects of a kind of ours that were created last and are wanted, by label, at most so many. Those that
    /// this version cannot read are left out. Of many that are not wanted only the latest are looked at.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn latest_readable<K>(
        &self,
        (namespace, selector): (&str, &str),
        most: usize,
        is_wanted: fn(&K) -> bool,
    ) -> Result<Vec<K>, ReadError>
    where
        K: Read,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default().labels(selector)).await;
        let list = list.map_err(|source| ReadError::List {
            kind: K::kind(&()).into_owned(),
            namespace: namespace.to_owned(),
            source: Box::new(source),
        })?;
        let mut known = list.items;
        known.sort_by_key(|object| Reverse(object.creation_timestamp().map(|created| created.0)));
        let mut found = Vec::new();
        for object in known.iter().take(MOST_LOOKED_AT) {
            let object = self.get_readable::<K>(namespace, &object.name_any()).await?;
            found.extend(object.filter(is_wanted));
            if found.len() == most {
                break;
            }
        }
        Ok(found)
    }

    /// Gets an object, if it exists. A glance may show what it was within the last moments where caches lack it.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ReadError>
    where
        K: Read,
    {
        let Some(caches) = &self.caches else { return self.get_now(namespace, name).await };
        if let Some(object) = cached(caches, namespace, name) {
            return Ok(Some(object));
        }
        if let Some(known) = self.memo.unwatched(namespace, name) {
            return Ok(known);
        }
        let found = self.get_now(namespace, name).await?;
        self.memo.keep_unwatched(namespace, name, &found);
        Ok(found)
    }

    async fn get_now<K: Read>(&self, namespace: &str, name: &str) -> Result<Option<K>, ReadError> {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await.map_err(|source| refused_get::<K>(name, source))?;
        found.iter().for_each(|object| self.note(object));
        Ok(found)
    }

    fn note<K: Resource<DynamicType = ()>>(&self, object: &K) {
        if let Some(looked) = &self.looked {
            looked.note(object);
        }
    }

    /// The same of an object that is left alone if it cannot be read, as one of a newer version.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn get_readable<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ReadError>
    where
        K: Read,
    {
        let found = self.get::<DeserializeGuard<K>>(namespace, name).await?;
        Ok(readable(found.into_iter().collect()).pop())
    }

    /// Gives what a text of a user's ConfigMap means, if both are there. A glance may show what it meant within the
    /// last minutes: objects that are not ours are not watched.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn meaning<V>(
        &self,
        (namespace, name, key): (&str, &str, &str),
        read: fn(&str) -> V,
    ) -> Result<Option<V>, ReadError>
    where
        V: Meaning,
    {
        if let Some(known) = self.caches.as_ref().and_then(|_| self.memo.meaning((namespace, name, key), read)) {
            return Ok(known);
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let config_map = api.get_opt(name).await.map_err(|source| refused_get::<ConfigMap>(name, source))?;
        let text = config_map.and_then(|config_map| config_map.data?.remove(key));
        let meaning = text.map(|text| read(&text));
        self.memo.keep_meaning((namespace, name, key), read, &meaning);
        Ok(meaning)
    }

    /// Gets the metadata of an object, if it exists.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn get_metadata<K>(&self, namespace: &str, name: &str) -> Result<Option<PartialObjectMeta<K>>, ReadError>
    where
        K: Read,
    {
        if let Some(cache) = self.caches.as_ref().and_then(|caches| caches.of::<PartialObjectMeta<K>>()) {
            return Ok(cache.get(namespace, name));
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_metadata_opt(name).await.map_err(|source| refused_get::<K>(name, source))?;
        found.iter().for_each(|object| self.note(object));
        Ok(found)
    }

    /// Gives the groups that the API server serves, as of within the last minute.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn groups(&self) -> Result<Vec<APIGroup>, ReadError> {
        if let Some(known) = self.memo.groups() {
            return Ok(known);
        }
        let groups = self.client.list_api_groups().await;
        let groups = groups.map_err(|source| ReadError::Groups(Box::new(source)))?.groups;
        self.memo.keep_groups(&groups);
        Ok(groups)
    }

    /// Gives the kinds of a version of a group, such as `monitoring.coreos.com/v1`, as of within the last minute.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn kinds(&self, group_version: &str) -> Result<Vec<String>, ReadError> {
        if let Some(known) = self.memo.kinds(group_version) {
            return Ok(known);
        }
        let resources = self.client.list_api_group_resources(group_version).await;
        let resources = resources.map_err(|source| ReadError::Groups(Box::new(source)))?.resources;
        let kinds: Vec<String> = resources.into_iter().map(|resource| resource.kind).collect();
        self.memo.keep_kinds(group_version, &kinds);
        Ok(kinds)
    }
}

/// An object that a cache has. One that it lacks may be there all the same: caches have what is labelled as ours.
fn cached<K: Read>(caches: &Caches, namespace: &str, name: &str) -> Option<K> {
    let plain = || caches.of::<K>()?.get(namespace, name);
    let guarded = || caches.of::<DeserializeGuard<K>>()?.get(namespace, name)?.0.ok();
    plain().or_else(guarded)
}

fn refused_get<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> ReadError {
    ReadError::Get { kind: K::kind(&()).into_owned(), name: name.to_owned(), source: Box::new(source) }
}

fn readable<K: Resource<DynamicType = ()>>(objects: Vec<DeserializeGuard<K>>) -> Vec<K> {
    let read = |object: DeserializeGuard<K>| match object.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let (kind, name) = (K::kind(&()), invalid.metadata.name);
            warn!(%kind, name, error = %invalid.error, "an object cannot be read and is left alone");
            None
        }
    };
    objects.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use kube::{ResourceExt, core::ObjectList};
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use slipway_crds::v1alpha1::Engine;

    use super::*;

    #[test]
    fn an_object_of_a_newer_version_hides_no_other() {
        let engine = |name: &str, precision: &str| {
            json!({
                "apiVersion": "slipway.dev/v1alpha1", "kind": "Engine", "metadata": {"name": name},
                "spec": {
                    "build": {
                        "backend": "Custom", "sourceDigest": "aa", "precision": precision,
                        "builderImageDigest": "sha256:bb",
                    },
                    "placement": {"builderImage": "example.com/builder:1", "resources": {}},
                },
            })
        };
        let list = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "EngineList", "metadata": {},
            "items": [engine("of-tomorrow", "FP3"), engine("of-today", "FP16")],
        });
        let list: ObjectList<DeserializeGuard<Engine>> = serde_json::from_value(list).unwrap();
        let names: Vec<String> = readable(list.items).iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["of-today"]);
    }
}
