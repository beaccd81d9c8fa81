//! What a status says of a definition that is older than the operator, and lacks a field of it. Pure.
//!
//! No planner knows of it: it shows once a status has been written. So it is laid over the planned status, and stays
//! there until the API server has kept everything.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::conditions::{ConditionType, Reason};

use crate::{
    conditions::{Draft, dated, with},
    refusal::Conditioned,
};

/// What an object's definition lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacking<'a> {
    /// Kind of the object.
    pub kind: &'a str,
    /// The first field that was not kept, such as `status.slo.0.met`.
    pub field: &'a str,
}

/// The planned status, with what the observed one says of the definition: whether that is over is not known yet.
pub fn kept<S: Conditioned>(observed: Option<&S>, planned: S) -> S {
    match observed.and_then(found) {
        Some(outdated) => {
            let conditions = with(planned.conditions(), outdated.clone());
            planned.with_conditions(conditions)
        }
        None => planned,
    }
}

/// The planned status once it is known whether all of it was kept: with what the definition lacks, or without a word.
pub fn told<S: Conditioned>(
    written: &S,
    planned: S,
    lacking: Option<Lacking<'_>>,
    (generation, now): (i64, Timestamp),
) -> S {
    let Some(Lacking { kind, field }) = lacking else { return planned };
    let message = format!(
        "the CRD of {kind} lacks {field}, so the API server drops it: upgrade the chart slipway-crds to the operator's \
         release"
    );
    let draft =
        Draft { condition: ConditionType::DefinitionOutdated, is_true: true, reason: Reason::FieldNotKept, message };
    let condition = dated(draft, written.conditions(), (generation, now));
    let conditions = with(planned.conditions(), condition);
    planned.with_conditions(conditions)
}

fn found<S: Conditioned>(status: &S) -> Option<&Condition> {
    status.conditions().iter().find(|condition| condition.type_ == ConditionType::DefinitionOutdated.as_str())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_crds::v1alpha1::EngineStatus;

    use super::*;

    const LACKING: Lacking<'_> = Lacking { kind: "Engine", field: "status.artifact" };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn planned() -> EngineStatus {
        let draft = Draft {
            condition: ConditionType::Ready,
            is_true: true,
            reason: Reason::Available,
            message: "it is there".to_owned(),
        };
        EngineStatus { conditions: vec![dated(draft, &[], (1, at(1)))], ..EngineStatus::default() }
    }

    #[test]
    fn it_names_the_field_and_the_remedy_and_is_the_same_at_the_next_look() {
        let first = told(&planned(), planned(), Some(LACKING), (1, at(1)));
        let said: Vec<[&str; 4]> = first.conditions[1..]
            .iter()
            .map(|c| [c.type_.as_str(), c.status.as_str(), c.reason.as_str(), c.message.as_str()])
            .collect();
        let message = "the CRD of Engine lacks status.artifact, so the API server drops it: upgrade the chart \
                       slipway-crds to the operator's release";
        assert_eq!(said, [["DefinitionOutdated", "True", "FieldNotKept", message]]);
        let kept = kept(Some(&first), planned());
        assert_eq!(kept, first, "until the API server has answered");
        assert_eq!(told(&kept, planned(), Some(LACKING), (1, at(9))), first, "it is lost once more");
    }

    #[test]
    fn it_goes_once_everything_is_kept() {
        let outdated = told(&planned(), planned(), Some(LACKING), (1, at(1)));
        assert_eq!(told(&outdated, planned(), None, (1, at(9))), planned());
        assert_eq!(kept(Some(&planned()), planned()), planned(), "of a definition that is as new as the operator");
    }
}
