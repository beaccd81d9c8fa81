//! Rollouts that do not go straight: revisions that never get ready, crash or hang, manifests that go back and forth,
//! no traffic.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{CapacityPhase, RolloutStatus, RolloutVerdict},
    },
};
use slipway_e2e::{
    agents::namespace_with_servers,
    load::report::NO_REVISION,
    rollouts::{
        AGENT, Bench, rollout_of,
        room::{free_millicores, remove_other_scenarios},
        watch::{Watch, shares_of},
    },
};

/// Time in which something that must not happen would have happened: several of the operator's rounds.
const INTERVALS_OF_REST: usize = 3;

#[tokio::test]
async fn a_revision_that_never_gets_ready_gets_no_traffic() {
    let bench = Bench::start("rollout-unready").await.unwrap();
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);

    // Its warm-up is never answered.
    bench.apply(&bench.with(&[("hangAfter", "0")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    wait_until_triton_runs(&bench, &canary).await;
    load.next_intervals(INTERVALS_OF_REST).await.unwrap();
    bench.apply(&bench.manifest).await.unwrap();
    bench.wait_for("the canary gone", |rollout| rollout.canary.is_none()).await.unwrap();
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0]);
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods);
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.ok()), (0, summary.ok_of(&bench.stable)), "{summary:?}");
}

async fn wait_until_triton_runs(bench: &Bench, revision: &str) {
    let pod = loop {
        let pods = bench.namespace.pods(&format!("{}={revision}", labels::REVISION)).await.unwrap();
        match pods.first() {
            Some(pod) => break pod.name_any(),
            None => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    };
    bench
        .namespace
        .wait(&pod, "Triton serving", Duration::from_secs(120), |pod: &Pod| {
            let containers = pod.status.as_ref().and_then(|status| status.init_container_statuses.clone());
            let runs =
                |name: &str| containers.iter().flatten().any(|one| one.name == name && one.started == Some(true));
            if runs("triton") { Ok(()) } else { Err(format!("{containers:?}")) }
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_revision_that_crashes_under_load_is_rolled_back() {
    let bench = Bench::start("rollout-crash").await.unwrap();
    let load = bench.start_load().await.unwrap();

    bench.apply(&bench.with(&[("crashAfter", "100")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for_rejection(&canary).await.unwrap();
    let after = load.settled_intervals(1).await.unwrap();

    assert_eq!(after[0].failed(), 0, "{after:?}");
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!(summary.failed_of(&bench.stable), 0, "{summary:?}");
}

#[tokio::test]
async fn a_revision_that_hangs_under_load_is_rolled_back() {
    let bench = Bench::start("rollout-hang").await.unwrap();
    let load = bench.start_load().await.unwrap();

    bench.apply(&bench.with(&[("hangAfter", "100")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for_rejection(&canary).await.unwrap();
    // Runs that hang end at runTimeout: in the interval of the rejection, or in the one after it.
    load.next_intervals(2).await.unwrap();
    let after = load.next_intervals(1).await.unwrap();

    assert_eq!(after[0].failed(), 0, "{after:?}");
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed_of(&bench.stable), summary.failed_of(NO_REVISION)), (0, 0), "{summary:?}");
}

#[tokio::test]
async fn a_rejected_revision_stays_rejected_until_it_is_retried_by_name() {
    let bench = Bench::start("rollout-rejected").await.unwrap();
    let load = bench.start_load().await.unwrap();
    let mut failing = bench.with(&[("errorPercent", "50")]);
    bench.apply(&failing).await.unwrap();
    let plan = bench.wait_for_canary().await.unwrap();
    bench.wait_for_rejection(&plan).await.unwrap();

    // As GitOps does when someone reverts, and reverts the revert.
    bench.apply(&bench.manifest).await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);
    bench.apply(&failing).await.unwrap();
    load.next_intervals(INTERVALS_OF_REST).await.unwrap();
    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &plan), [0], "a rejected plan gets no traffic");
    assert!(history.iter().all(|seen| seen.canary.is_none()), "{history:?}");

    // Tokens for another plan do nothing.
    failing["spec"]["rollout"]["retry"] = json!("another");
    bench.apply(&failing).await.unwrap();
    load.next_intervals(1).await.unwrap();
    assert_eq!(current(&bench).await.canary, None);
    failing["spec"]["rollout"]["retry"] = json!(plan);
    bench.apply(&failing).await.unwrap();
    assert_eq!(bench.wait_for_canary().await.unwrap(), plan);
    bench.wait_for("traffic of the retried plan", |rollout| rollout.weight == Some(20)).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!(summary.failed_of(&bench.stable), 0, "{summary:?}");
}

#[tokio::test]
async fn applying_the_old_manifest_ends_the_canary_without_a_restart_or_a_failed_request() {
    let bench = Bench::start("rollout-revert").await.unwrap();
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);

    let mut slow_steps = bench.with(&[("medianMilliseconds", "195")]);
    slow_steps["spec"]["rollout"]["steps"][0]["minSoak"] = json!("5m");
    bench.apply(&slow_steps).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();
    load.next_intervals(1).await.unwrap();
    let reverted = bench.apply(&bench.manifest).await.unwrap();
    bench.wait_for("the canary gone", |rollout| rollout.canary.is_none()).await.unwrap();
    bench.namespace.wait_until_served(&reverted, Duration::from_secs(120)).await.unwrap();
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 0]);
    let rollout = current(&bench).await;
    assert_eq!(rollout.stable.as_deref(), Some(bench.stable.as_str()));
    assert!(rollout.rejected.is_empty(), "going back is no verdict: {:?}", rollout.rejected);
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods);
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    assert!(summary.ok_of(&canary) > 0, "{summary:?}");
}

#[tokio::test]
async fn without_traffic_a_canary_is_held_and_judged_once_traffic_comes() {
    let bench = Bench::start("rollout-no-traffic").await.unwrap();
    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let is_held = |rollout: &RolloutStatus| {
        (rollout.verdict, rollout.reason.as_deref()) == (Some(RolloutVerdict::Hold), Some("NoTraffic"))
    };
    let held = bench.wait_for("Hold for want of traffic", is_held).await.unwrap();
    assert_eq!((held.weight, held.stable.as_deref()), (Some(20), Some(bench.stable.as_str())));

    let load = bench.start_load().await.unwrap();
    bench.wait_for_promotion(&canary).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// Both revisions do not fit on the node together. Nothing is drained until the user says so; then the one pod makes
/// room.
#[tokio::test]
async fn on_a_node_without_room_stable_goes_on_until_it_is_told_to_make_some() {
    let namespace = namespace_with_servers("rollout-no-room").await.unwrap();
    remove_other_scenarios(&namespace).unwrap();
    // More than half of what is left: one pod fits, two do not.
    let cpu = format!("{}m", free_millicores(&namespace).await.unwrap() * 6 / 10);
    let bench = Bench::start_in(namespace, |manifest| {
        manifest["spec"]["serving"]["tritonResources"] = json!({"requests": {"cpu": cpu}, "limits": {"cpu": "64"}});
        manifest["spec"]["rollout"]["capacityDeadline"] = json!("5s");
    });
    let bench = bench.await.unwrap();
    let before = bench.pod_uids(&bench.stable).await.unwrap();

    // Another engine would have to be built, and there is no room for that either.
    let mut changed = bench.manifest.clone();
    changed["spec"]["agent"]["systemPrompt"] = json!("Wait, then answer.");
    bench.apply(&changed).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let limit = Duration::from_secs(120);
    let message = bench.namespace.wait_for_message(AGENT, "Stalled", "lacks capacity for 1 pod", limit).await.unwrap();
    println!("without room: {message}");
    assert!(
        message.contains("Insufficient cpu") && message.contains("set spec.rollout.capacity to InPlace"),
        "{message}"
    );
    assert_eq!(current(&bench).await.capacity.map(|room| room.phase), Some(CapacityPhase::Waiting));
    while !bench.pod_uids(&canary).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), before, "stable is untouched");

    changed["spec"]["rollout"]["capacity"] = json!("InPlace");
    bench.apply(&changed).await.unwrap();
    let has_place = |rollout: &RolloutStatus| {
        rollout.capacity.as_ref().is_some_and(|room| (room.phase, room.drained) == (CapacityPhase::InPlace, 1))
    };
    bench.wait_for("a place made for the canary", has_place).await.unwrap();
    bench.wait_for("all traffic for the canary", |rollout| rollout.weight == Some(100)).await.unwrap();
    let load = bench.start_load().await.unwrap();
    bench.wait_for_promotion(&canary).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.ok()), (0, summary.ok_of(&canary)), "{summary:?}");
    assert_eq!(bench.pod_uids(&canary).await.unwrap().len(), 1);
}

async fn current(bench: &Bench) -> RolloutStatus {
    rollout_of(&bench.namespace.api::<AgentDeployment>().get(AGENT).await.unwrap())
}
