//! What a store keeps of unneeded files at most, and how long its record grows at most.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::store::StoreItem;
use slipway_worker_contract::SweepResult;

use super::{DAY, Life, agent, artifact, checkpoint, digest};
use crate::{
    agent_deployment::engine_users::Users,
    store::{decide::record_object, references::References},
};

/// What the API server takes of a ConfigMap.
const CONFIG_MAP: usize = 1_048_576;

#[rstest]
#[case::of_all("0", vec![checkpoint(8), checkpoint(9), artifact(1, 10)])]
#[case::of_the_oldest("500", vec![checkpoint(9), artifact(1, 10)])]
#[case::of_one("1400", vec![checkpoint(9)])]
#[case::of_none("1800", vec![])]
fn what_is_too_much_goes_early_but_not_within_the_hour(#[case] most: &str, #[case] removed: Vec<String>) {
    let yaml = format!(
        "{{images: {{worker: w, agentRuntime: r}}, store: {{retention: {{seconds: 604800, maxUnreferenced: '{most}'}}}}}}"
    );
    let mut life = Life::serving();
    life.settings = Box::leak(yaml.into_boxed_str());
    life.namespace.users.agent_deployments[0] = agent("support", 8, &["engine-1"]);
    let life = life.looked(0).edited(|namespace| {
        namespace.engines.clear();
        namespace.users.agent_deployments[0] = agent("support", 8, &[]);
    });
    let life = life.looked(60).edited(|namespace| namespace.users = Users::default());
    assert!(life.begun.is_empty());
    let life = life.looked(3_600);
    let begun: Vec<String> = life.begun.first().map(|task| task.remove.clone()).unwrap_or_default();
    assert_eq!(begun, removed);
}

#[test]
fn what_frees_nothing_does_not_go_early() {
    let mut life = Life::new();
    life.settings =
        "{images: {worker: w, agentRuntime: r}, store: {retention: {seconds: 604800, maxUnreferenced: '0'}}}";
    let records = "profiles/1".to_owned();
    let unneeded = |bytes| StoreItem { bytes, ..StoreItem::default() };
    life.record.items = BTreeMap::from([
        (checkpoint(8), unneeded(Some(400))),
        (checkpoint(9), unneeded(Some(0))),
        (records.clone(), unneeded(None)),
    ]);
    let life = life.looked(0).looked(3_600);
    assert_eq!(life.begun[0].remove, [checkpoint(8)]);
    let life = life.swept(SweepResult::default()).looked(7 * DAY);
    assert_eq!(life.begun[1].remove, [checkpoint(9), records]);
}

/// So many held and unheld folders, each with long names.
fn crowded(held: usize, unheld: usize) -> Life {
    let mut life = Life::new();
    let folder = |number: usize| format!("engines/engine-{}/{}", "e".repeat(40), digest(number));
    let since = |number: usize| Time(life.now - SignedDuration::from_secs(i64::try_from(number).expect("small")));
    let item = |number: usize| StoreItem {
        bytes: Some(17_400_000_000),
        unreferenced_since: Some(since(number)),
        free_since: Some(since(number)),
        ..StoreItem::default()
    };
    life.record.items = (held..held + unheld).map(|number| (folder(number), item(number))).collect();
    let holders: Vec<String> =
        (0..8).map(|number| format!("ControllerRevision {}-{number}", "r".repeat(200))).collect();
    let held = (0..held).map(|number| (folder(number), holders.clone())).collect();
    life.shown = Some(References { held, ..References::default() });
    life
}

fn text(life: &Life) -> String {
    let object = record_object(&life.world(), &life.record);
    object.data.expect("a record").remove("store.json").expect("its text")
}

#[test]
fn a_record_with_too_many_words_names_fewer_holders_and_keeps_every_folder() {
    let life = crowded(900, 900).looked(0);
    assert!(text(&life).len() < CONFIG_MAP, "{}", text(&life).len());
    let held: Vec<&Vec<String>> =
        life.record.items.values().map(|item| &item.held_by).filter(|holders| !holders.is_empty()).collect();
    assert_eq!((held.len(), life.record.items.len()), (900, 1_800));
    let holder = format!("ControllerRevision {}...", "r".repeat(45));
    assert!(held.iter().all(|holders| **holders == [holder.clone()]), "{:?}", held[0]);
}

#[test]
fn a_record_with_too_many_folders_forgets_what_has_been_unneeded_longest() {
    let life = crowded(2_000, 1_500).looked(0);
    assert!(text(&life).len() < CONFIG_MAP, "{}", text(&life).len());
    let unheld = life.record.items.values().filter_map(|item| item.unreferenced_since.as_ref());
    let oldest = life.now - SignedDuration::from_secs(2_999);
    assert_eq!((unheld.clone().count(), unheld.min()), (1_000, Some(&Time(oldest))));
}

#[test]
fn what_is_held_is_never_forgotten() {
    let life = crowded(3_100, 10).looked(0);
    assert!(text(&life).len() < CONFIG_MAP, "{}", text(&life).len());
    assert_eq!(life.record.items.values().map(|item| item.held_by.len()).collect::<Vec<_>>(), [1; 3_100]);
}
