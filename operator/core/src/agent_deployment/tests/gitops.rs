//! What GitOps tools see of an AgentDeployment, told as stories.
//!
//! The snapshot is the input of the health checks and actions of Argo CD, which `e2e/tools/argocd-lua` runs: a changed
//! reason or condition fails there. The health of kstatus and of Flux is told here, beside each story.

mod flux;
mod kstatus;
mod stories;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use self::{
    flux::flux,
    kstatus::{Health, kstatus},
    stories::stories,
};
use super::cluster::Cluster;

/// Members of the status that health checks and actions may read.
const SEEN: [&str; 6] = ["observedGeneration", "stage", "readyPods", "wantedPods", "conditions", "told"];
/// The same of `status.rollout`.
const SEEN_OF_ROLLOUT: [&str; 6] = ["stable", "canary", "weight", "proposed", "rejected", "capacity"];

/// One story, and how it is to be judged.
struct Story {
    name: &'static str,
    object: Value,
    kstatus: Health,
    flux: Health,
}

impl Story {
    /// The object as it stands at the end of a story.
    fn new(name: &'static str, cluster: &Cluster, (kstatus, flux): (Health, Health)) -> Self {
        Self { name, object: object(cluster), kstatus, flux }
    }

    /// Before the operator has written anything. kstatus takes what says nothing for done.
    fn without_status(self, flux: Health) -> Self {
        let mut object = self.object;
        object.as_object_mut().expect("it is an object").remove("status");
        Self { object, flux, ..self }
    }
}

/// The object as the API server has it, with what tools read of it.
fn object(cluster: &Cluster) -> Value {
    let world = &cluster.world;
    let status = serde_json::to_value(&world.status).expect("a status is JSON");
    let mut seen = picked(&status, &SEEN);
    if let Some(rollout) = status.get("rollout") {
        seen["rollout"] = picked(rollout, &SEEN_OF_ROLLOUT);
    }
    if let Some(drift) = status.get("drift").filter(|drift| drift.get("proposal").is_some()) {
        seen["drift"] = picked(drift, &["proposal"]);
    }
    let mut metadata = json!({"name": world.name, "namespace": world.namespace, "generation": world.generation});
    if !cluster.annotations.is_empty() {
        metadata["annotations"] = json!(cluster.annotations);
    }
    json!({
        "apiVersion": "slipway.dev/v1alpha1",
        "kind": "AgentDeployment",
        "metadata": metadata,
        "spec": picked(&serde_json::to_value(&world.spec).expect("a spec is JSON"), &["serving", "rollout"]),
        "status": seen,
    })
}

fn picked(object: &Value, members: &[&str]) -> Value {
    let found = members.iter().filter_map(|member| Some(((*member).to_owned(), object.get(*member)?.clone())));
    Value::Object(found.collect())
}

#[test]
fn what_gitops_tools_see() {
    let stories = stories();
    let judged: Vec<_> = stories.iter().map(|s| (s.name, kstatus(&s.object), flux(&s.object))).collect();
    let expected: Vec<_> = stories.iter().map(|s| (s.name, s.kstatus, s.flux)).collect();
    assert_eq!(judged, expected);
    let inputs: Value =
        stories.into_iter().map(|story| json!({"name": story.name, "object": story.object})).collect::<Vec<_>>().into();
    insta::assert_json_snapshot!("agent_deployments", inputs);
}

/// `kubectl wait` reads `observedGeneration` of conditions, so this one never answers for an earlier generation.
#[test]
fn every_condition_is_of_the_generation_that_it_was_made_for() {
    for story in stories() {
        let status = &story.object["status"];
        let generations = status["conditions"].as_array().into_iter().flatten().map(|c| &c["observedGeneration"]);
        let seen = &status["observedGeneration"];
        assert!(generations.into_iter().all(|generation| generation == seen), "{}: {status}", story.name);
    }
}

/// Ready says that someone serves, of whatever generation: whether a generation is done, Reconciling says.
#[test]
fn while_a_new_generation_is_under_way_reconciling_is_true_and_ready_is_as_stable_is() {
    let of = |name: &str| stories().into_iter().find(|story| story.name == name).expect("there is such a story");
    let condition = |story: &Story, type_: &str| {
        let conditions = story.object["status"]["conditions"].as_array().expect("it has conditions").clone();
        let found = conditions.into_iter().find(|c| c["type"] == type_).expect("it has this one");
        found["status"].as_str().expect("a status is a text").to_owned()
    };
    for name in ["a canary starts", "a canary is judged"] {
        let story = of(name);
        assert_eq!(["Ready", "Reconciling"].map(|type_| condition(&story, type_)), ["True", "True"], "{name}");
    }
    assert_eq!(condition(&of("the canary has won"), "Reconciling"), "False");
}
