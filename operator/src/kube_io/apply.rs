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

use super::{applied::Applied, cache::Kept, difference};

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

/// Where children are written.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The connection to the API server.
    pub client: &'a Client,
    /// What was compared before.
    pub applied: &'a Applied,
    /// Of a plan that was made at a glance: what the glance saw. No other version is written over.
    pub glanced: Option<&'a Seen>,
    /// The namespace.
    pub namespace: &'a str,
}

/// Makes a child be what it should be.
///
/// # Errors
/// When the API server refuses; nothing is repeated here.
pub async fn apply(ensured: Target<'_>, child: &Child) -> Result<(), ApplyError> {
    let Target { client, namespace, .. } = ensured;
    match child {
        Child::ConfigMap(object) => ensure(ensured, object.as_ref()).await,
        Child::Service(object) => ensure(ensured, object.as_ref()).await,
        Child::Deployment(object) => ensure(ensured, object.as_ref()).await,
        Child::ControllerRevision(object) => ensure(ensured, object.as_ref()).await,
        Child::HttpRoute(object) => ensure(ensured, object.as_ref()).await,
        Child::InferencePool(object) => ensure(ensured, object.as_ref()).await,
        Child::NetworkPolicy(object) => ensure(ensured, object.as_ref()).await,
        Child::PrometheusRule(object) => ensure(ensured, object.as_ref()).await,
        Child::PersistentVolumeClaim(object) => create(client, namespace, object.as_ref()).await,
        Child::Job(object) => create(client, namespace, object.as_ref()).await,
        Child::Engine(object) => create(client, namespace, object.as_ref()).await,
        Child::Profile(object) => create(client, namespace, object.as_ref()).await,
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
    if let Some(seen) = target.glanced {
        // Caches have nothing but what is ours.
        let version = seen.get(&(wanted.kind.clone(), wanted.name.clone()));
        let Some(version) = version else { return Err(wanted.changed()) };
        return match wanted.write(Some(version.clone())).await {
            Ok(written) => wanted.is(target, &written).map(drop),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Err(wanted.changed()),
            Err(source) => Err(wanted.refused(source)),
        };
    }
    let observed = wanted.api.get_opt(&wanted.name).await.map_err(|source| ApplyError::Get {
        kind: wanted.kind.clone(),
        name: wanted.name.clone(),
        source: Box::new(source),
    })?;
    if observed.as_ref().is_some_and(|observed| !is_ours(observed)) {
        return Err(ApplyError::Foreign { kind: wanted.kind, name: wanted.name });
    }
    if observed.map(|observed| wanted.is(target, &observed)).transpose()? == Some(true) {
        return Ok(());
    }
    let written = wanted.write(None).await.map_err(|source| wanted.refused(source))?;
    // What an admission webhook has changed is no agreement, and is compared again.
    wanted.is(target, &written).map(drop)
}

/// Whether an object was made here: it has our label, or the hash of what was applied where somebody took the label
/// away.
fn is_ours<K: ResourceExt>(observed: &K) -> bool {
    observed.labels().get(labels::APP_MANAGED_BY).is_some_and(|manager| manager == labels::MANAGED_BY)
        || observed.annotations().contains_key(labels::APPLIED_HASH)
}

/// Creates an object unless one of its name exists.
async fn create<K: Kind>(client: &Client, namespace: &str, wanted: &K) -> Result<(), ApplyError> {
    let (kind, name) = (K::kind(&()).into_owned(), wanted.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let observed = api.get_metadata_opt(&name).await.map_err(|source| ApplyError::Get {
        kind: kind.clone(),
        name: name.clone(),
        source: Box::new(source),
    })?;
    if observed.is_some() {
        return Ok(());
    }
    let params = PostParams { field_manager: Some(labels::FIELD_MANAGER.to_owned()), ..Default::default() };
    match api.create(&params, wanted).await {
        Ok(_) => Ok(()),
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
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use k8s_openapi::{
        api::core::v1::{ConfigMap, Service},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    };
    use kube::client::Body;
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    /// An API server that gives every request the same answer; and the requests, each with the version in its body.
    fn server(code: u16, answer: Value) -> (Client, Arc<Mutex<Vec<String>>>) {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (seen, answer) = (seen.clone(), answer.to_string());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let version = body["metadata"]["resourceVersion"].as_str().unwrap_or("any").to_owned();
                seen.lock().unwrap().push(format!("{} {version}", parts.method));
                Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.into_bytes()))?)
            }
        });
        (Client::new(service, "team"), requests)
    }

    fn config_map(version: &str) -> ConfigMap {
        let labels = json!({"app.kubernetes.io/managed-by": "slipway"});
        let metadata = json!({"namespace": "team", "name": "a", "resourceVersion": version, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "data": {"version": version}})).unwrap()
    }

    #[rstest]
    #[case::as_it_was(200, json!(config_map("8")), "Ok(())")]
    #[case::changed(409, json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}),
        "Err(Changed { kind: \"ConfigMap\", name: \"a\" })")]
    #[tokio::test]
    async fn what_was_decided_at_a_glance_is_written_over_the_version_that_was_seen_and_no_other(
        #[case] code: u16,
        #[case] answer: Value,
        #[case] expected: &str,
    ) {
        let ((client, requests), applied) = (server(code, answer), Applied::default());
        let seen = Seen::from([(("ConfigMap".to_owned(), "a".to_owned()), "7".to_owned())]);
        let mut wanted = config_map("");
        wanted.metadata.resource_version = None;
        let child = Child::ConfigMap(Box::new(wanted));
        let target = Target { client: &client, applied: &applied, glanced: Some(&seen), namespace: "team" };
        assert_eq!(format!("{:?}", apply(target, &child).await), expected);
        assert_eq!(*requests.lock().unwrap(), ["PATCH 7"]);
        drop(apply(Target { glanced: None, ..target }, &child).await);
        assert_eq!(requests.lock().unwrap()[1], "GET any");
        let (nothing, before) = (Seen::default(), requests.lock().unwrap().len());
        let unseen = apply(Target { glanced: Some(&nothing), ..target }, &child).await;
        assert!(matches!(unseen, Err(ApplyError::Changed { .. })), "no version is known");
        assert_eq!(requests.lock().unwrap().len(), before, "and nothing is written without one");
    }

    #[rstest]
    #[case::with_our_label(labels::APP_MANAGED_BY, labels::MANAGED_BY, "", "", true)]
    #[case::with_the_hash_alone("team", "support", labels::APPLIED_HASH, "7c1f9a2b3d", true)]
    #[case::of_helm(labels::APP_MANAGED_BY, "Helm", "meta.helm.sh/release-name", "support", false)]
    #[case::by_hand("app", "support", "note", "mine", false)]
    fn an_object_is_told_from_somebody_elses(
        #[case] label: &str,
        #[case] value: &str,
        #[case] annotation: &str,
        #[case] text: &str,
        #[case] expected: bool,
    ) {
        let one = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
        let metadata =
            ObjectMeta { labels: one(label, value), annotations: one(annotation, text), ..ObjectMeta::default() };
        assert_eq!(is_ours(&Service { metadata, ..Service::default() }), expected);
    }

    #[test]
    fn whoever_owns_an_object_of_that_name_is_told_what_to_do() {
        let error = ApplyError::Foreign { kind: "Service".to_owned(), name: "support".to_owned() };
        let words = "Service support exists and was not made by Slipway; it is left as it is: remove it, or give the AgentDeployment \
                     another name";
        assert_eq!(error.to_string(), words);
    }
}
