//! Shares that go to InferencePools in place of Services.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::trial::{EQUAL, ROLLOUT, Trial, trial_with};
use crate::{
    agent_deployment::world::PoolsView,
    plan::{Child, RemovalKind},
};

const POOLS: &str = "{parentRefs: [{name: agents}], inferencePool: {endpointPicker: {name: picker}}}";

/// A canary at 20 % whose AgentDeployment asks for pools, in a cluster that is as `pools` says.
fn trial(pools: PoolsView) -> Trial {
    let mut trial = trial_with(&ROLLOUT.replace("{parentRefs: [{name: agents}]}", POOLS));
    trial.cluster.world.pools = pools;
    trial.settle();
    trial.cluster.ready_pods();
    trial.settle();
    trial
}

/// Kind and name of each backend of the weighted rule.
fn backends(trial: &Trial) -> Vec<(String, String)> {
    let route = trial.cluster.plan().children.into_iter().find_map(|child| match child {
        Child::HttpRoute(route) => Some(route),
        _ => None,
    });
    let rules = route.and_then(|route| route.spec.rules).unwrap_or_default();
    let backends = rules.into_iter().next_back().and_then(|rule| rule.backend_refs).unwrap_or_default();
    backends.into_iter().map(|backend| (backend.kind.unwrap_or_default(), backend.name)).collect()
}

fn pools(trial: &Trial) -> Vec<Value> {
    let pools = trial.cluster.plan().children.into_iter().filter_map(|child| match child {
        Child::InferencePool(pool) => Some(json!({"name": pool.metadata.name, "spec": pool.spec})),
        _ => None,
    });
    pools.collect()
}

#[test]
fn each_live_revision_has_a_pool_of_its_pods_and_the_route_goes_there() {
    let trial = trial(PoolsView::Writable);
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    let pool = |revision: &str| {
        json!({"name": format!("support-{revision}"), "spec": {
            "selector": {"matchLabels": {
                "slipway.dev/agent-deployment": "support", "slipway.dev/revision": revision,
            }},
            "targetPorts": [{"number": 8080}],
            "endpointPickerRef": {
                "group": "", "kind": "Service", "name": "picker", "port": {"number": 9002}, "failureMode": "FailClose",
            },
        }})
    };
    assert_eq!(pools(&trial), [pool(&stable), pool(&canary)]);
    let backend = |revision: &str| ("InferencePool".to_owned(), format!("support-{revision}"));
    assert_eq!(backends(&trial), [backend(&stable), backend(&canary)]);
    assert_eq!(trial.shares, [0, 20]);
}

#[test]
fn pools_go_with_their_revision_and_when_nobody_asks_for_them() {
    let mut trial = trial(PoolsView::Writable);
    let canary = trial.cluster.canary();
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary);
    let kinds = |trial: &Trial| -> Vec<(String, RemovalKind)> {
        let objects = trial.cluster.world.objects.iter();
        let pools = objects.flat_map(|(revision, objects)| objects.iter().map(move |o| (revision.clone(), o.kind)));
        pools.filter(|(_, kind)| *kind == RemovalKind::InferencePool).collect()
    };
    assert_eq!(kinds(&trial), [(canary.clone(), RemovalKind::InferencePool)]);
    trial.cluster = trial.cluster.clone().edited(|spec| {
        spec.rollout.traffic.gateway_api.as_mut().expect("a gateway").inference_pool = None;
    });
    trial.settle();
    assert_eq!(kinds(&trial), []);
    assert_eq!(backends(&trial), [("Service".to_owned(), format!("support-{canary}"))]);
}

#[test]
fn pools_that_cannot_be_written_are_a_condition_and_no_share_moves() {
    for (view, words) in [
        (
            PoolsView::NotAllowed,
            "the operator is not allowed to write InferencePools: set gateway.inferencePools in its chart",
        ),
        (PoolsView::UnknownKind, "the cluster has no InferencePool of version v1: install the CRDs of the Gateway API"),
    ] {
        let trial = trial(view);
        let conditions = &trial.cluster.world.status.conditions;
        let found = conditions.iter().find(|condition| condition.reason == "RouteUnavailable").expect("it says so");
        let start = format!("spec.rollout.traffic.gatewayAPI: inferencePool: {words}");
        assert!(found.message.starts_with(&start), "{}", found.message);
        assert_eq!((trial.share(), pools(&trial), backends(&trial)), (0, vec![], vec![]));
        assert_eq!(trial.cluster.routed_to, Some(trial.stable()), "the Service serves on");
    }
}
