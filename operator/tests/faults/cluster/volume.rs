//! What is on the volume of the artifact store: folders, each with the second at which a Job last wrote or found it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use slipway_crds::labels;
use slipway_worker_contract::{Digest, EngineRef, Outcome, SweepResult, SweepTask, Task, paths};

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, CONTROLLER_REVISIONS, ENGINES, PODS},
        store::Store,
    },
    operator::now,
};

/// By how much clocks may differ for the worker.
const CLOCKS_DIFFER: u64 = 600;

/// The volume of the namespace.
#[derive(Debug, Clone, Default)]
pub struct Volume {
    folders: BTreeMap<String, u64>,
    /// Folders that it had and has lost.
    lost: BTreeSet<String>,
    /// The version of the store at which it lost them.
    pub lost_at: u64,
}

impl Volume {
    /// Its folders.
    pub fn folders(&self) -> Vec<String> {
        self.folders.keys().cloned().collect()
    }

    /// Loses everything, as a volume does that is restored from nothing.
    pub fn lose(&mut self, version: u64) {
        self.lost.extend(std::mem::take(&mut self.folders).into_keys());
        self.lost_at = version;
    }

    fn keep(&mut self, folder: String, seconds: u64) {
        self.lost.remove(&folder);
        self.folders.insert(folder, seconds);
    }

    /// Whether a pod that serves could not copy its engine from here.
    pub fn misses_engine_of(&self, pod: &Value) -> bool {
        materialized(pod).is_some_and(|artifact| !self.folders.contains_key(&artifact))
    }

    /// Whether a build could not read its checkpoint from here.
    pub fn misses_checkpoint_of(&self, engine: &Value) -> bool {
        let digest = engine["spec"]["build"]["sourceDigest"].as_str().unwrap_or_default();
        digest.parse().is_ok_and(|digest| !self.folders.contains_key(&paths::checkpoint(&digest)))
    }

    /// A Job has done its task.
    pub fn worked(&mut self, pod: &Value, task: &Task, outcome: &mut Outcome) {
        let seconds = u64::try_from(now().as_second()).unwrap();
        match (task, outcome) {
            (Task::Fetch(task), _) => {
                self.keep(paths::checkpoint(&task.source_digest), seconds);
            }
            (Task::Build(_), Outcome::Build(built)) => {
                let engine = pod["metadata"]["labels"][labels::ENGINE].as_str().unwrap();
                self.keep(artifact(engine, built.manifest_digest.as_str()), seconds);
            }
            (Task::Sweep(task), Outcome::Sweep(result)) => *result = self.swept(task),
            _ => {}
        }
    }

    fn swept(&mut self, task: &SweepTask) -> SweepResult {
        let before = self.folders.len();
        self.folders.retain(|folder, changed| !goes(task, folder, *changed));
        let count = |number: usize| u32::try_from(number).unwrap();
        SweepResult {
            removed: count(before - self.folders.len()),
            kept: count(self.folders.len()),
            ..SweepResult::default()
        }
    }
}

/// As the worker decides.
fn goes(task: &SweepTask, folder: &str, changed: u64) -> bool {
    let lists_made = task.as_of.saturating_sub(CLOCKS_DIFFER);
    let is_named = task.remove.iter().any(|removed| removed == folder);
    let before = if is_named { lists_made } else { task.others_before.min(lists_made) };
    !task.keeps(folder) && changed < before
}

fn artifact(engine: &str, manifest_digest: &str) -> String {
    let manifest_digest: Digest = manifest_digest.parse().unwrap();
    paths::engine(&EngineRef { identity: engine.to_owned(), manifest_digest })
}

/// The folder of the engine that an init container of a pod copies.
fn materialized(pod: &Value) -> Option<String> {
    let containers = pod["spec"]["initContainers"].as_array()?;
    let materialize = containers.iter().find(|container| container["args"][0] == "materialize")?;
    let arguments = materialize["args"].as_array()?;
    let option = |name: &str| arguments.iter().find_map(|argument| argument.as_str()?.strip_prefix(name));
    Some(artifact(option("--identity=")?, option("--manifest-digest=")?))
}

/// What is not on the volume though a revision, a pod, an Engine or an agent relies on it. What it lost is waited for.
pub fn missing(store: &Store) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of_revisions = store.of_kind(CONTROLLER_REVISIONS).filter_map(|(_, revision)| {
        let engine = &revision["data"]["engine"];
        Some(artifact(&text(&engine["name"])?, &text(&engine["manifestDigest"])?))
    });
    let of_pods = store.of_kind(PODS).filter_map(|(_, pod)| materialized(pod));
    let of_engines = store.of_kind(ENGINES).filter_map(|(key, engine)| {
        Some(artifact(&key.name, engine["status"]["artifact"]["manifestDigest"].as_str()?))
    });
    let of_agents = store.of_kind(AGENT_DEPLOYMENTS).filter_map(|(_, agent)| {
        let model = &agent["status"]["model"];
        let digest = model["sourceDigest"].as_str().filter(|_| model["fetched"] == true)?;
        Some(paths::checkpoint(&digest.parse().unwrap()))
    });
    let needed = of_revisions.chain(of_pods).chain(of_engines).chain(of_agents);
    let Volume { folders, lost, .. } = &store.volume;
    let missing = needed.filter(|folder| !folders.contains_key(folder) && !lost.contains(folder));
    missing.map(|folder| format!("the volume lacks {folder}, which is needed")).collect()
}
