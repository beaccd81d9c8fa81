//! A story: what people do one after the other, each time everything has come to rest, and what must hold all the time.

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request};
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_operator_core::settings::Settings;

use crate::{
    api::{
        ApiServer,
        fault::{Plan, Site},
        kinds::{AGENT_DEPLOYMENTS, CORE_EVENTS, EVENTS, Kind, LEASES, PODS, SERVICES},
        request::Asked,
        store::{Change, Happened, Key, Store, Writer},
    },
    cluster,
    end::{self, End},
    operator::{self, Looked, Operator},
    users::{Users, WINDOW},
};

/// Namespace and name of the agent of every story.
pub const NAMESPACE: &str = "team";
pub const AGENT: &str = "support";

/// Seconds between two looks of the operator's.
const LOOK: i64 = WINDOW;
/// Seconds of which pods remember what users sent.
const MOST_SECONDS_OF_USERS: i64 = 3_600;
/// Longer than anything waits but for a deadline.
const WAIT: i64 = 65;
/// Looks after which a story must have come to rest.
const MOST_LOOKS: usize = 250;

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
}

/// Everything between two acts.
#[derive(Clone)]
pub struct Scene {
    store: Store,
    now: Timestamp,
    /// Whether the agent has been ready, and nobody has deleted it.
    was_ready: bool,
    users: Users,
}

/// What became of an act.
pub struct Played {
    /// What is there at the end.
    pub end: End,
    /// Objects that the operator created and deleted, and how often.
    pub commits: BTreeMap<(Happened, Key), usize>,
    /// What must never be, and was.
    pub violations: Vec<String>,
    /// Every write that was asked for.
    pub writes: Vec<Site>,
    /// Lists that were asked for.
    pub lists: usize,
    /// Where the next act begins.
    pub after: Scene,
}

/// A cluster with the operator in it.
struct World {
    server: ApiServer,
    settings: Arc<Settings>,
    operator: Operator,
    pods: String,
    users: Users,
    was_ready: bool,
    violations: Vec<String>,
}

fn settings() -> Arc<Settings> {
    let yaml = "images: {worker: 'example.com/worker:1', agentRuntime: 'example.com/agent-runtime:1'}";
    Arc::new(serde_norway::from_str(yaml).unwrap())
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

impl Scene {
    /// An empty cluster.
    pub fn first() -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { store: Store::default(), now, was_ready: false, users: Users::default() }
    }

    /// Plays an act with a fault in it, by an operator that has just started, until everything has come to rest.
    pub async fn play(&self, act: &Act, plan: Option<Plan>) -> Played {
        operator::set_now(self.now);
        let (server, settings, users) = (ApiServer::new(operator::now), settings(), self.users.fork());
        let pods = users.answer().await;
        server.state().store = self.store.clone();
        let operator = Operator::start(&server, &settings, &pods).await;
        server.state().faults.plan = plan;
        let (was_ready, violations) = (self.was_ready, Vec::new());
        let mut world = World { server, settings, operator, pods, users, was_ready, violations };
        world.act(act);
        world.rest().await;
        world.played(self.store.changes.len())
    }
}

/// Plays the acts of a story one after the other, without any fault.
pub async fn tell(acts: &[Act]) -> Vec<Played> {
    let mut told: Vec<Played> = Vec::new();
    for act in acts {
        let scene = told.last().map_or_else(Scene::first, |played| played.after.clone());
        told.push(scene.play(act, None).await);
    }
    told
}

impl World {
    fn played(self, before: usize) -> Played {
        let mut violations = self.violations;
        let state = self.server.state();
        let mut commits: BTreeMap<(Happened, Key), usize> = BTreeMap::new();
        let news = state.store.changes.iter().skip(before);
        let own = news.filter(|change| change.writer == Writer::Client && is_of_story(change));
        for change in own.filter(|change| change.happened != Happened::Modified) {
            *commits.entry((change.happened, change.key.clone())).or_default() += 1;
        }
        let faults = &state.faults;
        violations.extend(faults.careless.iter().map(|site| format!("deletes without a precondition: {site:?}")));
        violations.extend(faults.invalid.iter().map(|refused| format!("asks for the impossible: {refused}")));
        let (writes, lists) = (faults.writes.clone(), faults.lists);
        let store = state.store.clone();
        let after = Scene { store, now: operator::now(), was_ready: self.was_ready, users: self.users };
        Played { end: end::of(&after.store), commits, violations, writes, lists, after }
    }

    /// What a person asks for, as `kubectl` does.
    fn act(&mut self, act: &Act) {
        let key = Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT);
        let collection = format!("/apis/slipway.dev/v1alpha1/namespaces/{NAMESPACE}/agentdeployments");
        let object = format!("{collection}/{AGENT}?fieldManager=kubectl");
        let (method, uri, content, body) = match act {
            Act::Create => (Method::POST, format!("{collection}?fieldManager=kubectl"), "application/json", agent()),
            Act::Edit(spec) => (Method::PATCH, object, "application/merge-patch+json", json!({"spec": spec})),
            Act::Delete => {
                self.was_ready = false;
                (Method::DELETE, object, "application/json", json!({"propagationPolicy": "Background"}))
            }
            Act::Wait(seconds) => return self.pass(*seconds),
        };
        let request = Request::builder().method(method).uri(uri).header("content-type", content).body(()).unwrap();
        let asked = Asked::of(&request.into_parts().0, body.to_string().into());
        let answer = self.server.state().answer(&asked, Writer::Cluster, None);
        answer.unwrap_or_else(|refusal| panic!("{key:?}: {}", refusal.message));
    }

    /// Until nothing happens any more, however long one waits.
    async fn rest(&mut self) {
        let mut quiet = 0;
        for _ in 0..MOST_LOOKS {
            quiet = if self.round().await { 0 } else { quiet + 1 };
            match quiet {
                0 => self.pass(LOOK),
                1 | 2 => self.pass(WAIT),
                _ => return,
            }
        }
        self.violations.push(format!("no rest after {MOST_LOOKS} looks"));
    }

    /// Lets time pass, in which users send.
    fn pass(&self, seconds: i64) {
        let from = operator::now().as_second();
        let of_users = seconds.min(MOST_SECONDS_OF_USERS);
        self.users.send(&self.server.state().store, from + seconds - of_users, from + seconds);
        operator::pass(seconds);
    }

    /// A look of the operator's and a step of the cluster's. Says whether anything happened.
    async fn round(&mut self) -> bool {
        let before = self.news();
        let looked = self.operator.look(&self.server).await;
        if looked == Looked::Crashed {
            self.operator = Operator::start(&self.server, &self.settings, &self.pods).await;
        }
        self.check();
        cluster::step(&mut self.server.state());
        self.check();
        self.news() != before || looked != Looked::Through(Vec::new())
    }

    /// How much has happened, but for the leader's lease.
    fn news(&self) -> usize {
        let state = self.server.state();
        state.store.changes.iter().filter(|change| change.key.kind != LEASES).count()
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        let state = self.server.state();
        let store = &state.store;
        let agent = store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT));
        let is_ready = agent.is_some_and(|agent| condition(&agent, "Ready"));
        self.was_ready |= is_ready;
        let service = store.get(&Key::new(SERVICES, NAMESPACE, AGENT));
        let serving = service.map_or(0, |service| cluster::ready_pods(store, &service["spec"]["selector"]));
        if self.was_ready && serving == 0 {
            self.violations.push(format!("no pod serves at {}", operator::now()));
        }
        let mut identities: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for job in cluster::live_jobs(store) {
            let identity = job.rsplit_once('-').map_or(job.as_str(), |(identity, _)| identity).to_owned();
            identities.entry(identity).or_default().push(job);
        }
        let twice = identities.into_values().filter(|jobs| jobs.len() > 1);
        self.violations.extend(twice.map(|jobs| format!("Jobs for one task at once: {}", jobs.join(", "))));
    }
}

fn condition(object: &Value, type_: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// Kinds of which it does not matter how often they are written.
pub const BESIDE: [Kind; 4] = [EVENTS, CORE_EVENTS, LEASES, PODS];

fn is_of_story(change: &Change) -> bool {
    !BESIDE.contains(&change.key.kind)
}

/// How far the agents are.
pub fn stages(end: &End) -> Vec<String> {
    let agents = end.objects.iter().filter(|(key, _)| key.kind == AGENT_DEPLOYMENTS);
    agents.map(|(_, agent)| agent["status"]["stage"].as_str().unwrap_or_default().to_owned()).collect()
}
