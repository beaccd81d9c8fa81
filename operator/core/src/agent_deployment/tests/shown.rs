//! What people see of a plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::v1alpha1::AgentDeploymentStatus;

use crate::plan::{Child, Plan};

/// Kind and name of a child.
pub(super) fn name_of(child: &Child) -> String {
    let (kind, metadata) = metadata_of(child);
    format!("{kind} {}", metadata.name.as_deref().unwrap_or_default())
}

pub(super) fn metadata_of(child: &Child) -> (&'static str, &ObjectMeta) {
    match child {
        Child::ConfigMap(object) => ("ConfigMap", &object.metadata),
        Child::PersistentVolumeClaim(object) => ("PersistentVolumeClaim", &object.metadata),
        Child::Service(object) => ("Service", &object.metadata),
        Child::Deployment(object) => ("Deployment", &object.metadata),
        Child::HttpRoute(object) => ("HTTPRoute", &object.metadata),
        Child::InferencePool(object) => ("InferencePool", &object.metadata),
        Child::NetworkPolicy(object) => ("NetworkPolicy", &object.metadata),
        Child::PrometheusRule(object) => ("PrometheusRule", &object.metadata),
        Child::Job(object) => ("Job", &object.metadata),
        Child::Engine(object) => ("Engine", &object.metadata),
        Child::Profile(object) => ("Profile", &object.metadata),
        Child::ControllerRevision(object) => ("ControllerRevision", &object.metadata),
    }
}

/// What people see of a plan: stage, conditions, objects, events. One line each.
pub(super) fn lines(plan: &Plan<AgentDeploymentStatus>) -> Vec<String> {
    let Plan { children, removals, status, notes, announcements, requeue: _ } = plan;
    let mut lines = vec![format!("stage {:?}", status.stage.expect("every status has a stage"))];
    lines.extend(status.conditions.iter().map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)));
    lines.extend(children.iter().map(|child| format!("+ {}", name_of(child))));
    lines.extend(removals.iter().map(|removal| format!("- {:?} {}", removal.kind, removal.name)));
    lines.extend(notes.iter().map(|note| format!("{:?} {}: {}", note.severity, note.reason, note.message)));
    lines.extend(
        announcements.iter().map(|a| format!("to {}: {}: {}", a.receivers.join(", "), a.happening.title(), a.message)),
    );
    lines
}
