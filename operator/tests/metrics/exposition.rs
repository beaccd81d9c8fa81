//! The operator's whole exposition, of a cluster that has one of each.

use std::time::Duration;

use kube::{ResourceExt, runtime::watcher::Event};
use pretty_assertions::assert_eq;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_crds::store::StoreRecord;
use slipway_operator::{
    kube_io::cache::{Cache, Kept, Stripped, cache},
    metrics::{Metrics, NotificationOutcome},
};

use super::read;

/// Sorted, because some series come in no fixed order.
const EXPOSITION: &str = "operator/tests/metrics/exposition.txt";

fn cluster() -> Value {
    let text = serde_norway::from_str::<serde_norway::Value>(&read("operator/tests/metrics/cluster.yaml"));
    let mut value = text.unwrap();
    value.apply_merge().unwrap();
    serde_json::to_value(value).unwrap()
}

/// The objects of a kind, as a watch shows them; afterwards those that `is_gone` names are deleted.
fn shown<K>(kind: &str, is_gone: fn(&str) -> bool) -> Cache<K>
where
    K: Kept + Stripped + DeserializeOwned,
{
    let (shown, mut writer) = cache();
    let objects: Vec<K> = serde_json::from_value(cluster()[kind].take()).unwrap();
    for object in objects {
        writer.take(Event::Apply(object.clone()));
        if is_gone(&object.name_any()) {
            writer.take(Event::Delete(object));
        }
    }
    shown
}

fn exported(is_gone: fn(&str) -> bool) -> Metrics {
    let metrics = Metrics::new();
    metrics.show(shown("agents", is_gone));
    metrics.show_engines(shown("engines", is_gone));
    metrics.show_profiles(shown("profiles", is_gone));
    metrics.show_jobs(shown("jobs", is_gone));
    metrics.show_stores(shown("claims", is_gone));
    let record: StoreRecord = serde_json::from_value(cluster()["store"].take()).unwrap();
    metrics.store_recorded("team", &record);
    metrics
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// The exposition of a leader that has done all that is counted.
pub fn exposition() -> String {
    let metrics = exported(|_| false);
    metrics.set_leading();
    metrics.reconciled("AgentDeployment", "success", Duration::from_millis(20));
    metrics.reconciled("AgentDeployment", "conflict", Duration::from_millis(20));
    metrics.reconciled("Engine", "apply", Duration::from_secs(2));
    metrics.notified("on-call", NotificationOutcome::Delivered);
    metrics.notified("on-call", NotificationOutcome::FailedAttempt);
    metrics.waiting("on-call", 1);
    sorted(&metrics.encode())
}

#[test]
fn the_whole_exposition_is_as_recorded() {
    let found = exposition();
    // UPDATE=1 writes it, for a change that is meant.
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(super::file(EXPOSITION), &found).unwrap();
    }
    assert_eq!(found, read(EXPOSITION));
}

#[test]
fn objects_that_are_gone_are_in_no_metric() {
    let text = exported(|_| true).encode();
    let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(series, ["slipway_operator_leading 0"]);
}
