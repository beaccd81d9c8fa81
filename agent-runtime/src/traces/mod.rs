//! Traces of runs, for a receiver that speaks OTLP.
//!
//! A run notes what it does in a [`Trail`], and hands it over when it has ended. Everything else is the exporter's: a
//! task of its own that makes spans of trails and posts them. Runs never wait for it. What has no room in its queue is
//! dropped, and counted.

mod exporter;
pub mod otlp;
pub mod spans;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{
    clock::Timestamp,
    telemetry::{DropReason, SpanMetrics},
    trace_context::TraceContext,
};

pub use self::{
    exporter::{Exporter, SetUpTracesError},
    spans::{Ending, Subject, Traced, Trail},
};

/// Spans that may wait: what a receiver's restart of some seconds leaves behind at hundreds of runs a second. About
/// 100 bytes each.
const MAX_WAITING_SPANS: usize = 8_192;
/// Shares of traces are counted in these.
const MILLION: u128 = 1_000_000;
/// The bits of a trace's number by which it is chosen: those that the conventions have for it.
const CHOOSING_BITS: u32 = 56;

/// Numbers that nobody can tell before.
type Draw = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// Begins and ends the traces of runs.
pub struct Traces {
    draw: Draw,
    drawn: AtomicU64,
    sampled_per_million: u32,
    room: Arc<Semaphore>,
    queue: mpsc::Sender<Ended>,
    counts: SpanMetrics,
}

/// A run that has ended, and waits to be exported.
#[derive(Debug)]
struct Ended {
    trail: Trail,
    id: String,
    tenant: Option<String>,
    at: Timestamp,
    ending: Ending,
    /// Its room in the queue, which is free again when it is exported or dropped.
    _room: OwnedSemaphorePermit,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("sampled_per_million", &self.sampled_per_million).finish_non_exhaustive()
    }
}

impl Traces {
    fn new(draw: Draw, sampled_per_million: u32, counts: SpanMetrics) -> (Self, mpsc::Receiver<Ended>) {
        // A run has a span at least, so that the room bounds both.
        let (queue, ended) = mpsc::channel(MAX_WAITING_SPANS);
        let room = Arc::new(Semaphore::new(MAX_WAITING_SPANS));
        (Self { draw, drawn: AtomicU64::new(0), sampled_per_million, room, queue, counts }, ended)
    }

    /// The span of a run. It happens in the client's, if that is known, and is recorded if that is.
    pub fn begin(&self, client: Option<TraceContext>) -> Traced {
        let first = self.drawn.fetch_add(3, Ordering::Relaxed);
        let draw = |number: u64| (self.draw)(first.wrapping_add(number));
        match client {
            Some(client) => Traced { context: client.with_span(draw(0)), parent: Some(client.span()) },
            None => {
                let trace = u128::from(draw(1)) << 64 | u128::from(draw(2));
                let is_sampled = is_chosen(trace, self.sampled_per_million);
                Traced { context: TraceContext::new(trace, draw(0), is_sampled), parent: None }
            }
        }
    }

    /// Hands over what was done in a run that has ended. It never waits.
    pub fn end(&self, trail: Trail, (id, tenant): (&str, Option<&str>), at: Timestamp, ending: Ending) {
        let spans = trail.spans_to_be();
        let room =
            u32::try_from(spans).ok().and_then(|spans| Arc::clone(&self.room).try_acquire_many_owned(spans).ok());
        let handed_over = room.and_then(|room| {
            let ended = Ended { trail, id: id.to_owned(), tenant: tenant.map(str::to_owned), at, ending, _room: room };
            self.queue.try_send(ended).ok()
        });
        if handed_over.is_none() {
            self.counts.dropped(DropReason::QueueFull, u64::try_from(spans).unwrap_or(u64::MAX));
        }
    }
}

/// Whether a trace is one of so many in a million. Everybody who asks by the same bits chooses the same traces.
fn is_chosen(trace: u128, per_million: u32) -> bool {
    let number = trace & ((1 << CHOOSING_BITS) - 1);
    number * MILLION >= MILLION.saturating_sub(per_million.into()) << CHOOSING_BITS
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use prometheus_client::registry::Registry;
    use proptest::prelude::*;

    use super::*;

    fn traces(per_million: u32) -> (Traces, mpsc::Receiver<Ended>) {
        let draw = Box::new(|number| 0x1000 + number);
        Traces::new(draw, per_million, SpanMetrics::new(&mut Registry::default()))
    }

    fn client(is_sampled: bool) -> TraceContext {
        TraceContext::new(7, 8, is_sampled)
    }

    #[test]
    fn a_run_happens_in_its_clients_span_and_is_recorded_if_that_is() {
        for is_sampled in [false, true] {
            let Traced { context, parent } = traces(500_000).0.begin(Some(client(is_sampled)));
            assert_eq!((context.trace(), parent, context.is_sampled()), (7, Some(8), is_sampled));
            assert_eq!(context.span(), 0x1000);
        }
    }

    #[test]
    fn a_run_without_a_client_that_traces_begins_a_trace() {
        let (traces, _ended) = traces(1_000_000);
        let begun: Vec<_> = (0..2).map(|_| traces.begin(None)).collect();
        let expected = |first: u64| {
            let trace = u128::from(first + 1) << 64 | u128::from(first + 2);
            Traced { context: TraceContext::new(trace, first, true), parent: None }
        };
        assert_eq!(begun, [expected(0x1000), expected(0x1003)]);
    }

    #[test]
    fn runs_never_wait_and_what_has_no_room_is_dropped() {
        let (traces, mut ended) = traces(0);
        let end = || {
            let trail = Trail::new(traces.begin(None));
            traces.end(trail, ("run", None), Timestamp::default(), Ending::cancelled(Timestamp::default()));
        };
        (0..MAX_WAITING_SPANS + 2).for_each(|_| end());
        assert_eq!(ended.len(), MAX_WAITING_SPANS);
        drop(ended.try_recv().expect("one waits"));
        (0..2).for_each(|_| end());
        assert_eq!(ended.len(), MAX_WAITING_SPANS);
    }

    proptest! {
        #[test]
        fn none_and_all_are_what_they_say(trace: u128) {
            prop_assert!(is_chosen(trace, 1_000_000) && !is_chosen(trace, 0));
        }

        #[test]
        fn a_larger_share_has_the_traces_of_a_smaller_one(trace: u128, share in 0..1_000_000_u32, more in 0..1_000_u32) {
            prop_assert!(!is_chosen(trace, share) || is_chosen(trace, (share + more).min(1_000_000)));
        }
    }

    #[test]
    fn a_share_of_the_traces_is_chosen() {
        // Numbers that are spread evenly.
        let step = (1_u128 << CHOOSING_BITS) / 1_000;
        let chosen = (0..1_000).filter(|number| is_chosen(number * step + step / 2, 250_000)).count();
        assert_eq!(chosen, 250);
    }
}
