//! Gets and lists objects. Reads IO.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;
use thiserror::Error;

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

/// Lists the objects of a kind by label.
///
/// # Errors
/// When the API server does not answer.
pub async fn list<K>(client: &Client, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let list = api.list(&ListParams::default().labels(selector)).await.map_err(|source| ReadError::List {
        kind: K::kind(&()).into_owned(),
        namespace: namespace.to_owned(),
        source: Box::new(source),
    })?;
    Ok(list.items)
}

/// Gets an object, if it exists.
///
/// # Errors
/// When the API server does not answer.
pub async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(|source| ReadError::Get {
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    })
}
