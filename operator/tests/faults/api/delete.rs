//! Deletions: at once, in a pod's own time, or once nobody holds the object any longer
//! (`staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go`).

use serde_json::{Value, json};

use super::{
    kinds::{CLAIMS, JOBS, Kind, PODS, QUOTAS, SERVICES},
    pods::{self, Grace},
    refusal::Refusal,
    request::Asked,
    store::{Key, is_free, is_going},
    write::{Write, Written, seconds},
};

impl Write<'_> {
    /// # Errors
    /// When there is none, or it is another one than was asked for.
    pub fn delete(&mut self, asked: &Asked, key: &Key) -> Written {
        let mut object = self.known(key)?;
        let options = if asked.body.is_empty() { json!({}) } else { asked.json()? };
        check_preconditions(key, &object, &options)?;
        let grace = if key.kind == PODS { pods::grace(&object, &options) } else { Grace::Over };
        if grace == Grace::Shorter {
            return Ok((200, object));
        }
        let policy = options["propagationPolicy"].as_str().or(asked.parameter("propagationPolicy"));
        let policy = policy.unwrap_or(if key.kind == JOBS { "Orphan" } else { "Background" });
        let finalizer = match policy {
            "Foreground" => Some("foregroundDeletion"),
            "Orphan" => Some("orphan"),
            _ => None,
        };
        let was_going = is_going(&object);
        if let Some(finalizer) = finalizer {
            let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.push(json!(finalizer));
            object["metadata"]["finalizers"] = Value::Array(finalizers);
        }
        if let Grace::Given(seconds) = grace {
            let ending = pods::ending(&object, seconds, self.now);
            let ending = self.store.keep(key.clone(), ending, self.writer);
            return Ok((200, if is_free(&ending) { self.removed(key) } else { (*ending).clone() }));
        }
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if is_free(&object) {
            return Ok((200, self.removed(key)));
        }
        if was_going {
            return Ok((200, object));
        }
        object["metadata"]["deletionTimestamp"] = json!(seconds(self.now));
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        Ok((200, (*self.store.put(key.clone(), object, self.writer)).clone()))
    }

    /// Removes an object. Some kinds show it once more, others say that it is gone.
    fn removed(&mut self, key: &Key) -> Value {
        let last = self.store.remove(key, self.writer).unwrap();
        if [SERVICES, PODS, CLAIMS, QUOTAS].contains(&key.kind) {
            return (*last).clone();
        }
        let Kind { group, plural, .. } = key.kind;
        let mut details = json!({"name": key.name, "kind": plural, "uid": last["metadata"]["uid"]});
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }
}

fn check_preconditions(key: &Key, object: &Value, options: &Value) -> Result<(), Refusal> {
    let why = [("uid", "UID", "deleted and then recreated"), ("resourceVersion", "ResourceVersion", "modified")];
    for (field, word, fate) in why {
        let (wanted, found) = (&options["preconditions"][field], &object["metadata"][field]);
        if !wanted.is_null() && wanted != found {
            let (wanted, found) = (text(wanted), text(found));
            let problem = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). \
                 The object might have been {fate}"
            );
            return Err(Refusal::precondition(&key.kind, &key.name, &problem));
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
