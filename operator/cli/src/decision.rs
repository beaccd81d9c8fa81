//! What a person decides about a rollout, as the words of `spec.rollout` that say so. Pure.
//!
//! Each word carries the hash of the plan that it is for, so that it does nothing to a plan that nobody has looked at.

use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, agent_deployment::RolloutStatus};
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
    #[error("nothing waits for approval: `kubectl slipway rollout` shows what goes on")]
    NoProposal,
    /// No revision is on trial.
    #[error("no revision is on trial: `kubectl slipway rollout` shows what goes on")]
    NoCanary,
    /// No revision is on trial, and nothing waits for approval.
    #[error("no revision is on trial and nothing waits for approval: `kubectl slipway rollout` shows what goes on")]
    NothingToAbort,
    /// Nothing was rolled back.
    #[error("no plan was rolled back: there is none to try again")]
    NothingRejected,
    /// It is paused already.
    #[error("spec.rollout.paused is true already")]
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
            let last = rollout.rejected.iter().max_by_key(|rejected| rejected.at.0);
            let last = last.ok_or(NothingToDecide::NothingRejected)?;
            let used = [object.spec.rollout.retry.as_deref(), last.retry.as_deref()];
            Ok(text("retry", once_more(&last.plan, &used)))
        }
        Decision::Pause if is_paused => Err(NothingToDecide::IsPaused),
        Decision::Pause => Ok(Word { field: "paused", value: Value::from(true) }),
        Decision::Resume if !is_paused => Err(NothingToDecide::IsNotPaused),
        Decision::Resume => Ok(Word { field: "paused", value: Value::from(false) }),
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
            "status": {"rollout": status},
        });
        serde_json::from_value(object).expect("a constant agent is one")
    }

    fn rejected(plans: &[&str]) -> Value {
        let at = |index| format!("2026-01-01T00:00:0{index}Z");
        let plans = plans.iter().enumerate();
        let plans = plans.map(|(index, plan)| json!({"plan": plan, "at": at(index), "reason": "worse"}));
        json!({"rejected": plans.collect::<Vec<_>>()})
    }

    #[rstest]
    #[case::approve(Decision::Approve, json!({"approve": "p1"}))]
    #[case::promote(Decision::Promote, json!({"promote": "c1"}))]
    #[case::the_canary_before_what_waits(Decision::Abort, json!({"abort": "c1"}))]
    #[case::pause(Decision::Pause, json!({"paused": true}))]
    fn a_word_is_for_the_plan_that_it_is_about(#[case] decision: Decision, #[case] expected: Value) {
        let proposed = json!({"planHash": "p1", "since": "2026-01-01T00:00:00Z", "why": "faster", "changes": []});
        let agent = agent(&json!({}), &json!({"canary": "c1", "proposed": proposed}));
        assert_eq!(word(&agent, decision).expect("there is something to decide").patch()["spec"]["rollout"], expected);
    }

    #[rstest]
    #[case::first(json!({}), "b")]
    #[case::of_another_plan(json!({"retry": "a"}), "b")]
    #[case::second(json!({"retry": "b"}), "b/2")]
    #[case::third(json!({"retry": "b/2"}), "b/3")]
    fn the_plan_that_was_rolled_back_last_is_tried_once_more(#[case] rollout: Value, #[case] expected: &str) {
        let word = word(&agent(&rollout, &rejected(&["a", "b"])), Decision::Retry).expect("there is a plan");
        assert_eq!((word.field, word.value), ("retry", Value::from(expected)));
    }

    #[test]
    fn a_try_that_the_spec_does_not_show_any_more_counts() {
        let rejected =
            json!({"rejected": [{"plan": "b", "at": "2026-01-01T00:00:00Z", "reason": "worse", "retry": "b/2"}]});
        let word = word(&agent(&json!({}), &rejected), Decision::Retry).expect("there is a plan");
        assert_eq!(word.value, Value::from("b/3"));
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
