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

/// A condition with its times: the transition keeps its time as long as the status stays the same.
pub fn dated(draft: Draft, previous: &[Condition], (generation, now): (i64, Timestamp)) -> Condition {
    let Draft { condition, is_true, reason, message } = draft;
    let status = if is_true { "True" } else { "False" };
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
