//! A run in flight: a task of its own drives it and counts it, and hands its events to their reader.
//!
//! The reader sets no pace. All that has happened is handed to it at once, so that it is woken once. Events that it has
//! not taken wait in the channel, and then in the task. The run itself bounds that backlog: parts of the answer that
//! wait are joined, and everything else is part of the run's state already. So a client that reads slowly changes no
//! latency, and one that stops reading has its place until the run's time is up.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
    vec,
};

use futures::{Stream, StreamExt, stream::BoxStream};
use slipway_runtime_config::metrics::{Blame, RunOutcome};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    access::{Tenant, TenantPlace},
    agent::{
        Failure, Observation, Outcome, RunEvent, State, Usage,
        state::{Call, CallResult, Step},
        timings,
    },
    clock::Timestamp,
    telemetry::{Completion, ModelCallMetrics, RunValues, ToolCallMetrics, UnitId},
    traces::{Ending, Trail},
};

use super::{
    admission::Permit,
    idempotency::Ticket,
    recording::{Asked, Ended},
    service::Service,
};

/// The most events that are handed over at once: more than an engine writes between two looks.
const MOST_AT_ONCE: usize = 64;
/// How long a reader has for the last events of a run that ended at the end of its time.
const LAST_EVENTS: Duration = Duration::from_millis(500);

/// Events of one run; the last is `Finished`. Dropping them cancels the run, unless it has a key.
pub type Events = BoxStream<'static, Result<RunEvent, Lost>>;

/// What of a run its reader wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// All that happens.
    All,
    /// How it ended. Nothing else is handed over.
    End,
    /// The same, and nobody looks at when its parts came.
    Answer,
}

/// Events as the task of a run hands them over.
struct RunEvents {
    handed: mpsc::Receiver<Vec<RunEvent>>,
    /// What is left of those that were taken.
    taken: vec::IntoIter<RunEvent>,
    place: Place,
    is_over: bool,
}

/// The events end before the run's outcome: they were not read in time, or the run panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run's events were not read in time")]
pub struct Lost;

impl Stream for RunEvents {
    type Item = Result<RunEvent, Lost>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let event = match self.taken.next() {
            Some(event) => Some(event),
            None => {
                self.taken = ready!(self.handed.poll_recv(context)).unwrap_or_default().into_iter();
                self.taken.next()
            }
        };
        if matches!(event, None | Some(RunEvent::Finished(_))) {
            self.is_over = true;
            self.place.free();
        }
        Poll::Ready(Some(event.ok_or(Lost)))
    }
}

/// What a run in flight takes.
#[derive(Debug)]
pub(super) struct Places {
    /// Its place among the runs of the pod.
    #[expect(dead_code, reason = "it is held, and freed when it is dropped")]
    pub(super) of_pod: Permit,
    /// Its place among the runs of its tenant.
    #[expect(dead_code, reason = "it is held, and freed when it is dropped")]
    pub(super) of_tenant: Option<TenantPlace>,
}

/// The place of a run. Its reader frees it with the last event, or else the run's task at its own end.
#[derive(Clone)]
struct Place(Arc<Mutex<Option<Places>>>);

impl Place {
    fn free(&self) {
        // No code panics while it holds the lock.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a run in flight is counted by.
pub(super) struct Counted {
    pub(super) service: Arc<Service>,
    pub(super) id: String,
    pub(super) tenant: Option<Tenant>,
    pub(super) usage: Usage,
    pub(super) at: Timestamp,
    pub(super) unit: UnitId,
    /// What its client asked.
    pub(super) asked: Asked,
    /// What it does, where that is recorded.
    pub(super) trail: Option<Trail>,
}

/// Starts the task of a run.
pub(super) fn start(
    counted: Counted,
    places: Places,
    (ticket, hears): (Option<Ticket>, Hears),
    events: impl Stream<Item = RunEvent> + Send + 'static,
) -> Events {
    let (sender, handed) = mpsc::channel(1);
    let place = Place(Arc::new(Mutex::new(Some(places))));
    let deadline = Instant::now() + counted.service.agent.run_timeout;
    let run = RunInFlight { counted, place: place.clone(), ticket, steps: Vec::new(), is_finished: false };
    tokio::spawn(run.drive(events, Reader { is_gone: false, hears, sender, deadline, backlog: Vec::new() }));
    RunEvents { handed, taken: Vec::new().into_iter(), place, is_over: false }.boxed()
}

/// Who reads the events, as the run's task sees it.
struct Reader {
    is_gone: bool,
    hears: Hears,
    sender: mpsc::Sender<Vec<RunEvent>>,
    /// The end of the run's time.
    deadline: Instant,
    /// Events that are not handed over yet.
    backlog: Vec<RunEvent>,
}

impl Reader {
    fn leave(&mut self) {
        self.is_gone = true;
        self.backlog.clear();
    }

    fn push(&mut self, event: RunEvent) {
        // It has not taken what it was handed: its parts are joined.
        let is_behind = self.sender.capacity() == 0;
        match (self.backlog.last_mut().filter(|_| is_behind), event) {
            _ if self.is_gone => {}
            // The service counts by it; no client sees it.
            (_, RunEvent::Progress(_)) => {}
            (Some(RunEvent::AnswerDelta(waiting)), RunEvent::AnswerDelta(new))
            | (Some(RunEvent::ThoughtsDelta(waiting)), RunEvent::ThoughtsDelta(new)) => waiting.push_str(&new),
            (_, event @ RunEvent::Finished(_)) => self.backlog.push(event),
            (_, event) => self.backlog.extend((self.hears == Hears::All).then_some(event)),
        }
    }

    /// Hands the backlog over as soon as the channel has room.
    async fn hand_over(sender: &mpsc::Sender<Vec<RunEvent>>, backlog: &mut Vec<RunEvent>) {
        match sender.reserve().await {
            Ok(room) => room.send(std::mem::take(backlog)),
            // Whoever waits for this also waits for `closed`, which says what follows.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the reader has everything or is gone, at most until the run's time is up.
    async fn take_rest(mut self, run: &str) {
        let rest = async {
            let is_there = self.backlog.is_empty() || self.sender.send(std::mem::take(&mut self.backlog)).await.is_ok();
            if is_there {
                self.sender.closed().await;
            }
        };
        let until = self.deadline.max(Instant::now() + LAST_EVENTS);
        if tokio::time::timeout_at(until, rest).await.is_err() {
            tracing::warn!(run, "the client did not read its run's end in time: it is dropped");
        }
    }
}

/// All events that have happened, once there is one; none where the run is over. Each is noted when it happens.
async fn all_next<S: Stream<Item = RunEvent>>(
    mut events: Pin<&mut S>,
    mut note: impl FnMut(&RunEvent),
) -> Vec<RunEvent> {
    let mut all = Vec::new();
    poll_fn(|context| {
        while all.len() < MOST_AT_ONCE {
            match events.as_mut().poll_next(context) {
                Poll::Ready(Some(event)) => {
                    note(&event);
                    all.push(event);
                }
                Poll::Pending if all.is_empty() => return Poll::Pending,
                Poll::Pending | Poll::Ready(None) => break,
            }
        }
        Poll::Ready(())
    })
    .await;
    all
}

/// A run in flight. Its end is counted once: when it finishes, or when it is dropped because the client went away.
struct RunInFlight {
    counted: Counted,
    place: Place,
    /// A client that sends the request again gets its outcome, so such a run continues without a reader.
    ticket: Option<Ticket>,
    /// What was done so far, for a run that ends without a state of its own.
    steps: Vec<Step>,
    is_finished: bool,
}

impl RunInFlight {
    /// Drives the run to its end, or until its reader is gone and no repeated request can ask for it.
    async fn drive(self, events: impl Stream<Item = RunEvent> + Send, mut reader: Reader) {
        let mut events = pin!(events);
        let sender = reader.sender.clone();
        let mut gone = pin!(sender.closed());
        // Dropped before the events: whoever sees the engine stop finds the place free.
        let mut run = self;
        while !run.is_finished {
            tokio::select! {
                // What has happened is handed over before more happens.
                biased;
                () = &mut gone, if !reader.is_gone => match &run.ticket {
                    Some(_) => reader.leave(),
                    None => return,
                },
                () = Reader::hand_over(&reader.sender, &mut reader.backlog), if !reader.backlog.is_empty() => {}
                happened = all_next(events.as_mut(), |event| run.note(event)) => {
                    if happened.is_empty() {
                        return;
                    }
                    happened.into_iter().for_each(|event| reader.push(event));
                }
            }
        }
        reader.take_rest(&run.counted.id).await;
    }

    fn note(&mut self, event: &RunEvent) {
        self.counted.trace(event);
        match event {
            RunEvent::Progress(progress) => {
                let service = &self.counted.service;
                service.recorder().progress(service.clock.now(), self.counted.unit, *progress);
            }
            RunEvent::Finished(state) => {
                self.is_finished = true;
                self.counted.finish(state);
                self.counted.end_trace(Ending::of(state));
                let service = &self.counted.service;
                service.kept_runs.end(&self.counted.id, Some(state), service.clock.now());
                if let Some(ticket) = &mut self.ticket {
                    ticket.settle(state, self.counted.service.clock.now());
                }
            }
            RunEvent::ModelFinished(step) => self.steps.push(Step { calls: Vec::new(), ..Step::clone(step) }),
            RunEvent::ToolFinished(_, call) => {
                self.steps.last_mut().into_iter().for_each(|step| step.calls.push(Call::clone(call)));
            }
            RunEvent::StepStarted(_)
            | RunEvent::ThoughtsDelta(_)
            | RunEvent::AnswerDelta(_)
            | RunEvent::ToolStarted(..)
            | RunEvent::Compacted(_) => {}
        }
    }
}

impl Drop for RunInFlight {
    fn drop(&mut self) {
        if !self.is_finished {
            self.counted.count(Completion::Cancelled, RunOutcome::Cancelled);
            self.counted.service.recordings.unanswered(self.counted.service.clock.now());
            self.counted.end_trace(Some(Ending::cancelled(self.counted.service.clock.now())));
            let service = &self.counted.service;
            service.kept_runs.end(&self.counted.id, None, service.clock.now());
            self.steps.iter().for_each(|step| self.counted.count_step(step, ""));
            tracing::info!(run = self.counted.id, outcome = "cancelled", "run ended: the client went away");
        }
        self.place.free();
    }
}

impl Counted {
    fn trace(&mut self, event: &RunEvent) {
        if let Some(trail) = &mut self.trail {
            trail.note(event, self.service.clock.now(), |name| self.service.agent.tools.has(name));
        }
    }

    fn end_trace(&mut self, ending: Option<Ending>) {
        let traced = self.service.traces.as_ref().zip(self.trail.take()).zip(ending);
        if let Some(((traces, trail), ending)) = traced {
            traces.end(trail, (&self.id, self.tenant.as_ref().map(Tenant::as_str)), self.at, ending);
        }
    }

    fn finish(&self, state: &State) {
        let Some((outcome, _)) = state.finished() else { return };
        let label = match outcome {
            Outcome::Answered { .. } | Outcome::Called { .. } => RunOutcome::Answered,
            Outcome::Failed(failure) => failure.outcome(),
        };
        let completion = match (label.blame(), outcome) {
            (Blame::Success, _) => Completion::Succeeded(values(state)),
            (
                Blame::Caller,
                Outcome::Failed(Failure::ContextLength { .. } | Failure::Unmet { .. } | Failure::Refused { .. }),
            ) => Completion::Refused,
            // The client's own limit: it says as little about the agent as a client that goes away.
            (Blame::Caller, _) => Completion::Cancelled,
            (Blame::Error, _) => Completion::Failed,
        };
        self.count(completion, label);
        self.remember(state, label);
        state.steps().iter().for_each(|step| self.count_step(step, error_of(step, outcome)));
        tracing::info!(
            run = self.id,
            tenant = self.tenant.as_ref().map(Tenant::as_str),
            outcome = label.as_str(),
            steps = state.steps().len(),
            output_tokens = state.output_tokens(),
            microseconds = self.service.clock.now().micros_since(self.at),
            "run ended"
        );
    }

    fn count(&self, completion: Completion, label: RunOutcome) {
        let now = self.service.clock.now();
        if let Completion::Succeeded(RunValues { first_token_micros: Some(micros), .. }) = &completion {
            self.service.metrics.answer_began(*micros);
        }
        if let Some(tenant) = &self.tenant {
            self.service.charge(tenant, &self.usage);
        }
        let judged = self.service.recorder().finish(now, self.unit, completion);
        self.service.metrics.run_ended(label, now.micros_since(self.at), &judged);
    }

    fn remember(&self, state: &State, label: RunOutcome) {
        let Service { recordings, agent, clock, .. } = self.service.as_ref();
        if label.blame() == Blame::Success {
            let ended = Ended { asked: &self.asked, arrived: self.at, state, tools: &agent.tools };
            recordings.answered(&ended, clock.now());
        } else {
            recordings.unanswered(clock.now());
        }
    }

    fn count_step(&self, step: &Step, error: &'static str) {
        let end = step.model_finished_at.unwrap_or(step.sent_at);
        self.service.metrics.model_called(ModelCallMetrics {
            micros: timings::model_time(step, end),
            first_token_micros: step.first_token.map(|first| first.at.micros_since(step.sent_at)),
            inter_token_micros: timings::inter_token(step),
            input_tokens: step.prompt_tokens,
            output_tokens: step.output_tokens,
            error,
        });
        step.calls.iter().for_each(|call| self.count_call(call));
    }

    fn count_call(&self, call: &Call) {
        let Some(end) = &call.end else { return };
        let error = match &end.result {
            CallResult::Answered(Observation::Result(_)) => "",
            CallResult::Answered(Observation::Error { kind, .. }) => kind,
            CallResult::Cancelled => "cancelled",
        };
        let tool = if self.service.agent.tools.has(&call.call.name) { call.call.name.as_str() } else { "unknown" };
        let micros = end.at.micros_since(call.started_at);
        self.service.metrics.tool_called(ToolCallMetrics { tool: tool.into(), micros, error });
    }
}

/// The label of the failure that a step's model call ended its run with; empty for none.
fn error_of(step: &Step, outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Failed(failure @ Failure::Model { step: failed, .. }) if *failed == step.number => failure.kind(),
        Outcome::Failed(failure @ (Failure::ContextLength { .. } | Failure::Refused { .. })) => failure.kind(),
        Outcome::Failed(_) | Outcome::Answered { .. } | Outcome::Called { .. } => "",
    }
}

fn values(state: &State) -> RunValues {
    let end = state.finished().map_or(state.started_at(), |(_, at)| at);
    let times = timings::timings(state, end);
    let latencies = timings::request_latencies(state);
    RunValues {
        run_micros: times.total,
        model_micros: times.model,
        tool_micros: times.tools,
        worst_request_micros: latencies.request,
        first_token_micros: timings::first_token(state),
        worst_request_first_token_micros: latencies.first_token,
        worst_inter_token_micros: latencies.inter_token,
        model_calls: u64::try_from(state.steps().len()).unwrap_or(u64::MAX),
        output_tokens: state.output_tokens().into(),
    }
}
