//! Answers as server-sent events.

use std::time::Duration;

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures::Stream;

use super::in_flight::Lost;

/// How often a comment says that the run continues. Clients and gateways give up on silence; the shortest of their
/// usual limits is 15 s.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// An answer whose headers leave at once, and comments while nothing happens. Events that are lost break the
/// connection, so that no client mistakes a part for the whole.
pub(super) fn answer(events: impl Stream<Item = Result<Event, Lost>> + Send + 'static) -> Response {
    beating(events, HEARTBEAT)
}

fn beating(events: impl Stream<Item = Result<Event, Lost>> + Send + 'static, interval: Duration) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(interval)).into_response()
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
        let events = stream::iter([Ok(Event::default().data("first"))]).chain(stream::pending());
        let mut body = beating(events, interval).into_body().into_data_stream();
        let begin = Instant::now();
        assert_eq!(next(&mut body).await, "data: first\n\n");
        for beats in 1..=3 {
            assert_eq!(next(&mut body).await, ":\n\n");
            assert!(begin.elapsed() >= beats * interval, "beat {beats} after {:?}", begin.elapsed());
        }
    }

    #[test]
    fn several_beats_fit_the_shortest_usual_patience_of_gateways() {
        let patience = Duration::from_secs(15);
        assert!(2 * HEARTBEAT < patience, "{HEARTBEAT:?}");
    }
}
