//! Operator and CRDs of an earlier tree are replaced by those of this one, beside agents that serve. Nothing starts.
//! Today's pods come with the next revision, which is judged like any. `e2e/upgrade.sh` installs the earlier tree.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::Engine;
use slipway_e2e::{
    agents::{READY_LIMIT, facts_agent},
    namespace::Namespace,
    operator::Operator,
    rollouts::{
        AGENT, Bench,
        watch::{Watch, shares_of, unready_with_traffic, verdicts},
    },
};

/// Agents with objectives are looked at every 30 seconds.
const LIMIT: Duration = Duration::from_secs(300);

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.iter();
    let of = |status: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| -> i32 {
        status.iter().flatten().map(|container| container.restart_count).sum()
    };
    status.map(|status| of(&status.container_statuses) + of(&status.init_container_statuses)).sum()
}

/// Everything that an upgrade must leave alone, by kind and name: what is built, what serves, and how pods are made.
async fn what_lives(namespace: &Namespace) -> BTreeMap<String, Value> {
    let all = ListParams::default();
    let mut found = BTreeMap::new();
    for job in namespace.api::<Job>().list(&all).await.unwrap() {
        found.insert(format!("Job {}", job.name_any()), json!(job.uid()));
    }
    for revision in namespace.api::<ControllerRevision>().list(&all).await.unwrap() {
        found.insert(format!("ControllerRevision {}", revision.name_any()), json!(revision.uid()));
    }
    for engine in namespace.api::<Engine>().list(&all).await.unwrap() {
        found.insert(format!("Engine {}", engine.name_any()), json!([engine.uid(), engine.metadata.generation]));
    }
    for deployment in namespace.api::<Deployment>().list(&all).await.unwrap() {
        // Its other fields, such as minReadySeconds, restart nothing.
        let spec = deployment.spec.as_ref().map(|spec| json!([spec.replicas, spec.template]));
        found.insert(format!("Deployment {}", deployment.name_any()), json!(spec));
    }
    for pod in namespace.pods("").await.unwrap() {
        found.insert(format!("Pod {}", pod.name_any()), json!([pod.uid(), restarts(&pod)]));
    }
    found
}

/// The layout that the plan of a revision records; the first is recorded as none.
async fn layout(namespace: &Namespace, revision: &str) -> Value {
    let name = format!("{AGENT}-{revision}");
    let record = namespace.api::<ControllerRevision>().get(&name).await.unwrap();
    record.data.map(|data| data.0["layout"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn an_upgrade_restarts_nothing_and_the_pods_of_today_are_judged_like_any_revision() {
    let bench = Bench::start("upgrade").await.unwrap();
    let facts = bench.namespace.apply(&facts_agent().unwrap()).await.unwrap();
    bench.namespace.wait_until_served(&facts, READY_LIMIT).await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let operator = Operator::find().await.unwrap();
    operator.leader(":before", LIMIT).await.unwrap();
    let (before, old_layout) = (what_lives(&bench.namespace).await, layout(&bench.namespace, &bench.stable).await);

    operator.upgrade_definitions().unwrap();
    operator.upgrade("dev").unwrap();
    let leader = operator.leader(":dev", LIMIT).await.unwrap();
    operator.wait_for_reconciliations(&leader, "AgentDeployment", 6, LIMIT).await.unwrap();
    assert_eq!(what_lives(&bench.namespace).await, before, "beside the operator of this tree");

    let watch = Watch::start(&bench.namespace);
    let mut edited = bench.manifest.clone();
    edited["spec"]["agent"]["systemPrompt"] = json!("Answer briefly.");
    bench.apply(&edited).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let new_layout = layout(&bench.namespace, &canary).await;
    assert_ne!(new_layout, old_layout, "the earlier tree has the layout of this one: upgrade from an earlier commit");
    bench.wait_for_promotion(&canary).await.unwrap();
    load.next_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100], "{:?}", verdicts(&history));
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    println!("layout {old_layout} to {new_layout}; {} requests, none failed", summary.ok());
    bench.namespace.delete().await.unwrap();
}
