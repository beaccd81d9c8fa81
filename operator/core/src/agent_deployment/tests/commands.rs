//! Commands to a running rollout, as annotations: they say what fields of the spec say, and no GitOps tool owns them.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::{commands::Command, v1alpha1::agent_deployment::Stage};

use super::{
    approval::{asking, chosen_otherwise, proposed},
    capacity::{Full, full},
    cluster::{Cluster, world},
    trial::{EQUAL, Trial, Users, trial},
};
use crate::{agent_deployment::commands::Annotated, plan::Severity};

impl Cluster {
    /// Another annotation; the spec and its generation stay.
    pub(super) fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self.world.annotated = Annotated::read(&self.annotations);
        self
    }

    /// A person gives a command beside the spec.
    pub(super) fn told(self, command: Command, value: &str) -> Self {
        self.annotated(command.annotation(), value)
    }

    /// A person takes a command back.
    pub(super) fn untold(mut self, command: Command) -> Self {
        self.annotations.remove(command.annotation());
        self.world.annotated = Annotated::read(&self.annotations);
        self
    }
}

fn told(mut trial: Trial, command: Command, value: &str) -> Trial {
    trial.cluster = trial.cluster.clone().told(command, value);
    trial.settle();
    trial
}

fn reasons(trial: &Trial) -> Vec<String> {
    trial.rollout().rejected.into_iter().map(|rejected| rejected.reason).collect()
}

fn condition(cluster: &Cluster, type_: &str) -> Option<(String, String)> {
    let found = cluster.world.status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((format!("{} {}", found.status, found.reason), found.message.clone()))
}

#[test]
fn an_aborted_canary_is_rolled_back_and_the_annotation_is_named() {
    let trial = trial();
    let canary = trial.cluster.canary();
    let generation = trial.cluster.world.generation;
    let aborted = told(trial, Command::Abort, &canary);
    assert_eq!(reasons(&aborted), ["at 20 % of the traffic: annotation slipway.dev/abort names it"]);
    assert_eq!((aborted.canary(), aborted.cluster.world.generation), (None, generation));
}

#[rstest]
#[case::abort(Command::Abort)]
#[case::promote(Command::Promote)]
#[case::pause(Command::Pause)]
#[case::retry(Command::Retry)]
#[case::approve(Command::Approve)]
fn a_command_for_another_plan_does_nothing(#[case] command: Command) {
    let before = trial();
    let after = told(before.clone(), command, "0123456789");
    assert_eq!(after.cluster.world.status, before.cluster.world.status);
    assert_eq!(after.cluster.plan(), before.cluster.plan());
}

#[test]
fn a_promoted_canary_takes_over_without_a_verdict() {
    let trial = trial();
    let canary = trial.cluster.canary();
    let mut promoted = told(trial, Command::Promote, &canary);
    promoted.cluster.ready_pods();
    promoted.settle();
    assert_eq!((promoted.stable(), promoted.canary()), (canary, None));
}

#[test]
fn an_event_says_that_a_person_promoted_the_canary_and_not_that_it_passed() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.events.clear();
    let promoted = told(trial, Command::Promote, &canary);
    let how = "is promoted by annotation slipway.dev/promote at 20 %";
    let line = format!("RolloutAdvanced plan {canary} {how}: it takes over with 4 pods ready");
    let advanced: Vec<&String> = promoted.events.iter().filter(|event| event.contains("takes over with")).collect();
    assert_eq!(advanced, [&line]);
}

#[test]
fn a_pause_holds_the_plan_that_it_names_and_the_next_one_goes_on() {
    let trial = trial();
    let canary = trial.cluster.canary();
    let mut paused = told(trial, Command::Pause, &canary);
    paused.serve(20 * 60, EQUAL);
    let suspended = condition(&paused.cluster, "Suspended");
    let message = format!(
        "revision {canary} is paused at 20 % of the traffic. To resume, run `kubectl slipway resume support -n team`, or \
         remove annotation slipway.dev/pause"
    );
    assert_eq!((paused.share(), suspended), (20, Some(("True RolloutPaused".to_owned(), message))));
    let mut resumed = paused.clone();
    resumed.cluster = resumed.cluster.clone().untold(Command::Pause);
    resumed.serve(60 * 60, EQUAL);
    assert_eq!(resumed.stable(), canary);
    paused.cluster = paused.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    paused.settle();
    paused.cluster.ready_pods();
    paused.settle();
    assert_eq!(condition(&paused.cluster, "Suspended"), None);
    assert_ne!(paused.canary(), Some(canary));
}

#[test]
fn a_rejected_plan_is_retried_once_for_each_value() {
    let slow = Users { slowdown: 2.0, ..EQUAL };
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.serve(20 * 60, slow);
    let retry = |mut trial: Trial, value: &str| {
        trial = told(trial, Command::Retry, value);
        let is_tried = trial.canary() == Some(canary.clone());
        trial.cluster.ready_pods();
        trial.settle();
        trial.serve(20 * 60, slow);
        (trial, is_tried)
    };
    let (trial, first) = retry(trial, &canary);
    let (trial, same) = retry(trial, &canary);
    let (mut trial, second) = retry(trial, &format!("{canary}/2"));
    assert_eq!([first, same, second], [true, false, true]);
    trial.cluster = trial.cluster.clone().untold(Command::Retry);
    trial.settle();
    assert_eq!((trial.canary(), trial.cluster.world.status.stage), (None, Some(Stage::RolledBack)));
}

#[test]
fn a_choice_is_approved_beside_the_spec() {
    let waiting = chosen_otherwise(asking());
    let hash = proposed(&waiting).plan_hash;
    let mut approved = waiting.told(Command::Approve, &hash);
    approved.settle();
    assert_eq!((approved.canary(), condition(&approved, "Suspended")), (hash.clone(), None));
    let serving = approved.untold(Command::Approve).with_pods_ready();
    assert_eq!(serving.stable(), hash);
}

#[test]
fn a_retry_probes_for_room_at_once() {
    let mut waiting = full(2, "capacity: RequireSurge");
    waiting.cluster.pass(3_600);
    waiting.settle();
    let canary = waiting.rollout().canary.expect("it waits for room");
    let retry_at = |full: &Full| full.room().and_then(|room| room.retry_at).map(|at| at.0);
    let now = waiting.cluster.world.now;
    assert!(retry_at(&waiting) > Some(now), "it backs off");
    waiting.cluster = waiting.cluster.clone().told(Command::Retry, &canary);
    waiting.step();
    assert!(retry_at(&waiting) <= Some(now), "{:?}", waiting.room());
}

#[test]
fn what_is_no_command_is_told_once_and_disturbs_nothing() {
    let serving = world().serving();
    let mut cluster = serving.clone().annotated("slipway.dev/pause", "true").annotated("slipway.dev/aprove", "x");
    assert_eq!(cluster.plan().children, serving.plan().children);
    let message = "annotation slipway.dev/aprove is unknown: remove it, or use one of slipway.dev/approve, \
                   slipway.dev/promote, slipway.dev/abort, slipway.dev/retry, slipway.dev/pause, \
                   slipway.dev/approve-reprofiling; annotation \
                   slipway.dev/pause is \"true\", which names no plan: remove it, or set it to the hash in \
                   status.rollout.canary";
    let notes: Vec<_> = cluster.plan().notes.into_iter().map(|note| (note.severity, note.message)).collect();
    assert_eq!(notes, [(Severity::Warning, message.to_owned())]);
    cluster.settle();
    let expected = Some(("True CommandUnknown".to_owned(), message.to_owned()));
    assert_eq!((condition(&cluster, "CommandInvalid"), cluster.plan().notes), (expected, vec![]));
    assert_eq!(cluster.world.status.stage, Some(Stage::Serving));
    let mut mended = cluster.untold(Command::Pause);
    mended.annotations.clear();
    mended = mended.untold(Command::Pause);
    mended.settle();
    assert_eq!(mended.world.status.conditions, serving.world.status.conditions);
}
