//! The status of an object by the expressions that the chart has for Flux.

use kube_cel::Validator;
use serde_json::{Value, json};

use super::kstatus::Health;

const EXPRESSIONS: &str = include_str!("../../../../../../charts/slipway/files/flux/health-check-exprs.yaml");

/// The first expression that holds counts, in the order in which Flux asks. One that fails is asked again later.
pub(super) fn flux(object: &Value) -> Health {
    let checks: Vec<Value> = serde_norway::from_str(EXPRESSIONS).expect("the file is a list");
    let check = checks.into_iter().find(|check| check["kind"] == object["kind"]).expect("the kind has a check");
    let holds = |name: &str| holds(check[name].as_str().expect("it has this expression"), object);
    let order = [("inProgress", Health::InProgress), ("failed", Health::Failed), ("current", Health::Current)];
    order.into_iter().find(|(name, _)| holds(name)).map_or(Health::InProgress, |(_, health)| health)
}

/// Whether an expression holds, by the evaluator of CEL that the tests have: one of rules, which know only `self`.
fn holds(expression: &str, object: &Value) -> bool {
    let rule = format!("[self.status].all(status, [self.metadata].all(metadata, {expression}))");
    let schema = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": rule, "message": "it does not hold"}],
    });
    Validator::new().validate(&schema, object, None).is_ok()
}

#[test]
fn a_false_expression_does_not_hold() {
    let object = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "stage": "Serving"}});
    let held = ["status.stage == 'Serving'", "metadata.generation == status.observedGeneration", "status.none == 1"]
        .map(|expression| holds(expression, &object));
    assert_eq!(held, [true, false, false]);
}
