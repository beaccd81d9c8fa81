//! What receivers are told, and that it is told once.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{agent_deployment::Stage, profile::ProfilePhase};
use slipway_vocabulary::evidence::Evidence;
use slipway_worker_contract::FailureClass;

use super::{
    cluster::{Cluster, Ending, lines, world},
    profiling::{ended, profiled},
    quality::{Found, gated, scored},
};
use crate::{
    agent_deployment::monitoring::observed_objectives::ObservedObjectives,
    notifications::events::{Announcement, Happening, Role},
    plan::{Severity, UNWATCHED},
};

/// What pods of the serving revision counted: a hundred runs that all took so long.
fn counted(milliseconds: u64) -> ObservedObjectives {
    let json = serde_json::json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": [
        {"id": 100, "metrics": [{"metric": "AgentRunLatency", "unit": "Run", "stratum": "", "count": 100, "errors": 0}]}
    ]});
    let mut evidence: Evidence = serde_json::from_value(json).expect("evidence");
    let buckets = &mut evidence.windows[0].metrics[0].buckets;
    (0..100).for_each(|_| buckets.record(milliseconds * 1_000));
    ObservedObjectives::of([&evidence])
}

impl Cluster {
    fn observing(mut self, observed: ObservedObjectives) -> Self {
        self.world.observed = observed;
        self.pass(30);
        self.settle();
        self
    }
}

/// An agent that serves under an objective of two seconds.
fn with_objective() -> Cluster {
    let objective = "[{name: tail, metric: AgentRunLatency, percentile: p95, max: 2s}]";
    let objectives = serde_norway::from_str(objective).expect("valid objectives");
    let mut cluster = world().edited(|spec| spec.slo.objectives = objectives).serving().alerting();
    cluster.heard.clear();
    cluster
}

#[test]
fn a_rollout_is_told_when_it_opens_and_when_it_serves() {
    let mut cluster = world().alerting().serving();
    let stable = cluster.stable();
    let told: Vec<_> = cluster.heard.iter().map(|heard| (heard.topic.to_string(), heard.message.clone())).collect();
    let rollout = format!("rollout/{stable}");
    assert_eq!(
        told,
        [
            (rollout.clone(), format!("plan {stable}: 1 pod of fp32")),
            (rollout, format!("plan {stable} serves: 1 ready")),
        ]
    );
    assert_eq!(cluster.news(), ["RolloutOpened info", "RolloutPromoted info"]);
    cluster.pass(600);
    cluster.settle();
    assert_eq!(cluster.news(), Vec::<String>::new());
}

#[test]
fn nobody_is_told_who_was_not_asked_for() {
    let mut cluster = world().serving();
    assert_eq!(cluster.news(), Vec::<String>::new());
    let told = world().edited(|spec| spec.alerts.receivers = vec!["on-call".to_owned()]).serving().heard;
    assert!(told.iter().all(|heard| heard.receivers == ["on-call"]) && told.len() == 2, "{told:?}");
}

#[test]
fn a_stop_is_told_once_and_so_is_its_end() {
    let mut cluster = world().alerting();
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Failure(FailureClass::BadModel));
    cluster.settle();
    let message = format!("Job {resolve} failed (BadModel): the disk is full. Delete the Job to try again");
    assert_eq!(cluster.heard.iter().map(|heard| heard.message.clone()).collect::<Vec<_>>(), [message]);
    assert_eq!(cluster.news(), ["Stalled critical"], "nobody serves");
    cluster = cluster.edited(|spec| spec.serving.replicas = 2);
    cluster.settle();
    assert_eq!(cluster.news(), Vec::<String>::new(), "another generation is no news");
    cluster.world.jobs.remove(&resolve);
    cluster.settle();
    let recovered = cluster.heard.last().expect("something is told");
    assert!(recovered.message.contains(&resolve), "what goes on: {}", recovered.message);
    assert_eq!(cluster.news(), ["Recovered info"]);
}

#[test]
fn pods_that_fail_are_one_problem_whatever_the_kubelet_says() {
    let mut cluster = world().serving().alerting().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    cluster.settle();
    let canary = cluster.canary();
    cluster.heard.clear();
    for words in ["back-off 10s restarting failed container", "back-off 20s restarting failed container"] {
        cluster.fail_pods(&canary, words);
        cluster.settle();
    }
    assert_eq!(cluster.news(), ["Stalled error"], "stable serves");
    cluster.ready_pods();
    cluster.settle();
    assert_eq!(cluster.news(), ["RolloutPromoted info", "Recovered info"]);
}

#[test]
fn objectives_that_nothing_meets_are_told_whether_something_serves_or_not() {
    let told = |cluster: Cluster| {
        let heard = ended(cluster.alerting(), ProfilePhase::Infeasible).heard;
        let opens = |heard: &Announcement| heard.happening.role() == Role::Opens;
        heard.into_iter().filter(opens).map(|heard| (heard.happening, heard.message)).collect::<Vec<_>>()
    };
    let answer = "reply would be met with a max of 620ms or more";
    let keeps_running = told(profiled());
    let [(Happening::ObjectivesInfeasible, message)] = keeps_running.as_slice() else { panic!("{keeps_running:?}") };
    assert!(message.ends_with(answer), "{message}");
    let nearest = serde_json::from_str("\"ServeNearest\"").expect("a word of the API");
    let serves_nearest = profiled().edited(|spec| spec.slo.on_infeasible = nearest);
    assert_eq!(told(serves_nearest), [(Happening::ObjectivesInfeasible, answer.to_owned())]);
}

#[test]
fn a_campaign_that_fails_is_told_in_its_own_words() {
    let mut cluster = ended(profiled().alerting(), ProfilePhase::Failed);
    assert!(cluster.heard[0].message.contains("the image has no program model-analyzer"), "{:?}", cluster.heard);
    assert_eq!(cluster.news(), ["ProfilingFailed critical"]);
}

#[test]
fn an_engine_that_answers_worse_is_told_with_score_and_limit() {
    let cluster = scored(gated().alerting(), Found { score: 980_000, drop: None });
    let mut cluster = scored(cluster, Found { score: 900_000, drop: Some((80_000, 95_000)) });
    cluster.settle();
    let refused = cluster.heard.iter().find(|heard| heard.happening.as_str() == "EngineRefused");
    let refused = refused.expect("it is told").clone();
    let words = "int8: quality 90.00 %: a drop of 8.00 % from the reference, at most 9.50 %; spec.slo.quality.maxDrop allows 2%";
    assert_eq!((refused.topic.to_string().as_str(), refused.message.as_str()), ("engine/int8", words));
    cluster.heard.clear();
    cluster.pass(600);
    cluster.settle();
    assert_eq!(cluster.news(), Vec::<String>::new());
}

#[test]
fn an_objective_is_told_when_it_is_missed_and_when_it_is_met_again() {
    let mut cluster = with_objective().observing(counted(1_200));
    assert_eq!(cluster.news(), Vec::<String>::new(), "what is met is no news");
    cluster = cluster.observing(counted(2_600));
    let message = "tail: AgentRunLatency p95 is 2.6s over 10s, the objective is ≤ 2s";
    assert_eq!(cluster.heard.iter().map(|heard| heard.message.as_str()).collect::<Vec<_>>(), [message]);
    assert_eq!(cluster.news(), ["ObjectiveMissed error"]);
    cluster = cluster.observing(counted(2_700)).observing(counted(2_800));
    assert_eq!(cluster.news(), Vec::<String>::new(), "it is still missed");
    cluster = cluster.observing(counted(900));
    assert_eq!(cluster.news(), ["ObjectiveMet info"]);
}

#[test]
fn an_objective_without_traffic_is_as_it_was() {
    let mut cluster = with_objective().observing(counted(2_600)).observing(ObservedObjectives::default());
    assert_eq!(cluster.world.status.missed_objectives, ["tail"]);
    assert_eq!(cluster.news(), ["ObjectiveMissed error"]);
    cluster = cluster.observing(counted(2_600));
    assert_eq!(cluster.news(), Vec::<String>::new());
    cluster = cluster.observing(ObservedObjectives::default()).observing(counted(900));
    assert_eq!(cluster.news(), ["ObjectiveMet info"]);
}

#[test]
fn an_objective_that_is_taken_away_is_missed_no_more() {
    let mut cluster = with_objective().observing(counted(2_600));
    cluster.heard.clear();
    cluster = cluster.edited(|spec| spec.slo.objectives.clear()).observing(counted(2_600));
    let closed = cluster.heard.iter().find(|heard| heard.topic.to_string() == "objective/tail").expect("it is told");
    assert_eq!((closed.happening.as_str(), closed.message.as_str()), ("ObjectiveMet", "tail is no longer declared"));
}

#[test]
fn an_operator_that_takes_over_tells_nothing_again() {
    let cluster = with_objective().observing(counted(2_600));
    let mut successor = world();
    successor.world = cluster.world;
    successor.settle();
    assert_eq!(successor.news(), Vec::<String>::new());
}

/// Pods of the same namespace took the turns of some.
#[test]
fn what_some_of_the_pods_counted_changes_no_figure() {
    let mut cluster = with_objective().observing(counted(900));
    let before = cluster.world.status.slo.clone();
    assert_eq!(before.iter().map(|entry| entry.met).collect::<Vec<_>>(), [Some(true)]);
    cluster.heard.clear();
    for counted in [counted(2_600), ObservedObjectives::default()] {
        cluster.world.are_all_heard = false;
        cluster = cluster.observing(counted);
        let news = cluster.news();
        assert_eq!((&cluster.world.status.slo, news), (&before, vec![]));
    }
    cluster.world.are_all_heard = true;
    cluster = cluster.observing(counted(2_600));
    assert_eq!(cluster.world.status.slo.iter().map(|entry| entry.met).collect::<Vec<_>>(), [Some(false)]);
}

/// Killed after the status was written, before a receiver had answered.
#[test]
fn what_an_operator_had_not_delivered_is_told_by_its_successor() {
    let mut cluster = with_objective();
    cluster.world.observed = counted(2_600);
    cluster.pass(30);
    let plan = cluster.plan();
    let told = plan.announcements.clone();
    assert_eq!(told.iter().map(|told| told.happening).collect::<Vec<_>>(), [Happening::ObjectiveMissed]);
    cluster.carry_out(plan);
    cluster.world.settled.clear();
    cluster.pass(30);
    let plan = cluster.plan();
    assert_eq!(plan.announcements, told, "with the id by which receivers detect a duplicate");
    assert_eq!(plan.requeue, UNWATCHED, "nothing else says that it has been delivered");
    cluster.carry_out(plan);
    let plan = cluster.plan();
    assert_eq!((plan.announcements, plan.status.undelivered), (vec![], vec![]), "delivered");
}

#[test]
fn what_no_receiver_takes_fills_no_status() {
    let mut cluster = with_objective();
    for round in 0..20 {
        cluster.world.observed = counted(if round % 2 == 0 { 2_600 } else { 900 });
        cluster.pass(30);
        let plan = cluster.plan();
        cluster.carry_out(plan);
        cluster.world.settled.clear();
    }
    let undelivered = cluster.world.status.undelivered;
    let latest = undelivered.last().map(|known| known.happening.as_str());
    assert_eq!((undelivered.len(), latest), (16, Some("ObjectiveMet")), "the oldest make room");
}

/// An operator of a release before facts were recorded has written the status, in words of its own.
#[test]
fn an_upgrade_tells_nothing_again_and_records_what_was_told() {
    let mut cluster = world().alerting().edited(|spec| spec.alerts.receivers.push("tema".to_owned()));
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Failure(FailureClass::BadModel));
    cluster.settle();
    assert_eq!(cluster.news(), ["Stalled critical"]);
    let told = std::mem::take(&mut cluster.world.status.told);
    cluster
        .world
        .status
        .conditions
        .iter_mut()
        .for_each(|condition| condition.message = "as it was said then".to_owned());
    let plan = cluster.plan();
    assert_eq!((plan.notes, plan.announcements, &plan.status.told), (vec![], vec![], &told));
    let facts: Vec<_> =
        told.iter().map(|fact| [&fact.about, &fact.reason, &fact.subject].map(String::as_str)).collect();
    let failed = format!("{resolve}/BadModel");
    let expected = [["Stalled", "JobFailed", failed.as_str()], ["ReceiversResolved", "UnknownReceiver", "tema"]];
    assert_eq!(facts, expected);
}

#[test]
fn a_receiver_that_nobody_knows_is_named_and_disturbs_nothing() {
    let edit = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        world().serving().edited(|spec| spec.alerts.receivers = names)
    };
    let mut cluster = edit(&["team", "tema"]);
    let known = edit(&["team"]);
    assert_eq!(cluster.plan().children, known.plan().children);
    let plan = cluster.plan();
    let message = "spec.alerts.receivers: the operator does not know tema; it knows team, on-call. Name one of those, or add it to \
                   notifications.receivers of the chart, for this namespace";
    let condition = plan.status.conditions.iter().find(|c| c.type_ == "ReceiversResolved").expect("it has one");
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "UnknownReceiver"));
    assert_eq!((condition.message.as_str(), plan.status.stage), (message, Some(Stage::Serving)));
    assert_eq!(
        plan.notes.iter().map(|n| (n.severity, n.message.as_str())).collect::<Vec<_>>(),
        [(Severity::Warning, message)]
    );
    cluster.settle();
    assert_eq!(cluster.plan().notes, vec![], "told once");
    let changed = cluster.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned()).with_pods_ready();
    assert!(changed.heard.iter().all(|heard| heard.receivers == ["team"]) && changed.heard.len() == 2);
}

#[test]
fn known_receivers_are_named_in_a_condition_and_without_any_there_is_none() {
    let seen =
        |cluster: &Cluster| lines(&cluster.plan()).into_iter().find(|line| line.starts_with("ReceiversResolved"));
    let cluster = world();
    assert_eq!(seen(&cluster), None);
    let expected = "ReceiversResolved=True ReceiversKnown: team, on-call are notified of events";
    assert_eq!(seen(&cluster.alerting()), Some(expected.to_owned()));
}
