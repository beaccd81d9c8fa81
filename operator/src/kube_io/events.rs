//! Publishes events of objects. Writes IO.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use slipway_operator_core::plan::{Note, Severity};

use super::record::RecordError;

/// Most bytes of an event's note (`ValidateEventCreate` in Kubernetes' pkg/apis/core/validation/events.go).
const NOTE_BYTES: usize = 1024;
/// Notes that are remembered, to be counted when they are repeated.
const REMEMBERED: usize = 256;

/// Publishes events.
///
/// Kube's recorder folds two events of one object and reason within six minutes, whatever they say, and keeps the first
/// note. So each note has a recorder of its own, and only a repeated note is folded.
pub struct EventRecorder {
    client: Client,
    reporter: Reporter,
    recent: Mutex<VecDeque<(Told, Recorder)>>,
}

/// What makes two events the same.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    uid: Option<String>,
    reason: &'static str,
    note: String,
}

impl EventRecorder {
    /// Makes one that publishes as a controller.
    pub const fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, recent: Mutex::new(VecDeque::new()) }
    }

    /// The recorder that knows of this event, if it was published lately.
    fn of(&self, told: Told) -> Recorder {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, recorder)) = recent.iter().find(|(other, _)| *other == told) {
            return recorder.clone();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        recent.push_back((told, recorder.clone()));
        if recent.len() > REMEMBERED {
            recent.pop_front();
        }
        recorder
    }

    /// Publishes the notes of a plan as events of an object.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn publish<K>(&self, object: &K, notes: &[Note]) -> Result<(), RecordError>
    where
        K: Resource<DynamicType = ()>,
    {
        for Note { reason, severity, message, .. } in notes {
            let (reason, note) = (reason.as_str(), shortened(message).to_owned());
            let event = Event {
                type_: match severity {
                    Severity::Normal => EventType::Normal,
                    Severity::Warning => EventType::Warning,
                },
                reason: reason.to_owned(),
                note: Some(note.clone()),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            let recorder = self.of(Told { uid: object.meta().uid.clone(), reason, note });
            recorder.publish(&event, &object.object_ref(&())).await.map_err(|source| RecordError::Event {
                reason,
                name: object.meta().name.clone().unwrap_or_default(),
                source: Box::new(source),
            })?;
        }
        Ok(())
    }
}

/// As much of a text as an event holds: bytes, not characters.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(NOTE_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use slipway_crds::conditions::Reason;
    use slipway_operator_core::plan::About;

    use super::*;

    #[test]
    fn a_note_is_cut_by_its_bytes_between_two_characters() {
        let text = "é".repeat(600);
        assert_eq!((text.chars().count(), shortened(&text).len()), (600, 1024));
        let text = format!("x{text}");
        assert_eq!(shortened(&text).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }

    #[tokio::test]
    async fn two_events_of_one_reason_keep_their_notes_and_a_repeated_one_is_counted() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = seen.clone();
        let answer = move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().to_string();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let event: Value = serde_json::from_slice(&body).unwrap();
                let count = event["series"]["count"].clone();
                server.lock().unwrap().push((method, event["note"].clone(), count));
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(event.to_string().into_bytes())))
            }
        };
        let reporter = Reporter { controller: "slipway".to_owned(), instance: Some("operator-0".to_owned()) };
        let recorder = EventRecorder::new(Client::new(tower::service_fn(answer), "team"), reporter);
        let object: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "support", "namespace": "team", "uid": "1"}})).unwrap();
        let note = |message: &str| Note {
            reason: Reason::RevisionPromoted,
            severity: Severity::Normal,
            message: message.to_owned(),
            about: About::Nothing,
        };
        recorder
            .publish(&object, &[note("plan a serves"), note("plan b serves"), note("plan a serves")])
            .await
            .unwrap();
        let expected = [
            ("POST", "plan a serves", Value::Null),
            ("POST", "plan b serves", Value::Null),
            ("PATCH", "plan a serves", json!(2)),
        ];
        let expected = expected.map(|(method, note, count)| (method.to_owned(), json!(note), count));
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}
