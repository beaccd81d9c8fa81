//! Answers as server-sent events.
//!
//! Format: <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.

use std::{borrow::Cow, pin::pin, time::Duration};

use async_stream::stream;
use axum::{
    body::{Body, Bytes},
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt};

use super::in_flight::Lost;

/// How often a comment says that the run continues. Clients and gateways give up on silence; the shortest of their
/// usual limits is 15 s.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What says so.
const BEAT: &[u8] = b":\n\n";
/// The most events that leave together.
const MOST_AT_ONCE: usize = 32;

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; empty for none.
    pub(super) name: Cow<'static, str>,
    /// Its data.
    pub(super) data: String,
}

impl Event {
    /// One without a name.
    pub(super) fn of(data: String) -> Self {
        Self { name: Cow::Borrowed(""), data }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let Self { name, data } = self;
        let lines = data.split('\n').map(|line| ("data: ", line));
        let name = Some(("event: ", name.as_ref())).filter(|(_, name)| !name.is_empty());
        for (field, value) in name.into_iter().chain(lines) {
            bytes.extend_from_slice(field.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(b'\n');
        }
        bytes.push(b'\n');
    }
}

/// An answer whose headers leave at once, and comments while nothing happens. Events that are lost break the
/// connection, so that no client mistakes a part for the whole.
pub(super) fn answer(events: impl Stream<Item = Result<Event, Lost>> + Send + 'static) -> Response {
    beating(events, HEARTBEAT)
}

fn beating(events: impl Stream<Item = Result<Event, Lost>> + Send + 'static, interval: Duration) -> Response {
    let body = Body::from_stream(stream! {
        let mut events = pin!(events.ready_chunks(MOST_AT_ONCE));
        loop {
            match tokio::time::timeout(interval, events.next()).await {
                Ok(Some(events)) => {
                    let (bytes, lost) = written(&events);
                    if !bytes.is_empty() {
                        yield Ok(bytes);
                    }
                    if let Some(lost) = lost {
                        yield Err(lost);
                        return;
                    }
                }
                Ok(None) => return,
                Err(_) => yield Ok(Bytes::from_static(BEAT)),
            }
        }
    });
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}

/// Events in one piece, up to what was lost: a client reads all of them with one look.
fn written(events: &[Result<Event, Lost>]) -> (Bytes, Option<Lost>) {
    let mut bytes = Vec::new();
    for event in events {
        match event {
            Ok(event) => event.write(&mut bytes),
            Err(lost) => return (bytes.into(), Some(*lost)),
        }
    }
    (bytes.into(), None)
}

#[cfg(test)]
mod tests {
    use axum::body::BodyDataStream;
    use futures::{StreamExt, stream};
    use pretty_assertions::assert_eq;
    use tokio::time::Instant;

    use super::*;

    async fn next(body: &mut BodyDataStream) -> String {
        let bytes = body.next().await.expect("the stream goes on").expect("the body arrives");
        String::from_utf8(bytes.to_vec()).expect("events are text")
    }

    #[tokio::test]
    async fn a_silent_stream_beats_at_every_interval_and_never_sooner() {
        let interval = Duration::from_millis(20);
        let events = stream::iter([Ok(Event::of("first".into()))]).chain(stream::pending());
        let mut body = beating(events, interval).into_body().into_data_stream();
        let begin = Instant::now();
        assert_eq!(next(&mut body).await, "data: first\n\n");
        for beats in 1..=3 {
            assert_eq!(next(&mut body).await, ":\n\n");
            assert!(begin.elapsed() >= beats * interval, "beat {beats} after {:?}", begin.elapsed());
        }
    }

    #[tokio::test]
    async fn events_that_are_there_leave_together_and_those_behind_a_loss_not_at_all() {
        let named = Event { name: "end".into(), data: "two\nlines".into() };
        let events = [Ok(Event::of("a".into())), Ok(named), Err(Lost), Ok(Event::of("b".into()))];
        let mut body = answer(stream::iter(events)).into_body().into_data_stream();
        assert_eq!(next(&mut body).await, "data: a\n\nevent: end\ndata: two\ndata: lines\n\n");
        assert!(body.next().await.is_some_and(|lost| lost.is_err()));
        assert!(body.next().await.is_none());
    }

    #[test]
    fn several_beats_fit_the_shortest_usual_patience_of_gateways() {
        let patience = Duration::from_secs(15);
        assert!(2 * HEARTBEAT < patience, "{HEARTBEAT:?}");
    }
}
