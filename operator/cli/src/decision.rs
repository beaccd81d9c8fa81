//! What a person decides about a rollout or a proposed campaign, as the annotations that say so. Pure.
//!
//! Each word carries the hash of the plan that it is for, so that it does nothing to a plan that nobody has looked at.
//! It is an annotation, because GitOps tools put fields of the spec back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_crds::{
    commands::Command,
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeployment, AgentDeploymentStatus,
        agent_deployment::{RejectedPlan, RolloutStatus, ToldFact},
    },
};
use thiserror::Error;

use crate::output::Shown;

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Decision {
    /// What waits for approval goes on: a choice, else a campaign that is proposed after drift.
    Approve,
    /// The canary takes over without further judgement.
    Promote,
    /// The canary, or what waits for approval, is given up.
    Abort,
    /// What was rolled back is tried once more.
    Retry,
    /// The rollout stays at its step.
    Pause,
    /// The rollout goes on from its step.
    Resume,
}

/// Why there is nothing to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NothingToDecide {
    /// Nothing waits for approval.
    #[error("nothing waits for approval: see `kubectl slipway status`")]
    NoProposal,
    /// No canary is being rolled out.
    #[error("no canary is being rolled out: see `kubectl slipway rollout`")]
    NoCanary,
    /// No canary is being rolled out, and nothing waits for approval.
    #[error("no canary is being rolled out and nothing waits for approval: see `kubectl slipway rollout`")]
    NothingToAbort,
    /// What the spec asks for was not given up.
    #[error("the plan of the spec was not rolled back: there is nothing to retry")]
    NothingRejected,
    /// No canary is being rolled out that could stay at its step.
    #[error("no canary is being rolled out: to hold the next one, set spec.rollout.paused in the manifest")]
    NothingToPause,
    /// It is paused already.
    #[error("the rollout is paused already")]
    IsPaused,
    /// It is not paused.
    #[error("the rollout is not paused")]
    IsNotPaused,
    /// The manifest rolls the plan back, whatever else is said.
    #[error("spec.rollout.abort names this plan: remove it from the manifest first")]
    AbortedBySpec,
}

/// A decision as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Word {
    /// Name of the AgentDeployment.
    name: String,
    /// Its namespace.
    namespace: String,
    /// What was decided.
    decision: Decision,
    /// What of the AgentDeployment changes.
    changes: Vec<Change>,
}

impl Shown for Word {
    const KIND: &'static str = "Decision";
}

/// A change of an AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "ChangeView")]
enum Change {
    /// A command's annotation has this value.
    Set(Command, String),
    /// A command's annotation goes.
    Remove(Command),
    /// `spec.rollout.paused` is false.
    Unpause,
}

/// A change as a document has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeView {
    action: Action,
    /// The annotation that changes. Absent where a field does.
    #[serde(skip_serializing_if = "Option::is_none")]
    annotation: Option<&'static str>,
    /// The field that changes. Absent where an annotation does.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
    /// Absent where an annotation is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// The field with the same effect as the annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    equal_field: Option<&'static str>,
}

/// What is done to an annotation or a field.
#[derive(Serialize)]
enum Action {
    Set,
    Remove,
}

impl From<Change> for ChangeView {
    fn from(change: Change) -> Self {
        let of = |action, command: Command, value: Option<String>| Self {
            action,
            annotation: Some(command.annotation()),
            field: None,
            value: value.map(Value::from),
            equal_field: Some(command.field()),
        };
        match change {
            Change::Set(command, value) => of(Action::Set, command, Some(value)),
            Change::Remove(command) => of(Action::Remove, command, None),
            Change::Unpause => {
                let (field, value) = (Some(Command::Pause.field()), Some(Value::from(false)));
                Self { action: Action::Set, annotation: None, field, value, equal_field: None }
            }
        }
    }
}

impl Word {
    /// The merge patch that says it.
    pub fn patch(&self) -> Value {
        let mut patch = json!({});
        for change in &self.changes {
            match change {
                Change::Set(command, value) => patch["metadata"]["annotations"][command.annotation()] = json!(value),
                Change::Remove(command) => patch["metadata"]["annotations"][command.annotation()] = Value::Null,
                Change::Unpause => patch["spec"]["rollout"]["paused"] = json!(false),
            }
        }
        patch
    }

    /// Whether it changes the spec, which GitOps tools put back.
    pub fn is_in_spec(&self) -> bool {
        self.changes.contains(&Change::Unpause)
    }

    /// What was written, a line for each change.
    pub fn text(&self) -> String {
        let line = |change: &Change| match change {
            Change::Set(command, value) => format!("{}: annotation {} is {value}\n", self.name, command.annotation()),
            Change::Remove(command) => format!("{}: annotation {} is removed\n", self.name, command.annotation()),
            Change::Unpause => format!("{}: {} is false\n", self.name, Command::Pause.field()),
        };
        let mut text: String = self.changes.iter().map(line).collect();
        if self.is_in_spec() {
            text.push_str("GitOps will revert this unless the manifest sets it too\n");
        }
        text
    }
}

/// The word for a decision about an AgentDeployment as it is now.
///
/// # Errors
/// When there is nothing to decide.
pub fn word(object: &AgentDeployment, decision: Decision) -> Result<Word, NothingToDecide> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    Ok(Word { name, namespace, decision, changes: changes(object, decision)? })
}

/// What a decision changes.
fn changes(object: &AgentDeployment, decision: Decision) -> Result<Vec<Change>, NothingToDecide> {
    let none = RolloutStatus::default();
    let rollout = object.status.as_ref().and_then(|status| status.rollout.as_ref()).unwrap_or(&none);
    let proposed = rollout.proposed.as_ref().map(|proposed| proposed.plan_hash.clone());
    // The first revision has nothing to be compared with, or to be rolled back to.
    let canary = rollout.stable.as_ref().and(rollout.canary.clone());
    match decision {
        Decision::Approve => approve(object, proposed),
        Decision::Promote => go_on(object, Command::Promote, canary.ok_or(NothingToDecide::NoCanary)?),
        Decision::Abort => {
            let plan = canary.or(proposed).ok_or(NothingToDecide::NothingToAbort)?;
            Ok(vec![Change::Set(Command::Abort, plan)])
        }
        Decision::Retry => {
            let GivenUp { plan, used } = given_up(object, rollout).ok_or(NothingToDecide::NothingRejected)?;
            let asked = [object.spec.rollout.retry.as_deref(), annotation(object, Command::Retry)];
            go_on(object, Command::Retry, once_more(plan, &[asked, used].concat()))
        }
        Decision::Pause => {
            let plan = canary.ok_or(NothingToDecide::NothingToPause)?;
            let is_paused = object.spec.rollout.paused || names(object, Command::Pause, &plan);
            if is_paused {
                return Err(NothingToDecide::IsPaused);
            }
            Ok(vec![Change::Set(Command::Pause, plan)])
        }
        Decision::Resume => resume(object, canary.as_deref()),
    }
}

/// The choice that waits, else the campaign. Each is looked at before it is approved, so both take two words.
fn approve(object: &AgentDeployment, choice: Option<String>) -> Result<Vec<Change>, NothingToDecide> {
    if let Some(plan) = choice {
        return go_on(object, Command::Approve, plan);
    }
    let drift = object.status.as_ref().and_then(|status| status.drift.as_ref());
    let campaign = drift.and_then(|drift| drift.proposal.clone()).ok_or(NothingToDecide::NoProposal)?;
    Ok(vec![Change::Set(Command::ApproveReprofiling, campaign)])
}

/// The changes that let a plan continue. An earlier word that rolls it back goes.
fn go_on(object: &AgentDeployment, command: Command, value: String) -> Result<Vec<Change>, NothingToDecide> {
    let plan = command.plan_of(&value).unwrap_or(&value);
    if object.spec.rollout.abort.as_deref() == Some(plan) {
        return Err(NothingToDecide::AbortedBySpec);
    }
    let abort = names(object, Command::Abort, plan).then_some(Change::Remove(Command::Abort));
    Ok([Change::Set(command, value)].into_iter().chain(abort).collect())
}

/// Whatever keeps the rollout goes.
fn resume(object: &AgentDeployment, canary: Option<&str>) -> Result<Vec<Change>, NothingToDecide> {
    let is_annotated = canary.is_some_and(|plan| names(object, Command::Pause, plan));
    let annotation = is_annotated.then_some(Change::Remove(Command::Pause));
    let field = object.spec.rollout.paused.then_some(Change::Unpause);
    let changes: Vec<Change> = annotation.into_iter().chain(field).collect();
    if changes.is_empty() { Err(NothingToDecide::IsNotPaused) } else { Ok(changes) }
}

fn annotation(object: &AgentDeployment, command: Command) -> Option<&str> {
    object.metadata.annotations.as_ref()?.get(command.annotation()).map(String::as_str)
}

fn names(object: &AgentDeployment, command: Command, plan: &str) -> bool {
    annotation(object, command).is_some_and(|value| command.plan_of(value) == Some(plan))
}

/// A plan that was given up, with the retry tokens that no longer count.
struct GivenUp<'a> {
    plan: &'a str,
    used: [Option<&'a str>; 2],
}

/// Gives the plan of the spec if it was given up: it was rolled back, or stable pods were drained for it without
/// effect.
fn given_up<'a>(object: &'a AgentDeployment, rollout: &'a RolloutStatus) -> Option<GivenUp<'a>> {
    let status = object.status.as_ref()?;
    let is_stalled = |c: &&Condition| c.type_ == ConditionType::Stalled.as_str() && c.status == "True";
    let stalled = status.conditions.iter().find(is_stalled)?;
    if stalled.reason == Reason::RolledBack.as_str() {
        let RejectedPlan { plan, retry, retry_annotation, .. } = asked_for(status, &rollout.rejected)?;
        return Some(GivenUp { plan, used: [retry.as_deref(), retry_annotation.as_deref()] });
    }
    let room = rollout.capacity.as_ref()?;
    let used = [Some(room.drained_in_vain.as_deref()?), room.drained_in_vain_annotation.as_deref()];
    Some(GivenUp { plan: rollout.canary.as_deref()?, used })
}

/// Gives the plan, of those that were rolled back, that the spec asks for. The operator records it as the subject of
/// the stop. Without that record, of an older operator, only a single one is certain.
fn asked_for<'a>(status: &AgentDeploymentStatus, rejected: &'a [RejectedPlan]) -> Option<&'a RejectedPlan> {
    let is_stop =
        |fact: &&ToldFact| fact.about == ConditionType::Stalled.as_str() && fact.reason == Reason::RolledBack.as_str();
    match (status.told.iter().find(is_stop), rejected) {
        (Some(stop), _) => rejected.iter().find(|rejected| rejected.plan == stop.subject),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// The token for another try: the hash, with a number beyond those of the tokens that were used for it.
fn once_more(hash: &str, used: &[Option<&str>]) -> String {
    let number = |token: &str| {
        let rest = token.strip_prefix(hash)?;
        if rest.is_empty() { Some(1) } else { rest.strip_prefix('/')?.parse::<u32>().ok() }
    };
    match used.iter().flatten().filter_map(|token| number(token)).max() {
        None => hash.to_owned(),
        Some(tries) => format!("{hash}/{}", tries.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const PROPOSED: &str = "aaaaaaaaaa";
    const CANARY: &str = "cccccccccc";
    const PLAN: &str = "bbbbbbbbbb";

    fn agent(rollout: &Value, status: &Value) -> AgentDeployment {
        annotated(&json!({}), rollout, status)
    }

    fn annotated(annotations: &Value, rollout: &Value, status: &Value) -> AgentDeployment {
        let object = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": "waiter", "annotations": annotations},
            "spec": {
                "model": {"uri": "http://models/react-512/"},
                "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
                "agent": {}, "rollout": rollout,
            },
            "status": status,
        });
        serde_json::from_value(object).expect("a constant agent is one")
    }

    /// A canary is rolled out, and another plan waits for approval.
    fn rolling() -> Value {
        let proposed = json!({"planHash": PROPOSED, "since": "2026-01-01T00:00:00Z", "why": "faster", "changes": []});
        json!({"rollout": {"stable": PLAN, "canary": CANARY, "proposed": proposed}})
    }

    /// Gives the annotations that a decision changes; the spec stays as it is.
    fn written(object: &AgentDeployment, decision: Decision) -> Value {
        let word = word(object, decision).expect("there is something to decide");
        assert!(!word.is_in_spec() && word.patch().get("spec").is_none(), "{word:?}");
        word.patch()["metadata"]["annotations"].clone()
    }

    /// Two plans that were rolled back, of which the spec asks for one.
    fn rejected(asked: &str, retry: &Value) -> Value {
        let plan = |hash: &str| json!({"plan": hash, "at": "2026-01-01T00:00:00Z", "reason": "worse", "retry": retry});
        let told = json!([{"about": "Stalled", "reason": "RolledBack", "subject": asked}]);
        let conditions = json!([stalled("RolledBack", "in whatever words")]);
        json!({"conditions": conditions, "told": told, "rollout": {"rejected": [plan(PROPOSED), plan(PLAN)]}})
    }

    fn stalled(reason: &str, message: &str) -> Value {
        let at = "2026-01-01T00:00:00Z";
        json!({"type": "Stalled", "status": "True", "reason": reason, "message": message, "lastTransitionTime": at})
    }

    #[rstest]
    #[case::approve(Decision::Approve, json!({"slipway.dev/approve": PROPOSED}))]
    #[case::promote(Decision::Promote, json!({"slipway.dev/promote": CANARY}))]
    #[case::the_canary_before_what_waits(Decision::Abort, json!({"slipway.dev/abort": CANARY}))]
    #[case::pause(Decision::Pause, json!({"slipway.dev/pause": CANARY}))]
    fn a_word_is_for_the_plan_that_it_is_about(#[case] decision: Decision, #[case] expected: Value) {
        assert_eq!(written(&agent(&json!({}), &rolling()), decision), expected);
    }

    #[rstest]
    #[case::a_campaign(json!({}), json!({"slipway.dev/approve-reprofiling": "bbbbbbbbbb-1"}))]
    #[case::a_choice_first(rolling()["rollout"].clone(), json!({"slipway.dev/approve": PROPOSED}))]
    fn what_waits_is_approved_a_choice_before_a_campaign(#[case] rollout: Value, #[case] expected: Value) {
        let drift = json!({
            "revision": PLAN, "verdict": "WorkloadDrift", "since": "2026-01-01T00:00:00Z", "message": "other work",
            "baselineFrom": "2026-01-01T00:00:00Z", "proposal": "bbbbbbbbbb-1",
        });
        let status = json!({"rollout": rollout, "drift": drift});
        assert_eq!(written(&agent(&json!({}), &status), Decision::Approve), expected);
    }

    #[rstest]
    #[case::first(json!({}), json!({}), PLAN)]
    #[case::of_another_plan(json!({"retry": PROPOSED}), json!({}), PLAN)]
    #[case::second(json!({"retry": PLAN}), json!({}), "bbbbbbbbbb/2")]
    #[case::third(json!({"retry": "bbbbbbbbbb/2"}), json!({}), "bbbbbbbbbb/3")]
    #[case::after_an_annotation(json!({"retry": PLAN}), json!({"slipway.dev/retry": "bbbbbbbbbb/4"}), "bbbbbbbbbb/5")]
    fn the_plan_that_the_spec_asks_for_is_tried_once_more(
        #[case] rollout: Value,
        #[case] annotations: Value,
        #[case] expected: &str,
    ) {
        let agent = annotated(&annotations, &rollout, &rejected(PLAN, &Value::Null));
        assert_eq!(written(&agent, Decision::Retry), json!({"slipway.dev/retry": expected}));
    }

    #[test]
    fn whichever_was_rolled_back_last_it_is_the_one_that_is_asked_for() {
        let agent = agent(&json!({}), &rejected(PROPOSED, &Value::Null));
        assert_eq!(written(&agent, Decision::Retry), json!({"slipway.dev/retry": PROPOSED}));
    }

    #[test]
    fn of_an_older_operator_only_a_single_plan_is_certain() {
        let mut status = rejected(PLAN, &Value::Null);
        status["told"] = json!([]);
        let retry = |status: &Value| word(&agent(&json!({}), status), Decision::Retry);
        assert_eq!(retry(&status), Err(NothingToDecide::NothingRejected));
        status["rollout"]["rejected"].as_array_mut().expect("two plans").remove(0);
        assert_eq!(
            retry(&status).map(|word| word.text()),
            Ok(format!("waiter: annotation slipway.dev/retry is {PLAN}\n"))
        );
    }

    #[test]
    fn a_try_that_nothing_shows_any_more_counts() {
        let mut status = rejected(PLAN, &json!("bbbbbbbbbb/2"));
        let first = written(&agent(&json!({}), &status), Decision::Retry);
        status["rollout"]["rejected"][1]["retryAnnotation"] = json!("bbbbbbbbbb/3");
        let second = written(&agent(&json!({}), &status), Decision::Retry);
        assert_eq!([first, second].map(|patch| patch["slipway.dev/retry"].clone()), ["bbbbbbbbbb/3", "bbbbbbbbbb/4"]);
    }

    #[test]
    fn what_is_tried_or_promoted_is_no_longer_aborted() {
        let aborted = json!({"slipway.dev/abort": PLAN});
        let retried = annotated(&aborted, &json!({}), &rejected(PLAN, &Value::Null));
        let expected = json!({"slipway.dev/retry": PLAN, "slipway.dev/abort": null});
        assert_eq!(written(&retried, Decision::Retry), expected);
        let of_another = annotated(&aborted, &json!({}), &rolling());
        assert_eq!(written(&of_another, Decision::Promote), json!({"slipway.dev/promote": CANARY}));
        let by_spec = agent(&json!({"abort": CANARY}), &rolling());
        assert_eq!(word(&by_spec, Decision::Promote), Err(NothingToDecide::AbortedBySpec));
    }

    #[test]
    fn once_the_spec_asks_for_something_else_nothing_is_tried_again() {
        let mut status = rejected(PLAN, &Value::Null);
        status["conditions"] = json!([]);
        assert_eq!(word(&agent(&json!({}), &status), Decision::Retry), Err(NothingToDecide::NothingRejected));
    }

    #[test]
    fn a_canary_that_serving_pods_made_room_for_in_vain_is_tried_once_more() {
        let room = json!({
            "phase": "Waiting", "wanted": 1, "pods": 0, "drained": 0, "since": "2026-01-01T00:00:00Z", "message": "no node",
            "attempts": 1, "generation": 1, "drainedInVain": "",
        });
        let status = json!({
            "conditions": [stalled("InsufficientCapacity", "the cluster lacks capacity")],
            "rollout": {"canary": CANARY, "capacity": room},
        });
        assert_eq!(written(&agent(&json!({}), &status), Decision::Retry), json!({"slipway.dev/retry": CANARY}));
    }

    #[test]
    fn a_paused_rollout_goes_on_wherever_it_was_paused() {
        let paused = json!({"slipway.dev/pause": CANARY});
        let annotated_alone = annotated(&paused, &json!({}), &rolling());
        assert_eq!(written(&annotated_alone, Decision::Resume), json!({"slipway.dev/pause": null}));
        let both = word(&annotated(&paused, &json!({"paused": true}), &rolling()), Decision::Resume);
        let both = both.expect("it is paused");
        let patch = json!({
            "metadata": {"annotations": {"slipway.dev/pause": null}},
            "spec": {"rollout": {"paused": false}},
        });
        assert_eq!((both.patch(), both.is_in_spec()), (patch, true));
    }

    #[rstest]
    #[case::approve(Decision::Approve, NothingToDecide::NoProposal)]
    #[case::promote(Decision::Promote, NothingToDecide::NoCanary)]
    #[case::abort(Decision::Abort, NothingToDecide::NothingToAbort)]
    #[case::retry(Decision::Retry, NothingToDecide::NothingRejected)]
    #[case::pause(Decision::Pause, NothingToDecide::NothingToPause)]
    #[case::resume(Decision::Resume, NothingToDecide::IsNotPaused)]
    fn where_there_is_nothing_to_decide_it_is_said(#[case] decision: Decision, #[case] expected: NothingToDecide) {
        assert_eq!(word(&agent(&json!({}), &json!({})), decision), Err(expected));
    }

    #[rstest]
    #[case::by_the_spec(json!({}), json!({"paused": true}))]
    #[case::by_an_annotation(json!({"slipway.dev/pause": CANARY}), json!({}))]
    fn a_paused_rollout_is_not_paused_again(#[case] annotations: Value, #[case] rollout: Value) {
        let agent = annotated(&annotations, &rollout, &rolling());
        assert_eq!(word(&agent, Decision::Pause), Err(NothingToDecide::IsPaused));
    }

    #[test]
    fn a_pause_of_another_plan_keeps_nothing() {
        let agent = annotated(&json!({"slipway.dev/pause": PLAN}), &json!({}), &rolling());
        assert_eq!(word(&agent, Decision::Resume), Err(NothingToDecide::IsNotPaused));
        assert_eq!(written(&agent, Decision::Pause), json!({"slipway.dev/pause": CANARY}));
    }
}
