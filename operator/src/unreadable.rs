//! Objects that this release cannot read: they are left alone, and say so. Writes IO.
//!
//! The schema of this release keeps nothing that its types cannot read. But an object may be older than the schema, or
//! of a later release, or the cluster's CRD is that of another one.

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Resource,
    core::{PartialObjectMetaExt, error_boundary::InvalidObject},
    runtime::controller::Action,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_crds::conditions::Reason;
use slipway_operator_core::plan::Note;
use tracing::warn;

use crate::{
    kube_io::record,
    reconcile::{Context, ReconcileError, stalled_status},
};

/// Says on an object that it cannot be read: `Stalled`, and an event whenever that is news.
///
/// # Errors
/// When the API server refuses the status or the event.
pub async fn tell<K>(context: &Context, invalid: &InvalidObject) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    let metadata = &invalid.metadata;
    warn!(name = metadata.name, error = %invalid.error, "an object cannot be read and is left alone");
    context.leadership.check().map_err(ReconcileError::Leadership)?;
    let named = (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
    let (now, generation) = ((context.clock)(), metadata.generation.unwrap_or_default());
    let mut told = String::new();
    let rewrite = |object: &Value| {
        told = message::<K>(object)?;
        Some(stalled_status(object.clone(), (Reason::Unreadable, &told), (generation, now)))
    };
    let written = record::rewritten_status::<K>(&context.client, named, rewrite).await;
    // An API server without ratcheting refuses any change of what it would not take: then there is the event alone.
    let is_news = !told.is_empty() && !matches!(written, Ok(false));
    if is_news {
        let note = Note::warning(Reason::Unreadable, told);
        let object = metadata.clone().into_response_partial::<K>();
        context.recorder.publish(&object, &[note]).await.map_err(ReconcileError::Record)?;
    }
    written.map_err(ReconcileError::Record)?;
    Ok(Action::await_change())
}

/// Which field cannot be read and why, with the remedy. None where it can be.
fn message<K: DeserializeOwned>(object: &Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, K>(object).err()?;
    let (field, problem) = (error.path(), error.inner());
    Some(format!(
        "{field}: {problem}. This release of the operator cannot read the object and leaves it and what serves alone: \
         change the field, or run the release that wrote it"
    ))
}
