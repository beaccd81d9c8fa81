//! What is needed to tell drift: the pods of stable, and what was remembered of them. Pure: what was listed is at hand.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use slipway_operator_core::{
    agent_deployment::{
        monitoring::drift::{
            CONTAINERS, LivePod, MAX_PODS, Memory, MemoryView, block_end,
            config_map::{KEY, object_name},
        },
        world::PodEvidence,
    },
    jobs::view,
};
use slipway_vocabulary::failure::chain;

use crate::evidence::Windows;

/// Blocks end for all agents at once. Each counts its own within so many seconds after that: a block's.
const SPREAD_SECONDS: u64 = 600;

/// What is to be read of the pods, once a block is over that is not remembered. Whatever a pod keeps is copied only
/// then, and of what was read before nothing.
pub fn unread(memory: &MemoryView, agent: (&str, &str), now: Timestamp) -> Option<Windows> {
    let MemoryView::Read(memory) = memory else { return Some(Windows::after(0)) };
    let own = Duration::from_secs(spread(agent));
    if memory.counted_to >= block_end(now - own) {
        return None;
    }
    // A pod is remembered with the start of its process. The next process may have begun in the last window.
    let read = memory.read.iter().filter_map(|(process, window)| Some((process.split_once('@')?.0, window)));
    Some(Windows::unread(read.map(|(pod, window)| (pod.to_owned(), window.saturating_sub(1)))))
}

fn spread((namespace, name): (&str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    hasher.finish() % SPREAD_SECONDS
}

/// The pods that answered, each with the images that run in it.
pub fn live(asked: Vec<PodEvidence>, pods: &[Pod]) -> Vec<LivePod> {
    let images_of = |name: &str| pods.iter().find(|pod| pod.name_any() == name).map(images).unwrap_or_default();
    let answered = asked.into_iter().filter_map(|PodEvidence { pod, evidence, .. }| Some((pod, evidence?)));
    answered.take(MAX_PODS).map(|(pod, evidence)| LivePod { evidence, images: images_of(&pod) }).collect()
}

fn images(pod: &Pod) -> BTreeMap<String, String> {
    let mut digests = view::digests_by_container(pod);
    digests.retain(|container, _| CONTAINERS.contains(&container.as_str()));
    digests
}

/// What is remembered of an AgentDeployment, whose ConfigMaps are at hand.
pub fn memory(config_maps: &[ConfigMap], agent_deployment: &str) -> MemoryView {
    let name = object_name(agent_deployment);
    let Some(object) = config_maps.iter().find(|object| object.name_any() == name) else { return MemoryView::Absent };
    let Some(text) = object.data.as_ref().and_then(|data| data.get(KEY)) else {
        return MemoryView::Unreadable { problem: format!("it has no key {KEY}") };
    };
    match Memory::read(text) {
        Ok(memory) => MemoryView::Read(Box::new(memory)),
        Err(error) => MemoryView::Unreadable { problem: chain(&error) },
    }
}

/// The version of the memory that is at hand; none where there is no memory.
pub fn memory_version(config_maps: &[ConfigMap], agent_deployment: &str) -> Option<String> {
    let name = object_name(agent_deployment);
    config_maps.iter().find(|object| object.name_any() == name)?.resource_version()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, data: serde_json::Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("a ConfigMap")
    }

    #[test]
    fn a_memory_is_read_and_one_that_cannot_be_says_why() {
        let memory = Memory::begin("7c1f9a2b3d", BTreeMap::new(), 1_200);
        let of = |data| {
            super::memory(&[config_map("support-7c1f9a2b3d", json!({})), config_map("support-drift", data)], "support")
        };
        assert_eq!(of(json!({"memory.json": memory.write()})), MemoryView::Read(Box::new(memory)));
        assert_eq!(super::memory(&[], "support"), MemoryView::Absent);
        let problem = |data| match of(data) {
            MemoryView::Unreadable { problem } => problem,
            view => panic!("{view:?}"),
        };
        assert_eq!(problem(json!({"other": ""})), "it has no key memory.json");
        assert_eq!(
            problem(json!({"memory.json": "{"})),
            "failed to read it: EOF while parsing an object at line 1 column 1"
        );
        let newer = Memory::begin("7c1f9a2b3d", BTreeMap::new(), 0).write().replace("\"version\":1", "\"version\":2");
        assert_eq!(problem(json!({"memory.json": newer})), "it has version 2, this operator reads version 1");
        let damaged =
            newer.replace("\"version\":2", "\"version\":1").replace("{}}", "{\"ModelTime\":{\"miss/p1/f1\":\"1 x\"}}}");
        let words = "the counts of ModelTime in stratum \"miss/p1/f1\" are damaged";
        assert_eq!(problem(json!({"memory.json": damaged})), words);
    }

    #[test]
    fn pods_are_read_once_a_block_is_over_that_is_not_remembered() {
        let read = BTreeMap::from([("a@t".to_owned(), 118), ("b@t".to_owned(), 100), ("b@u".to_owned(), 119)]);
        let remembered = Memory { counted_to: 1_200, read, ..Memory::begin("7c1f9a2b3d", BTreeMap::new(), 600) };
        let agent = ("team", "support");
        let unread = |memory: &MemoryView, second: u64| {
            let now = Timestamp::from_second(i64::try_from(second).expect("a time")).expect("a time");
            super::unread(memory, agent, now)
        };
        let read = MemoryView::Read(Box::new(remembered));
        let own = 1_802 + spread(agent);
        let since = Windows::unread([("a".to_owned(), 117), ("b".to_owned(), 118)]);
        assert_eq!([1_300, 1_799, own - 1, own].map(|at| unread(&read, at)), [None, None, None, Some(since)]);
        assert_eq!(unread(&MemoryView::Absent, 1_300), Some(Windows::after(0)));
    }

    #[test]
    fn agents_count_their_blocks_one_after_the_other() {
        let agents = |name: usize| spread(("team", &format!("agent-{name}"))) / 120;
        let mut minutes = [0; 5];
        (0..1_000).for_each(|name| minutes[usize::try_from(agents(name)).unwrap()] += 1);
        assert!(minutes.iter().all(|agents| (150..250).contains(agents)), "{minutes:?}");
    }

    #[test]
    fn only_pods_that_answer_are_live_and_only_images_that_are_reported_are_known() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "support-a-1"},
            "spec": {"containers": []},
            "status": {
                "initContainerStatuses": [
                    {"name": "materialize", "image": "w:1", "imageID": "w@sha256:3", "ready": true, "restartCount": 0},
                    {"name": "triton", "image": "t:1", "imageID": "example.com/t@sha256:1", "ready": true, "restartCount": 0},
                ],
                "containerStatuses": [{"name": "agent-runtime", "image": "r:1", "imageID": "", "ready": true, "restartCount": 0}],
            },
        }))
        .expect("a pod");
        let evidence: slipway_vocabulary::evidence::Evidence =
            serde_json::from_value(json!({"revision": "a", "pod": "support-a-1", "startedAt": "t", "windows": []}))
                .expect("evidence");
        let asked = [
            PodEvidence {
                pod: "support-a-0".to_owned(),
                evidence: None,
                refused: None,
                was_asked: true,
                broken: Vec::new(),
                is_leaving: false,
                node: None,
            },
            PodEvidence {
                pod: "support-a-1".to_owned(),
                evidence: Some(evidence.clone()),
                refused: None,
                was_asked: true,
                broken: Vec::new(),
                is_leaving: false,
                node: None,
            },
        ];
        let images = BTreeMap::from([("triton".to_owned(), "sha256:1".to_owned())]);
        assert_eq!(live(asked.into(), &[pod]), [LivePod { evidence, images }]);
    }
}
