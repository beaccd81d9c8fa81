//! A rollout that compares a canary with fresh pods of the plan that serves, behind a real gateway, with clients that
//! never pause.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeMap, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_e2e::{
    agents::namespace_with_servers,
    rollouts::{
        AGENT, Bench,
        watch::{Watch, shares_of, unready_with_traffic, verdicts},
    },
};

/// Longest time until pods that nothing needs any more are gone.
const GONE_LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_revision_that_is_as_good_as_its_baseline_takes_over_and_no_request_fails() {
    let namespace = namespace_with_servers("rollout-baseline").await.unwrap();
    let bench = Bench::start_in(namespace, |manifest| {
        manifest["spec"]["rollout"]["baseline"] = json!("MirrorBaseline");
        // The two have less of the traffic than a canary and all the rest: a wider margin takes as long.
        manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    });
    let bench = bench.await.unwrap();
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let compared = bench.wait_for("traffic of the baseline", |rollout| rollout.compared_baseline().is_some());
    let baseline = compared.await.unwrap().baseline.unwrap();
    assert_eq!((baseline.weight, baseline.pods, baseline.ready_pods), (20, 1, 1));
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods, "a baseline restarts no stable pod");
    assert_eq!(bench.pod_uids(&baseline.revision).await.unwrap().len(), 1);
    bench.wait_for_promotion(&canary).await.unwrap();
    load.next_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 33, 100], "{:?}", verdicts(&history));
    assert_eq!(shares_of(&history, &baseline.revision), [0, 20, 33, 0]);
    assert_eq!(shares_of(&history, &bench.stable), [100, 60, 34, 0]);
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let events = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert_eq!(events.iter().filter(|reason| *reason == "BaselineStarting").count(), 1, "{events:?}");
    tokio::time::timeout(GONE_LIMIT, gone(&bench, &baseline.revision))
        .await
        .expect("the baseline goes with the rollout");

    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    let (of_canary, of_baseline) = (summary.ok_of(&canary), summary.ok_of(&baseline.revision));
    println!("{} requests, {of_baseline} of them answered by the baseline; none failed", summary.ok());
    // The canary goes on after the end of the baseline.
    assert!(of_baseline > 0 && of_canary > of_baseline, "{summary:?}");
}

async fn gone(bench: &Bench, revision: &str) {
    while bench.pod_uids(revision).await.unwrap() != BTreeMap::new() {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
