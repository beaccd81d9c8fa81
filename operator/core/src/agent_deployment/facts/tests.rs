use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::agent_deployment::Precision;

use super::*;
use crate::{
    jobs::kind::{JobKind, JobRef},
    why::{CommandProblem, InvalidCommand, Named, Rejected, Retry},
};

fn spec() -> AgentDeploymentSpec {
    let spec = json!({
        "model": {"uri": "http://models.example/react"},
        "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
        "agent": {"systemPrompt": "Answer.", "tools": [{"name": "sum", "description": "adds", "type": "Calculator"}]},
    });
    serde_json::from_value(spec).expect("a valid spec")
}

fn engine(name: &str) -> EngineChoice {
    EngineChoice {
        name: name.to_owned(),
        display_name: String::new(),
        precision: Precision::FP32,
        state: String::new(),
        quality: None,
        offer: None,
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Every stop that there is, with its subject. The codes are in users' clusters, so they stay.
#[test]
fn the_codes_of_stops_stay() {
    let job = JobRef { kind: JobKind::Resolve, name: text("resolve-a461aa8d8f-1") };
    let (revision, problem) = (text("7c1f9a2b3d"), text("in whatever words"));
    let stops = [
        Why::SpecRefused { field: "spec.agent", problem: problem.clone() },
        Why::SpecRefused { field: "status.model", problem: problem.clone() },
        Why::EngineRefused { field: text("engine.backend"), problem: problem.clone(), others: 2 },
        Why::EngineUnbuildable { problem: problem.clone() },
        Why::DatasetUnusable { config_map: text("evaluation"), problem: problem.clone() },
        Why::JobFailed { job, class: "BadModel", failure: problem.clone(), attempts: None },
        Why::NoEngine { total: 2, failure: problem.clone() },
        Why::ProfilingFailed { profile: text("support-5f0c2a"), failure: problem.clone() },
        Why::NoFeasibleConfiguration { profile: text("support-5f0c2a"), answer: problem.clone() },
        Why::RevisionFailing { revision: revision.clone(), failure: problem.clone() },
        Why::PreflightFailed(RefusedGpus {
            revision: revision.clone(),
            pod: text("support-7c1f9a2b3d-x"),
            node: text("gpu-1"),
            problems: problem.clone(),
        }),
        Why::InsufficientCapacity {
            revision: revision.clone(),
            pods: 1,
            wanted: 2,
            scheduler: problem.clone(),
            remedy: problem.clone(),
        },
        Why::PlanRejected(Box::new(Rejected {
            revision: revision.clone(),
            reason: problem,
            retry: Retry { named: Named { agent: text("support"), namespace: text("team") }, token: revision },
        })),
        Why::UnknownReceiver { unknown: vec![text("tema"), text("om-call")], known: vec![text("team")] },
        Why::CommandInvalid {
            invalid: vec![InvalidCommand {
                annotation: text("slipway.dev/aprove"),
                value: text("7c1f9a2b3d"),
                problem: CommandProblem::Unknown,
            }],
        },
    ];
    let (spec, engines) = (spec(), [engine("engine-a"), engine("engine-b")]);
    let codes = stops.map(|why| format!("{}/{}", why.reason(), subject(&why, &spec, &engines)));
    let agent = format!("SpecRefused/spec.agent/{}", hash(&spec.agent));
    let engine = format!("SpecRefused/spec.engine/{}", hash(&spec.engine));
    let expected = [
        agent.as_str(),
        "SpecRefused/status.model",
        "SpecRefused/spec.engine.backend/9e9715d524",
        engine.as_str(),
        "DatasetUnusable/evaluation",
        "JobFailed/resolve-a461aa8d8f-1/BadModel",
        "NoEngine/9528b6589e",
        "ProfilingFailed/support-5f0c2a",
        "NoFeasibleConfiguration/support-5f0c2a",
        "RevisionFailing/7c1f9a2b3d",
        "PreflightFailed/7c1f9a2b3d",
        "InsufficientCapacity/7c1f9a2b3d",
        "RolledBack/7c1f9a2b3d",
        "UnknownReceiver/tema,om-call",
        "CommandUnknown/0bf90db582",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn a_refused_field_with_another_value_is_another_problem() {
    let refused =
        |field, spec: &AgentDeploymentSpec| subject(&Why::SpecRefused { field, problem: String::new() }, spec, &[]);
    let mut edited = spec();
    edited.serving.replicas = 3;
    assert_eq!(refused("spec.agent", &edited), refused("spec.agent", &spec()), "it is no part of the field");
    edited.agent.system_prompt = text("Be brief.");
    assert_ne!(refused("spec.agent", &edited), refused("spec.agent", &spec()));
}

#[test]
fn of_a_path_that_is_not_there_the_nearest_value_counts() {
    let value = json!({"agent": {"tools": [{"name": "sum"}]}});
    assert_eq!(nearest(&value, "agent.tools[0].name"), &json!("sum"));
    assert_eq!(nearest(&value, "agent.tools[0].http.url"), &json!({"name": "sum"}));
    assert_eq!(nearest(&value, "rollout.steps"), &value);
}

/// A status as an operator wrote it that recorded no facts.
#[test]
fn a_status_without_facts_is_read_by_condition_and_reason() {
    let condition = |condition: &str, status: &str, reason: &str| {
        let at = "2026-01-01T00:00:00Z";
        json!({"type": condition, "status": status, "reason": reason, "message": "then", "lastTransitionTime": at})
    };
    let status = json!({"conditions": [
        condition("Suspended", "True", "RolloutPaused"),
        condition("Stalled", "True", "JobFailed"),
        condition("Profiling", "False", "ReprofilingPlanned"),
    ]});
    let status: AgentDeploymentStatus = serde_json::from_value(status).expect("a status");
    let problem = known_problem(&status).expect("it is stalled");
    let failed = |job: &str| fact(ConditionType::Stalled, Reason::JobFailed, text(job));
    assert!(problem.is(&failed("resolve-1")) && problem.is(&failed("fetch-1")), "which Job it was nobody knows");
    assert!(!problem.is(&fact(ConditionType::Stalled, Reason::NoEngine, text("resolve-1"))));
    assert_eq!([ConditionType::Suspended, ConditionType::Profiling].map(|of| known(&status, of)), [None, None]);
}
