//! Watches: what happened since a version, and what happens from then on.

use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use serde_json::{Value, json};
use tower::BoxError;

use super::{
    ApiServer, State, json_response,
    read::{is_selected, shown},
    refusal::Refusal,
    request::{Asked, Target},
    store::{Change, Happened},
};

/// The answer to a watch: lines of JSON, without an end.
pub fn answer(server: ApiServer, asked: Asked) -> Response<Body> {
    let start = asked.parameter("resourceVersion").map_or(Ok(0), str::parse::<u64>);
    let Ok(start) = start else {
        return json_response(400, &Refusal::bad_request("Invalid value: resourceVersion: not a number").body(), false);
    };
    let events = events(server, asked, start).map(Ok::<_, BoxError>);
    Response::builder().header("content-type", "application/json").body(Body::from_stream(events)).unwrap()
}

fn events(server: ApiServer, asked: Asked, start: u64) -> impl Stream<Item = Bytes> + Send {
    stream::unfold((server, asked, Some(start)), |(server, asked, seen)| async move {
        let mut seen = seen?;
        loop {
            let changed = server.changed.clone();
            let woken = changed.notified();
            tokio::pin!(woken);
            // From here on no change is missed.
            woken.as_mut().enable();
            let next = server.state().after(&asked, seen);
            match next {
                Next::Event(version, line) => return Some((line, (server, asked, Some(version)))),
                Next::TooOld(line) => return Some((line, (server, asked, None))),
                Next::Nothing(version) => seen = version,
            }
            woken.await;
        }
    })
}

enum Next {
    Event(u64, Bytes),
    TooOld(Bytes),
    Nothing(u64),
}

fn line(type_: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": type_, "object": object})))
}

impl State {
    /// The first event after a version that a watch is to see.
    fn after(&self, asked: &Asked, seen: u64) -> Next {
        if seen > 0 && seen < self.store.forgotten() {
            let gone = Refusal::expired(format!("too old resource version: {seen} ({})", self.store.forgotten()));
            return Next::TooOld(line("ERROR", &gone.body()));
        }
        let news = self.store.changes.iter().filter(|change| change.version > seen);
        for change in news {
            if let Some(line) = self.event(asked, change) {
                return Next::Event(change.version, line);
            }
        }
        Next::Nothing(self.store.version())
    }

    /// A change as the watch sees it: an object that no longer has the labels goes, one that has them now comes.
    fn event(&self, asked: &Asked, change: &Change) -> Option<Bytes> {
        let Target::Collection(kind, namespace) = &asked.target else { return None };
        if change.key.kind != *kind || namespace.as_ref().is_some_and(|namespace| *namespace != change.key.namespace) {
            return None;
        }
        let is_selected = |object: &Value| is_selected(asked, object).unwrap_or_default();
        let before = self.store.changes.iter().rev().find(|old| old.version < change.version && old.key == change.key);
        let was_there =
            before.filter(|old| old.happened != Happened::Deleted).is_some_and(|old| is_selected(&old.object));
        let type_ = match (was_there, is_selected(&change.object), change.happened) {
            (true, _, Happened::Deleted) | (true, false, _) => "DELETED",
            (false, true, Happened::Created | Happened::Modified) => "ADDED",
            (true, true, Happened::Created | Happened::Modified) => "MODIFIED",
            (false, _, _) => return None,
        };
        Some(line(type_, &shown(asked, &change.object)))
    }
}
