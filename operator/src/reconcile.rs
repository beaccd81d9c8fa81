//! What all reconciliations share: what they work with, how a plan is carried out, and why one fails. Writes IO.

use std::{error::Error, fmt::Debug, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Client, Resource, ResourceExt,
    runtime::{controller::Action, events::Recorder},
};
use serde::{Serialize, de::DeserializeOwned};
use slipway_crds::{conditions::Reason, identity::IdentityError};
use slipway_operator_core::{
    plan::{Note, Plan},
    settings::Settings,
};
use slipway_vocabulary::failure::chain;
use thiserror::Error;
use tracing::{debug, info};

use crate::{
    kube_io::{
        apply::{self, ApplyError},
        read::ReadError,
        record::{self, RecordError},
    },
    leader::{Leadership, NotLeading},
    metrics::{FailureCounts, Metrics},
    notifications::deliver::Notifier,
    promql::Prometheus,
};

/// What all reconciliations share.
pub struct Context {
    /// The connection to the API server.
    pub client: Client,
    /// The connection to pods: what they counted and measured.
    pub http: reqwest::Client,
    /// What counted for weeks, where the configuration names one.
    pub prometheus: Option<Prometheus>,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Publishes events.
    pub recorder: Recorder,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Tells receivers what happens.
    pub notifier: Notifier,
    /// Counters.
    pub metrics: Metrics,
    /// Failures in a row, by object.
    pub failures: FailureCounts,
}

/// Why a reconciliation came to no end.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// The world could not be seen.
    #[error("failed to observe")]
    Observe(#[source] ReadError),
    /// Nothing could be decided.
    #[error("failed to decide")]
    Decide(#[source] IdentityError),
    /// A child is not as it should be.
    #[error("failed to apply")]
    Apply(#[source] ApplyError),
    /// Status or event is not recorded.
    #[error("failed to record")]
    Record(#[source] RecordError),
    /// Another process leads.
    #[error("refused to write")]
    Leadership(#[source] NotLeading),
}

impl ReconcileError {
    /// The failed action, as a bounded label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Observe(_) => "observe",
            Self::Decide(_) => "decide",
            Self::Apply(_) => "apply",
            Self::Record(_) => "record",
            Self::Leadership(_) => "leadership",
        }
    }
}

/// Carries a plan out: status, announcements, children, removals, events.
///
/// The status comes first, with the resource version that was observed: a decision on an object that has since changed ends
/// there. What receivers are told follows from it, and is told at once: the next reconciliation would not know. Children are applied in the order of the plan; nothing is removed before all of them are there.
///
/// # Errors
/// At the first refusal; the next reconciliation starts over.
pub async fn carry_out<K, S>(
    context: &Context,
    object: &K,
    observed: Option<&S>,
    plan: Plan<S>,
) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq,
{
    // No `..`: a new part of a plan must be carried out here.
    let Plan { children, removals, status, notes, announcements, requeue } = plan;
    let namespace = object.namespace().unwrap_or_default();
    context.leadership.check().map_err(ReconcileError::Leadership)?;
    record::status(&context.client, object, observed, &status).await.map_err(ReconcileError::Record)?;
    context.notifier.offer(announcements);
    // What is new in the status is told once: a child that cannot be applied must not keep it from being told at all, nor the other way.
    let told = record::events(&context.recorder, object, &notes).await.map_err(ReconcileError::Record);
    for note in &notes {
        info!(name = object.name_any(), namespace, reason = note.reason.as_str(), "{}", note.message);
    }
    for child in &children {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        if let Err(error) = apply::apply(&context.client, &namespace, child).await {
            tell_refusal(context, object, &error).await;
            return Err(ReconcileError::Apply(error));
        }
    }
    for removal in &removals {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        apply::remove(&context.client, &namespace, removal).await.map_err(ReconcileError::Apply)?;
    }
    told?;
    context.failures.forget(&key(object));
    Ok(Action::requeue(requeue))
}

/// A quota, an admission policy or somebody else's object keeps a child from being what it should be: people look at the object, not at
/// our log. Nothing depends on its being told.
async fn tell_refusal<K: Resource<DynamicType = ()>>(context: &Context, object: &K, error: &ApplyError) {
    let note = Note::warning(Reason::ApplyFailed, chain(error));
    if let Err(error) = record::events(&context.recorder, object, &[note]).await {
        debug!(error = &error as &dyn Error, "a refusal was not told");
    }
}

/// Kind, namespace and name of an object, by which failures in a row are counted.
pub fn key<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{}/{}/{name}", K::kind(&()), object.meta().namespace.as_deref().unwrap_or_default())
}
