//! What an API server would refuse of a plan: a status, an Engine or a Profile against its schema, and a change of what
//! is immutable. Every plan that a test carries out is held to it.

use std::{collections::BTreeMap, sync::LazyLock};

use pretty_assertions::assert_eq;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{
    AgentDeploymentStatus,
    engine::{EngineSpec, EngineStatus},
};
use slipway_manifest::{Definitions, Finding, rules, schema::Structure};

use crate::plan::{Child, Plan};

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(Definitions::new);

/// The schema of the status of an AgentDeployment.
static STATUS: LazyLock<Structure> = LazyLock::new(|| {
    let definition = slipway_crds::definitions().into_iter().find(|one| one.spec.names.kind == "AgentDeployment");
    let versions = definition.expect("it is defined").spec.versions;
    let schema = versions.into_iter().find_map(|version| version.schema?.open_api_v3_schema).expect("it has a schema");
    let schema = serde_json::to_value(schema).expect("a schema is JSON");
    Structure::new(schema["properties"]["status"].clone())
});

/// Engines as they are, by name.
pub(super) type Engines = BTreeMap<String, (EngineSpec, EngineStatus)>;

pub(super) fn assert_accepted(plan: &Plan<AgentDeploymentStatus>, engines: &Engines) {
    let status = serde_json::to_value(&plan.status).expect("a status is JSON");
    assert_eq!(refused(&STATUS, &status), Vec::<String>::new(), "of the status {status}");
    for child in &plan.children {
        match child {
            Child::Engine(object) => {
                let name = object.metadata.name.as_deref().expect("an Engine has a name");
                match engines.get(name) {
                    Some((spec, _)) => assert_eq!(&object.spec, spec, "the spec of Engine {name} is immutable"),
                    None => assert_defined(object),
                }
            }
            Child::Profile(object) => assert_defined(object),
            Child::PersistentVolumeClaim(_)
            | Child::ConfigMap(_)
            | Child::Service(_)
            | Child::Deployment(_)
            | Child::HttpRoute(_)
            | Child::NetworkPolicy(_)
            | Child::InferencePool(_)
            | Child::PrometheusRule(_)
            | Child::ControllerRevision(_)
            | Child::Job(_) => {}
        }
    }
}

fn assert_defined(object: &impl Serialize) {
    let written = serde_json::to_value(object).expect("an object is JSON");
    if let Err(refused) = DEFINITIONS.check(&written) {
        panic!("an API server refuses {written}: {refused}");
    }
}

fn refused(structure: &Structure, value: &Value) -> Vec<String> {
    let mut findings: Vec<Finding> = structure.findings(value);
    if findings.is_empty() {
        findings = rules::findings(structure.schema(), value);
    }
    findings.iter().map(ToString::to_string).collect()
}

/// The check would be worth nothing if it could not fail.
#[test]
fn a_status_with_more_than_its_schema_takes_is_refused() {
    let one = |plan| json!({"plan": format!("plan-{plan}"), "at": "2026-01-01T12:00:00Z", "reason": "slow"});
    let rejected = |number: usize| json!({"rollout": {"rejected": (0..number).map(one).collect::<Vec<_>>()}});
    assert_eq!(refused(&STATUS, &rejected(8)), Vec::<String>::new());
    let refusals = refused(&STATUS, &rejected(9));
    assert!(refusals.iter().any(|refusal| refusal.contains("rollout.rejected")), "{refusals:?}");
}
