//! What is on the volume of the artifact store: folders, each with the second at which a Job last wrote or found it.

use std::collections::BTreeMap;

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
pub struct Volume(BTreeMap<String, u64>);

impl Volume {
    /// Its folders.
    pub fn folders(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// A Job has done its task.
    pub fn worked(&mut self, pod: &Value, task: &Task, outcome: &mut Outcome) {
        let seconds = u64::try_from(now().as_second()).unwrap();
        match (task, outcome) {
            (Task::Fetch(task), _) => {
                self.0.insert(paths::checkpoint(&task.source_digest), seconds);
            }
            (Task::Build(_), Outcome::Build(built)) => {
                let engine = pod["metadata"]["labels"][labels::ENGINE].as_str().unwrap();
                self.0.insert(artifact(engine, built.manifest_digest.as_str()), seconds);
            }
            (Task::Sweep(task), Outcome::Sweep(result)) => *result = self.swept(task),
            _ => {}
        }
    }

    fn swept(&mut self, task: &SweepTask) -> SweepResult {
        let before = self.0.len();
        self.0.retain(|folder, changed| !goes(task, folder, *changed));
        let count = |number: usize| u32::try_from(number).unwrap();
        SweepResult { removed: count(before - self.0.len()), kept: count(self.0.len()), ..SweepResult::default() }
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

/// What is not on the volume though a revision, a pod, an Engine or an agent relies on it.
pub fn missing(store: &Store) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of_revisions = store.of_kind(CONTROLLER_REVISIONS).filter_map(|(_, revision)| {
        let engine = &revision["data"]["engine"];
        Some(artifact(&text(&engine["name"])?, &text(&engine["manifestDigest"])?))
    });
    let of_pods = store.of_kind(PODS).filter_map(|(_, pod)| {
        let containers = pod["spec"]["initContainers"].as_array()?;
        let materialize = containers.iter().find(|container| container["args"][0] == "materialize")?;
        let arguments = materialize["args"].as_array()?;
        let option = |name: &str| arguments.iter().find_map(|argument| argument.as_str()?.strip_prefix(name));
        Some(artifact(option("--identity=")?, option("--manifest-digest=")?))
    });
    let of_engines = store.of_kind(ENGINES).filter_map(|(key, engine)| {
        Some(artifact(&key.name, engine["status"]["artifact"]["manifestDigest"].as_str()?))
    });
    let of_agents = store.of_kind(AGENT_DEPLOYMENTS).filter_map(|(_, agent)| {
        let model = &agent["status"]["model"];
        let digest = model["sourceDigest"].as_str().filter(|_| model["fetched"] == true)?;
        Some(paths::checkpoint(&digest.parse().unwrap()))
    });
    let needed = of_revisions.chain(of_pods).chain(of_engines).chain(of_agents);
    let lost = needed.filter(|folder| !store.volume.0.contains_key(folder));
    lost.map(|folder| format!("the volume lacks {folder}, which is needed")).collect()
}
