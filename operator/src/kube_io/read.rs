//! Gets and lists objects. Reads IO.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, api::ListParams, core::DeserializeGuard};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tracing::warn;

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
    list_with(client, namespace, ListParams::default().labels(selector)).await
}

/// Lists the objects of a kind by the values of fields.
///
/// # Errors
/// When the API server does not answer.
pub async fn list_by_field<K>(client: &Client, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    list_with(client, namespace, ListParams::default().fields(selector)).await
}

async fn list_with<K>(client: &Client, namespace: &str, params: ListParams) -> Result<Vec<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let list = api.list(&params).await.map_err(|source| ReadError::List {
        kind: K::kind(&()).into_owned(),
        namespace: namespace.to_owned(),
        source: Box::new(source),
    })?;
    Ok(list.items)
}

/// Lists those objects of a kind of ours that this version can read.
///
/// After a rollback of the operator there may be objects of a newer version. One of them must not keep every AgentDeployment of its
/// namespace from being looked at: it is left alone, and missing to those who need it.
///
/// # Errors
/// When the API server does not answer.
pub async fn list_readable<K>(client: &Client, namespace: &str, selector: &str) -> Result<Vec<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    Ok(readable(list::<DeserializeGuard<K>>(client, namespace, selector).await?))
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
