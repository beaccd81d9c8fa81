//! Watches: what happened since a version, and what happens from then on.

use std::{collections::VecDeque, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
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
    store::{Change, Happened, Key},
};

/// The type of the event of an object that is new to a watch.
const ADDED: &str = "ADDED";
/// For how long a watch is cut off.
const CUT_OFF: SignedDuration = SignedDuration::from_secs(30);

/// A watch of no version sees first what there is.
const NOW: u64 = 0;
/// How long before its end a watch hears where it is.
const BOOKMARK: Duration = Duration::from_secs(2);
/// Seconds of a watch that asks for no other time.
const LONGEST: u64 = 1_800;

/// The answer to a watch: lines of JSON, until the time that was asked for is over.
pub fn answer(server: ApiServer, asked: Asked) -> Response<Body> {
    let version = match check(&asked) {
        Ok(version) => version,
        Err(refusal) => return json_response(refusal.code, &refusal.body(), false),
    };
    if server.state().is_cut_off() {
        return json_response(503, &Refusal::unavailable().body(), false);
    }
    let seconds = asked.parameter("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(LONGEST);
    let end = Instant::now() + Duration::from_secs(seconds);
    let bookmark = asked.says("allowWatchBookmarks").then(|| end.checked_sub(BOOKMARK)).flatten();
    let (seen, first) = if version == NOW { server.state().present(&asked) } else { (version, VecDeque::new()) };
    let watching = Watching { server, asked, seen, first, bookmark, end, is_over: false };
    let events = stream::unfold(watching, Watching::next).map(Ok::<_, BoxError>);
    Response::builder().header("content-type", "application/json").body(Body::from_stream(events)).unwrap()
}

/// The version from which a watch starts.
fn check(asked: &Asked) -> Result<u64, Refusal> {
    if !matches!(asked.target, Target::Collection(..)) {
        return Err(Refusal::unknown_path());
    }
    is_selected(asked, &json!({}))?;
    let text = asked.parameter("resourceVersion").unwrap_or("0");
    // Its storage reads it, and not its API: the server takes that for a fault of its own.
    text.parse().map_err(|_| {
        let message =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        Refusal { code: 500, reason: "", ..Refusal::bad_request(message) }
    })
}

/// A watch, and how far it is.
struct Watching {
    server: ApiServer,
    asked: Asked,
    seen: u64,
    /// What there was when it began.
    first: VecDeque<Bytes>,
    bookmark: Option<Instant>,
    end: Instant,
    is_over: bool,
}

impl Watching {
    /// The next line.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.is_over {
            return None;
        }
        if let Some(line) = self.first.pop_front() {
            return Some((line, self));
        }
        loop {
            let changed = self.server.changed.clone();
            let woken = changed.notified();
            tokio::pin!(woken);
            // From here on no change is missed.
            woken.as_mut().enable();
            let next = self.server.state().after(&self.asked, self.seen);
            match next {
                Next::Event(version, line) => {
                    self.seen = version;
                    return Some((line, self));
                }
                Next::TooOld(line) => {
                    self.is_over = true;
                    return Some((line, self));
                }
                Next::Lost(version) => {
                    self.seen = version;
                    continue;
                }
                Next::Nothing(version) => self.seen = version,
                Next::End => return None,
            }
            let bookmark = self.bookmark.unwrap_or(self.end);
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(bookmark) => {
                    self.bookmark.take()?;
                    return self.mark();
                }
            }
        }
    }

    /// Says how far the watch is.
    fn mark(self) -> Option<(Bytes, Self)> {
        let Target::Collection(kind, _) = &self.asked.target else { return None };
        let metadata = json!({"resourceVersion": self.seen.to_string()});
        let object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
        Some((line("BOOKMARK", &shown(&self.asked, &object)), self))
    }
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

/// Whether an object is in the collection that is asked for.
fn is_of(asked: &Asked, key: &Key) -> bool {
    let Target::Collection(kind, namespace) = &asked.target else { return false };
    key.kind == *kind && namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
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

    /// What there is, and the version of it.
    fn present(&self, asked: &Asked) -> (u64, VecDeque<Bytes>) {
        let is_seen = |key: &Key, object: &Value| is_of(asked, key) && is_selected(asked, object).unwrap_or_default();
        let objects = self.store.all().iter().filter(|(key, object)| is_seen(key, object));
        (self.store.version(), objects.map(|(_, object)| line(ADDED, &shown(asked, object))).collect())
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
        let found =
            self.store.changes[news..].iter().find_map(|change| Some((change.version, self.event(asked, change)?)));
        let Some((version, line)) = found else { return Next::Nothing(self.store.version()) };
        match self.faults.of_event() {
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
    fn event(&self, asked: &Asked, change: &Change) -> Option<Bytes> {
        if !is_of(asked, &change.key) {
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
        Some(line(type_, &shown(asked, &object)))
    }
}
