//! Wiring: from a configuration to two servers, and from SIGTERM to an orderly end.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, serve::ListenerExt};
use slipway_runtime_config::{
    ChatTemplate, PromptTemplate, PromptTemplateError, RuntimeConfig, TextDialect, ToolCallDialect,
};
use tokio::{
    net::TcpListener,
    sync::Notify,
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Access, Denied, SetUpAccessError},
    agent::{
        Agent, ChatFormat, CurrentPrompts, Prompts, Rehearsal,
        chat::{ChatFormatError, MakeTokenizer, Vocabulary},
        prompt::PromptBuilder,
    },
    api::{
        self,
        admission::{Admission, Readiness},
        kept_runs::KeptRuns,
        recording::Recordings,
        run_names::{RunNames, Seal},
        service::{Abilities, Service},
    },
    backend::{Backend, TokenPrompts, tokens::Tokenizer},
    chat_template::{Checkpoint, CompileError, ReadCheckpointError},
    clock::Clock,
    failure::with_causes,
    objectives::ObjectivesWatch,
    outbound::Lookup,
    readiness::{Pauses, ReadinessWatch},
    telemetry::{Gpus, Identity, Metrics, MetricsIdentity, Recorder},
    tools::{Catalog, PrepareToolError, Registry, Sources},
    traces::{Exporter, SetUpTracesError, Subject, Traces},
};

/// How long cut runs have to send their last bytes, and idle connections to close.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// How long the reader of the evidence has for the last window: it ends within ten seconds, and is asked for soon
/// after.
const LAST_WINDOW_TIME: Duration = Duration::from_secs(20);

/// A sidecar that is set up and not yet serving.
pub struct App {
    service: Arc<Service>,
    readiness: ReadinessWatch,
    drain_grace: Duration,
    config: RuntimeConfig,
    objectives: Option<ObjectivesWatch>,
    exporter: Option<Exporter>,
}

/// Everything the sidecar is made from.
pub struct Parts {
    /// The validated configuration.
    pub config: RuntimeConfig,
    /// The pod's name.
    pub pod: String,
    /// What generates text.
    pub backend: Arc<dyn Backend>,
    /// The clock.
    pub clock: Clock,
    /// Seals the names of runs.
    pub seal: Seal,
}

/// The ports.
pub struct Listeners {
    /// For clients.
    pub api: TcpListener,
    /// For the kubelet, the operator and Prometheus.
    pub admin: TcpListener,
    /// For who may forward a port of the pod, where texts are remembered.
    pub texts: Option<TcpListener>,
}

/// Why the sidecar could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// A tool cannot be used.
    #[error("failed to set up the tools")]
    Tools(#[source] PrepareToolError),
    /// The prompt template cannot be used.
    #[error("failed to set up the prompt template")]
    PromptTemplate(#[source] PromptTemplateError),
    /// The checkpoint's files cannot be used.
    #[error("failed to read the chat template of the checkpoint")]
    Checkpoint(#[source] ReadCheckpointError),
    /// Messages cannot be written.
    #[error("failed to set up the messages of the upstream")]
    Messages(#[source] CompileError),
    /// Clients cannot be told apart.
    #[error("failed to set up the authentication of clients")]
    Access(#[source] SetUpAccessError),
    /// The checkpoint's chat template cannot be used for this agent.
    #[error("failed to set up the chat template of the checkpoint")]
    ChatTemplate(#[source] ChatFormatError),
    /// Nobody can be asked about the GPUs.
    #[error("failed to set up the client for what the GPUs do")]
    Gpus(#[source] reqwest::Error),
    /// Runs cannot be traced.
    #[error("failed to set up the traces of runs")]
    Traces(#[source] SetUpTracesError),
}

/// Why the sidecar stopped serving without a signal.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A task that runs for the process's whole life ended.
    #[error("the task {name} ended before the shutdown")]
    TaskEnded {
        /// The task.
        name: &'static str,
    },
    /// A task panicked.
    #[error("a task panicked")]
    Panicked(#[source] JoinError),
}

impl App {
    /// Sets everything up; nothing is sent or served yet.
    ///
    /// # Errors
    /// See [`SetUpError`].
    pub fn new(parts: Parts) -> Result<Self, SetUpError> {
        let Parts { config, pod, backend, clock, seal } = parts;
        let backend = if config.rehearsal { Rehearsal::over(backend) } else { backend };
        let given = config.clone();
        let sources = Sources { tools: &config.tools, servers: &config.mcp_servers, lookup: &Lookup::of_system() };
        let tools = Arc::new(Registry::of(sources).map_err(SetUpError::Tools)?);
        let prompt = prompts(&config, &tools, backend.token_prompts())?;
        let access = config.authentication.as_ref().map(Access::new).transpose().map_err(SetUpError::Access)?;
        let abilities = Abilities {
            sampling: backend.sampling(),
            takes_formats: config.engine.takes_formats(),
            // An upstream of chats is asked for them, and refuses if it gives none.
            gives_logprobs: config.engine.takes_formats() || config.engine.dialect == TextDialect::Chat,
            has_chat_template: matches!(prompt, Prompts::Chat(_)),
            own_tools: Arc::default(),
        };
        let gpus = config.gpus_endpoint.as_deref().map(Gpus::new).transpose().map_err(SetUpError::Gpus)?;
        let run_timeout = Duration::from_millis(config.run_timeout_milliseconds);
        let started_at = clock.now();
        let admission = Admission::new(usize::try_from(config.max_in_flight).unwrap_or(usize::MAX));
        let metrics = MetricsIdentity {
            agent: &config.agent_name,
            revision: &config.revision,
            model: &config.engine.model_name,
            version: env!("CARGO_PKG_VERSION"),
            max_in_flight: config.max_in_flight,
        };
        let metrics = Metrics::new(metrics, &config.objectives);
        let metrics = if gpus.is_some() { metrics.with_gpus() } else { metrics };
        let mut metrics = if access.is_some() { metrics.with_tenants(&Denied::LABELS) } else { metrics };
        let (traces, exporter) = traces(&config, (&abilities, &pod), &mut metrics, &seal)?.unzip();
        let names = RunNames::new(&config.revision, started_at, seal);
        let recordings = Recordings::new(config.recording, (pod.clone(), config.revision.clone()), started_at);
        let identity = Identity { revision: config.revision.clone(), pod };
        let readiness = ReadinessWatch {
            backend: Arc::clone(&backend),
            tools: Arc::clone(&tools),
            admission: Arc::clone(&admission),
            sampling: config.sampling,
            warm_up: config.warm_up,
            max_tokens: config.max_tokens_per_step,
            timeout: run_timeout,
            pauses: Pauses::default(),
        };
        let agent = Agent {
            backend,
            tools,
            prompts: CurrentPrompts::new(prompt),
            sampling: config.sampling,
            max_steps: config.max_steps,
            max_tokens_per_step: config.max_tokens_per_step,
            run_timeout,
            clock: clock.clone(),
        };
        let service = Service {
            agent: Arc::new(agent),
            abilities,
            access: access.map(Arc::new),
            agent_name: config.agent_name,
            revision: config.revision,
            admission,
            recorder: Mutex::new(Recorder::new(identity, config.objectives, started_at)),
            gpus,
            metrics,
            traces,
            clock,
            cut: CancellationToken::new(),
            started_at,
            names,
            outcomes: Arc::default(),
            kept_runs: KeptRuns::default(),
            recordings,
            evidence_read: Notify::new(),
        };
        Ok(Self {
            service: Arc::new(service),
            readiness,
            drain_grace: Duration::from_millis(config.drain_grace_milliseconds),
            config: given,
            objectives: None,
            exporter,
        })
    }

    /// Reloads edited objectives from the file that the configuration was read from.
    #[must_use]
    pub fn with_objectives_from(mut self, path: PathBuf) -> Self {
        self.objectives = Some(self.objectives_watch(path));
        self
    }

    /// The task that reloads edited objectives from this file.
    pub fn objectives_watch(&self, path: PathBuf) -> ObjectivesWatch {
        ObjectivesWatch::new(Arc::clone(&self.service), path, self.config.clone())
    }

    /// What delivers the spans of runs, where they are traced. Its taker runs it.
    pub fn take_exporter(&mut self) -> Option<Exporter> {
        self.exporter.take()
    }

    /// Who may call, if not everybody.
    pub fn access(&self) -> Option<&Arc<Access>> {
        self.service.access.as_ref()
    }

    /// The API, for clients.
    pub fn api(&self) -> Router {
        api::router(Arc::clone(&self.service))
    }

    /// The administration, for the kubelet, the operator and Prometheus.
    pub fn admin(&self) -> Router {
        api::admin::router(Arc::clone(&self.service))
    }

    /// What is remembered of runs with its texts, for the pod's loopback; absent where no texts are.
    pub fn texts(&self) -> Option<Router> {
        self.service.recordings.has_texts().then(|| api::admin::texts_router(Arc::clone(&self.service)))
    }

    /// Admits runs to the pod.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.service.admission
    }

    /// Serves until `terminate`; then takes nothing new, lets the runs in flight finish within the drain grace, cuts
    /// what is left, and returns.
    ///
    /// # Errors
    /// A server or the readiness watch ended by itself.
    pub async fn serve(self, listeners: Listeners, terminate: CancellationToken) -> Result<(), ServeError> {
        let stop = CancellationToken::new();
        let (api, admin) = (self.api(), self.admin());
        let texts = listeners.texts.zip(self.texts());
        let Self { service, readiness, drain_grace, config: _, objectives, exporter } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(named("api", serve_http(listeners.api, api, stop.clone())));
        tasks.spawn(named("admin", serve_http(listeners.admin, admin, stop.clone())));
        if let Some((listener, texts)) = texts {
            tasks.spawn(named("texts", serve_http(listener, texts, stop.clone())));
        }
        tasks.spawn(named("readiness", readiness.watch(stop.clone())));
        if let Some(access) = &service.access {
            tasks.spawn(named("access", Arc::clone(access).watch(stop.clone())));
        }
        if service.gpus.is_some() {
            tasks.spawn(named("gpus", Arc::clone(&service).watch_gpus(stop.clone())));
        }
        if service.agent.tools.has_servers() {
            tasks.spawn(named("tools", watch_tools(Arc::clone(&service.agent), stop.clone())));
        }
        if let Some(exporter) = exporter {
            tasks.spawn(named("traces", exporter.run(stop.clone())));
        }
        if let Some(objectives) = objectives {
            tasks.spawn(named("objectives", objectives.watch(stop.clone())));
        }
        tokio::select! {
            ended = tasks.join_next() => return Err(ended_early(ended)),
            () = terminate.cancelled() => {}
        }
        drain(&service, drain_grace).await;
        stop.cancel();
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSING_TIME, all).await.is_err() {
            tracing::warn!("connections were still open at the end");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// What writes the agent's prompts: the checkpoint's chat template where one is asked for and there is one.
fn prompts(config: &RuntimeConfig, tools: &Registry, takes: TokenPrompts) -> Result<Prompts, SetUpError> {
    if config.engine.dialect == TextDialect::Chat {
        let checkpoint = Checkpoint::of_messages().map_err(SetUpError::Messages)?;
        let dialect = Some(ToolCallDialect::Hermes);
        let format = ChatFormat::new(checkpoint, dialect, &config.system_prompt, &tools.catalog().shown);
        return format.map(Arc::new).map(Prompts::Chat).map_err(SetUpError::ChatTemplate);
    }
    if let Some(ChatTemplate { folder, dialect }) = &config.chat_template {
        match Checkpoint::read(Path::new(folder)).map_err(SetUpError::Checkpoint)? {
            Some(checkpoint) => {
                let format = ChatFormat::new(checkpoint, *dialect, &config.system_prompt, &tools.catalog().shown);
                let mut format = format.map_err(SetUpError::ChatTemplate)?;
                let tokenizer = tokenizer(folder, takes.clone());
                let as_tokens = tokenizer.is_some();
                if let Some(tokenizer) = tokenizer {
                    format = format.with_tokenizer(tokenizer);
                }
                tracing::info!(folder, dialect = ?format.dialect(), as_tokens, "prompts are written by the chat template");
                return Ok(Prompts::Chat(Arc::new(format)));
            }
            None => tracing::warn!(folder, "the checkpoint has no chat template: prompts are ReAct transcripts"),
        }
    }
    Ok(Prompts::Transcript(PromptBuilder {
        template: PromptTemplate::parse(&config.prompt_template).map_err(SetUpError::PromptTemplate)?,
        system_prompt: config.system_prompt.clone(),
        tools: tools.catalog().listing(),
        vocabulary: match takes {
            TokenPrompts::Of(tokenizer) => {
                Some(Arc::new(Vocabulary::of_transcript(tokenizer, &config.prompt_template)))
            }
            TokenPrompts::None | TokenPrompts::OfCheckpoint => None,
        },
    }))
}

/// What turns prompts into tokens, where the engine takes these. One that takes texts too serves without it.
fn tokenizer(folder: &str, takes: TokenPrompts) -> Option<MakeTokenizer> {
    match takes {
        TokenPrompts::None => None,
        TokenPrompts::Of(tokenizer) => Some(Box::new(move || Some(tokenizer))),
        TokenPrompts::OfCheckpoint => {
            let folder = Path::new(folder).to_owned();
            folder
                .join("tokenizer.json")
                .is_file()
                .then(|| -> MakeTokenizer { Box::new(move || read_tokenizer(&folder)) })
        }
    }
}

fn read_tokenizer(folder: &Path) -> Option<Arc<Tokenizer>> {
    match Tokenizer::read(folder) {
        Ok(tokenizer) => Some(Arc::new(tokenizer)),
        Err(error) => {
            tracing::warn!(error = with_causes(&error), "prompts are sent as text: the tokenizer cannot be used");
            None
        }
    }
}

/// What traces runs, and what delivers their spans, where that is asked for.
fn traces(
    config: &RuntimeConfig,
    (abilities, pod): (&Abilities, &str),
    metrics: &mut Metrics,
    seal: &Seal,
) -> Result<Option<(Arc<Traces>, Exporter)>, SetUpError> {
    let Some(tracing) = &config.tracing else { return Ok(None) };
    let subject = Subject::of(config, abilities.has_chat_template);
    let seal = seal.clone();
    // Numbers of traces and of runs are drawn from the same secret, and never for the same number.
    let draw = Box::new(move |number| seal.draw(number | 1 << 63));
    Traces::of(tracing, (subject, pod), metrics.count_spans(), draw).map(Some).map_err(SetUpError::Traces)
}

/// Takes the tools of servers over as they change.
async fn watch_tools(agent: Arc<Agent>, stop: CancellationToken) {
    let take = |catalog: &Catalog| agent.prompts.take(catalog).map_err(|error| with_causes(&error));
    agent.tools.watch(take, stop).await;
}

/// Closes the door, waits for the runs in flight, and cuts what is left after `grace`. Where it leaves time, what was
/// counted last is read before it is gone.
async fn drain(service: &Service, grace: Duration) {
    let end = Instant::now() + grace;
    service.admission.set_readiness(Readiness::Draining);
    let in_flight = service.admission.in_flight();
    tracing::info!(in_flight, grace_milliseconds = grace.as_millis(), "draining");
    if tokio::time::timeout_at(end, service.admission.idle()).await.is_ok() {
        let until = end.min(Instant::now() + LAST_WINDOW_TIME);
        if tokio::time::timeout_at(until, service.until_evidence_is_read()).await.is_err() {
            tracing::warn!("nobody read what was counted last");
        }
        return;
    }
    tracing::warn!(in_flight = service.admission.in_flight(), "the drain grace is over: runs are cut");
    service.cut.cancel();
    if tokio::time::timeout(CLOSING_TIME, service.admission.idle()).await.is_err() {
        tracing::warn!(in_flight = service.admission.in_flight(), "clients did not take the end of their runs");
    }
}

async fn serve_http(listener: TcpListener, router: Router, stop: CancellationToken) {
    // Server-sent events are small: without this they wait for the peer's delayed acknowledgement.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
    });
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await {
        tracing::error!(%error, "server failed");
    }
}

async fn named(name: &'static str, task: impl Future<Output = ()>) -> &'static str {
    task.await;
    name
}

fn ended_early(ended: Option<Result<&'static str, JoinError>>) -> ServeError {
    match ended {
        Some(Ok(name)) => ServeError::TaskEnded { name },
        Some(Err(error)) => ServeError::Panicked(error),
        None => ServeError::TaskEnded { name: "all" },
    }
}
