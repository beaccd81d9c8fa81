//! Starts runs and counts them: what all endpoints share.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::response::Response;
use slipway_runtime_config::{LatencyObjective, Rates, Sampling};
use slipway_vocabulary::evidence::{CacheState, Evidence, Stratum};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Access, Exceeded, Tenant, TenantPlace},
    agent::{Agent, Conversation, Opening, RunRequest, Usage, Wishes},
    aside::{LONG, aside},
    backend::SamplingFields,
    clock::{Clock, Timestamp},
    failure::with_causes,
    telemetry::{Delivery, Gpus, Metrics, Recorder, RefusalReason, Session, TaskJudgement},
    trace_context::TraceContext,
    traces::{Traces, Trail},
};

use super::{
    admission::{Admission, Refusal},
    error::ApiError,
    idempotency::{self, Claim, Key, Outcomes},
    in_flight::{self, Counted, Events, Hears, Places},
    kept_runs::{KeptRuns, Remembered},
    recording::Recordings,
    run_names::{NotCounted, RunNames},
};

/// How often it is asked what the pod's GPUs do.
const GPU_PAUSE: Duration = Duration::from_secs(1);

/// What the endpoints serve with.
pub struct Service {
    /// The agent.
    pub agent: Arc<Agent>,
    /// What clients may ask of it, but for its tools' names.
    pub abilities: Abilities,
    /// Who may call; absent where everybody may.
    pub access: Option<Arc<Access>>,
    /// The agent's name: the model's id for clients.
    pub agent_name: String,
    /// The revision, stamped on every answer.
    pub revision: String,
    /// Admits runs.
    pub admission: Arc<Admission>,
    /// The evidence.
    pub recorder: Mutex<Recorder>,
    /// Who tells what the pod's GPUs do, if anybody does.
    pub gpus: Option<Gpus>,
    /// The metrics.
    pub metrics: Metrics,
    /// What traces runs, if they are.
    pub traces: Option<Arc<Traces>>,
    /// The clock.
    pub clock: Clock,
    /// Cuts the runs in flight.
    pub cut: CancellationToken,
    /// When the process began.
    pub started_at: Timestamp,
    /// Names the runs.
    pub names: RunNames,
    /// Results of requests that may be repeated.
    pub outcomes: Arc<Outcomes>,
    /// Runs that their clients may read and cancel.
    pub kept_runs: KeptRuns,
    /// Runs whose traffic can be sent again.
    pub recordings: Recordings,
    /// Tells that the evidence was read.
    pub evidence_read: Notify,
}

/// What clients may ask of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// What the engine takes of what clients say of how tokens are chosen.
    pub sampling: SamplingFields,
    /// Whether the engine holds tokens to a format.
    pub takes_formats: bool,
    /// Whether the engine may give the probabilities of tokens.
    pub gives_logprobs: bool,
    /// Whether prompts are written by a chat template.
    pub has_chat_template: bool,
    /// Names of the agent's tools.
    pub own_tools: Arc<BTreeSet<String>>,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Who asks.
    pub tenant: Option<Tenant>,
    /// What is to be answered.
    pub conversation: Conversation,
    /// The client's limit on tokens.
    pub max_tokens: Option<u32>,
    /// How the client wants tokens chosen.
    pub sampling: Sampling,
    /// What else the client asks for.
    pub wishes: Arc<Wishes>,
    /// Names the request where it may be sent again.
    pub key: Option<Key>,
    /// Whether the client may read and end the run by its name later.
    pub keep: Keep,
    /// What of the run the answer is made of.
    pub hears: Hears,
    /// The span that the client asks in, if it traces.
    pub trace: Option<TraceContext>,
}

/// Whether a run can be read by its name.
#[derive(Clone, Debug)]
pub enum Keep {
    /// It cannot.
    No,
    /// It can.
    Run,
    /// It can, and be continued with what was said before it.
    Response(Arc<Remembered>),
}

/// A run that was admitted.
pub struct Started {
    /// Its name, unique across the agent's pods. It begins with the revision, to which feedback counts.
    pub id: String,
    /// When it was admitted.
    pub at: Timestamp,
    /// Whether this request started it.
    pub origin: Origin,
    /// What happens in it.
    pub events: Events,
}

/// Where a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This request.
    This,
    /// An earlier one with the same key.
    Earlier,
}

impl Origin {
    /// Marks an answer that another request has had too.
    pub(super) fn mark(self, response: Response) -> Response {
        match self {
            Self::This => response,
            Self::Earlier => idempotency::mark_replayed(response),
        }
    }
}

impl Service {
    /// What clients may ask of the agent now.
    pub fn abilities(&self) -> Abilities {
        Abilities {
            sampling: self.agent.backend.sampling(),
            own_tools: Arc::clone(&self.agent.tools.catalog().names),
            ..self.abilities.clone()
        }
    }

    /// Admits a run and starts its task. It continues whether its events are read or not, until they are dropped. One
    /// with a key continues even then, for a repeated request.
    ///
    /// # Errors
    /// 400 if the conversation does not fit the prompt template, 422 for a key of another request, 503 if the pod does
    /// not serve. 429 if the pod is full, or the tenant's rate is used up.
    pub fn start(self: &Arc<Self>, start: Start) -> Result<Started, ApiError> {
        let Start { tenant, conversation, max_tokens, sampling, wishes, key, keep, hears, trace } = start;
        let at = self.clock.now();
        self.take_request(tenant.as_ref(), at)?;
        let opening = self.open(&conversation, &wishes, at)?;
        let length = conversation.user_characters();
        let characters = conversation.characters().saturating_add(wishes.bytes() as u64);
        let asked = self.recordings.asked(&conversation);
        let id = self.names.next(tenant.as_ref());
        let ticket = match key.map(|key| self.outcomes.claim(key, &id, at)).transpose()? {
            None => None,
            Some(Claim::First(ticket)) => Some(ticket),
            Some(Claim::Again { id, at, events }) => return Ok(Started { id, at, origin: Origin::Earlier, events }),
        };
        // An answer that is given again needs no place.
        let of_tenant = self.take_place(tenant.as_ref(), at)?;
        let permit = self.admission.admit().map_err(|refusal| self.refuse(refusal, length, at))?;
        let in_flight = u64::try_from(permit.in_flight).unwrap_or(u64::MAX);
        let stratum = Stratum::new(CacheState::Miss, length, in_flight);
        if let Some(tenant) = &tenant {
            self.metrics.tenant_run_admitted(tenant.as_str());
        }
        let session = if conversation.is_new() { Session::New } else { Session::Continued };
        let traced = self.traces.as_ref().map(|traces| traces.begin(trace));
        let (unit, delivery) = {
            let mut recorder = self.recorder();
            // A trace says when the first token came.
            let is_timed = hears != Hears::Answer || recorder.times_tokens() || traced.is_some();
            let may_be_whole = !is_timed && self.agent.sends_whole(&opening);
            let delivery = if may_be_whole { Delivery::Whole } else { Delivery::InParts };
            (recorder.start(at, stratum, session, delivery), delivery)
        };
        let cancel = match keep {
            Keep::No => CancellationToken::new(),
            Keep::Run => self.kept_runs.begin((&id, tenant.as_ref()), at, None),
            Keep::Response(remembered) => self.kept_runs.begin((&id, tenant.as_ref()), at, Some(remembered)),
        };
        let shutdown = self.cut.clone();
        let usage = Usage::default();
        let request = RunRequest {
            id: id.clone(),
            opening,
            max_tokens,
            delivery,
            sampling,
            characters,
            wishes,
            shutdown,
            cancel,
            trace: traced.as_ref().map(|traced| traced.context.clone()),
            usage: usage.clone(),
        };
        let events = Arc::clone(&self.agent).run(request);
        let trail = traced.filter(|traced| traced.context.is_sampled()).map(Trail::new);
        let service = Arc::clone(self);
        let counted = Counted { service, id: id.clone(), tenant, usage, at, unit, asked, trail };
        let places = Places { of_pod: permit, of_tenant };
        let events = in_flight::start(counted, places, (ticket, hears), events);
        Ok(Started { id, at, origin: Origin::This, events })
    }

    /// The prompt of a run's first step. A long one is written while other runs go on elsewhere, and so is the first.
    fn open(&self, conversation: &Conversation, wishes: &Arc<Wishes>, at: Timestamp) -> Result<Opening, ApiError> {
        let prompts = self.agent.prompts.get();
        let takes_long = conversation.bytes() + wishes.bytes() > LONG || prompts.waits_for_vocabulary();
        let open = || prompts.open(conversation, wishes, at);
        let opening = if takes_long { aside(open) } else { open() };
        opening.map_err(|problem| ApiError::invalid("messages", problem))
    }

    /// The evidence; a panic elsewhere leaves counts that are still sound, so the lock is taken regardless.
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what the pod's GPUs do, where somebody tells it. Nothing depends on the answer.
    pub async fn ask_gpus(&self) {
        let Some(gpus) = &self.gpus else { return };
        let after = self.recorder().gpus_known_to();
        match gpus.ask(after).await {
            Ok(told) => self.recorder().note_gpus(told),
            Err(error) => tracing::debug!(error = with_causes(&error), "nothing new of the GPUs"),
        }
    }

    /// Asks again and again until `stop`: what an error of a GPU ends takes what was counted with it.
    pub async fn watch_gpus(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(GPU_PAUSE) => self.ask_gpus().await,
            }
        }
    }

    /// The finished windows after one, or all that are kept.
    pub fn read_evidence(&self, after: Option<u64>) -> Evidence {
        let evidence = self.recorder().evidence(self.clock.now(), after);
        self.evidence_read.notify_waiters();
        evidence
    }

    /// Returns once nobody waits for counts any more.
    pub async fn until_evidence_is_read(&self) {
        loop {
            // Before the look, so that no reader is missed who comes after it.
            let read = self.evidence_read.notified();
            if !self.recorder().is_awaited(self.clock.now()) {
                return;
            }
            read.await;
        }
    }

    /// Judges runs by these objectives from now on.
    pub fn set_objectives(&self, objectives: Vec<LatencyObjective>) {
        let before = self.recorder().set_objectives(objectives.clone());
        self.metrics.set_objectives(&before, &objectives);
    }

    /// Holds tenants to these rates from now on.
    pub fn set_rates(&self, rates: Rates) {
        if let Some(access) = &self.access {
            access.meter.set_rates(rates);
        }
    }

    /// Counts what a client says of a run of this pod, once.
    ///
    /// # Errors
    /// When it does not count here; see [`NotCounted`].
    pub fn judge(&self, run: &str, tenant: Option<&Tenant>, judgement: TaskJudgement) -> Result<(), NotCounted> {
        self.names.judge(run, tenant)?;
        let now = self.clock.now();
        self.recorder().judge(now, judgement);
        self.metrics.task_judged(judgement != TaskJudgement::Failed);
        Ok(())
    }

    /// Takes the tokens of a run from its tenant's budget.
    pub(super) fn charge(&self, tenant: &Tenant, usage: &Usage) {
        let tokens = usage.tokens();
        self.metrics.tenant_charged(tenant.as_str(), tokens);
        if let Some(access) = &self.access {
            access.meter.charge(tenant, tokens, self.clock.now());
        }
    }

    fn take_request(&self, tenant: Option<&Tenant>, at: Timestamp) -> Result<(), ApiError> {
        let Some((access, tenant)) = self.access.as_ref().zip(tenant) else { return Ok(()) };
        access.meter.take_request(tenant, at).map_err(|exceeded| self.limit(tenant, exceeded))
    }

    fn take_place(&self, tenant: Option<&Tenant>, at: Timestamp) -> Result<Option<TenantPlace>, ApiError> {
        let Some((access, tenant)) = self.access.as_ref().zip(tenant) else { return Ok(None) };
        let place = access.meter.take_place(tenant, at).map_err(|exceeded| self.limit(tenant, exceeded))?;
        Ok(Some(place))
    }

    /// No evidence: what a tenant has used up says nothing about the revision.
    fn limit(&self, tenant: &Tenant, exceeded: Exceeded) -> ApiError {
        self.metrics.tenant_limited(tenant.as_str(), exceeded.limit.as_str());
        ApiError::of_rate(tenant, exceeded)
    }

    fn refuse(&self, refusal: Refusal, user_characters: u64, at: Timestamp) -> ApiError {
        match &refusal {
            Refusal::Full { limit } => {
                let in_flight = u64::try_from(*limit).unwrap_or(u64::MAX);
                self.recorder().shed(at, Stratum::new(CacheState::Miss, user_characters, in_flight));
                self.metrics.run_shed();
                self.recordings.unanswered(at);
            }
            // No evidence: traffic comes before a pod is ready, and after it ends, for reasons that are not the
            // revision's.
            Refusal::NotReady { .. } => self.metrics.run_refused(RefusalReason::NotReady),
            Refusal::Draining => self.metrics.run_refused(RefusalReason::Draining),
        }
        refusal.into()
    }
}
