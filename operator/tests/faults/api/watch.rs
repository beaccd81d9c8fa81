//! Watches: what happened since a version, and what happens from then on.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

use super::{
    ApiServer, State,
    fault::Broken,
    json_response,
    read::{is_selected, shown},
    refusal::Refusal,
    request::{Asked, Target},
    store::{Change, Happened},
};

/// The type of the event of an object that is new to a watch.
const ADDED: &str = "ADDED";
/// For how long a watch is cut off.
const CUT_OFF: SignedDuration = SignedDuration::from_secs(30);

/// The answer to a watch: lines of JSON, until the time that was asked for is over.
pub fn answer(server: ApiServer, asked: Asked) -> Response<Body> {
    let start = asked.parameter("resourceVersion").map_or(Ok(0), str::parse::<u64>);
    let Ok(start) = start else {
        return json_response(400, &Refusal::bad_request("Invalid value: resourceVersion: not a number").body(), false);
    };
    if server.state().is_cut_off() {
        return json_response(503, &Refusal::unavailable().body(), false);
    }
    let seconds = asked.parameter("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(LONGEST);
    let end = Instant::now() + Duration::from_secs(seconds);
    let events = events(server, asked, (start, end)).map(Ok::<_, BoxError>);
    Response::builder().header("content-type", "application/json").body(Body::from_stream(events)).unwrap()
}

/// Seconds of a watch that asks for no other time.
const LONGEST: u64 = 1_800;

fn events(server: ApiServer, asked: Asked, (start, end): (u64, Instant)) -> impl Stream<Item = Bytes> + Send {
    stream::unfold((server, asked, Some(start)), move |(server, asked, seen)| async move {
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
                Next::Lost(version) => {
                    seen = version;
                    continue;
                }
                Next::Nothing(version) => seen = version,
                Next::End => return None,
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(end) => return None,
            }
        }
    })
}

enum Next {
    Event(u64, Bytes),
    TooOld(Bytes),
    Lost(u64),
    Nothing(u64),
    End,
}

fn line(type_: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": type_, "object": object})))
}

impl State {
    /// Whether no watch begins now. What happened before is forgotten once one does.
    fn is_cut_off(&mut self) -> bool {
        let Some(until) = self.faults.cut_off_until else { return false };
        if self.now() < until {
            return true;
        }
        self.faults.cut_off_until = None;
        self.store.compact();
        false
    }

    /// The first event after a version that a watch is to see.
    fn after(&mut self, asked: &Asked, seen: u64) -> Next {
        let too_old = |state: &Self| {
            let words = format!("too old resource version: {seen} ({})", state.store.forgotten());
            Next::TooOld(line("ERROR", &Refusal::expired(words).body()))
        };
        if seen > 0 && seen < self.store.forgotten() {
            return too_old(self);
        }
        let news = self.store.changes.partition_point(|change| change.version <= seen);
        let found = self.store.changes[news..].iter().find_map(|change| {
            let (type_, line) = self.event(asked, change)?;
            Some((change.version, change.key.kind, type_, line))
        });
        let Some((version, kind, type_, line)) = found else { return Next::Nothing(self.store.version()) };
        match self.faults.of_event(kind, type_ == ADDED) {
            None => Next::Event(version, line),
            Some(Broken::Ends) => Next::End,
            Some(Broken::IsTooOld) => too_old(self),
            Some(Broken::IsCutOff) => {
                self.faults.cut_off_until = self.now().checked_add(CUT_OFF).ok();
                Next::End
            }
            Some(Broken::LosesIt) => Next::Lost(version),
        }
    }

    /// A change as the watch sees it: an object that no longer has the labels goes, one that has them now comes.
    fn event(&self, asked: &Asked, change: &Change) -> Option<(&'static str, Bytes)> {
        let Target::Collection(kind, namespace) = &asked.target else { return None };
        if change.key.kind != *kind || namespace.as_ref().is_some_and(|namespace| *namespace != change.key.namespace) {
            return None;
        }
        let is_selected = |object: &Value| is_selected(asked, object).unwrap_or_default();
        let before = self.store.changes.iter().rev().find(|old| old.version < change.version && old.key == change.key);
        let before = before.filter(|old| old.happened != Happened::Deleted);
        let was_there = before.is_some_and(|old| is_selected(&old.object));
        let type_ = match (was_there, is_selected(&change.object), change.happened) {
            (true, _, Happened::Deleted) | (true, false, _) => "DELETED",
            (false, true, Happened::Created | Happened::Modified) => ADDED,
            (true, true, Happened::Created | Happened::Modified) => "MODIFIED",
            (false, _, _) => return None,
        };
        // One that is no longer selected is shown as it was.
        let mut object = (*change.object).clone();
        if let Some(before) = before.filter(|_| type_ == "DELETED") {
            object = (*before.object).clone();
            object["metadata"]["resourceVersion"] = json!(change.version.to_string());
        }
        Some((type_, line(type_, &shown(asked, &object))))
    }
}
