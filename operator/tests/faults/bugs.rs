//! Defects that an operator may have, planted between the operator and the server: what is asked for is what an
//! operator with the defect would ask for. They show that what is found is found.

use serde_json::{Value, json};
use slipway_crds::labels;

use crate::api::{
    kinds::{AGENT_DEPLOYMENTS, CONFIG_MAPS, DEPLOYMENTS, JOBS, LEASES, SERVICES},
    request::Asked,
    store::{Happened, Key, Store, Writer},
    write::{Written, seconds},
};
use crate::operator::now;

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Deletes what bears a name, and not what was seen.
    DeletesByName,
    /// Gives each Job another name.
    NamesJobsAtRandom,
    /// Gives its objects no owner.
    ForgetsOwners,
    /// Takes a task that is there for a sign that its Job is there too.
    TakesTheTaskForTheJob,
    /// Does not remember what it has applied.
    ForgetsWhatItApplied,
    /// Ends the pods that serve before others do.
    MakesRoomFirst,
    /// Never drops an attempt from its status.
    FillsItsStatus,
}

impl Bug {
    /// What is asked for instead, or the answer that the operator makes up.
    ///
    /// # Errors
    /// The answer, where the server is not asked.
    pub fn distort(self, asked: &Asked, store: &mut Store) -> Result<Asked, Written> {
        let (Some(key), Ok(mut body)) = (asked.subject(), asked.json()) else { return Ok(asked.clone()) };
        let is_status = asked.says_status();
        match self {
            Self::DeletesByName if asked.method == "DELETE" => {
                drop(body.as_object_mut().map(|b| b.remove("preconditions")))
            }
            Self::NamesJobsAtRandom if asked.method == "POST" && key.kind == JOBS => {
                body["metadata"]["name"] = json!(format!("{}-{}", key.name, store.version()));
            }
            Self::ForgetsOwners if !is_status => {
                drop(body["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences")));
            }
            Self::TakesTheTaskForTheJob if asked.method == "POST" && key.kind == JOBS && !has_new_task(store) => {
                return Err(Ok((201, body)));
            }
            Self::ForgetsWhatItApplied if asked.method == "PATCH" && key.kind == SERVICES => {
                let annotations = body["metadata"]["annotations"].as_object_mut();
                drop(annotations.map(|annotations| annotations.remove(labels::APPLIED_HASH)));
            }
            Self::MakesRoomFirst if key.kind == DEPLOYMENTS && store.get(&key).is_none() => end_others(store),
            Self::FillsItsStatus if key.kind == AGENT_DEPLOYMENTS && is_status => {
                let more = (0..32).map(|n| json!({"kind": "resolve", "inputHash": format!("{n}"), "attempt": 1}));
                body["status"]["jobs"].as_array_mut().into_iter().for_each(|jobs| jobs.extend(more.clone()));
            }
            _ => return Ok(asked.clone()),
        }
        Ok(Asked { body: body.to_string().into(), ..asked.clone() })
    }
}

/// Whether the last change was a new task, in the same look.
fn has_new_task(store: &Store) -> bool {
    let mut changes = store.changes.iter().rev().filter(|change| change.key.kind != LEASES);
    let last = changes.next().filter(|last| last.key.kind == CONFIG_MAPS && last.happened == Happened::Created);
    last.is_some_and(|last| last.object["metadata"]["creationTimestamp"] == seconds(now()))
}

fn end_others(store: &mut Store) {
    let others: Vec<(Key, Value)> =
        store.of_kind(DEPLOYMENTS).map(|(key, object)| (key.clone(), (**object).clone())).collect();
    for (key, mut object) in others {
        object["spec"]["replicas"] = json!(0);
        store.put(key, object, Writer::Client);
    }
}
