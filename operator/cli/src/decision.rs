//! What a person decides about a rollout, as the words of `spec.rollout` that say so. Pure.
//!
//! Each word carries the hash of the plan that it is for, so that it does nothing to a plan that nobody has looked at.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeployment, AgentDeploymentStatus,
        agent_deployment::{RejectedPlan, RolloutStatus, ToldFact},
    },
};
use thiserror::Error;

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// What waits for approval goes on.
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
    #[error("nothing waits for approval: see `kubectl slipway rollout`")]
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
    /// It is paused already.
    #[error("spec.rollout.paused is already true")]
    IsPaused,
    /// It is not paused.
    #[error("spec.rollout.paused is not set")]
    IsNotPaused,
}

/// A decision as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The field of `spec.rollout`.
    pub field: &'static str,
    /// Its value.
    pub value: Value,
}

impl Word {
    /// The merge patch that says it.
    pub fn patch(&self) -> Value {
        json!({"spec": {"rollout": {self.field: self.value}}})
    }
}

/// The word for a decision about an AgentDeployment as it is now.
///
/// # Errors
/// When there is nothing to decide.
pub fn word(object: &AgentDeployment, decision: Decision) -> Result<Word, NothingToDecide> {
    let none = RolloutStatus::default();
    let rollout = object.status.as_ref().and_then(|status| status.rollout.as_ref()).unwrap_or(&none);
    let proposed = rollout.proposed.as_ref().map(|proposed| proposed.plan_hash.clone());
    let canary = rollout.canary.clone();
    let is_paused = object.spec.rollout.paused;
    let text = |field, hash: String| Word { field, value: Value::from(hash) };
    match decision {
        Decision::Approve => proposed.map(|hash| text("approve", hash)).ok_or(NothingToDecide::NoProposal),
        Decision::Promote => canary.map(|hash| text("promote", hash)).ok_or(NothingToDecide::NoCanary),
        Decision::Abort => canary.or(proposed).map(|hash| text("abort", hash)).ok_or(NothingToDecide::NothingToAbort),
        Decision::Retry => {
            let (plan, used) = given_up(object, rollout).ok_or(NothingToDecide::NothingRejected)?;
            Ok(text("retry", once_more(plan, &[object.spec.rollout.retry.as_deref(), used])))
        }
        Decision::Pause if is_paused => Err(NothingToDecide::IsPaused),
        Decision::Pause => Ok(Word { field: "paused", value: Value::from(true) }),
        Decision::Resume if !is_paused => Err(NothingToDecide::IsNotPaused),
        Decision::Resume => Ok(Word { field: "paused", value: Value::from(false) }),
    }
}

/// Gives the plan of the spec if it was given up, with its last retry token: it was rolled back, or stable pods were
/// drained for it without effect.
fn given_up<'a>(object: &'a AgentDeployment, rollout: &'a RolloutStatus) -> Option<(&'a str, Option<&'a str>)> {
    let status = object.status.as_ref()?;
    let is_stalled = |c: &&Condition| c.type_ == ConditionType::Stalled.as_str() && c.status == "True";
    let stalled = status.conditions.iter().find(is_stalled)?;
    if stalled.reason == Reason::RolledBack.as_str() {
        let rejected = asked_for(status, &rollout.rejected)?;
        return Some((&rejected.plan, rejected.retry.as_deref()));
    }
    let in_vain = rollout.capacity.as_ref().and_then(|room| room.drained_in_vain.as_deref());
    in_vain.and_then(|word| Some((rollout.canary.as_deref()?, Some(word))))
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

    fn agent(rollout: &Value, status: &Value) -> AgentDeployment {
        let object = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": "waiter"},
            "spec": {
                "model": {"uri": "http://models/react-512/"},
                "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
                "agent": {}, "rollout": rollout,
            },
            "status": status,
        });
        serde_json::from_value(object).expect("a constant agent is one")
    }

    /// Two plans that were rolled back, of which the spec asks for one.
    fn rejected(asked: &str, retry: &Value) -> Value {
        let plan = |hash: &str| json!({"plan": hash, "at": "2026-01-01T00:00:00Z", "reason": "worse", "retry": retry});
        let told = json!([{"about": "Stalled", "reason": "RolledBack", "subject": asked}]);
        let conditions = json!([stalled("RolledBack", "in whatever words")]);
        json!({"conditions": conditions, "told": told, "rollout": {"rejected": [plan("a1"), plan("b2")]}})
    }

    fn stalled(reason: &str, message: &str) -> Value {
        let at = "2026-01-01T00:00:00Z";
        json!({"type": "Stalled", "status": "True", "reason": reason, "message": message, "lastTransitionTime": at})
    }

    #[rstest]
    #[case::approve(Decision::Approve, json!({"approve": "p1"}))]
    #[case::promote(Decision::Promote, json!({"promote": "c1"}))]
    #[case::the_canary_before_what_waits(Decision::Abort, json!({"abort": "c1"}))]
    #[case::pause(Decision::Pause, json!({"paused": true}))]
    fn a_word_is_for_the_plan_that_it_is_about(#[case] decision: Decision, #[case] expected: Value) {
        let proposed = json!({"planHash": "p1", "since": "2026-01-01T00:00:00Z", "why": "faster", "changes": []});
        let agent = agent(&json!({}), &json!({"rollout": {"canary": "c1", "proposed": proposed}}));
        assert_eq!(word(&agent, decision).expect("there is something to decide").patch()["spec"]["rollout"], expected);
    }

    #[rstest]
    #[case::first(json!({}), "b2")]
    #[case::of_another_plan(json!({"retry": "a1"}), "b2")]
    #[case::second(json!({"retry": "b2"}), "b2/2")]
    #[case::third(json!({"retry": "b2/2"}), "b2/3")]
    fn the_plan_that_the_spec_asks_for_is_tried_once_more(#[case] rollout: Value, #[case] expected: &str) {
        let word = word(&agent(&rollout, &rejected("b2", &Value::Null)), Decision::Retry).expect("there is a plan");
        assert_eq!((word.field, word.value), ("retry", Value::from(expected)));
    }

    #[test]
    fn whichever_was_rolled_back_last_it_is_the_one_that_is_asked_for() {
        let word = word(&agent(&json!({}), &rejected("a1", &Value::Null)), Decision::Retry).expect("there is a plan");
        assert_eq!(word.value, Value::from("a1"));
    }

    #[test]
    fn of_an_older_operator_only_a_single_plan_is_certain() {
        let mut status = rejected("b2", &Value::Null);
        status["told"] = json!([]);
        let retry = |status: &Value| word(&agent(&json!({}), status), Decision::Retry).map(|word| word.value);
        assert_eq!(retry(&status), Err(NothingToDecide::NothingRejected));
        status["rollout"]["rejected"].as_array_mut().expect("two plans").remove(0);
        assert_eq!(retry(&status), Ok(Value::from("b2")));
    }

    #[test]
    fn a_try_that_the_spec_does_not_show_any_more_counts() {
        let word = word(&agent(&json!({}), &rejected("b2", &json!("b2/2"))), Decision::Retry).expect("there is a plan");
        assert_eq!(word.value, Value::from("b2/3"));
    }

    #[test]
    fn once_the_spec_asks_for_something_else_nothing_is_tried_again() {
        let mut status = rejected("b2", &Value::Null);
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
            "rollout": {"canary": "c1", "capacity": room},
        });
        let word = word(&agent(&json!({}), &status), Decision::Retry).expect("there is a plan");
        assert_eq!(word.value, Value::from("c1"));
    }

    #[test]
    fn a_paused_rollout_goes_on() {
        let word = word(&agent(&json!({"paused": true}), &json!({})), Decision::Resume).expect("it is paused");
        assert_eq!(word.patch(), json!({"spec": {"rollout": {"paused": false}}}));
    }

    #[rstest]
    #[case::approve(Decision::Approve, NothingToDecide::NoProposal)]
    #[case::promote(Decision::Promote, NothingToDecide::NoCanary)]
    #[case::abort(Decision::Abort, NothingToDecide::NothingToAbort)]
    #[case::retry(Decision::Retry, NothingToDecide::NothingRejected)]
    #[case::resume(Decision::Resume, NothingToDecide::IsNotPaused)]
    fn where_there_is_nothing_to_decide_it_is_said(#[case] decision: Decision, #[case] expected: NothingToDecide) {
        assert_eq!(word(&agent(&json!({}), &json!({})), decision), Err(expected));
    }

    #[test]
    fn a_paused_rollout_is_not_paused_again() {
        let agent = agent(&json!({"paused": true}), &json!({}));
        assert_eq!(word(&agent, Decision::Pause), Err(NothingToDecide::IsPaused));
    }
}
