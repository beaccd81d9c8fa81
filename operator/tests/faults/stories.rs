//! The stories, each with its outcome.

use std::collections::BTreeMap;

use serde_json::json;
use slipway_crds::store::NAME;

use crate::{
    api::{
        kinds::{CONFIG_MAPS, CONTROLLER_REVISIONS, ENGINES, JOBS},
        store::{Change, Happened, Store, Writer},
    },
    cluster::{self, kubelet::DATASET},
    story::{Act, Played, stages, waits_for},
    users,
};

/// What people do, and the outcome.
pub struct Story {
    pub name: &'static str,
    pub acts: Vec<Act>,
    /// The first act whose faults are played: those before it are of another story too.
    pub from: usize,
    /// How far the agents are after each act.
    pub stages: Vec<&'static str>,
    /// Words by which the agent says what it waits for, after an act.
    pub says: Vec<(usize, &'static str)>,
    /// Acts in which the operator creates and deletes nothing.
    pub quiet: Vec<usize>,
    /// Names of objects that are left at the end, where the agents are gone.
    pub leaves: Option<Vec<&'static str>>,
}

impl Story {
    pub fn new(name: &'static str, acts: Vec<Act>, stages: &[&'static str]) -> Self {
        assert_eq!(acts.len(), stages.len(), "{name}");
        let (says, quiet) = (Vec::new(), Vec::new());
        Self { name, acts, from: 0, stages: stages.to_vec(), says, quiet, leaves: None }
    }

    fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }

    fn says(mut self, act: usize, words: &'static str) -> Self {
        self.says.push((act, words));
        self
    }

    fn leaves(self, more: &[&'static str]) -> Self {
        Self { leaves: Some([&[NAME, NAME], more].concat()), ..self }
    }

    /// The same by an operator that glances at what watches have shown.
    pub fn watched(mut self) -> Self {
        self.acts.insert(0, Act::Watch);
        self.stages.insert(0, "");
        self.from += 1;
        self.says.iter_mut().for_each(|(act, _)| *act += 1);
        self.quiet.iter_mut().for_each(|act| *act += 1);
        self
    }

    /// What of the story as it was told must not be, or must be and is not.
    pub fn unmet(&self, told: &[&Played]) -> Vec<String> {
        let mut unmet: Vec<String> = told.iter().flat_map(|played| played.violations.clone()).collect();
        for (at, played) in told.iter().enumerate() {
            let found = stages(&played.end).join(" ");
            if found != self.stages[at] {
                unmet.push(format!("after act {at} the stages are {found:?}, not {:?}", self.stages[at]));
            }
        }
        for (at, words) in &self.says {
            let found = waits_for(&told[*at].end);
            if !found.contains(words) {
                unmet.push(format!("after act {at} it says {found:?}, without {words:?}"));
            }
        }
        for at in self.quiet.iter().filter(|at| !told[**at].commits.is_empty()) {
            unmet.push(format!("act {at} creates or deletes {:?}", told[*at].commits.keys()));
        }
        unmet.extend(self.left_over(told));
        unmet.extend(told.last().into_iter().flat_map(|played| made_twice(&played.after.store)));
        unmet
    }

    fn left_over(&self, told: &[&Played]) -> Option<String> {
        let expected = self.leaves.as_ref()?;
        let last = told.last()?;
        let mut left: Vec<&str> = last.end.objects.keys().map(|key| key.name.as_str()).collect();
        left.sort_unstable();
        let mut expected = expected.clone();
        expected.sort_unstable();
        (left != expected).then(|| format!("left over: {left:?}, not {expected:?}"))
    }
}

/// What costs a GPU or a transfer is made once in a story, however many agents need it. It is made again only where a
/// person has removed it, or the store has lost it.
fn made_twice(store: &Store) -> Vec<String> {
    let (mut made, mut twice) = (BTreeMap::<String, &str>::new(), Vec::new());
    let mut is_lost = false;
    for Change { key, object, happened, writer, version } in &store.changes {
        if !is_lost && *version > store.volume.lost_at && store.volume.lost_at > 0 {
            is_lost = true;
            made.clear();
        }
        if key.kind != ENGINES && key.kind != JOBS {
            continue;
        }
        let what = cluster::fetched(object).map(|content| format!("checkpoint {content}"));
        let what = what.unwrap_or_else(|| format!("{} {}", key.kind.kind, key.name));
        match (happened, writer) {
            (Happened::Created, Writer::Client) => {
                if let Some(before) = made.insert(what.clone(), &key.name) {
                    twice.push(format!("{what} is made again, as {before} and as {}", key.name));
                }
            }
            (Happened::Deleted, Writer::Cleaner) => drop(made.remove(&what)),
            _ => {}
        }
    }
    twice
}

pub fn prompt(words: &str) -> Act {
    Act::Edit(json!({"agent": {"systemPrompt": words}}))
}

pub fn model(uri: &str) -> Act {
    Act::Edit(json!({"model": {"uri": uri}}))
}

const WEEK: Act = Act::Wait(8 * 24 * 3_600);

/// All at once: each edit takes over once its pods are ready, or never does.
pub fn blue_green() -> Story {
    let broken = prompt(cluster::BROKEN);
    let acts = vec![Act::Create, prompt("Think."), broken, prompt("Think twice."), Act::Delete, WEEK];
    Story::new("blue-green", acts, &["Serving", "Serving", "Stalled", "Serving", "", ""]).leaves(&[])
}

/// Step by step, judged by what users meet: one canary takes over, a slower one is rolled back.
pub fn canary() -> Story {
    Story::new("canary", canaries(50, "Stable"), &["Serving", "Serving", "Serving", "RolledBack", ""]).from(1)
}

/// The same beside fresh pods of the revision that serves. These have as much traffic as the canary, so both have less.
pub fn mirrored() -> Story {
    Story::new("mirrored", canaries(30, "MirrorBaseline"), &["Serving", "Serving", "Serving", "RolledBack", ""]).from(2)
}

fn canaries(weight: usize, baseline: &str) -> Vec<Act> {
    let rollout = json!({
        "traffic": {"type": "GatewayAPI", "gatewayAPI": {"parentRefs": [{"name": "agents"}]}}, "baseline": baseline,
        "steps": [{"weight": weight, "minSoak": "1m", "maxSoak": "30m"}], "judge": {"warmUp": "0s"},
    });
    let routed = Act::Edit(json!({"rollout": rollout, "serving": {"replicas": 2}}));
    vec![Act::Create, routed, prompt("Think."), prompt(users::SLOW), Act::Delete]
}

/// The act of [`retention`] in which something is swept.
pub const SWEPT: usize = 5;

/// Another model, and so many edits that no kept revision needs the first.
pub fn retention() -> Story {
    let other =
        Act::Edit(json!({"model": {"uri": "http://models.example/other"}, "rollout": {"revisionHistoryLimit": 1}}));
    let retain = Act::Retain(7 * 24 * 3_600);
    let acts = vec![retain, Act::Create, other, prompt("Think."), prompt("Think twice."), WEEK, WEEK];
    let stages = ["", "Serving", "Serving", "Serving", "Serving", "Serving", "Serving"];
    Story::new("retention", acts, &stages).from(SWEPT)
}

/// With the last agent everything that it needed becomes unneeded.
pub fn leftovers() -> Story {
    let acts = vec![Act::Retain(3_600), Act::Create, Act::Delete, WEEK];
    Story::new("leftovers", acts, &["", "Serving", "", ""]).from(3).leaves(&[])
}

/// Quotas that leave no room for a Job, for its pod, and for a pod of another revision; each is lifted.
pub fn quota() -> Story {
    let [no_job, no_pod, one_pod] =
        [("count/jobs.batch", 0), ("pods", 0), ("pods", 1)].map(|most| Act::Quota(Some(most)));
    let acts = vec![no_job, Act::Create, no_pod, Act::Quota(None), one_pod, prompt("Think."), Act::Quota(None)];
    Story::new("quota", acts, &["", "Resolving", "Resolving", "Serving", "Serving", "Stalled", "Serving"])
        .from(1)
        .says(1, "exceeded quota: team, requested: count/jobs.batch=1, used: count/jobs.batch=0")
        .says(2, "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0")
        .says(5, "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1")
}

/// Two agents with the same model from two places share checkpoint and engine. One goes, and the other one is edited
/// before it goes too.
pub fn shared() -> Story {
    let edit = Act::EditOther(json!({"agent": {"systemPrompt": "Think."}}));
    let acts = vec![Act::CreateBoth, Act::Delete, edit, Act::DeleteOther, WEEK];
    Story::new("shared", acts, &["Serving Serving", "Serving", "Serving", "", ""]).leaves(&[])
}

/// Runs that are made up are measured on two engines, the second of which is built once the search asks for it.
pub fn asking() -> Story {
    let acts = vec![Act::Create, measured(), Act::Delete, WEEK];
    Story::new("asking", acts, &["Serving", "Serving", "", ""]).from(1).leaves(&[])
}

fn measured() -> Act {
    Act::Edit(json!({
        "search": {"precision": ["FP32", "INT8"], "concurrency": [1]},
        "slo": {"objectives": [{"name": "answer", "metric": "AgentRunLatency", "percentile": "p95", "max": "10s"}]},
        "profiling": {
            "driver": "AgentRun", "engines": "WhenAsked",
            "workloads": [{"name": "usual", "synthetic": {"inputTokens": 100, "outputTokens": 20, "toolCalls": 0}}],
        },
    }))
}

/// An operator of another release takes over and gives back. Only edits start anything.
pub fn releases() -> Story {
    let (later, earlier) = (Act::Release("2"), Act::Release("1"));
    let acts = vec![Act::Create, later, prompt("Think."), earlier, prompt("Think twice."), Act::Delete];
    let stages = ["Serving", "Serving", "Serving", "Serving", "Serving", ""];
    Story { quiet: vec![1, 3], ..Story::new("releases", acts, &stages).from(1) }
}

/// A later version has left objects. They are left alone, and keep nothing from going on.
pub fn tomorrow() -> Story {
    let acts = vec![Act::Create, Act::Tomorrow, prompt("Think."), Act::Delete, WEEK];
    let stages = ["Serving", " Serving", " Serving", "", ""];
    Story::new("tomorrow", acts, &stages).from(1)
}

/// The model moves to a server elsewhere, and with the last revision of its engine everything goes.
pub fn elsewhere() -> Story {
    let acts = vec![Act::Create, moved(), prompt("Think."), Act::Delete, WEEK];
    Story::new("elsewhere", acts, &["Serving", "Serving", "Serving", "", ""]).from(1).leaves(&[])
}

/// Without what only engines need.
fn moved() -> Act {
    let upstream = json!({"url": "https://llm.example", "model": "qwen3", "headersFrom": {"name": "llm-key"}});
    let model = json!({"uri": null, "upstream": upstream});
    Act::Edit(json!({"model": model, "engine": null, "search": null, "profiling": null}))
}

/// Everything that an agent may have beside its pods: a pool, a policy and rules, and engines that are scored. Of
/// earlier revisions it keeps none. Then it has less again.
pub fn equipped() -> Story {
    let [name, key] = DATASET;
    let full = Act::Edit(json!({
        "search": {"precision": ["FP32", "INT8"]},
        "slo": {
            "objectives": [{"name": "answer", "metric": "AgentRunLatency", "percentile": "p95", "max": "10s"}],
            "quality": {"maxDrop": "2%", "dataset": {"configMap": {"name": name, "key": key}}},
        },
        "serving": {"replicas": 2}, "alerts": {"burnRate": true},
        "rollout": {
            "traffic": {"type": "GatewayAPI", "gatewayAPI": {"parentRefs": [{"name": "agents"}], "inferencePool": {}}},
            "steps": [{"weight": 50, "minSoak": "1m", "maxSoak": "30m"}], "judge": {"warmUp": "0s"},
            "revisionHistoryLimit": 0,
        },
    }));
    let bare = Act::Edit(json!({"slo": null, "alerts": null, "rollout": null, "search": null}));
    let acts = vec![Act::Permit, Act::Dataset, Act::Create, full, prompt("Think."), bare, Act::Delete, WEEK];
    let stages = ["", "", "Serving", "Serving", "Serving", "Serving", "", ""];
    Story::new("equipped", acts, &stages).from(3).leaves(&[name])
}

/// A campaign that has no room for its pod is left: the model moves to a server elsewhere, and the campaign goes.
pub fn abandoned() -> Story {
    let no_room = Act::Quota(Some(("pods", 1)));
    let acts = vec![Act::Create, no_room, measured(), moved(), Act::Quota(None), Act::Delete, WEEK];
    Story::new("abandoned", acts, &["Serving", "Serving", "Profiling", "Stalled", "Serving", "", ""])
        .from(2)
        .leaves(&[])
}

/// A person removes Jobs that wait for room. Then, while the agent serves, its ended Jobs, ConfigMaps, recorded
/// revisions and Engines.
pub fn cleaned() -> Story {
    let [no_room, room] = [Some(("pods", 0)), None].map(Act::Quota);
    let waits = vec![no_room, Act::Create, Act::Remove(JOBS), room];
    let serves = [JOBS, CONFIG_MAPS, CONTROLLER_REVISIONS, ENGINES].map(Act::Remove);
    let acts = waits.into_iter().chain(serves).chain([prompt("Think."), Act::Delete, WEEK]).collect();
    let stages =
        ["", "Resolving", "Resolving", "Serving", "Serving", "Serving", "Serving", "Serving", "Serving", "", ""];
    Story::new("cleaned", acts, &stages).from(2).leaves(&[])
}

/// The node has room for the pods that serve and for no other: they are drained one after the other. A revision whose
/// pods fail gets the room of one, and gives it back.
pub fn in_place() -> Story {
    let drained = Act::Edit(json!({
        "rollout": {"capacity": "InPlace", "capacityDeadline": "1m"}, "serving": {"replicas": 2},
    }));
    let broken = prompt(cluster::BROKEN);
    let acts = vec![Act::Create, drained, Act::Room(Some(2)), prompt("Think."), broken, prompt("Twice."), Act::Delete];
    Story::new("in-place", acts, &["Serving", "Serving", "Serving", "Serving", "RolledBack", "Serving", ""]).from(3)
}

/// The artifact store is restored from nothing. What serves goes on; the next revision's pod misses its engine, which
/// is built again once the checkpoint has been fetched again.
pub fn lost() -> Story {
    let acts = vec![Act::Create, Act::LoseStore, prompt("Think."), Act::Delete, WEEK];
    Story::new("lost", acts, &["Serving", "Serving", "Serving", "", ""]).from(2).leaves(&[])
}

/// More models than a status has room for.
pub fn models() -> Story {
    let edits = (0..17).map(|number| model(&format!("http://models.example/{number}")));
    let acts: Vec<Act> = std::iter::once(Act::Create).chain(edits).collect();
    let stages = vec!["Serving"; acts.len()];
    let from = acts.len();
    Story::new("models", acts, &stages).from(from)
}

/// All of them.
pub fn all() -> Vec<Story> {
    let short = [blue_green(), leftovers(), shared(), releases(), tomorrow(), quota()];
    let long = [elsewhere(), retention(), canary(), models(), asking(), equipped(), canary().watched()];
    let left = [abandoned(), cleaned(), mirrored(), in_place(), lost()];
    short.into_iter().chain(long).chain(left).collect()
}
