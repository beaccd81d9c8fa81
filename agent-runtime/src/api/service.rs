//! Starts runs and counts them: what all endpoints share.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_stream::stream;
use futures::{Stream, StreamExt};
use slipway_runtime_config::{
    LatencyObjective,
    metrics::{Blame, RunOutcome},
};
use slipway_vocabulary::evidence::{CacheState, Stratum};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        Agent, Conversation, Failure, Observation, Outcome, RunEvent, RunRequest, State,
        state::{Call, CallResult, Step},
        timings,
    },
    clock::{Clock, Timestamp},
    telemetry::{
        Completion, Metrics, ModelCallMetrics, Recorder, RunValues, Session, TaskJudgement, ToolCallMetrics, UnitId,
    },
};

use super::{
    admission::{Admission, Permit, Refusal},
    error::ApiError,
};

/// Events of one run; the last is `Finished`. Dropping it cancels the run.
pub type RunStream = Pin<Box<dyn Stream<Item = RunEvent> + Send>>;

/// What the endpoints serve with.
pub struct Service {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The agent's name: the model's id for clients.
    pub agent_name: String,
    /// The revision, stamped on every answer.
    pub revision: String,
    /// Who may come in.
    pub admission: Arc<Admission>,
    /// The evidence.
    pub recorder: Mutex<Recorder>,
    /// The metrics.
    pub metrics: Metrics,
    /// Tells the time.
    pub clock: Clock,
    /// When the process began.
    pub started_at: Timestamp,
    /// Cuts the runs in flight.
    pub cut: CancellationToken,
    /// Numbers the runs.
    pub next_run: AtomicU64,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// What is to be answered.
    pub conversation: Conversation,
    /// The client's limit on tokens.
    pub max_tokens: Option<u32>,
}

/// A run that was admitted.
pub struct Started {
    /// Its name, unique across the agent's pods. It begins with the revision, to which feedback counts.
    pub id: String,
    /// When it was admitted.
    pub at: Timestamp,
    /// What happens in it.
    pub events: RunStream,
}

impl Service {
    /// Admits a run. It makes progress while its events are read.
    ///
    /// # Errors
    /// 400 if the conversation does not fit the prompt template, 429 if the pod is full, 503 if it does not serve.
    pub fn start(self: &Arc<Self>, start: Start) -> Result<Started, ApiError> {
        let Start { conversation, max_tokens } = start;
        let prompt =
            self.agent.prompt.render(&conversation).map_err(|problem| ApiError::invalid("messages", problem))?;
        let length = conversation.user_characters();
        let at = self.clock.now();
        let permit = self.admission.admit().map_err(|refusal| self.refuse(refusal, length, at))?;
        let number = self.next_run.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{:x}-{number:x}", self.revision, self.started_at.as_micros());
        let in_flight = u64::try_from(permit.in_flight).unwrap_or(u64::MAX);
        let stratum = Stratum::new(CacheState::Miss, length, in_flight);
        let session = if conversation.is_new() { Session::New } else { Session::Continued };
        let unit = self.recorder().start(at, stratum, session);
        let run =
            CountedRun { service: Arc::clone(self), id: id.clone(), at, unit, _permit: permit, is_finished: false };
        let request = RunRequest { id: id.clone(), prompt, max_tokens, shutdown: self.cut.clone() };
        let events = Arc::clone(&self.agent).run(request);
        Ok(Started { id, at, events: Box::pin(counted(run, events)) })
    }

    /// The evidence; a panic elsewhere leaves counts that are still sound, so the lock is taken regardless.
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges runs by these objectives from now on.
    pub fn set_objectives(&self, objectives: Vec<LatencyObjective>) {
        let before = self.recorder().set_objectives(objectives.clone());
        self.metrics.set_objectives(&before, &objectives);
    }

    /// Counts what a client says of a run.
    pub fn judge(&self, judgement: TaskJudgement) {
        let now = self.clock.now();
        self.recorder().judge(now, judgement);
        self.metrics.task_judged(judgement != TaskJudgement::Failed);
    }

    fn refuse(&self, refusal: Refusal, user_characters: u64, at: Timestamp) -> ApiError {
        if let Refusal::Full { limit } = refusal {
            let in_flight = u64::try_from(limit).unwrap_or(u64::MAX);
            self.recorder().shed(at, Stratum::new(CacheState::Miss, user_characters, in_flight));
            self.metrics.run_shed();
        }
        refusal.into()
    }
}

/// A run in flight. Its end is counted once: when it finishes, or when it is dropped because the client went away.
struct CountedRun {
    service: Arc<Service>,
    id: String,
    at: Timestamp,
    unit: UnitId,
    /// Freed when the last byte was taken or the client went away.
    _permit: Permit,
    is_finished: bool,
}

fn counted(mut run: CountedRun, events: impl Stream<Item = RunEvent> + Send) -> impl Stream<Item = RunEvent> + Send {
    stream! {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match &event {
                RunEvent::Progress(progress) => {
                    let now = run.service.clock.now();
                    run.service.recorder().progress(now, run.unit, *progress);
                }
                RunEvent::Finished(state) => run.finish(state),
                _ => {}
            }
            yield event;
        }
    }
}

impl CountedRun {
    fn finish(&mut self, state: &State) {
        self.is_finished = true;
        let Some((outcome, _)) = state.finished() else { return };
        let label = match outcome {
            Outcome::Answered { .. } => RunOutcome::Answered,
            Outcome::Failed(failure) => failure.outcome(),
        };
        let completion = match label.blame() {
            Blame::Success => Completion::Succeeded(values(state)),
            // The client's own limit: it says as little about the agent as a client that goes away.
            Blame::Caller => Completion::Cancelled,
            Blame::Error => Completion::Failed,
        };
        self.count(completion, label);
        state.steps().iter().for_each(|step| self.count_step(step, outcome));
        tracing::info!(
            run = self.id,
            outcome = label.as_str(),
            steps = state.steps().len(),
            output_tokens = state.output_tokens(),
            microseconds = self.service.clock.now().micros_since(self.at),
            "run ended"
        );
    }

    fn count(&self, completion: Completion, label: RunOutcome) {
        let now = self.service.clock.now();
        let judged = self.service.recorder().finish(now, self.unit, completion);
        self.service.metrics.run_ended(label, now.micros_since(self.at), &judged);
    }

    fn count_step(&self, step: &Step, outcome: &Outcome) {
        let error = match outcome {
            Outcome::Failed(failure @ Failure::Model { step: failed, .. }) if *failed == step.number => failure.kind(),
            Outcome::Failed(_) | Outcome::Answered { .. } => "",
        };
        let end = step.model_finished_at.unwrap_or(step.sent_at);
        self.service.metrics.model_called(ModelCallMetrics {
            micros: timings::model_time(step, end),
            first_token_micros: step.first_token.map(|first| first.at.micros_since(step.sent_at)),
            inter_token_micros: timings::inter_token(step),
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

impl Drop for CountedRun {
    fn drop(&mut self) {
        if !self.is_finished {
            self.count(Completion::Cancelled, RunOutcome::Cancelled);
            tracing::info!(run = self.id, outcome = "cancelled", "run ended: the client went away");
        }
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
        worst_first_token_micros: latencies.first_token,
        worst_inter_token_micros: latencies.inter_token,
        model_calls: u64::try_from(state.steps().len()).unwrap_or(u64::MAX),
        output_tokens: state.output_tokens().into(),
    }
}
