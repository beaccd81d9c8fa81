//! Drift in real time: three changes that the operator finds and attributes, and an agent in which nothing changes.
//!
//! Only the first day is shorter. Once it has enough runs, its beginning in the ConfigMap of the operator's memory is
//! made a day earlier. All that follows is as in production, in blocks of ten minutes. The sequential test shows each
//! of these changes after five or six of them at the earliest, however large the change is. At first it may name only
//! the strongest signal, and a block later it names the others. With its agent, first day and six to eight blocks each
//! scenario takes 80 to 110 minutes. All four run at the same time.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    conditions::{ConditionType, Reason},
    labels,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{DriftRisk, DriftVerdict},
    },
};
use slipway_e2e::{
    agents::{READY_LIMIT, namespace_with_servers},
    drift::{Seen, wait_for_block_end},
    load::{
        pod::{Load, LoadPlan},
        report::{Report, typical},
    },
    namespace::{Namespace, condition_of},
    slow_node::SlowNode,
};

/// Name of the agent in every scenario.
const AGENT: &str = "waiter";
/// Runs a second.
const RATE: u32 = 3;
/// Runs that a first day needs.
const ENOUGH_RUNS: u64 = 1_000;
/// Time in which that many and a fifth more arrive.
const FIRST_DAY: Duration = Duration::from_secs(400);
/// Blocks after which a change must have been found and attributed.
const MOST_BLOCKS: u64 = 9;
/// Blocks in which nothing may be found where nothing changes: as many as the changes need.
const QUIET_BLOCKS: u64 = 7;
/// How long the tool takes: as usual, and once it has become slow.
const TOOL_MILLISECONDS: (u64, u64) = (150, 500);
/// How long the pod runs and stands on a slow node, in turn.
const SLOW_NODE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(400));
/// Longest time from a status to the event about it.
const EVENT_LIMIT: Duration = Duration::from_secs(60);
/// Signals that are about the model.
const OF_THE_MODEL: [&str; 4] = [
    "ModelTime is slower",
    "RequestLatency is slower",
    "RequestTimeToFirstToken is slower",
    "InterTokenLatency is slower",
];
/// What the users ask: 16 to 31 characters, and with a mail before it 128 to 255.
const QUESTIONS: [&str; 3] = ["How old is Ada today?", "What age has Ada now?", "Tell me the age of Ada."];
const MAIL: &str = "Hello, a customer wrote to us this morning about the form that we sent last week, and is not sure \
    which age belongs into its second field. Please look it up: ";

/// An agent that serves, its users, and the second at which its first day ended.
struct Scenario<'a> {
    namespace: &'a Namespace,
    load: Load<'a>,
    day_ended: u64,
}

async fn serve(name: &str) -> Namespace {
    let namespace = namespace_with_servers(name).await.unwrap();
    namespace.request("PUT", "facts", "/facts/Ada/age", Some(&json!({"value": 36}))).await.unwrap();
    delay_tool(&namespace, TOOL_MILLISECONDS.0).await;
    let manifest: Value = serde_norway::from_str(include_str!("../manifests/drift/agent.yaml")).unwrap();
    let applied = namespace.apply(&manifest).await.unwrap();
    namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();
    namespace
}

async fn delay_tool(namespace: &Namespace, milliseconds: u64) {
    let delay = json!({"milliseconds": milliseconds});
    namespace.request("PUT", "facts", "/delay", Some(&delay)).await.unwrap();
}

async fn ask<'a>(namespace: &'a Namespace, questions: &[String]) -> Load<'a> {
    let plan = LoadPlan {
        agent: AGENT.to_owned(),
        url: format!("http://{AGENT}"),
        host: None,
        keeps_connections: true,
        rate: RATE,
    };
    namespace.start_load_with(&plan, questions).await.unwrap()
}

impl<'a> Scenario<'a> {
    /// Users ask until a block ends before which they have asked often enough.
    async fn with_a_first_day(namespace: &'a Namespace) -> Self {
        let load = ask(namespace, &QUESTIONS.map(str::to_owned)).await;
        let day_ended = wait_for_block_end(FIRST_DAY).await;
        Self { namespace, load, day_ended }
    }

    /// Watches until it is over, after the change that was just made.
    async fn watch(&self, (what, most): (&str, u64), is_over: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let runs = self.namespace.end_first_day(AGENT, self.day_ended).await.unwrap();
        println!("{}: a first day of {runs} runs, from then on {what}", self.namespace.name());
        assert!(runs >= ENOUGH_RUNS, "{runs} runs are no first day: {:?}", self.load.intervals().await.unwrap().last());
        let history = self.namespace.watch_drift(AGENT, (what, most), is_over).await.unwrap();
        let last = &history[history.len() - 1];
        assert_eq!((&last.drift.restarted, &last.drift.left_out), (&None, &None), "{last}");
        history
    }

    /// Ends the users and gives the agent, as it is said to be.
    async fn end(self, revision: &str) -> Said {
        let (intervals, summary) = self.load.stop().await.unwrap();
        let name = self.namespace.name();
        let is_before = |report: &Report| report.to_unix_millis <= self.day_ended * 1_000;
        let (before, after): (Vec<_>, Vec<_>) = intervals.into_iter().partition(is_before);
        let median = |intervals: &[Report]| typical(intervals, revision, |latency| latency.p50);
        println!("{name}: median of a run {:?} us, then {:?} us", median(&before), median(&after));
        println!("{name}: {} runs, {} failed {:?}", summary.ok(), summary.failed(), summary.errors);
        assert!(summary.failed() * 1_000 <= summary.ok(), "drift of failures was not asked for: {summary:?}");
        let agent = self.namespace.api::<AgentDeployment>().get(AGENT).await.unwrap();
        Said::of(&agent)
    }
}

/// Status and reason of the two conditions.
#[derive(Debug, PartialEq)]
struct Said {
    workload: Option<(String, String)>,
    behavior: Option<(String, String)>,
}

impl Said {
    fn of(agent: &AgentDeployment) -> Self {
        let of = |condition: ConditionType| {
            let (status, reason, message) = condition_of(agent, condition.as_str())?;
            println!("{condition:?}={status} {reason}: {message}");
            Some((status, reason))
        };
        Self { workload: of(ConditionType::WorkloadDrift), behavior: of(ConditionType::BehaviorDrift) }
    }

    /// `None` for a condition that is absent.
    fn with(workload: Option<(bool, Reason)>, behavior: Option<(bool, Reason)>) -> Self {
        let of = |condition: Option<(bool, Reason)>| {
            let (is_true, reason) = condition?;
            Some(((if is_true { "True" } else { "False" }).to_owned(), reason.as_str().to_owned()))
        };
        Self { workload: of(workload), behavior: of(behavior) }
    }
}

/// What was said one after the other.
fn verdicts(history: &[Seen]) -> Vec<DriftVerdict> {
    let mut verdicts: Vec<DriftVerdict> = history.iter().map(|seen| seen.drift.verdict).collect();
    verdicts.dedup();
    verdicts
}

fn names(seen: &Seen, signal: &str) -> bool {
    seen.drift.signals.iter().any(|named| named == signal)
}

/// The event of a finding, and that there is none of the other kind.
async fn event(namespace: &Namespace, (reason, other): (Reason, Reason)) {
    let message = namespace.wait_for_event(AGENT, reason.as_str(), EVENT_LIMIT).await.unwrap();
    println!("{}: event {}: {message}", namespace.name(), reason.as_str());
    let reasons = namespace.event_reasons(AGENT).await.unwrap();
    assert!(!reasons.iter().any(|reason| reason == other.as_str()), "{reasons:?}");
}

#[tokio::test]
async fn nothing_is_said_where_nothing_changes() {
    let namespace = serve("drift-none").await;
    let scenario = Scenario::with_a_first_day(&namespace).await;
    let history = scenario.watch(("nothing changes", QUIET_BLOCKS), |seen| seen.blocks >= QUIET_BLOCKS).await;

    let last = &history[history.len() - 1];
    assert_eq!((last.drift.signals.as_slice(), &last.drift.risk), ([].as_slice(), &None), "{last}");
    let said = scenario.end(&last.drift.revision).await;
    assert_eq!(verdicts(&history), [DriftVerdict::Collecting, DriftVerdict::NoDrift]);
    assert_eq!(said, Said::with(Some((false, Reason::NoDrift)), Some((false, Reason::NoDrift))));
    let reasons = namespace.event_reasons(AGENT).await.unwrap();
    let is_finding = |reason: &String| {
        [Reason::WorkloadChanged, Reason::BehaviorChanged].map(Reason::as_str).contains(&reason.as_str())
    };
    assert!(!reasons.iter().any(is_finding), "{reasons:?}");
}

#[tokio::test]
async fn users_who_ask_longer_questions_are_another_workload_and_no_slower_agent() {
    let namespace = serve("drift-prompts").await;
    let scenario = Scenario::with_a_first_day(&namespace).await;
    let Scenario { load, day_ended, .. } = scenario;
    let (_, before) = load.stop().await.unwrap();
    println!("drift-prompts: {} runs, {} failed, then longer questions", before.ok(), before.failed());
    let load = ask(&namespace, &QUESTIONS.map(|question| format!("{MAIL}{question}"))).await;
    let scenario = Scenario { namespace: &namespace, load, day_ended };
    let is_found = |seen: &Seen| seen.drift.verdict == DriftVerdict::WorkloadDrift;
    let history = scenario.watch(("longer questions", MOST_BLOCKS), is_found).await;

    let last = &history[history.len() - 1];
    assert!(names(last, "more prompts are long"), "{last}");
    assert_eq!(last.drift.risk, None, "another campaign cannot help users who ask something else: {last}");
    let said = scenario.end(&last.drift.revision).await;
    assert_eq!(verdicts(&history), [DriftVerdict::Collecting, DriftVerdict::NoDrift, DriftVerdict::WorkloadDrift]);
    assert_eq!(said, Said::with(Some((true, Reason::WorkloadChanged)), None));
    event(&namespace, (Reason::WorkloadChanged, Reason::BehaviorChanged)).await;
}

#[tokio::test]
async fn a_tool_that_becomes_slow_is_named_and_puts_nothing_at_risk_that_measuring_fixes() {
    let namespace = serve("drift-slow-tool").await;
    let scenario = Scenario::with_a_first_day(&namespace).await;
    delay_tool(&namespace, TOOL_MILLISECONDS.1).await;
    let history = scenario.watch(("a slow tool", MOST_BLOCKS), |seen| names(seen, "ToolTime is slower")).await;

    let last = &history[history.len() - 1];
    let of_the_model: Vec<&str> = OF_THE_MODEL.into_iter().filter(|signal| names(last, signal)).collect();
    assert_eq!((of_the_model.as_slice(), &last.drift.risk), ([].as_slice(), &None), "{last}");
    let said = scenario.end(&last.drift.revision).await;
    assert_eq!(verdicts(&history), [DriftVerdict::Collecting, DriftVerdict::NoDrift, DriftVerdict::BehaviorDrift]);
    assert_eq!(said, Said::with(Some((false, Reason::NoDrift)), Some((true, Reason::BehaviorChanged))));
    event(&namespace, (Reason::BehaviorChanged, Reason::WorkloadChanged)).await;
}

#[tokio::test]
async fn a_node_that_becomes_slow_slows_the_model_and_puts_the_objective_at_risk() {
    let namespace = serve("drift-busy-node").await;
    let scenario = Scenario::with_a_first_day(&namespace).await;
    let pods = namespace.pods(labels::REVISION).await.unwrap();
    assert_eq!(pods.len(), 1, "{pods:?}");
    let slow = SlowNode::of_pod(&pods[0].metadata.uid.clone().unwrap(), SLOW_NODE).unwrap();
    let is_found = |seen: &Seen| seen.drift.risk.is_some() && OF_THE_MODEL.iter().any(|signal| names(seen, signal));
    let history = scenario.watch(("a slow node", MOST_BLOCKS), is_found).await;

    drop(slow);
    let last = &history[history.len() - 1];
    let risk = last.drift.risk.as_ref().map(|DriftRisk { message, .. }| message.as_str());
    assert_eq!(risk, Some("answer: AgentRunLatency is slower than on the first day"), "{last}");
    let said = scenario.end(&last.drift.revision).await;
    assert_eq!(verdicts(&history), [DriftVerdict::Collecting, DriftVerdict::NoDrift, DriftVerdict::BehaviorDrift]);
    assert_eq!(said, Said::with(Some((false, Reason::NoDrift)), Some((true, Reason::BehaviorChanged))));
    event(&namespace, (Reason::BehaviorChanged, Reason::WorkloadChanged)).await;
    let restarts: i32 = namespace.pods(labels::REVISION).await.unwrap().iter().map(restarts).sum();
    assert_eq!(restarts, 0, "a slow pod serves");
}

fn restarts(pod: &k8s_openapi::api::core::v1::Pod) -> i32 {
    let status = pod.status.iter();
    let containers = status.flat_map(|status| {
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten())
    });
    containers.map(|container| container.restart_count).sum()
}
