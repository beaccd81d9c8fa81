//! The cluster, the operator in it and its users while an act is played.

use std::{collections::BTreeSet, sync::Arc};

use http::{Method, Request};
use serde_json::{Value, json};
use slipway_operator_core::settings::{Retention, Settings};

use crate::{
    api::{
        ApiServer,
        fault::Plan,
        kinds::{AGENT_DEPLOYMENTS, CORE_EVENTS, EVENTS, Kind, LEASES, QUOTAS, SERVICES},
        request::Asked,
        store::{Change, Happened, Key, Writer},
    },
    cluster::{self, kubelet},
    end, later,
    operator::{self, Looked, Operator},
    story::{AGENT, Act, BESIDE, Commits, NAMESPACE, OTHER, Played, Round, Scene, agent, other_agent, since},
    users::{Users, WINDOW},
};

/// Seconds between two looks of the operator's.
const LOOK: i64 = WINDOW;
/// Users send in so many of the seconds that pass at once: the last of them.
const MOST_SECONDS_OF_USERS: i64 = 600;
/// Longer than anything waits but for a deadline.
const WAIT: i64 = 65;
/// Every act ends at such a time, so that what is done by the clock is done as often with a fault as without.
const ACT: i64 = 4 * 3_600;
/// Violations after which nobody wants to see more.
const ENOUGH: usize = 20;
/// Looks in a row without any news after which everything is at rest.
const QUIET: usize = 3;
/// Looks after which a story must have come to rest.
const MOST_LOOKS: usize = 250;

/// Where something happened in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    InTheCluster,
    InTheOperator,
    Nothing,
}

/// A cluster with the operator in it.
pub struct World {
    pub server: ApiServer,
    settings: Arc<Settings>,
    retention: Option<i64>,
    release: &'static str,
    is_permitted: bool,
    is_watching: bool,
    pub operator: Operator,
    pods: String,
    users: Users,
    were_ready: BTreeSet<&'static str>,
    /// Of the last look.
    failures: Vec<String>,
    pub violations: Vec<String>,
    rounds: Vec<Round>,
    /// Changes from before.
    old: usize,
}

/// The operator's configuration.
pub fn settings((retention, release): (Option<i64>, &str), is_permitted: bool) -> Arc<Settings> {
    let image = |name: &str| format!("example.com/{name}:{release}");
    let images = json!({"images": {"worker": image("worker"), "agentRuntime": image("agent-runtime")}});
    let mut settings: Settings = serde_json::from_value(images).unwrap();
    settings.store.retention = retention.map(|seconds| Retention { seconds, max_unreferenced: None });
    if is_permitted {
        settings.gateway.inference_pools = true;
        settings.network_policies.agents = true;
        settings.network_policies.operator_namespace = Some("slipway".to_owned());
    }
    Arc::new(settings)
}

async fn start(server: &ApiServer, (settings, is_watching): (&Arc<Settings>, bool), pods: &str) -> Operator {
    let operator = Operator::start(server, settings, pods).await;
    if is_watching { operator.watching(server) } else { operator }
}

impl World {
    /// The scene, with an operator that has just started.
    pub async fn of(scene: &Scene, plan: Option<Plan>) -> Self {
        operator::set_now(scene.now);
        let (server, users) = (ApiServer::new(operator::now), scene.users.fork());
        let (retention, release, is_permitted) = (scene.retention, scene.release, scene.is_permitted);
        let settings = settings((retention, release), is_permitted);
        let pods = users.answer().await;
        server.state().store = scene.store.clone();
        server.state().bug = scene.bug;
        let is_watching = scene.is_watching;
        let operator = start(&server, (&settings, is_watching), &pods).await;
        server.state().faults.plan = plan;
        let (were_ready, old) = (scene.were_ready.clone(), scene.store.changes.len());
        let (failures, violations, rounds) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            server,
            settings,
            retention,
            release,
            is_permitted,
            is_watching,
            operator,
            pods,
            users,
            were_ready,
            failures,
            violations,
            rounds,
            old,
        }
    }

    /// How it ended.
    pub fn played(mut self) -> Played {
        let scene = self.scene();
        let (end, commits) = (end::of(&scene.store), self.commits());
        let state = self.server.state();
        let faults = &state.faults;
        self.violations.extend(faults.careless.iter().map(|site| format!("deletes without a precondition: {site:?}")));
        self.violations.extend(faults.invalid.iter().map(|refused| format!("asks for the impossible: {refused}")));
        self.violations.extend(faults.late.iter().map(|site| format!("writes after another leads: {site:?}")));
        let (writes, lists, requests) = (faults.writes.clone(), faults.lists, faults.requests.clone());
        Played { end, commits, violations: self.violations, writes, lists, requests, rounds: self.rounds, after: scene }
    }

    fn scene(&self) -> Scene {
        let (store, bug) = {
            let state = self.server.state();
            (state.store.clone(), state.bug)
        };
        let (were_ready, users) = (self.were_ready.clone(), self.users.fork());
        let Self { retention, release, is_permitted, is_watching, .. } = *self;
        Scene { store, now: operator::now(), were_ready, users, retention, release, is_permitted, is_watching, bug }
    }

    fn commits(&self) -> Commits {
        let state = self.server.state();
        let mut commits = Commits::new();
        let news = state.store.changes.iter().skip(self.old);
        let own = news.filter(|change| change.writer == Writer::Client && is_of_story(change));
        for change in own.filter(|change| change.happened != Happened::Modified) {
            *commits.entry((change.happened, change.key.clone())).or_default() += 1;
        }
        commits
    }

    /// What a person asks for, as `kubectl` does.
    pub fn act(&mut self, act: &Act) {
        match act {
            Act::Create => self.create(agent()),
            Act::CreateOther => self.create(other_agent()),
            Act::CreateBoth => [other_agent(), agent()].into_iter().for_each(|agent| self.create(agent)),
            Act::Edit(spec) => self.edit(AGENT, spec),
            Act::EditOther(spec) => self.edit(OTHER, spec),
            Act::Delete => self.delete(AGENT),
            Act::DeleteOther => self.delete(OTHER),
            Act::Wait(seconds) => self.pass(*seconds),
            Act::Quota(quota) => self.limit(*quota),
            Act::Room(pods) => self.server.state().store.room = *pods,
            Act::LoseStore => {
                let store = &mut self.server.state().store;
                let version = store.version();
                store.volume.lose(version);
            }
            Act::Tomorrow => later::leave(&mut self.server.state().store),
            Act::Remove(kind) => self.remove(*kind),
            Act::Dataset => kubelet::write_dataset(&mut self.server.state().store),
            // The operator has started with it.
            Act::Retain(_) | Act::Release(_) | Act::Permit | Act::Watch => {}
        }
    }

    fn create(&self, agent: Value) {
        self.ask(Method::POST, "", &agent);
    }

    fn edit(&self, agent: &str, spec: &Value) {
        self.ask(Method::PATCH, &format!("/{agent}"), &json!({"spec": spec}));
    }

    /// Nobody waits for the agent any more.
    fn delete(&mut self, agent: &str) {
        self.were_ready.remove(agent);
        self.ask(Method::DELETE, &format!("/{agent}"), &json!({"propagationPolicy": "Background"}));
    }

    fn ask(&self, method: Method, place: &str, body: &Value) {
        let collection = format!("/apis/slipway.dev/v1alpha1/namespaces/{NAMESPACE}/agentdeployments");
        let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(format!("{collection}{place}?fieldManager=kubectl"));
        let request = request.header("content-type", content).body(()).unwrap();
        let asked = Asked::of(&request.into_parts().0, body.to_string().into());
        let answer = self.server.state().answer(&asked, Writer::Cluster, None);
        answer.unwrap_or_else(|refusal| panic!("{body}: {}", refusal.message));
    }

    fn remove(&self, kind: Kind) {
        let store = &mut self.server.state().store;
        let keys: Vec<Key> = store.of_kind(kind).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(store.remove(key, Writer::Cleaner)));
    }

    fn limit(&self, quota: Option<(&str, usize)>) {
        let (mut state, key) = (self.server.state(), Key::new(QUOTAS, NAMESPACE, "team"));
        let Some((resource, most)) = quota else { return drop(state.store.remove(&key, Writer::Cluster)) };
        let metadata = json!({"name": key.name, "namespace": key.namespace});
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
            "spec": {"hard": {resource: most.to_string()}}});
        state.store.put(key, quota, Writer::Cluster);
        cluster::quotas::step(&mut state.store);
    }

    /// Until nothing happens any more, however long one waits, and until the time at which acts end. With a reference
    /// also until it has gone on past a fault, to a moment that the reference has after the round with the fault. Gives
    /// the round of that moment.
    pub async fn rest(&mut self, reference: Option<(&Played, usize)>) -> Option<usize> {
        let (mut quiet, mut is_on_time) = (0, false);
        for _ in 0..MOST_LOOKS {
            match reference {
                None => self.remember(),
                Some((played, from)) => {
                    let rejoined = self.rejoined(played, from);
                    if rejoined.is_some() {
                        return rejoined;
                    }
                }
            }
            if self.violations.len() >= ENOUGH {
                return None;
            }
            let happened = self.round().await;
            quiet = if happened == Happening::Nothing { quiet + 1 } else { 0 };
            match happened {
                // Watches tell of it at once.
                Happening::InTheCluster => self.pass(1),
                Happening::InTheOperator => self.pass(LOOK),
                Happening::Nothing if quiet < QUIET => self.pass(WAIT),
                Happening::Nothing if is_on_time => return None,
                Happening::Nothing => {
                    self.pass(until_next_act());
                    (quiet, is_on_time) = (0, true);
                }
            }
        }
        self.violations.push(format!("no rest after {MOST_LOOKS} looks"));
        None
    }

    fn remember(&mut self) {
        let scene = self.scene();
        let (writes, lists, requests) = {
            let state = self.server.state();
            (state.faults.writes.len(), state.faults.lists, state.faults.requests.len())
        };
        let (end, commits) = (end::of(&scene.store), self.commits());
        self.rounds.push(Round { scene, writes, lists, requests, end, commits });
    }

    /// The round of the reference in which everything is as it is now, and after which nothing else has been done.
    fn rejoined(&self, reference: &Played, from: usize) -> Option<usize> {
        if !self.has_struck() {
            return None;
        }
        let now = end::of(&self.server.state().store);
        let before = reference.rounds[from].commits.clone();
        let commits = self.commits();
        let is_alike = |round: &Round| round.end == now && since(&round.commits, &before) == commits;
        let later = reference.rounds.iter().enumerate().skip(from + 2);
        later.filter(|(_, round)| is_alike(round)).map(|(at, _)| at).next()
    }

    /// Lets time pass, in which users send.
    fn pass(&self, seconds: i64) {
        let from = operator::now().as_second();
        let of_users = seconds.min(MOST_SECONDS_OF_USERS);
        self.users.send(&self.server.state().store, from + seconds - of_users, from + seconds);
        operator::pass(seconds);
        if seconds > 30 {
            self.operator.forget(NAMESPACE);
        }
    }

    /// A look of the operator's and a step of the cluster's.
    async fn round(&mut self) -> Happening {
        let (before, told, writes, had_struck) = (self.news(), self.events(), self.writes(), self.has_struck());
        let looked = self.look().await;
        let is_refused = self.is_refused_again(&looked);
        if looked == Looked::Crashed {
            self.operator = start(&self.server, (&self.settings, self.is_watching), &self.pods).await;
        }
        self.check();
        let is_moving = cluster::step(&mut self.server.state());
        self.check();
        if is_moving {
            return Happening::InTheCluster;
        }
        let is_through = looked == Looked::Through(Vec::new()) && self.events() == told;
        if self.news() != before || !(is_through || is_refused) {
            return Happening::InTheOperator;
        }
        // In the look of the fault itself an operator may be misled.
        if is_through && self.writes() > writes && self.has_struck() == had_struck {
            self.violations.push("writes what is there already".to_owned());
        }
        Happening::Nothing
    }

    /// A look of the operator's. Where it stands still at a request, another one takes the lease meanwhile, and looks
    /// too. Then the first one goes on, and believes that it leads.
    async fn look(&mut self) -> Looked {
        let (stopped, goes_on) = {
            let state = self.server.state();
            (state.faults.stopped.clone(), state.faults.goes_on.clone())
        };
        let mut look = Box::pin(self.operator.look(&self.server));
        tokio::select! {
            biased;
            looked = &mut look => return looked,
            () = stopped.notified() => {}
        }
        self.operator.stands_still();
        // Nobody waits for the claim to expire but the other one.
        tokio::time::pause();
        let server = self.server.seen_by("two");
        let other = start(&server, (&self.settings, self.is_watching), &self.pods).await;
        tokio::time::resume();
        self.server.state().faults.deposed = Some(self.server.asked_by);
        let looked = other.look(&server).await;
        goes_on.notify_one();
        look.await;
        (self.operator, self.server) = (other, server);
        looked
    }

    /// Whether a quota refuses the same as before: only people can help.
    fn is_refused_again(&mut self, looked: &Looked) -> bool {
        let failures = if let Looked::Through(failures) = looked { failures.clone() } else { Vec::new() };
        let is_of_quota = !failures.is_empty() && failures.iter().all(|failure| failure.contains("exceeded quota"));
        let is_again = is_of_quota && failures == self.failures;
        self.failures = failures;
        is_again
    }

    /// Writes that were asked for.
    fn writes(&self) -> usize {
        self.server.state().faults.writes.len()
    }

    fn has_struck(&self) -> bool {
        self.server.state().faults.has_struck
    }

    /// How much has happened, but for the leader's lease and events.
    fn news(&self) -> usize {
        self.changes(|kind| ![LEASES, EVENTS, CORE_EVENTS].contains(&kind))
    }

    /// What was told.
    fn events(&self) -> usize {
        self.changes(|kind| kind == EVENTS || kind == CORE_EVENTS)
    }

    fn changes(&self, is_meant: impl Fn(Kind) -> bool) -> usize {
        self.server.state().store.changes.iter().filter(|change| is_meant(change.key.kind)).count()
    }

    /// What must hold at every moment.
    pub fn check(&mut self) {
        let state = self.server.state();
        let store = &state.store;
        for name in [AGENT, OTHER] {
            let agent = store.get(&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, name));
            if agent.is_some_and(|agent| condition(&agent, "Ready")) {
                self.were_ready.insert(name);
            }
            let service = store.get(&Key::new(SERVICES, NAMESPACE, name));
            let serving = service.map_or(0, |service| cluster::ready_pods(store, &service["spec"]["selector"]));
            if self.were_ready.contains(name) && serving == 0 {
                self.violations.push(format!("no pod of {name} serves at {}", operator::now()));
            }
        }
        self.violations.extend(cluster::volume::missing(store));
        let twice = cluster::live_jobs(store).into_values().filter(|jobs| jobs.len() > 1);
        self.violations.extend(twice.map(|jobs| format!("Jobs for one task at once: {}", jobs.join(", "))));
    }
}

/// Seconds until the act ends, with an hour for those that take longer than others.
fn until_next_act() -> i64 {
    let earliest = operator::now().as_second() + 3_600;
    earliest + (ACT - earliest.rem_euclid(ACT)) - operator::now().as_second()
}

fn condition(object: &Value, type_: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

fn is_of_story(change: &Change) -> bool {
    !BESIDE.contains(&change.key.kind)
}
