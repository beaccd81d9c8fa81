//! The operator's own reconciliations against a strict API server in memory, with a fault at every write.
//!
//! A story is played once undisturbed. Then each of its acts is played again for every write and every fault, and for
//! every list that shows the past. It must come to the same end, create and delete the same objects as often, and never
//! let users down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod api;
mod bugs;
mod cluster;
mod conformance;
mod definitions;
mod end;
mod glances;
mod harmless;
mod histories;
mod later;
mod operator;
mod outcomes;
mod panics;
mod plans;
mod planted;
mod server;
mod stories;
mod story;
mod unreadable;
mod users;
mod watched;
mod watches;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use api::{
    fault::Site,
    kinds::{DEPLOYMENTS, ENGINES, JOBS, Kind, NETWORK_POLICIES, PODS, POOLS, PROFILES, ROUTES, RULES},
    store::{Happened, Key},
};
use bugs::Bug;
use plans::Depth;
use stories::{SWEPT, Story, prompt};
use story::{AGENT, Act, OTHER, Played, Scene, tell, tell_with};

/// Tells a story, and expects its outcome.
async fn told(story: Story) -> Vec<Played> {
    let told = tell(&story.acts).await;
    assert_eq!(story.unmet(&told.iter().collect::<Vec<_>>()), Vec::<String>::new(), "{}", story.name);
    told
}

#[tokio::test]
async fn an_agent_is_edited_refused_and_deleted_without_a_trace() {
    let told = told(stories::blue_green()).await;
    let record = story::store_record(&told.last().unwrap().after.store);
    assert_eq!((record.items.len(), record.sweeps), (2, 0), "an engine and a checkpoint stay without a retention");
}

#[tokio::test]
async fn what_an_agent_needed_once_is_swept_while_it_serves() {
    let told = told(stories::retention()).await;
    let records: Vec<_> = told.iter().map(|played| story::store_record(&played.after.store)).collect();
    let counts: Vec<(usize, i32)> = records.iter().map(|record| (record.items.len(), record.sweeps)).collect();
    let of_both = [(4, 0), (4, 0), (4, 0), (2, 1), (2, 1)];
    assert_eq!(counts[2..], of_both, "an engine and a checkpoint of each model");
    let folders: Vec<usize> = told.iter().map(|played| played.end.volume.len()).collect();
    assert_eq!(folders, [0, 2, 4, 4, 4, 2, 2]);
    let last = records.last().unwrap();
    assert!(last.items.values().all(|item| !item.held_by.is_empty()), "{last:#?}");
    let jobs = told.last().unwrap().end.objects.keys().filter(|key| key.kind == JOBS);
    assert_eq!(jobs.count(), 3, "resolve, fetch and build of the model that is served");
}

#[tokio::test]
async fn what_a_deleted_agent_leaves_goes_with_the_retention() {
    let told = told(stories::leftovers()).await;
    let record = story::store_record(&told[3].after.store);
    assert_eq!((record.items.len(), record.sweep, &told[3].end.volume), (0, None, &Vec::new()));
}

#[tokio::test]
async fn an_agent_that_asks_again_for_what_is_swept_at_any_moment_serves_it() {
    let told = tell(&stories::retention().acts[..=SWEPT]).await;
    let back = Act::Edit(json!({"model": {"uri": "http://models.example/react"}}));
    assert!(told[SWEPT].rounds.len() > 5, "{} looks", told[SWEPT].rounds.len());
    for moment in told[SWEPT].rounds.iter().map(|round| &round.scene) {
        let played = moment.play(&back).await;
        assert_eq!(
            (story::stages(&played.end), played.violations),
            (vec!["Serving".to_owned()], vec![]),
            "{}",
            moment.now
        );
        assert!(played.end.volume.len() >= 4, "asked at {}: {:?}", moment.now, played.end.volume);
    }
}

#[tokio::test]
async fn a_canary_takes_over_and_a_slower_one_is_rolled_back() {
    told(stories::canary()).await;
}

#[tokio::test]
async fn a_canary_beside_a_baseline_takes_over_and_a_slower_one_is_rolled_back() {
    let told = told(stories::mirrored()).await;
    let begun = |played: &Played| {
        let made =
            played.commits.keys().filter(|(happened, key)| *happened == Happened::Created && key.kind == DEPLOYMENTS);
        made.count()
    };
    assert_eq!([2, 3].map(|act| begun(&told[act])), [2, 2], "a canary and its baseline");
    let left = told[3].end.objects.keys().filter(|key| key.kind == DEPLOYMENTS);
    assert_eq!(left.count(), 1, "the revision that serves");
}

#[tokio::test]
async fn an_operator_that_glances_at_old_caches_tells_the_same_stories() {
    told(stories::blue_green().watched()).await;
    told(stories::canary().watched()).await;
    told(stories::elsewhere().watched()).await;
    told(stories::asking().watched()).await;
}

#[tokio::test]
async fn an_agent_waits_for_room_in_a_quota_says_so_and_goes_on_once_there_is_room() {
    let told = told(stories::quota()).await;
    assert_eq!([3, 6].map(|act| story::waits_for(&told[act].end)), ["", ""]);
}

#[tokio::test]
async fn where_the_node_is_full_serving_pods_make_room_one_after_the_other() {
    let told = told(stories::in_place()).await;
    let pods =
        |played: &Played| played.after.store.of_kind(PODS).filter(|(_, pod)| cluster::kubelet::serves(pod)).count();
    assert_eq!(told[3..=5].iter().map(pods).collect::<Vec<_>>(), [2, 2, 2]);
}

#[tokio::test]
async fn what_the_store_has_lost_is_made_again_and_the_agent_serves_meanwhile() {
    let told = told(stories::lost()).await;
    let folders: Vec<usize> = told.iter().map(|played| played.end.volume.len()).collect();
    assert_eq!(folders, [2, 0, 2, 2, 2], "an engine and its checkpoint");
}

#[tokio::test]
async fn two_agents_share_an_engine_that_stays_until_nobody_names_it() {
    let told = told(stories::shared()).await;
    let engines = |played: &Played| played.end.objects.keys().filter(|key| key.kind == ENGINES).count();
    assert_eq!(told.iter().map(engines).collect::<Vec<_>>(), [1, 1, 1, 1, 0]);
}

#[tokio::test]
async fn whichever_of_two_agents_fetches_for_both_the_other_one_needs_it_no_more() {
    let story = stories::shared();
    let mut fetchers = BTreeSet::new();
    for way in outcomes::other_ways(&Scene::first(None), &story.acts[0]).await {
        let owner = |job: &Value| job["metadata"]["ownerReferences"][0]["name"].as_str().map(str::to_owned);
        fetchers.extend(way.end.objects.values().filter(|object| cluster::fetched(object).is_some()).filter_map(owner));
        assert_eq!(plans::rest(&story, &[], way).await, Vec::<String>::new());
    }
    assert_eq!(fetchers, BTreeSet::from([AGENT.to_owned(), OTHER.to_owned()]));
}

#[tokio::test]
async fn a_campaign_asks_for_its_second_engine_and_what_it_chose_is_served() {
    let told = told(stories::asking()).await;
    let engines = |played: &Played| played.end.objects.keys().filter(|key| key.kind == ENGINES).count();
    assert_eq!(told.iter().map(engines).collect::<Vec<_>>(), [1, 2, 2, 0]);
    let (_, profile) = told[1].after.store.of_kind(PROFILES).next().expect("a campaign was made");
    let status = &profile["status"];
    assert_eq!((&status["phase"], status["asked"].as_array().map(Vec::len)), (&json!("Chosen"), Some(2)), "{status:#}");
}

#[tokio::test]
async fn another_release_of_the_operator_starts_nothing_by_itself() {
    told(stories::releases()).await;
}

#[tokio::test]
async fn objects_of_a_later_version_are_left_alone_and_hinder_nobody() {
    let told = told(stories::tomorrow()).await;
    let left: Vec<&Key> = told[4].end.objects.keys().collect();
    let of_tomorrow = left.iter().filter(|key| key.name == later::NAME);
    assert_eq!(of_tomorrow.count(), 4);
    let engines = left.iter().filter(|key| key.kind == ENGINES && key.name != later::NAME);
    assert_eq!(engines.count(), 1, "what cannot be read may name it");
}

#[tokio::test]
async fn a_model_moves_to_a_server_elsewhere() {
    told(stories::elsewhere()).await;
}

#[tokio::test]
async fn a_campaign_that_waits_goes_once_its_model_is_elsewhere() {
    let told = told(stories::abandoned()).await;
    let campaigns = |played: &Played| played.end.objects.keys().filter(|key| key.kind == PROFILES).count();
    assert_eq!(told.iter().map(campaigns).collect::<Vec<_>>(), [0, 0, 1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn what_a_person_removes_is_made_again_as_far_as_it_is_needed() {
    let told = told(stories::cleaned()).await;
    let made = |played: &Played| {
        let own = played.commits.keys().filter(|(happened, _)| *happened == Happened::Created);
        own.map(|(_, key)| key.kind.plural).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let found: Vec<_> = told[4..8].iter().map(made).collect();
    assert_eq!(
        found,
        [vec![], vec!["configmaps"], vec!["controllerrevisions"], vec![]],
        "Jobs and Engines have done their work"
    );
}

#[tokio::test]
async fn an_agent_has_pools_policies_rules_and_scores_and_then_less_again() {
    let told = told(stories::equipped()).await;
    let beside = [POOLS, NETWORK_POLICIES, RULES, ROUTES];
    let kinds = |played: &Played| {
        let has = |kind: &Kind| played.end.objects.keys().any(|key| key.kind == *kind);
        beside.iter().filter(|kind| has(kind)).map(|kind| kind.plural).collect::<Vec<_>>()
    };
    let all = ["inferencepools", "networkpolicies", "prometheusrules", "httproutes"];
    assert_eq!(kinds(&told[2]), ["networkpolicies"]);
    assert_eq!([3, 4].map(|act| kinds(&told[act])), [all.to_vec(), all.to_vec()]);
    assert_eq!([5, 6].map(|act| kinds(&told[act])), [vec!["networkpolicies"], vec![]]);
}

#[tokio::test]
async fn an_agent_may_change_its_model_more_often_than_its_status_has_room_for() {
    told(stories::models()).await;
}

/// Kinds of writes, each with its part of an object and what the object is for. Each of them meets every fault: counted
/// are the acts of which all plans are played.
#[tokio::test]
async fn every_fault_strikes_these_kinds_of_writes() {
    let mut kinds = BTreeSet::new();
    for story in stories::all() {
        let told = tell(&story.acts).await;
        kinds.extend(told.iter().skip(story.from).flat_map(|played| played.writes.iter().map(Site::class)));
    }
    let kinds: Vec<String> = kinds.into_iter().collect();
    assert_eq!(kinds, KINDS_OF_WRITES);
}

const KINDS_OF_WRITES: [&str; 58] = [
    "DELETE configmaps",
    "DELETE controllerrevisions",
    "DELETE deployments",
    "DELETE engines",
    "DELETE httproutes",
    "DELETE inferencepools",
    "DELETE jobs",
    "DELETE networkpolicies",
    "DELETE profiles",
    "DELETE prometheusrules",
    "DELETE services",
    "PATCH agentdeployments status",
    "PATCH configmaps build",
    "PATCH configmaps drift",
    "PATCH configmaps fetch",
    "PATCH configmaps profile",
    "PATCH configmaps quality",
    "PATCH configmaps resolve",
    "PATCH configmaps serve",
    "PATCH configmaps store",
    "PATCH configmaps sweep",
    "PATCH controllerrevisions serve",
    "PATCH deployments serve",
    "PATCH engines status",
    "PATCH events ApplyFailed",
    "PATCH httproutes serve",
    "PATCH inferencepools serve",
    "PATCH networkpolicies serve",
    "PATCH profiles status",
    "PATCH prometheusrules alerts",
    "PATCH services serve",
    "POST engines build",
    "POST events ApplyFailed",
    "POST events ArtifactLost",
    "POST events BaselineStarting",
    "POST events ConfigurationChosen",
    "POST events ConfigurationFound",
    "POST events ConfigurationMeasured",
    "POST events EngineBuilt",
    "POST events ModelFetched",
    "POST events ModelResolved",
    "POST events Profiling",
    "POST events RevisionFailing",
    "POST events RevisionPromoted",
    "POST events RevisionStarting",
    "POST events RolledBack",
    "POST events RolloutAdvanced",
    "POST events RolloutProgressing",
    "POST events StoreSwept",
    "POST events UpdatingInPlace",
    "POST jobs build",
    "POST jobs fetch",
    "POST jobs profile",
    "POST jobs quality",
    "POST jobs resolve",
    "POST jobs sweep",
    "POST persistentvolumeclaims store",
    "POST profiles profile",
];

/// Before every look on the way from nothing to the second revision.
async fn moments() -> Vec<Scene> {
    moments_of(&[Act::Create, prompt("Think.")], 0).await
}

/// Before every look of acts, from one of them on.
async fn moments_of(acts: &[Act], from: usize) -> Vec<Scene> {
    let told = tell(acts).await;
    told.into_iter().skip(from).flat_map(|played| played.rounds).map(|round| round.scene).collect()
}

#[tokio::test]
async fn an_agent_is_deleted_at_any_moment_without_a_trace() {
    for moment in moments().await {
        let deleted = moment.play(&Act::Delete).await;
        let later = deleted.after.play(&Act::Wait(8 * 24 * 3_600)).await;
        let left: Vec<&str> = later.end.objects.keys().map(|key| key.kind.kind).collect();
        let is_clean = left.iter().all(|kind| ["ConfigMap", "PersistentVolumeClaim"].contains(kind)) && left.len() <= 2;
        assert!(is_clean, "deleted at {}: {left:?}", moment.now);
        assert_eq!(cluster::live_jobs(&deleted.after.store), BTreeMap::new(), "deleted at {}", moment.now);
        assert_eq!([deleted.violations, later.violations].concat(), Vec::<String>::new(), "deleted at {}", moment.now);
    }
}

#[tokio::test]
async fn an_agent_that_is_edited_at_any_moment_serves_what_it_was_edited_to() {
    let edits = [Act::Create, prompt("Think."), prompt("Think twice.")];
    let expected = tell(&edits).await.remove(2).end;
    for moment in moments().await {
        let played = moment.play(&edits[2]).await;
        assert_eq!(played.violations, Vec::<String>::new(), "edited at {}", moment.now);
        assert_eq!((story::stages(&played.end), &played.end.pods), (story::stages(&expected), &expected.pods));
    }
}

#[tokio::test]
async fn another_release_of_the_operator_may_take_over_at_any_moment() {
    for moment in moments().await {
        let there = moment.play(&Act::Release("2")).await;
        let back = there.after.play(&Act::Release("1")).await;
        let found = [&there, &back].map(|played| (story::stages(&played.end), played.violations.clone()));
        assert_eq!(found, [(); 2].map(|()| (vec!["Serving".to_owned()], vec![])), "at {}", moment.now);
        assert_eq!(back.commits, story::Commits::new(), "at {}", moment.now);
    }
}

/// What an undisturbed story shows of a defect, and what shows only with a fault.
#[rstest]
#[case(Bug::DeletesByName, "deletes without a precondition")]
#[case(Bug::NamesJobsAtRandom, "Jobs for one task at once")]
#[case(Bug::ForgetsOwners, "left over")]
#[case(Bug::ForgetsWhatItApplied, "writes what is there already")]
#[case(Bug::MakesRoomFirst, "no pod of support serves")]
#[case(Bug::FillsItsStatus, "asks for the impossible")]
#[tokio::test]
async fn a_planted_defect_is_found_without_any_fault(#[case] bug: Bug, #[case] words: &str) {
    let acts = [Act::Create, prompt("Think."), Act::Delete];
    let (good, bad) = (tell(&acts).await, tell_with(&acts, Some(bug)).await);
    let mut found: Vec<String> = bad.iter().flat_map(|played| played.violations.clone()).collect();
    found.extend(good.iter().zip(&bad).flat_map(|(good, bad)| end::differences(&good.end, &bad.end)));
    assert!(found.iter().any(|line| line.contains(words)), "{found:#?}");
}

#[tokio::test]
async fn a_planted_defect_that_needs_a_crash_is_found_by_one() {
    let story = Story::new("creation", vec![Act::Create], &["Serving"]);
    let good = tell_with(&story.acts, Some(Bug::TakesTheTaskForTheJob)).await;
    let seen = (story::stages(&good[0].end), good[0].violations.clone());
    assert_eq!(seen, (vec!["Serving".to_owned()], vec![]), "nothing shows without a fault");
    let findings = plans::try_all_with(&story, Depth::All, Some(Bug::TakesTheTaskForTheJob)).await;
    let after_a_task = findings.wrong.keys().filter(|plan| plan.contains("CrashAfter") && plan.contains("configmaps"));
    assert_eq!(after_a_task.count(), 3, "resolve, fetch and build:\n{}", findings.lines());
}
