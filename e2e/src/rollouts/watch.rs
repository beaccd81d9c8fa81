//! What happens to traffic in the course of a rollout. Reads the clock; reads IO. What is said about a history is pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{DynamicObject, GroupVersionKind, ListParams},
    core::ApiResource,
};
use serde_json::Value;
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{RolloutVerdict, Stage},
    },
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{AGENT, fixture::rollout_of};
use crate::{
    load::client::unix_millis,
    namespace::{Namespace, Outcome, ScenarioError},
};

/// Time between two looks; a step lasts many of them.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// What was seen at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// When it was first seen so, in milliseconds of the Unix epoch.
    pub since_unix_millis: u64,
    /// The stage for people.
    pub stage: Option<Stage>,
    /// Revision that the status calls stable.
    pub stable: Option<String>,
    /// Revision that the status calls the canary.
    pub canary: Option<String>,
    /// What the judge said, and why.
    pub verdict: Option<(RolloutVerdict, String)>,
    /// Percent of the route's weighted rule, by revision.
    pub shares: BTreeMap<String, i64>,
    /// Revisions with a ready pod. Looked at after the shares, so that a pod which got ready for its share counts.
    pub ready: BTreeSet<String>,
    /// Jobs that have not ended.
    pub live_jobs: BTreeSet<String>,
}

/// Looks at a rollout until told to stop.
pub struct Watch {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Outcome<Vec<Seen>>>,
}

impl Watch {
    /// Begins to look.
    pub fn start(namespace: &Namespace) -> Self {
        Self::begin(Looker::new(namespace, false))
    }

    /// The same where the API server will be away: the history leaves out what cannot be seen then.
    pub fn start_beside_outages(namespace: &Namespace) -> Self {
        Self::begin(Looker::new(namespace, true))
    }

    fn begin(looker: Looker) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(looker.history(stopped)) }
    }

    /// Ends and gives what was seen, without repetitions.
    ///
    /// # Errors
    /// When the API server refused to be looked at.
    pub async fn stop(self) -> Outcome<Vec<Seen>> {
        // A watch that ended by itself has its reason ready.
        let _ = self.stop.send(());
        self.task.await.map_err(|error| ScenarioError::TimedOut {
            what: "the watch of the rollout".to_owned(),
            seconds: 0,
            last: error.to_string(),
        })?
    }
}

struct Looker {
    agents: Api<AgentDeployment>,
    routes: Api<DynamicObject>,
    pods: Api<Pod>,
    jobs: Api<Job>,
    is_blind_at_times: bool,
}

impl Looker {
    fn new(namespace: &Namespace, is_blind_at_times: bool) -> Self {
        let route = ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute"));
        Self {
            agents: namespace.api(),
            routes: Api::namespaced_with(namespace.client(), namespace.name(), &route),
            pods: namespace.api(),
            jobs: namespace.api(),
            is_blind_at_times,
        }
    }

    /// Ends with a look after it was told to stop, so that what a scenario saw before is a part of the history.
    async fn history(self, mut stopped: oneshot::Receiver<()>) -> Outcome<Vec<Seen>> {
        let mut history: Vec<Seen> = Vec::new();
        let mut is_last = false;
        loop {
            match self.look().await {
                Ok(seen) => note(&mut history, seen),
                Err(_) if self.is_blind_at_times && !is_last => {}
                Err(source) => {
                    let action = "look at the rollout".to_owned();
                    return Err(ScenarioError::Kubernetes { action, source: Box::new(source) });
                }
            }
            if is_last {
                return Ok(history);
            }
            tokio::select! {
                _ = &mut stopped => is_last = true,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn look(&self) -> Result<Seen, kube::Error> {
        let agent = self.agents.get_opt(AGENT).await?;
        let route = self.routes.get_opt(AGENT).await?;
        let pods = self.pods.list(&ListParams::default().labels(labels::REVISION)).await?;
        let jobs = self.jobs.list(&ListParams::default()).await?;
        let rollout = agent.as_ref().map(rollout_of).unwrap_or_default();
        Ok(Seen {
            since_unix_millis: unix_millis(),
            stage: agent.and_then(|agent| agent.status?.stage),
            stable: rollout.stable,
            canary: rollout.canary,
            verdict: rollout.verdict.map(|verdict| (verdict, rollout.reason.unwrap_or_default())),
            shares: route.map(|route| shares(&route.data)).unwrap_or_default(),
            ready: pods.items.iter().filter_map(revision_if_ready).collect(),
            live_jobs: jobs.items.iter().filter_map(name_if_live).collect(),
        })
    }
}

/// Adds what was seen, unless it is what was seen before.
fn note(history: &mut Vec<Seen>, seen: Seen) {
    let is_as_before = |last: &Seen| *last == Seen { since_unix_millis: last.since_unix_millis, ..seen.clone() };
    if !history.last().is_some_and(is_as_before) {
        history.push(seen);
    }
}

/// Percent by revision, from the rule without a header match. Backends are the revisions' Services.
fn shares(route: &Value) -> BTreeMap<String, i64> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_weighted = |rule: &Value| list(&rule["matches"]).iter().all(|one| one["headers"].is_null());
    let rules = list(&route["spec"]["rules"]);
    let backends =
        rules.iter().find(|rule| is_weighted(rule)).map(|rule| list(&rule["backendRefs"])).unwrap_or_default();
    let weights = backends.iter().map(|backend| {
        let name = backend["name"].as_str().unwrap_or_default();
        let revision = name.strip_prefix(&format!("{AGENT}-")).unwrap_or(name);
        (revision.to_owned(), backend["weight"].as_i64().unwrap_or(1))
    });
    let weights: BTreeMap<String, i64> = weights.filter(|(_, weight)| *weight > 0).collect();
    let all = weights.values().sum::<i64>().max(1);
    weights.into_iter().map(|(revision, weight)| (revision, 100 * weight / all)).collect()
}

fn revision_if_ready(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let revision = pod.metadata.labels.as_ref()?.get(labels::REVISION)?;
    is_ready.then(|| revision.clone())
}

fn name_if_live(job: &Job) -> Option<String> {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let has_ended = conditions
        .filter(|condition| condition.status == "True")
        .any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"));
    job.metadata.name.clone().filter(|_| !has_ended)
}

/// The shares that a revision had, one after the other.
pub fn shares_of(history: &[Seen], revision: &str) -> Vec<i64> {
    let mut shares: Vec<i64> = history.iter().map(|seen| seen.shares.get(revision).copied().unwrap_or(0)).collect();
    shares.dedup();
    shares
}

/// When a revision was first seen with a share, in milliseconds of the Unix epoch: later than it was so by the time
/// between two looks.
pub fn first_seen(history: &[Seen], revision: &str, share: i64) -> Option<u64> {
    let has_it = |seen: &&Seen| seen.shares.get(revision).copied().unwrap_or(0) == share;
    history.iter().find(has_it).map(|seen| seen.since_unix_millis)
}

/// Times at which a revision had traffic and no pod that was ready for it.
pub fn unready_with_traffic(history: &[Seen]) -> Vec<&Seen> {
    history.iter().filter(|seen| seen.shares.keys().any(|revision| !seen.ready.contains(revision))).collect()
}

/// Times at which two Jobs for the same task had not ended. Jobs of a task differ in the number of the attempt, which
/// ends their names.
pub fn tasks_done_twice(history: &[Seen]) -> Vec<&Seen> {
    let task_of = |job: &String| job.rsplit_once('-').map_or(job.clone(), |(task, _)| task.to_owned());
    let is_so = |seen: &&Seen| seen.live_jobs.iter().map(task_of).collect::<BTreeSet<_>>().len() < seen.live_jobs.len();
    history.iter().filter(is_so).collect()
}

/// What the judge said of a canary, one after the other.
pub fn verdicts(history: &[Seen]) -> Vec<(RolloutVerdict, String)> {
    let mut verdicts: Vec<_> = history.iter().filter_map(|seen| seen.verdict.clone()).collect();
    verdicts.dedup();
    verdicts
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn seen(shares: &[(&str, i64)], ready: &[&str]) -> Seen {
        Seen {
            shares: shares.iter().map(|(revision, share)| ((*revision).to_owned(), *share)).collect(),
            ready: ready.iter().map(|revision| (*revision).to_owned()).collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn shares_are_those_of_the_rule_that_matches_no_header() {
        let by_name = json!({"matches": [{"path": {"value": "/"}, "headers": [{"name": "x-slipway-revision"}]}],
            "backendRefs": [{"name": "waiter-b", "weight": 1}]});
        let weighted = json!({"matches": [{"path": {"value": "/"}}],
            "backendRefs": [{"name": "waiter-a", "weight": 80}, {"name": "waiter-b", "weight": 20}]});
        let route = json!({"spec": {"rules": [by_name, weighted]}});
        let expected = [("a".to_owned(), 80), ("b".to_owned(), 20)];
        assert_eq!(shares(&route), expected.into_iter().collect());
    }

    #[test]
    fn a_history_tells_the_shares_and_who_was_not_ready_for_them() {
        let history = [
            seen(&[("a", 100)], &["a"]),
            seen(&[("a", 100)], &["a", "b"]),
            seen(&[("a", 80), ("b", 20)], &["a", "b"]),
            seen(&[("a", 50), ("b", 50)], &["a"]),
            seen(&[("a", 100)], &["a"]),
        ];
        assert_eq!(shares_of(&history, "b"), [0, 20, 50, 0]);
        assert_eq!(unready_with_traffic(&history), [&history[3]]);
    }

    #[test]
    fn attempts_of_a_task_at_the_same_time_are_found() {
        let live =
            |jobs: &[&str]| Seen { live_jobs: jobs.iter().map(|job| (*job).to_owned()).collect(), ..Seen::default() };
        let history = [live(&["fetch-1f-1", "build-1f-1"]), live(&["fetch-1f-1", "fetch-1f-2"]), live(&["fetch-1f-2"])];
        assert_eq!(tasks_done_twice(&history), [&history[1]]);
    }
}
