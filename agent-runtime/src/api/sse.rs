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
    Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}
