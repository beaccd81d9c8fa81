//! What all reconciliations share: what they work with, how a plan is carried out, and why one fails. Writes IO.

use std::{
    error::Error,
    fmt::Debug,
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Client, Resource, ResourceExt, runtime::controller::Action};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    identity::IdentityError,
};
use slipway_operator_core::{
    conditions::{self, Draft},
    outdated::{self, Lacking},
    plan::{Child, Note, Plan},
    refusal::{self, Conditioned},
    settings::Settings,
};
use slipway_vocabulary::failure::chain;
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::{
    evidence::Pods,
    kube_io::{
        applied::Applied,
        apply::{self, ApplyError, Ground, Target},
        cache::Caches,
        events::EventRecorder,
        neighbours::Neighbours,
        read::{ReadError, Reader},
        record::{self, RecordError},
    },
    leader::{Leadership, NotLeading},
    metrics::{FailureCounts, Metrics},
    notifications::deliver::Notifier,
    panics::{self, Panicked},
    promql::Prometheus,
    turns::Turns,
};

/// When a plan is made again that was made at a glance, of what has changed since.
const AGAIN: Duration = Duration::from_secs(1);

/// What all reconciliations share.
pub struct Context {
    /// Where the cluster is read for decisions.
    pub reader: Reader,
    /// The connection to the API server, by which is written.
    pub client: Client,
    /// The connection to pods: what they measured.
    pub http: reqwest::Client,
    /// What pods counted.
    pub pods: Pods,
    /// What counted for weeks, where the configuration names one.
    pub prometheus: Option<Prometheus>,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Publishes events.
    pub recorder: EventRecorder,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Tells receivers what happens.
    pub notifier: Notifier,
    /// Counters.
    pub metrics: Metrics,
    /// What Engines know of their namespaces.
    pub neighbours: Neighbours,
    /// The same, as far as caches show: no Engine is removed on the ground of it.
    pub glanced_neighbours: Neighbours,
    /// Which children were found to be what they should be.
    pub applied: Applied,
    /// Who reads and writes the API server now.
    pub turns: Turns,
    /// What watches have shown, once they have.
    pub caches: OnceLock<Arc<Caches>>,
    /// Failures in a row, by object.
    pub failures: FailureCounts,
    /// The time of day.
    pub clock: fn() -> Timestamp,
}

impl Context {
    /// Has looks begin with a glance at these caches.
    pub fn glance_at(&self, caches: Arc<Caches>) {
        self.caches.get_or_init(|| caches);
    }

    /// A reader of caches, while they show what there is.
    pub fn glance(&self) -> Option<Reader> {
        let caches = self.caches.get().filter(|caches| caches.are_ready())?;
        Some(self.reader.glancing_at(caches.clone()))
    }

    /// Whether a plan that was made at a glance asks for nothing. Anything else is decided again on what the API server
    /// says.
    pub fn is_at_rest<K, S>(&self, object: &K, observed: Option<&S>, plan: &Plan<S>) -> bool
    where
        K: Resource<DynamicType = ()>,
        S: PartialEq,
    {
        // No `..`: a new part of a plan must be at rest too.
        let Plan { children: _, removals, status, notes, announcements, requeue: _ } = plan;
        let is_silent = removals.is_empty() && notes.is_empty() && announcements.is_empty();
        let is_at_rest = is_silent && observed == Some(status) && self.lacking(object, plan).next().is_none();
        if is_at_rest {
            self.failures.forget(&key(object));
        }
        is_at_rest
    }

    /// The children of a plan that are not what they should be, as far as caches show.
    pub fn lacking<'a, K: Resource, S>(&self, object: &K, plan: &'a Plan<S>) -> impl Iterator<Item = &'a Child> {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        plan.children.iter().filter(move |child| !self.holds(&namespace, child))
    }

    /// Whether a child is what it should be, as far as caches show.
    fn holds(&self, namespace: &str, child: &Child) -> bool {
        self.caches.get().is_some_and(|caches| self.applied.holds(caches, namespace, child))
    }
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
    /// The operator has a defect that this object meets. No other object is affected.
    #[error("the operator has a defect, please report it: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
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
            Self::Panicked { .. } => "panic",
        }
    }
}

/// How a plan was carried out.
pub struct Carried<K> {
    /// When to look again.
    pub action: Action,
    /// The object with the status of the plan, where that was written.
    pub recorded: Option<K>,
}

/// Carries a plan out: status, announcements, children, removals, events.
///
/// A child that the look has read as it should be is not read again. Of a plan that was made at a glance, children are
/// written over the version that the glance has seen.
///
/// The status comes first, with the resource version that was observed: a decision on an object that has since changed
/// ends there. Children are applied in the order of the plan, but Jobs and what leads to them come last. Nothing is
/// removed before all of them are there. A refused one is a condition until a plan has been carried out to its end, and
/// nothing becomes ready before that.
///
/// # Errors
/// At the first refusal; the next reconciliation starts over.
pub async fn carry_out<K, S>(
    context: &Context,
    (object, observed): (&K, Option<&S>),
    plan: Plan<S>,
    ground: Ground<'_>,
) -> Result<Carried<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq + Conditioned,
{
    // No `..`: a new part of a plan must be carried out here.
    let Plan { children, removals, status, notes, announcements, requeue } = plan;
    let namespace = object.namespace().unwrap_or_default();
    context.leadership.check().map_err(ReconcileError::Leadership)?;
    let begun = begin(context, (object, observed), &status).await?;
    let recorded = begun.written.as_ref().unwrap_or(object);
    context.notifier.offer_once(object.meta().uid.as_deref().unwrap_or_default(), announcements);
    // What is new in the status is told once: a child that cannot be applied must not keep it from being told at all,
    // nor the other way.
    let told = context.recorder.publish(object, &notes).await.map_err(ReconcileError::Record);
    for note in &notes {
        info!(name = object.name_any(), namespace, reason = note.reason.as_str(), "{}", note.message);
    }
    // A plan that was made on what the API server says is compared with what it said, and else asks again.
    let target = Target { client: &context.client, applied: &context.applied, ground, namespace: &namespace };
    for child in in_order(&children) {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        if let Err(error) = apply::apply(target, child).await {
            if let ApplyError::Changed { .. } = error {
                debug!(error = &error as &dyn Error, "a plan is made again");
                return Ok(Carried { action: Action::requeue(AGAIN), recorded: None });
            }
            publish_refusal(context, recorded, &begun, &error).await;
            return Err(ReconcileError::Apply(error));
        }
    }
    for removal in &removals {
        context.leadership.check().map_err(ReconcileError::Leadership)?;
        if let Err(error) = apply::remove(&context.client, &context.applied, &namespace, removal).await {
            publish_refusal(context, recorded, &begun, &error).await;
            return Err(ReconcileError::Apply(error));
        }
    }
    let status = begun.told(context, status);
    let last = record::status(&context.client, recorded, Some(&begun.status), &status).await;
    let last = last.map_err(ReconcileError::Record)?;
    told?;
    context.failures.forget(&key(object));
    Ok(Carried { action: Action::requeue(requeue), recorded: last.or(begun.written) })
}

/// A plan that is being carried out: its status is there, as far as that is known.
struct Begun<K, S> {
    /// The status.
    status: S,
    /// The object with it, where that was written.
    written: Option<K>,
    /// The first field of it that was not kept.
    lost: Option<String>,
}

impl<K: Resource<DynamicType = ()>, S: Conditioned> Begun<K, S> {
    /// A status with what is known of the definition now.
    fn told(&self, context: &Context, planned: S) -> S {
        let kind = K::kind(&());
        let lacking = self.lost.as_deref().map(|field| Lacking { kind: &kind, field });
        let generation = self.written.as_ref().and_then(|written| written.meta().generation).unwrap_or_default();
        outdated::told(&self.status, planned, lacking, (generation, (context.clock)()))
    }
}

/// Writes the status with which a plan begins, where it differs from the observed one.
async fn begin<K, S>(
    context: &Context,
    (object, observed): (&K, Option<&S>),
    planned: &S,
) -> Result<Begun<K, S>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq + Conditioned,
{
    let status = refusal::not_yet_ready(observed, refusal::kept(observed, planned));
    let status = outdated::kept(observed, status);
    let written = record::status(&context.client, object, observed, &status).await.map_err(ReconcileError::Record)?;
    let lost = written.as_ref().and_then(|written| record::lost(&status, written));
    if let Some(field) = &lost {
        warn!(object = key(object), field, "the cluster's CRD lacks a field: upgrade the chart slipway-crds");
    }
    Ok(Begun { status, written, lost })
}

/// Children in the order in which they are applied: what serves does not wait for work that a quota refuses.
fn in_order(children: &[Child]) -> impl Iterator<Item = &Child> {
    let is_work = |child: &&Child| matches!(child, Child::Job(_) | Child::Engine(_) | Child::Profile(_));
    let others = children.iter().filter(move |child| !is_work(child));
    others.chain(children.iter().filter(is_work))
}

/// A quota, an admission policy or somebody else's object keeps a child from being what it should be: people look at
/// the object, not at our log. Nothing depends on its being told.
async fn publish_refusal<K, S>(context: &Context, object: &K, begun: &Begun<K, S>, error: &ApplyError)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    S: Serialize + PartialEq + Conditioned,
{
    let note = Note::warning(Reason::ApplyFailed, chain(error));
    let generation = object.meta().generation.unwrap_or_default();
    let told = begun.told(context, begun.status.clone());
    let status = refusal::refused(&told, note.message.clone(), (generation, (context.clock)()));
    let recorded = record::status(&context.client, object, Some(&begun.status), &status).await.map(drop);
    let published = context.recorder.publish(object, &[note]).await;
    if let Err(error) = recorded.and(published) {
        debug!(error = &error as &dyn Error, "a refusal could not be published");
    }
}

/// Runs a reconciliation to its end, or to its panic: one object's must not end the process, and with it everybody's.
///
/// # Errors
/// Those of the reconciliation, and [`ReconcileError::Panicked`].
pub async fn caught(
    reconciliation: impl Future<Output = Result<Action, ReconcileError>>,
) -> Result<Action, ReconcileError> {
    let ended = panics::caught(reconciliation).await;
    ended.unwrap_or_else(|Panicked { message }| Err(ReconcileError::Panicked { message }))
}

/// Says of an object whose status is Kubernetes' own that its reconciliation panicked: an event alone.
pub async fn publish_panic_as_event<K>(context: &Context, object: &K, error: &ReconcileError)
where
    K: Resource<DynamicType = ()>,
{
    if context.leadership.check().is_err() {
        return;
    }
    let note = Note::warning(Reason::ReconcilePanicked, chain(error));
    if let Err(error) = context.recorder.publish(object, &[note]).await {
        warn!(error = &error as &dyn Error, "a panic could not be published");
    }
}

/// Says on the object that its reconciliation panicked: an event, and `Stalled`. Nothing depends on its being told.
pub async fn publish_panic<K>(context: &Context, object: &K, error: &ReconcileError)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
{
    let note = Note::warning(Reason::ReconcilePanicked, chain(error));
    let told = match (context.leadership.check(), serde_json::to_value(object)) {
        (Ok(()), Ok(value)) => {
            let generation = object.meta().generation.unwrap_or_default();
            let status = stalled_status(value, (note.reason, &note.message), (generation, (context.clock)()));
            record::status(&context.client, object, None, &status).await.map(drop)
        }
        (Err(_), _) | (_, Err(_)) => return,
    };
    let published = context.recorder.publish(object, &[note]).await;
    if let Err(error) = told.and(published) {
        warn!(error = &error as &dyn Error, "a panic could not be published");
    }
}

/// The status of an object as it is, but for `Stalled` and `Reconciling`.
pub(crate) fn stalled_status(mut object: Value, (reason, message): (Reason, &str), dated: (i64, Timestamp)) -> Value {
    let mut status = object.get_mut("status").map(Value::take).filter(Value::is_object);
    let status = status.get_or_insert_with(|| serde_json::json!({}));
    let present = status.get("conditions").cloned().unwrap_or_default();
    let mut all: Vec<Condition> = serde_json::from_value(present).unwrap_or_default();
    for (condition, is_true) in [(ConditionType::Reconciling, false), (ConditionType::Stalled, true)] {
        let draft = Draft { condition, is_true, reason, message: message.to_owned() };
        let condition = conditions::dated(draft, &all, dated);
        all = conditions::with(&all, condition);
    }
    status["conditions"] = serde_json::json!(all);
    status.take()
}

/// Kind, namespace and name of an object, by which failures in a row are counted.
pub fn key<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{}/{}/{name}", K::kind(&()), object.meta().namespace.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_object_that_met_it() {
        let panics = async {
            let seconds: Result<u64, _> = "seven".parse();
            Ok(Action::requeue(Duration::from_secs(seconds.expect("a number"))))
        };
        let error = caught(panics).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (
                "panic",
                "the operator has a defect, please report it: a number: ParseIntError { kind: InvalidDigit }"
                    .to_owned()
            )
        );
    }

    #[tokio::test]
    async fn a_reconciliation_that_ends_is_left_as_it_is() {
        let action = Action::requeue(Duration::from_secs(7));
        assert_eq!(caught(async { Ok(Action::requeue(Duration::from_secs(7))) }).await.unwrap(), action);
    }

    #[test]
    fn a_panic_stalls_the_object_and_leaves_the_rest_of_its_status() {
        let condition = |type_: &str, status: &str, reason: &str, message: &str, since: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                "observedGeneration": 3, "lastTransitionTime": since})
        };
        let long_ago = "2026-01-01T00:00:00Z";
        let ready = condition("Ready", "True", "Serving", "it serves", long_ago);
        let stalled = condition("Stalled", "False", "UpToDate", "", long_ago);
        let object = json!({"kind": "Engine", "status": {"artifact": "a", "conditions": [ready, stalled]}});
        let now: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        let status = stalled_status(object, (Reason::ReconcilePanicked, "a defect"), (3, now));
        let [ready, stalled, reconciling] = [
            ready,
            condition("Stalled", "True", "ReconcilePanicked", "a defect", "2026-02-01T00:00:00Z"),
            condition("Reconciling", "False", "ReconcilePanicked", "a defect", "2026-02-01T00:00:00Z"),
        ];
        assert_eq!(status, json!({"artifact": "a", "conditions": [ready, stalled, reconciling]}));
    }

    #[test]
    fn an_object_without_a_status_gets_one() {
        let now: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        let status = stalled_status(json!({"kind": "Engine"}), (Reason::ReconcilePanicked, "a defect"), (1, now));
        let types: Vec<_> = status["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
        assert_eq!(types, ["Reconciling", "Stalled"]);
    }
}
