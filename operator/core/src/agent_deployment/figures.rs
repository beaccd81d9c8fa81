//! What a status says of pods that serve, and that nothing but people and later looks read. Pure.
//!
//! Figures come with time alone, so a status with others may be written on the ground of what caches show. The version
//! of the AgentDeployment goes along: one that has changed is decided on again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{conditions::ConditionType, v1alpha1::AgentDeploymentStatus};

use super::monitoring::drift::config_map::object_name;
use crate::plan::{Child, Plan};

/// Conditions that say nothing but figures.
const OF_FIGURES: [ConditionType; 4] =
    [ConditionType::SLOMet, ConditionType::WorkloadDrift, ConditionType::BehaviorDrift, ConditionType::JudgeTrusted];

/// Whether a plan asks for other figures, and for what is remembered of them, and for nothing else. `lacking` are those
/// of its children that are not as they should be.
pub fn are_all(
    name: &str,
    before: &AgentDeploymentStatus,
    plan: &Plan<AgentDeploymentStatus>,
    lacking: &[Child],
) -> bool {
    let Plan { removals, status, notes, announcements, children: _, requeue: _ } = plan;
    let is_silent = removals.is_empty() && notes.is_empty() && announcements.is_empty();
    let is_memory = |child: &Child| {
        let Child::ConfigMap(object) = child else { return false };
        object.metadata.name.as_ref() == Some(&object_name(name))
    };
    is_silent && lacking.iter().all(is_memory) && with_figures_of(before, status) == *status
}

fn with_figures_of(before: &AgentDeploymentStatus, after: &AgentDeploymentStatus) -> AgentDeploymentStatus {
    let AgentDeploymentStatus {
        slo,
        objectives_met,
        observed_objectives,
        met_objectives,
        missed_objectives,
        drift,
        self_check,
        ..
    } = after.clone();
    let others = |conditions: &[Condition]| -> Vec<Condition> {
        let is_figure = |of: &Condition| OF_FIGURES.iter().any(|condition| condition.as_str() == of.type_);
        conditions.iter().filter(|of| !is_figure(of)).cloned().collect()
    };
    let are_others_kept = others(&before.conditions) == others(&after.conditions);
    let conditions = if are_others_kept { &after.conditions } else { &before.conditions }.clone();
    AgentDeploymentStatus {
        slo,
        objectives_met,
        observed_objectives,
        met_objectives,
        missed_objectives,
        drift,
        self_check,
        conditions,
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use slipway_crds::conditions::Reason;

    use super::*;
    use crate::plan::Note;

    fn status(fields: serde_json::Value) -> AgentDeploymentStatus {
        serde_json::from_value(fields).expect("a status")
    }

    fn config_map(name: &str) -> Child {
        let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a ConfigMap");
        Child::ConfigMap(Box::new(object))
    }

    #[test]
    fn figures_are_told_from_what_decides() {
        let before = status(json!({"stage": "Serving", "objectivesMet": "1/1", "readyPods": 1}));
        let are_all = |after: serde_json::Value, lacking: &[Child]| {
            super::are_all("support", &before, &Plan::keeping(status(after)), lacking)
        };
        let other = json!({"stage": "Serving", "objectivesMet": "0/1", "readyPods": 1});
        assert!(are_all(other.clone(), &[]));
        assert!(are_all(other.clone(), &[config_map("support-drift")]));
        assert!(!are_all(other.clone(), &[config_map("support-7c1f9a2b3d")]), "a pod reads it");
        assert!(!are_all(json!({"stage": "Serving", "objectivesMet": "0/1", "readyPods": 0}), &[]));
        let with = |of: &str| {
            let condition = json!({"type": of, "status": "True", "reason": "Known", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"stage": "Serving", "objectivesMet": "1/1", "readyPods": 1, "conditions": [condition]})
        };
        assert!(are_all(with("SLOMet"), &[]) && are_all(with("WorkloadDrift"), &[]));
        assert!(!are_all(with("Ready"), &[]) && !are_all(with("Stalled"), &[]), "others act on it");
        let note = Note::warning(Reason::ApplyFailed, "it is told".to_owned());
        let told = Plan { notes: vec![note], ..Plan::keeping(status(other)) };
        assert!(!super::are_all("support", &before, &told, &[]));
    }
}
