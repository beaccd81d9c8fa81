//! What a status says while its plan is being carried out, and of a child that the API server refuses. Pure.
//!
//! No planner knows of it: what a plan wants is refused when the plan is carried out. So it is laid over the planned
//! status, and stays there until all that a plan wants has been accepted. Nor is anything ready before that: the
//! Service that clients call may still lead nowhere.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{AgentDeploymentStatus, EngineStatus, ProfileStatus},
};

use crate::conditions::{Draft, dated, with};

/// A status with conditions.
pub trait Conditioned: Clone {
    /// The conditions.
    fn conditions(&self) -> &[Condition];
    /// The same status with other conditions.
    fn with_conditions(self, conditions: Vec<Condition>) -> Self;
}

macro_rules! conditioned {
    ($($status:ty),+) => {
        $(impl Conditioned for $status {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn with_conditions(self, conditions: Vec<Condition>) -> Self {
                Self { conditions, ..self }
            }
        })+
    };
}
conditioned!(AgentDeploymentStatus, EngineStatus, ProfileStatus);

/// The planned status, with a refusal that the observed one has: whether it is over is not known yet.
pub fn kept<S: Conditioned>(observed: Option<&S>, planned: &S) -> S {
    let is_refusal = |c: &&Condition| {
        c.type_ == ConditionType::Reconciling.as_str() && c.status == "True" && c.reason == Reason::ApplyFailed.as_str()
    };
    let refusal = observed.and_then(|observed| observed.conditions().iter().find(is_refusal));
    match refusal.filter(|_| !is_stalled(planned)) {
        Some(refusal) => planned.clone().with_conditions(with(planned.conditions(), refusal.clone())),
        None => planned.clone(),
    }
}

/// The planned status as long as the children of its plan are not all there: what was not ready is not ready yet.
pub fn not_yet_ready<S: Conditioned>(observed: Option<&S>, planned: S) -> S {
    let find = |status: &S, condition: ConditionType| {
        status.conditions().iter().find(|c| c.type_ == condition.as_str()).cloned()
    };
    let is_true = |condition: &Condition| condition.status == "True";
    let was = |condition| observed.and_then(|observed| find(observed, condition));
    let becomes_ready = find(&planned, ConditionType::Ready).as_ref().is_some_and(is_true);
    let Some(unready) = was(ConditionType::Ready).filter(|ready| becomes_ready && !is_true(ready)) else {
        return planned;
    };
    let under_way = was(ConditionType::Reconciling).filter(|_| !is_stalled(&planned));
    let held = [Some(unready), under_way].into_iter().flatten();
    let conditions = held.fold(planned.conditions().to_vec(), |all, condition| with(&all, condition));
    planned.with_conditions(conditions)
}

/// The status after a refusal in the API server's words. What has stopped for good stays stopped: both conditions are
/// never true at once.
pub fn refused<S: Conditioned>(written: &S, message: String, dating: (i64, Timestamp)) -> S {
    if is_stalled(written) {
        return written.clone();
    }
    let (condition, reason) = (ConditionType::Reconciling, Reason::ApplyFailed);
    let draft = Draft { condition, is_true: true, reason, message };
    let refusal = dated(draft, written.conditions(), dating);
    written.clone().with_conditions(with(written.conditions(), refusal))
}

fn is_stalled<S: Conditioned>(status: &S) -> bool {
    status.conditions().iter().any(|c| c.type_ == ConditionType::Stalled.as_str() && c.status == "True")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn condition(condition: ConditionType, is_true: bool, reason: Reason, message: &str) -> Condition {
        let draft = Draft { condition, is_true, reason, message: message.to_owned() };
        dated(draft, &[], (1, at(1)))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn status(conditions: &[Condition]) -> EngineStatus {
        EngineStatus { conditions: conditions.to_vec(), ..EngineStatus::default() }
    }

    fn ready() -> Condition {
        condition(ConditionType::Ready, true, Reason::Available, "")
    }

    fn idle() -> Condition {
        condition(ConditionType::Reconciling, false, Reason::UpToDate, "nothing is under way")
    }

    fn quota() -> Condition {
        condition(ConditionType::Reconciling, true, Reason::ApplyFailed, "exceeded quota: objects")
    }

    #[test]
    fn a_refusal_is_a_condition_in_the_api_servers_words() {
        let planned = status(&[ready(), idle()]);
        let refused = refused(&planned, "exceeded quota: objects".to_owned(), (1, at(1)));
        assert_eq!(refused, status(&[ready(), quota()]));
    }

    #[test]
    fn a_refusal_stays_until_the_plan_has_been_carried_out_so_that_it_costs_one_write() {
        let observed = status(&[ready(), quota()]);
        let planned = status(&[ready(), idle()]);
        let kept = kept(Some(&observed), &planned);
        assert_eq!(kept, observed);
        assert_eq!(refused(&kept, "exceeded quota: objects".to_owned(), (1, at(9))), observed, "refused once more");
    }

    #[test]
    fn without_a_refusal_a_plan_is_recorded_as_it_is() {
        let planned = status(&[ready(), idle()]);
        assert_eq!(kept(None, &planned), planned);
        let starting = condition(ConditionType::Reconciling, true, Reason::JobStarting, "");
        assert_eq!(kept(Some(&status(&[starting])), &planned), planned);
    }

    #[test]
    fn nothing_becomes_ready_before_its_plan_has_been_carried_out() {
        let unready = condition(ConditionType::Ready, false, Reason::RolloutProgressing, "1 of 2 pods is ready");
        let starting = condition(ConditionType::Reconciling, true, Reason::RolloutProgressing, "1 of 2 pods is ready");
        let planned = status(&[ready(), idle()]);
        let observed = status(&[unready, starting]);
        assert_eq!(not_yet_ready(Some(&observed), planned.clone()), observed);
        assert_eq!(not_yet_ready(Some(&planned), planned.clone()), planned, "it is ready already");
        assert_eq!(not_yet_ready(Some(&planned), observed.clone()), observed, "what is lost is told at once");
        assert_eq!(not_yet_ready(None, planned.clone()), planned);
    }

    #[test]
    fn what_has_stopped_for_good_is_not_under_way_as_well() {
        let stalled = condition(ConditionType::Stalled, true, Reason::JobFailed, "");
        let planned = status(&[idle(), stalled]);
        assert_eq!(refused(&planned, "exceeded quota: objects".to_owned(), (1, at(9))), planned);
        assert_eq!(kept(Some(&status(&[quota()])), &planned), planned);
    }
}
