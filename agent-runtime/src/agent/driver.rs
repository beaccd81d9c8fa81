//! Does what the loop decides: model calls, tool calls, the deadline. IO; it decides nothing itself.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_stream::stream;
use futures::{
    FutureExt, Stream, StreamExt,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::{BoxStream, FuturesUnordered},
};
use slipway_runtime_config::Sampling;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    aside::{LONG, aside},
    backend::{AnswerGuide, Backend, BackendError, Generation, Guide, Piece, PromptForm},
    clock::Clock,
    telemetry::{Delivery, Progress},
    tools::{Registry, Request},
    trace_context::TraceContext,
};

use super::{
    current_prompts::CurrentPrompts,
    grammar::{Observation, STOP_WORD, ToolCall},
    places,
    prompt::Prompts,
    room::Compaction,
    state::{Call, CallId, Limits, ModelError, Opening, Sent, State, Step},
    step::{Action, Event, EventKind, step},
    timings::progress,
    wishes::Wishes,
};

/// An agent, ready to run.
pub struct Agent {
    /// Generates its turns.
    pub backend: Arc<dyn Backend>,
    /// The tools it may call.
    pub tools: Arc<Registry>,
    /// Renders its prompts.
    pub prompts: CurrentPrompts,
    /// How tokens are chosen, where a request does not say.
    pub sampling: Sampling,
    /// The most model calls of a run.
    pub max_steps: u32,
    /// The most tokens of a model call.
    pub max_tokens_per_step: u32,
    /// How long a run may take.
    pub run_timeout: Duration,
    /// The clock.
    pub clock: Clock,
}

/// One run to be made.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The run's name, unique in the pod.
    pub id: String,
    /// What its prompts begin with.
    pub opening: Opening,
    /// How the client wants tokens chosen.
    pub sampling: Sampling,
    /// Characters of all that the client sent, about.
    pub characters: u64,
    /// What else the client asks for.
    pub wishes: Arc<Wishes>,
    /// The client's limit on tokens, if it named one.
    pub max_tokens: Option<u32>,
    /// How its turns are to come from the engine.
    pub delivery: Delivery,
    /// Ends the run early when the pod cannot wait for it.
    pub shutdown: CancellationToken,
    /// Ends the run when its client says so.
    pub cancel: CancellationToken,
    /// Its span, where runs are traced.
    pub trace: Option<TraceContext>,
    /// Counts the tokens that the run has used.
    pub usage: Usage,
}

/// The tokens that a run has used so far, for the code that started it. It also
/// counts those of a run that is dropped before its end.
#[derive(Clone, Debug, Default)]
pub struct Usage(Arc<AtomicU64>);

impl Usage {
    /// Tokens that were read, as far as the engine counts them, and written.
    pub fn tokens(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, state: &State) {
        self.0.store(state.used_tokens(), Ordering::Relaxed);
    }
}

/// What happens in a run, as it happens. The last event is `Finished`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The run waits for something else than before.
    Progress(Progress),
    /// A model call was made: the step's number.
    StepStarted(u32),
    /// The next part of the model's thoughts.
    ThoughtsDelta(String),
    /// The next part of the answer.
    AnswerDelta(String),
    /// The model finished the step's turn.
    ModelFinished(Box<Step>),
    /// A tool was started.
    ToolStarted(CallId, ToolCall),
    /// A tool answered.
    ToolFinished(CallId, Box<Call>),
    /// Results were left out of the prompt to make room.
    Compacted(Compaction),
    /// The run is over.
    Finished(Box<State>),
}

impl Agent {
    /// Whether the engine sends the turns of a run as one each where nobody looks at them before. A transcript's turn
    /// ends here, where the engine may go on.
    pub fn sends_whole(&self, opening: &Opening) -> bool {
        self.backend.sends_whole() && matches!(opening, Opening::Chat(_))
    }

    /// Makes a run. Nothing happens until the stream is polled; dropping it cancels the generation and the tools.
    pub fn run(self: Arc<Self>, request: RunRequest) -> impl Stream<Item = RunEvent> + Send + 'static {
        stream! {
            let limits = Limits {
                max_steps: self.max_steps,
                max_tokens_per_step: self.max_tokens_per_step,
                max_tokens: request.max_tokens,
            };
            let mut io = RunIo::new(&self, &request);
            let state = State::new(request.opening, limits).with_stops(&request.wishes);
            let sent = Sent { characters: request.characters, sampling: request.sampling };
            let mut state = state.with_context(self.backend.context()).with_sent(sent);
            let mut event = EventKind::Admitted;
            while state.finished().is_none() {
                let before = Glimpse::of(&state);
                let mut actions = decide(&mut state, Event { at: self.clock.now(), kind: event });
                request.usage.note(&state);
                for change in changes(&before, &state, &mut actions) {
                    yield change;
                }
                if actions.iter().any(|action| io.is_irrevocable(action)) {
                    state.note_side_effects();
                }
                actions.into_iter().for_each(|action| io.perform(action, state.guide()));
                if state.finished().is_some() {
                    break;
                }
                event = io.next().await;
            }
            yield RunEvent::Finished(Box::new(state));
        }
    }
}

/// Decides what to do. A long prompt is written and encoded while the thread's other runs go on elsewhere.
fn decide(state: &mut State, event: Event) -> Vec<Action> {
    // A turn that cannot be read, and a call that the engine refuses, have another prompt.
    let writes_prompt = match &event.kind {
        EventKind::Admitted | EventKind::ToolFinished { .. } | EventKind::ModelFailed(_) => true,
        EventKind::Piece(piece) => piece.finish.is_some(),
        EventKind::DeadlinePassed { .. } | EventKind::ShutDown | EventKind::Cancelled => false,
    };
    if writes_prompt && state.bytes() > LONG {
        return aside(|| step(state, event));
    }
    step(state, event)
}

/// The work of a run in progress.
struct RunIo {
    backend: Arc<dyn Backend>,
    tools: Arc<Registry>,
    /// What all of its generations share.
    generation: Generation,
    /// Its span.
    trace: Option<TraceContext>,
    /// Fires when the pod cannot wait, and when the client wants no answer any more.
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    cancel: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Fires when the run's time is up.
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
    /// The present generation. Dropping it stops the engine.
    model: Option<BoxStream<'static, Result<Piece, BackendError>>>,
    /// All tools of the present turn, polled together.
    running: FuturesUnordered<Abortable<BoxFuture<'static, (CallId, Observation)>>>,
    aborts: HashMap<CallId, AbortHandle>,
}

impl RunIo {
    fn new(agent: &Agent, request: &RunRequest) -> Self {
        Self {
            backend: Arc::clone(&agent.backend),
            tools: Arc::clone(&agent.tools),
            generation: generation(agent, request),
            trace: request.trace.clone(),
            shutdown: Box::pin(request.shutdown.clone().cancelled_owned()),
            cancel: Box::pin(request.cancel.clone().cancelled_owned()),
            deadline: Box::pin(tokio::time::sleep(agent.run_timeout)),
            timeout: agent.run_timeout,
            model: None,
            running: FuturesUnordered::new(),
            aborts: HashMap::new(),
        }
    }

    /// Whether an action may change something that a second one would change again.
    fn is_irrevocable(&self, action: &Action) -> bool {
        match action {
            Action::CallTool { call, .. } => !self.tools.is_repeatable(&call.name),
            Action::CallModel { .. }
            | Action::CancelModel
            | Action::CancelTool(_)
            | Action::EmitThoughts(_)
            | Action::EmitAnswer(_)
            | Action::Finish => false,
        }
    }

    fn perform(&mut self, action: Action, guide: Option<&Guide>) {
        match action {
            Action::CallModel { step, prompt, tokens, max_tokens } => {
                let id = format!("{}-{step}", self.generation.id);
                let trace = self.span(places::of_step(step));
                let guide = guide.cloned();
                let generation = Generation { id, prompt, tokens, max_tokens, guide, trace, ..self.generation.clone() };
                self.model = Some(self.backend.generate(generation));
            }
            Action::CancelModel => self.model = None,
            Action::CallTool { id, call } => {
                let (abort, registration) = AbortHandle::new_pair();
                self.aborts.insert(id, abort);
                let tools = Arc::clone(&self.tools);
                let trace = self.span(places::of_call(id));
                let until = self.deadline.deadline();
                let observed = async move { (id, call_tool(&tools, &call, trace.as_ref(), until).await) };
                self.running.push(Abortable::new(observed.boxed(), registration));
            }
            Action::CancelTool(id) => {
                if let Some(abort) = self.aborts.remove(&id) {
                    abort.abort();
                }
            }
            // They have become events of the stream already.
            Action::EmitThoughts(_) | Action::EmitAnswer(_) | Action::Finish => {}
        }
    }

    /// The span of a place in the run.
    fn span(&self, place: u64) -> Option<TraceContext> {
        self.trace.as_ref().map(|run| run.within(place))
    }

    /// Waits for whatever happens next. A run always has its deadline, so this always returns.
    async fn next(&mut self) -> EventKind {
        loop {
            tokio::select! {
                biased;
                () = &mut self.deadline => {
                    let milliseconds = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
                    return EventKind::DeadlinePassed { milliseconds };
                }
                () = &mut self.shutdown => return EventKind::ShutDown,
                () = &mut self.cancel => return EventKind::Cancelled,
                event = next_piece(&mut self.model), if self.model.is_some() => return event,
                Some(result) = self.running.next(), if !self.running.is_empty() => {
                    if let Ok((call, observation)) = result {
                        self.aborts.remove(&call);
                        return EventKind::ToolFinished { call, observation };
                    }
                }
            }
        }
    }
}

/// What the generations of a run share. In a chat the model ends its turns with tokens of its own.
fn generation(agent: &Agent, request: &RunRequest) -> Generation {
    let (stop_words, form) = match (&agent.prompts.get(), &request.opening) {
        (Prompts::Chat(format), Opening::Chat(_)) => {
            (Vec::new(), PromptForm::Rendered { begin: format.begin().cloned(), end: format.end().cloned() })
        }
        (Prompts::Transcript(_) | Prompts::Chat(_), _) => (vec![STOP_WORD.into()], PromptForm::Plain),
    };
    let sampling = request.sampling.or(agent.sampling);
    let Wishes { logprobs, is_guided, is_strict, format, .. } = &*request.wishes;
    let guide = format.guide().filter(|_| !is_guided);
    let format = guide.map(|guide| AnswerGuide { guide, is_strict: *is_strict });
    let wants_whole = request.delivery == Delivery::Whole;
    let (id, logprobs) = (request.id.clone(), *logprobs);
    Generation { id, stop_words, form, sampling, format, logprobs, wants_whole, ..Generation::default() }
}

async fn next_piece(model: &mut Option<BoxStream<'static, Result<Piece, BackendError>>>) -> EventKind {
    let piece = match model {
        Some(pieces) => pieces.next().await.unwrap_or(Err(BackendError::EndedEarly)),
        None => Err(BackendError::EndedEarly),
    };
    if !piece.as_ref().is_ok_and(|piece| piece.finish.is_none()) {
        *model = None;
    }
    match piece {
        Ok(piece) => EventKind::Piece(piece),
        Err(error) => {
            tracing::warn!(error = %error, cause = std::error::Error::source(&error), "model call failed");
            EventKind::ModelFailed(ModelError::from(&error))
        }
    }
}

async fn call_tool(tools: &Registry, call: &ToolCall, trace: Option<&TraceContext>, until: Instant) -> Observation {
    let ToolCall { name, input } = call;
    match tools.call(Request { name, input, trace, until: Some(until) }).await {
        Ok(result) => Observation::Result(result),
        Err(error) => {
            tracing::debug!(tool = call.name, error = %error, cause = std::error::Error::source(&error), "tool failed");
            Observation::Error { message: error.observation(), kind: error.kind() }
        }
    }
}

/// What of a run is compared with what it becomes: a run itself is not copied for every token.
struct Glimpse {
    progress: Progress,
    steps: usize,
    compactions: usize,
    is_model_finished: bool,
    /// Of each call of the last step, whether it has ended.
    ended: Vec<bool>,
}

impl Glimpse {
    fn of(state: &State) -> Self {
        let last = state.steps().last();
        Self {
            progress: progress(state),
            steps: state.steps().len(),
            compactions: state.compactions().len(),
            is_model_finished: last.is_some_and(|step| step.model_finished_at.is_some()),
            ended: last.map(|step| step.calls.iter().map(|call| call.end.is_some()).collect()).unwrap_or_default(),
        }
    }
}

/// What a step of the loop changed, in the order in which a client wants to hear it.
///
/// Takes the texts out of the actions: nobody else reads them.
fn changes(before: &Glimpse, after: &State, actions: &mut [Action]) -> Vec<RunEvent> {
    let mut events = Vec::new();
    let progress = progress(after);
    events.extend((before.progress != progress).then_some(RunEvent::Progress(progress)));
    let deltas = actions.iter_mut().filter_map(|action| match action {
        Action::EmitThoughts(text) => Some(RunEvent::ThoughtsDelta(std::mem::take(text))),
        Action::EmitAnswer(text) => Some(RunEvent::AnswerDelta(std::mem::take(text))),
        _ => None,
    });
    events.extend(deltas);
    if let Some(step) = before.steps.checked_sub(1).and_then(|last| after.steps().get(last)) {
        if !before.is_model_finished && step.model_finished_at.is_some() {
            events.push(RunEvent::ModelFinished(Box::new(step.clone())));
        }
        for (index, call) in step.calls.iter().enumerate() {
            let id = CallId { step: step.number, index };
            match before.ended.get(index) {
                None => events.push(RunEvent::ToolStarted(id, call.call.clone())),
                Some(false) if call.end.is_some() => events.push(RunEvent::ToolFinished(id, Box::new(call.clone()))),
                Some(_) => {}
            }
        }
    }
    let compacted = after.compactions().iter().skip(before.compactions);
    events.extend(compacted.cloned().map(RunEvent::Compacted));
    let begun = after.steps().iter().skip(before.steps);
    events.extend(begun.map(|step| RunEvent::StepStarted(step.number)));
    events
}
