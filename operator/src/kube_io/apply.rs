//! Carries out the children and removals of a plan. Makes no choices. Writes IO.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slipway_crds::{
    identity::{IdentityError, content_hash},
    labels,
    v1alpha1::{Engine, Profile},
};
use slipway_operator_core::{
    inference_pool::InferencePool,
    plan::{Child, Removal, RemovalKind},
    prometheus::PrometheusRule,
};
use thiserror::Error;

use super::{applied::Applied, cache::Kept, difference, looked::Looked};

/// Why a child is not as it should be.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// An object cannot be written as JSON, or not canonically.
    #[error("failed to hash {kind} {name}")]
    Hash {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What is wrong.
        #[source]
        source: IdentityError,
    },
    /// An object cannot be written as JSON.
    #[error("failed to write {kind} {name} as JSON")]
    Serialize {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// An object of that name is somebody else's.
    #[error(
        "{kind} {name} exists and was not made by Slipway; it is left as it is: remove it, or give the AgentDeployment another name"
    )]
    Foreign {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
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
    /// The API server did not accept an object.
    #[error("failed to apply {kind} {name}")]
    Apply {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A plan that was made at a glance is about another version.
    #[error("{kind} {name} has changed since it was glanced at")]
    Changed {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
    /// The API server did not create an object.
    #[error("failed to create {kind} {name}")]
    Create {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not delete an object.
    #[error("failed to delete {kind} {name}")]
    Delete {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Kinds that plans write: namespaced, and known at compile time.
trait Kind: Kept + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug {}
impl<K> Kind for K where K: Kept + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug {}

/// The versions that a glance has seen, by kind and name.
pub type Seen = BTreeMap<(String, String), String>;

/// What a plan was decided on.
#[derive(Clone, Copy)]
pub enum Ground<'a> {
    /// What the API server said in this look. What it did not say of a child is asked before it is written.
    Looked(&'a Looked),
    /// What caches showed: these versions, and no other one is written over.
    Glanced(&'a Seen),
}

/// Where children are written.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The connection to the API server.
    pub client: &'a Client,
    /// What was compared before.
    pub applied: &'a Applied,
    /// What the plan was decided on.
    pub ground: Ground<'a>,
    /// The namespace.
    pub namespace: &'a str,
}

/// Makes a child be what it should be.
///
/// # Errors
/// When the API server refuses; nothing is repeated here.
pub async fn apply(ensured: Target<'_>, child: &Child) -> Result<(), ApplyError> {
    match child {
        Child::ConfigMap(object) => ensure(ensured, object.as_ref()).await,
        Child::Service(object) => ensure(ensured, object.as_ref()).await,
        Child::Deployment(object) => ensure(ensured, object.as_ref()).await,
        Child::ControllerRevision(object) => ensure(ensured, object.as_ref()).await,
        Child::HttpRoute(object) => ensure(ensured, object.as_ref()).await,
        Child::InferencePool(object) => ensure(ensured, object.as_ref()).await,
        Child::NetworkPolicy(object) => ensure(ensured, object.as_ref()).await,
        Child::PrometheusRule(object) => ensure(ensured, object.as_ref()).await,
        Child::PersistentVolumeClaim(object) => create(ensured, object.as_ref()).await,
        Child::Job(object) => create(ensured, object.as_ref()).await,
        Child::Engine(object) => create(ensured, object.as_ref()).await,
        Child::Profile(object) => create(ensured, object.as_ref()).await,
    }
}

/// An object as it should be.
struct Wanted<K> {
    kind: String,
    name: String,
    api: Api<K>,
    value: Value,
    hash: String,
}

impl<K: Kind> Wanted<K> {
    fn of(Target { client, namespace, .. }: Target<'_>, wanted: &K) -> Result<Self, ApplyError> {
        let (kind, name) = (K::kind(&()).into_owned(), wanted.name_any());
        let serialize = |source| ApplyError::Serialize { kind: kind.clone(), name: name.clone(), source };
        let value = serde_json::to_value(wanted).map_err(serialize)?;
        let hash = content_hash(&value);
        let hash = hash.map_err(|source| ApplyError::Hash { kind: kind.clone(), name: name.clone(), source })?;
        let api = Api::namespaced(client.clone(), namespace);
        Ok(Self { kind, name, api, value, hash: hash.short().to_owned() })
    }

    /// Compares an object with it, and remembers where it is the same.
    fn is(&self, Target { applied, namespace, .. }: Target<'_>, object: &K) -> Result<bool, ApplyError> {
        let serialize = |source| ApplyError::Serialize { kind: self.kind.clone(), name: self.name.clone(), source };
        let seen = serde_json::to_value(object).map_err(serialize)?;
        let is_it =
            difference::applied_hash(&seen) == Some(self.hash.as_str()) && difference::holds(&self.value, &seen);
        if is_it {
            applied.remember(namespace, object, &self.hash);
        }
        Ok(is_it)
    }

    /// Whether the look has read it in a version in which it was found to be the same.
    fn is_known(&self, Target { applied, namespace, .. }: Target<'_>, looked: &Looked) -> bool {
        let wanted = (&self.value, self.hash.as_str());
        let seen = looked.sight::<K>(namespace, &self.name);
        seen.is_some_and(|seen| applied.is_known::<K>((namespace, &self.name), wanted, &seen))
    }

    /// Writes it; with a version, only over that one.
    async fn write(&self, over: Option<String>) -> Result<K, kube::Error> {
        let mut marked = self.value.clone();
        marked["metadata"]["annotations"][labels::APPLIED_HASH] = Value::String(self.hash.clone());
        if let Some(version) = over {
            marked["metadata"]["resourceVersion"] = Value::String(version);
        }
        let params = PatchParams::apply(labels::FIELD_MANAGER).force();
        self.api.patch(&self.name, &params, &Patch::Apply(&marked)).await
    }

    fn changed(self) -> ApplyError {
        ApplyError::Changed { kind: self.kind, name: self.name }
    }

    fn refused(&self, source: kube::Error) -> ApplyError {
        ApplyError::Apply { kind: self.kind.clone(), name: self.name.clone(), source: Box::new(source) }
    }
}

/// Applies an object unless it already is what it should be.
async fn ensure<K: Kind>(target: Target<'_>, object: &K) -> Result<(), ApplyError> {
    let wanted = Wanted::of(target, object)?;
    match target.ground {
        Ground::Glanced(seen) => write_over(target, wanted, seen).await,
        Ground::Looked(looked) if wanted.is_known(target, looked) => Ok(()),
        Ground::Looked(looked) => compare(target, wanted, looked).await,
    }
}

/// Writes an object over the version that was glanced at.
async fn write_over<K: Kind>(target: Target<'_>, wanted: Wanted<K>, seen: &Seen) -> Result<(), ApplyError> {
    // Caches have nothing but what is ours.
    let version = seen.get(&(wanted.kind.clone(), wanted.name.clone()));
    let Some(version) = version else { return Err(wanted.changed()) };
    match wanted.write(Some(version.clone())).await {
        Ok(written) => wanted.is(target, &written).map(drop),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Err(wanted.changed()),
        Err(source) => Err(wanted.refused(source)),
    }
}

/// Reads an object, and writes it unless it is as it should be.
async fn compare<K: Kind>(target: Target<'_>, wanted: Wanted<K>, looked: &Looked) -> Result<(), ApplyError> {
    let observed = wanted.api.get_opt(&wanted.name).await.map_err(|source| ApplyError::Get {
        kind: wanted.kind.clone(),
        name: wanted.name.clone(),
        source: Box::new(source),
    })?;
    if observed.as_ref().is_some_and(|observed| !is_ours(observed)) {
        return Err(ApplyError::Foreign { kind: wanted.kind, name: wanted.name });
    }
    observed.iter().for_each(|observed| looked.note(observed));
    if observed.map(|observed| wanted.is(target, &observed)).transpose()? == Some(true) {
        return Ok(());
    }
    let written = wanted.write(None).await.map_err(|source| wanted.refused(source))?;
    looked.note(&written);
    // What an admission webhook has changed is no agreement, and is compared again.
    wanted.is(target, &written).map(drop)
}

/// Whether an object was made here: it has our label, or the hash of what was applied where somebody took the label
/// away.
fn is_ours<K: ResourceExt>(observed: &K) -> bool {
    observed.labels().get(labels::APP_MANAGED_BY).is_some_and(|manager| manager == labels::MANAGED_BY)
        || observed.annotations().contains_key(labels::APPLIED_HASH)
}

/// Creates an object unless one of its name exists. Nobody asks before: the API server creates it once.
async fn create<K: Kind>(Target { client, namespace, ground, .. }: Target<'_>, wanted: &K) -> Result<(), ApplyError> {
    let (kind, name) = (K::kind(&()).into_owned(), wanted.name_any());
    let looked = match ground {
        Ground::Looked(looked) => Some(looked),
        Ground::Glanced(_) => None,
    };
    if looked.is_some_and(|looked| looked.sight::<K>(namespace, &name).is_some()) {
        return Ok(());
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let params = PostParams { field_manager: Some(labels::FIELD_MANAGER.to_owned()), ..Default::default() };
    match api.create(&params, wanted).await {
        Ok(created) => {
            looked.iter().for_each(|looked| looked.note(&created));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(source) => Err(ApplyError::Create { kind, name, source: Box::new(source) }),
    }
}

/// Deletes an object while it still is the one that was observed.
///
/// # Errors
/// When the API server refuses for another reason than that the object is gone or has changed.
pub async fn remove(client: &Client, applied: &Applied, namespace: &str, removal: &Removal) -> Result<(), ApplyError> {
    use gateway_api::httproutes::HttpRoute;
    use k8s_openapi::api::{
        apps::v1::{ControllerRevision, Deployment},
        batch::v1::Job,
        core::v1::{ConfigMap, Service},
        networking::v1::NetworkPolicy,
    };
    let from = (client, applied, namespace);
    match removal.kind {
        RemovalKind::Engine => delete::<Engine>(from, removal).await,
        RemovalKind::Deployment => delete::<Deployment>(from, removal).await,
        RemovalKind::Service => delete::<Service>(from, removal).await,
        RemovalKind::ConfigMap => delete::<ConfigMap>(from, removal).await,
        RemovalKind::ControllerRevision => delete::<ControllerRevision>(from, removal).await,
        RemovalKind::Profile => delete::<Profile>(from, removal).await,
        RemovalKind::HttpRoute => delete::<HttpRoute>(from, removal).await,
        RemovalKind::InferencePool => delete::<InferencePool>(from, removal).await,
        RemovalKind::NetworkPolicy => delete::<NetworkPolicy>(from, removal).await,
        RemovalKind::PrometheusRule => delete::<PrometheusRule>(from, removal).await,
        RemovalKind::Job => delete::<Job>(from, removal).await,
    }
}

async fn delete<K: Kind>(
    (client, applied, namespace): (&Client, &Applied, &str),
    removal: &Removal,
) -> Result<(), ApplyError> {
    applied.forget::<K>(namespace, &removal.name);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let preconditions =
        Preconditions { uid: Some(removal.uid.clone()), resource_version: Some(removal.resource_version.clone()) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(&removal.name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(ApplyError::Delete {
            kind: K::kind(&()).into_owned(),
            name: removal.name.clone(),
            source: Box::new(source),
        }),
    }
}

#[cfg(test)]
mod tests;
