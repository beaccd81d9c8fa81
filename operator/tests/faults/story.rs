//! A story: what people do one after the other, each time everything has come to rest, and what must hold all the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crds::store::StoreRecord;

use crate::{
    api::{
        fault::{Plan, Request, Site},
        kinds::{AGENT_DEPLOYMENTS, CONFIG_MAPS, CORE_EVENTS, EVENTS, Kind, LEASES, PODS},
        store::{Happened, Key, Store},
    },
    bugs::Bug,
    end::End,
    users::Users,
    world::World,
};

/// Namespace and name of the agent of every story.
pub const NAMESPACE: &str = "team";
pub const AGENT: &str = "support";
/// The agent beside it, of some stories.
pub const OTHER: &str = "sales";

/// What a person does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Applies the agent.
    Create,
    /// Changes its spec, by a merge patch.
    Edit(Value),
    /// Deletes it.
    Delete,
    /// Does nothing for so many seconds.
    Wait(i64),
    /// Has the operator sweep what nothing has needed for so many seconds.
    Retain(i64),
    /// Gives the namespace a quota: numbers by resource. None takes it away.
    Quota(Option<(&'static str, usize)>),
    /// Gives the node room for so many pods of agents. None gives it room for all.
    Room(Option<usize>),
    /// Restores the artifact store's volume from nothing.
    LoseStore,
    /// Applies the agent, and beside it another one whose model is the same from a mirror.
    CreateBoth,
    /// Applies only the one beside.
    CreateOther,
    /// Changes the spec of the one beside.
    EditOther(Value),
    /// Deletes the agent beside.
    DeleteOther,
    /// Exchanges the operator for one of another release, whose images have this tag.
    Release(&'static str),
    /// Leaves objects that only a later version can read.
    Tomorrow,
    /// Lets the operator write NetworkPolicies and InferencePools.
    Permit,
    /// Writes a data set, by which engines are scored.
    Dataset,
    /// Removes all objects of a kind, as a person does who cleans up.
    Remove(Kind),
    /// Has the operator look at caches first, which are as old as the look before.
    Watch,
}

/// Everything between two acts.
#[derive(Clone)]
pub struct Scene {
    pub store: Store,
    pub now: Timestamp,
    /// Agents that have been ready, and that nobody has deleted.
    pub were_ready: BTreeSet<&'static str>,
    pub users: Users,
    /// Seconds of `store.retention`.
    pub retention: Option<i64>,
    /// The operator's release.
    pub release: &'static str,
    /// Whether the operator may write NetworkPolicies and InferencePools.
    pub is_permitted: bool,
    /// Whether the operator glances at what watches have shown.
    pub is_watching: bool,
    /// A defect of the operator's.
    pub bug: Option<Bug>,
}

/// How an act ended.
pub struct Played {
    /// What is there at the end.
    pub end: End,
    /// Objects that the operator created and deleted, and how often.
    pub commits: Commits,
    /// What must never be, and was.
    pub violations: Vec<String>,
    /// Every write that was asked for.
    pub writes: Vec<Site>,
    /// Lists that were asked for.
    pub lists: usize,
    /// Every request.
    pub requests: Vec<Request>,
    /// How it was before each look of the operator's.
    pub rounds: Vec<Round>,
    /// Where the next act begins.
    pub after: Scene,
}

/// Objects that were created and deleted by requests, and how often.
pub type Commits = BTreeMap<(Happened, Key), usize>;

/// What was created and deleted in two parts of an act.
pub fn sum(one: &Commits, other: &Commits) -> Commits {
    other.iter().fold(one.clone(), |mut all, (what, times)| {
        *all.entry(what.clone()).or_default() += times;
        all
    })
}

/// What came on top of something.
pub fn since(all: &Commits, before: &Commits) -> Commits {
    let left = |(what, times): (&(Happened, Key), &usize)| {
        let new = times - before.get(what).copied().unwrap_or_default();
        (new > 0).then(|| (what.clone(), new))
    };
    all.iter().filter_map(left).collect()
}

/// How it was before a look of the operator's.
pub struct Round {
    pub scene: Scene,
    /// Writes, lists and requests of all kinds until then.
    pub writes: usize,
    pub lists: usize,
    pub requests: usize,
    pub end: End,
    pub commits: Commits,
}

/// The agent that is created.
pub fn agent() -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
        "metadata": {"name": AGENT, "namespace": NAMESPACE},
        "spec": {
            "model": {"uri": "http://models.example/react"},
            "engine": {"backend": "Custom",
                "custom": {"builderImage": "example.com/builder:1", "tritonImage": "example.com/triton:1"}},
            "agent": {"systemPrompt": "Answer."},
        },
    })
}

/// The agent beside it.
pub fn other_agent() -> Value {
    let mut other = agent();
    other["metadata"]["name"] = json!(OTHER);
    other["spec"]["model"]["uri"] = json!("http://mirror.example/react");
    other
}

impl Scene {
    /// An empty cluster.
    pub fn first(bug: Option<Bug>) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (store, users, were_ready) = (Store::default(), Users::default(), BTreeSet::new());
        let (is_permitted, is_watching) = (false, false);
        Self { store, now, were_ready, users, retention: None, release: "1", is_permitted, is_watching, bug }
    }

    /// Plays an act by an operator that has just started, until everything has come to rest.
    pub async fn play(&self, act: &Act) -> Played {
        let mut scene = self.clone();
        match act {
            Act::Retain(seconds) => scene.retention = Some(*seconds),
            Act::Release(release) => scene.release = release,
            Act::Permit => scene.is_permitted = true,
            Act::Watch => scene.is_watching = true,
            _ => {}
        }
        let mut world = World::of(&scene, None).await;
        world.act(act);
        world.rest(None).await;
        world.played()
    }

    /// Goes on from here with a fault: to the end, or to a moment that the same act has without the fault. From there
    /// it would go on as it does there.
    pub async fn go_on(&self, plan: Plan, reference: (&Played, usize)) -> Continued {
        let mut world = World::of(self, Some(plan)).await;
        let rejoined = world.rest(Some(reference)).await;
        Continued { rejoined, played: world.played() }
    }
}

/// How an act ended after a fault in it.
pub struct Continued {
    /// The round of the act without a fault that it came to.
    pub rejoined: Option<usize>,
    pub played: Played,
}

/// Plays the acts of a story one after the other, without any fault.
pub async fn tell(acts: &[Act]) -> Vec<Played> {
    tell_with(acts, None).await
}

/// The same by an operator with a defect.
pub async fn tell_with(acts: &[Act], bug: Option<Bug>) -> Vec<Played> {
    let mut told: Vec<Played> = Vec::new();
    for act in acts {
        let scene = told.last().map_or_else(|| Scene::first(bug), |played| played.after.clone());
        told.push(scene.play(act).await);
    }
    told
}

/// Kinds of which it does not matter how often they are written.
pub const BESIDE: [Kind; 4] = [EVENTS, CORE_EVENTS, LEASES, PODS];

/// What the operator knows of the namespace's store.
pub fn store_record(store: &Store) -> StoreRecord {
    let object = store.get(&Key::new(CONFIG_MAPS, NAMESPACE, slipway_crds::store::NAME));
    let text = object.and_then(|object| object["data"][slipway_crds::store::KEY].as_str().map(str::to_owned));
    text.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
}

/// What the agent waits for, or why it has stopped.
pub fn waits_for(end: &End) -> String {
    let agent = end.objects.iter().find(|(key, _)| key.kind == AGENT_DEPLOYMENTS).map(|(_, agent)| agent);
    let mut conditions = agent.and_then(|agent| agent["status"]["conditions"].as_array()).into_iter().flatten();
    let is_told = |condition: &Value| condition["type"] == "Reconciling" || condition["type"] == "Stalled";
    let found = conditions.find(|condition| is_told(condition) && condition["status"] == "True");
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

/// How far the agents are.
pub fn stages(end: &End) -> Vec<String> {
    let agents = end.objects.iter().filter(|(key, _)| key.kind == AGENT_DEPLOYMENTS);
    agents.map(|(_, agent)| agent["status"]["stage"].as_str().unwrap_or_default().to_owned()).collect()
}
