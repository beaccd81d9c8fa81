//! Conditions of a status, before and after they are given their times. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use slipway_crds::conditions::{ConditionType, Reason};

/// A condition before it is given its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its type.
    pub condition: ConditionType,
    /// Whether it holds.
    pub is_true: bool,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}

/// A condition of which it may be unknown whether it holds, before it is given its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its type.
    pub condition: ConditionType,
    /// Whether it holds; absent while nobody knows.
    pub holds: Option<bool>,
    /// Why, or why it is not known.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}

impl From<Draft> for Answer {
    fn from(Draft { condition, is_true, reason, message }: Draft) -> Self {
        Self { condition, holds: Some(is_true), reason, message }
    }
}

/// A condition with its times: the transition keeps its time as long as the status stays the same.
pub fn dated(answer: impl Into<Answer>, previous: &[Condition], (generation, now): (i64, Timestamp)) -> Condition {
    let Answer { condition, holds, reason, message } = answer.into();
    let status = holds.map_or("Unknown", |holds| if holds { "True" } else { "False" });
    let since = previous
        .iter()
        .find(|previous| previous.type_ == condition.as_str() && previous.status == status)
        .map_or_else(|| Time(now), |previous| previous.last_transition_time.clone());
    Condition {
        type_: condition.as_str().to_owned(),
        status: status.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: since,
        reason: reason.as_str().to_owned(),
        message: message.chars().take(4096).collect(),
    }
}

/// The conditions of a status with one in place of its predecessor, or after all others.
#[must_use]
pub fn with(conditions: &[Condition], condition: Condition) -> Vec<Condition> {
    let mut conditions = conditions.to_vec();
    match conditions.iter_mut().find(|present| present.type_ == condition.type_) {
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn condition(condition: ConditionType, is_true: bool, second: i64) -> Condition {
        let draft = Draft { condition, is_true, reason: Reason::UpToDate, message: String::new() };
        dated(draft, &[], (1, Timestamp::from_second(second).unwrap()))
    }

    #[test]
    fn a_condition_takes_the_place_of_its_predecessor_and_a_new_one_comes_last() {
        let ready = condition(ConditionType::Ready, true, 1);
        let stalled = condition(ConditionType::Stalled, false, 1);
        let later = condition(ConditionType::Ready, false, 2);
        assert_eq!(with(std::slice::from_ref(&ready), stalled.clone()), [ready.clone(), stalled.clone()]);
        assert_eq!(with(&[ready, stalled.clone()], later.clone()), [later, stalled]);
    }
}
