//! The spans of a run: the run, its model calls and its tool calls, with the names of OpenTelemetry's conventions for
//! generative AI. Pure.
//!
//! <https://github.com/open-telemetry/semantic-conventions-genai>. No span holds what was asked, answered or called
//! with: only names, numbers and times.

use std::collections::BTreeMap;

use slipway_runtime_config::{Engine, RuntimeConfig, TextDialect, metrics::Blame};

use crate::{
    agent::{
        CallId, Failure, Observation, Outcome, RunEvent, State, places,
        state::{Call, CallResult, Step},
    },
    clock::Timestamp,
    trace_context::TraceContext,
};

/// What ended with its run, before its own end.
const CANCELLED: &str = "cancelled";

/// Something that was done, from when to when.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The span.
    pub context: TraceContext,
    /// The span that it happened in.
    pub parent: Option<u64>,
    /// Whether that is another process's.
    pub parent_is_remote: bool,
    /// What was done.
    pub name: String,
    /// Whose side of a call it is.
    pub kind: Kind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether it failed.
    pub is_error: bool,
}

/// Whose side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: it happens within a process.
    Internal,
    /// That of the client.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A time.
    Seconds(f64),
    /// Yes or no.
    Flag(bool),
}

/// What all runs of a process have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The agent's name.
    pub agent: String,
    /// The revision.
    pub revision: String,
    /// Whose server generates.
    pub provider: &'static str,
    /// What a model call is called.
    pub operation: &'static str,
    /// The model's name there.
    pub model: String,
    /// Its host and port.
    pub server: (String, u16),
}

/// A run that is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its span.
    pub context: TraceContext,
    /// The span of the client that it happens in.
    pub parent: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When.
    pub at: Timestamp,
    /// The label of the error, if there is one.
    pub error: Option<&'static str>,
    /// Whether that is anybody's fault but the client's.
    pub is_failure: bool,
    /// The step whose model call did not end well, and why.
    pub failed_step: Option<(u32, &'static str)>,
}

/// Who asked for a run, and when.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The run's name.
    pub id: &'a str,
    /// The client's tenant.
    pub tenant: Option<&'a str>,
    /// When it was admitted.
    pub at: Timestamp,
}

/// What was done in a run, as far as its spans say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    traced: Traced,
    steps: BTreeMap<u32, ModelCall>,
    calls: BTreeMap<CallId, ToolCall>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ModelCall {
    began: Timestamp,
    ended: Option<Timestamp>,
    first_token: Option<Timestamp>,
    prompt_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    output_tokens: u32,
    reasoning_tokens: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolCall {
    name: String,
    began: Timestamp,
    ended: Option<(Timestamp, Option<&'static str>)>,
}

impl Subject {
    /// What a configuration says of all runs. Their prompts are chats where a chat template writes them.
    pub fn of(config: &RuntimeConfig, writes_chats: bool) -> Self {
        let Engine { endpoint, model_name, tokenizer: _, dialect, upstream: _ } = &config.engine;
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("http", endpoint));
        let authority = rest.split('/').next().unwrap_or_default();
        let usual = if scheme == "https" { 443 } else { 80 };
        let with_port = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = with_port.unwrap_or((authority, usual));
        Self {
            agent: config.agent_name.clone(),
            revision: config.revision.clone(),
            provider: match dialect {
                TextDialect::OpenAi => "vllm",
                TextDialect::SgLang => "sglang",
                TextDialect::TrtLlm => "tensorrt_llm",
                TextDialect::Completions | TextDialect::Chat => "openai",
                TextDialect::Text | TextDialect::Ensemble | TextDialect::Vllm | TextDialect::LlmApi => "triton",
            },
            operation: if writes_chats { "chat" } else { "text_completion" },
            model: model_name.clone(),
            server: (host.to_owned(), port),
        }
    }
}

impl Ending {
    /// The end of a run that nobody waited for.
    pub fn cancelled(at: Timestamp) -> Self {
        Self { at, error: Some(CANCELLED), is_failure: false, failed_step: None }
    }

    /// The end of a run with an outcome; nothing before it.
    pub fn of(state: &State) -> Option<Self> {
        let (outcome, at) = state.finished()?;
        let Outcome::Failed(failure) = outcome else {
            return Some(Self { at, error: None, is_failure: false, failed_step: None });
        };
        let is_failure = failure.outcome().blame() == Blame::Error;
        let last = state.steps().last();
        // Its model call ended because the run did.
        let cut = last.filter(|step| step.model_finished_at == Some(at) && step.calls.is_empty());
        let failed_step = match failure {
            Failure::Model { step, error } => Some((*step, error.kind)),
            Failure::ContextLength { error } | Failure::Refused { error } => last.map(|step| (step.number, error.kind)),
            Failure::Cancelled | Failure::Timeout { .. } | Failure::CutByShutdown => {
                cut.map(|step| (step.number, CANCELLED))
            }
            Failure::MaxSteps { .. }
            | Failure::TokenBudget { .. }
            | Failure::MalformedOutput { .. }
            | Failure::Unmet { .. }
            | Failure::Prompt { .. } => None,
        };
        Some(Self { at, error: Some(failure.kind()), is_failure, failed_step })
    }
}

impl Trail {
    /// Nothing was done yet.
    pub fn new(traced: Traced) -> Self {
        Self { traced, steps: BTreeMap::new(), calls: BTreeMap::new() }
    }

    /// How many spans it becomes.
    pub fn spans_to_be(&self) -> usize {
        1 + self.steps.len() + self.calls.len()
    }

    /// Notes what happens. Times of what has not ended yet are those of the event.
    pub fn note(&mut self, event: &RunEvent, at: Timestamp, has_tool: impl Fn(&str) -> bool) {
        match event {
            RunEvent::StepStarted(step) => {
                self.steps.insert(*step, ModelCall { began: at, ..ModelCall::default() });
            }
            RunEvent::ModelFinished(step) => {
                self.steps.insert(step.number, ModelCall::of(step));
            }
            RunEvent::ToolStarted(id, call) => {
                // What a model makes up is no name for a span.
                let name = if has_tool(&call.name) { call.name.as_str() } else { "unknown" };
                self.calls.insert(*id, ToolCall { name: name.to_owned(), began: at, ended: None });
            }
            RunEvent::ToolFinished(id, call) => {
                if let Some(known) = self.calls.get_mut(id) {
                    known.end(call);
                }
            }
            RunEvent::Progress(_)
            | RunEvent::ThoughtsDelta(_)
            | RunEvent::AnswerDelta(_)
            | RunEvent::Compacted(_)
            | RunEvent::Finished(_) => {}
        }
    }

    /// The spans of a run that has ended. What had not ended before it has ended with it.
    pub fn spans(self, subject: &Subject, asked: Asked<'_>, ending: Ending) -> Vec<Span> {
        let Self { traced, steps, calls } = self;
        let run = run_span(&traced, &steps, subject, (asked, ending));
        let model_calls = steps.iter().map(|(number, call)| call.span(&traced, *number, subject, ending));
        let tool_calls = calls.iter().map(|(id, call)| call.span(&traced, *id, ending));
        std::iter::once(run).chain(model_calls).chain(tool_calls).collect()
    }
}

fn run_span(
    traced: &Traced,
    steps: &BTreeMap<u32, ModelCall>,
    subject: &Subject,
    (asked, ending): (Asked<'_>, Ending),
) -> Span {
    let Subject { agent, revision, provider, operation: _, model, server: _ } = subject;
    let Asked { id, tenant, at } = asked;
    let mut attributes = vec![
        ("gen_ai.operation.name", text("invoke_agent")),
        ("gen_ai.provider.name", text(provider)),
        ("gen_ai.agent.name", text(agent)),
        ("gen_ai.agent.version", text(revision)),
        ("gen_ai.request.model", text(model)),
        ("slipway.run.id", text(id)),
    ];
    attributes.extend(tenant.map(|tenant| ("slipway.tenant", text(tenant))));
    let calls = || steps.values();
    let prompt_tokens = calls().map(|call| call.prompt_tokens).sum::<Option<u32>>().filter(|_| !steps.is_empty());
    attributes.extend(usage(
        prompt_tokens,
        calls().filter_map(|call| call.cached_tokens).reduce(u32::saturating_add),
        calls().filter_map(ModelCall::written_tokens).reduce(u32::saturating_add),
        calls().fold(0, |sum, call| sum.saturating_add(call.reasoning_tokens)),
    ));
    attributes.extend(ending.error.map(|error| ("error.type", text(error))));
    Span {
        context: traced.context.clone(),
        parent: traced.parent,
        parent_is_remote: traced.parent.is_some(),
        name: format!("invoke_agent {agent}"),
        kind: Kind::Internal,
        start: at,
        end: ending.at,
        attributes,
        is_error: ending.is_failure,
    }
}

impl ModelCall {
    fn of(step: &Step) -> Self {
        Self {
            began: step.sent_at,
            ended: step.model_finished_at,
            first_token: step.first_token.map(|first| first.at),
            prompt_tokens: step.prompt_tokens,
            cached_tokens: step.cached_tokens,
            output_tokens: step.output_tokens,
            reasoning_tokens: step.reasoning_tokens,
        }
    }

    /// Tokens that it wrote; they are not known before its end.
    fn written_tokens(&self) -> Option<u32> {
        self.ended.map(|_| self.output_tokens)
    }

    fn span(&self, traced: &Traced, number: u32, subject: &Subject, ending: Ending) -> Span {
        let Subject { agent, revision: _, provider, operation, model, server: (host, port) } = subject;
        let failed = ending.failed_step.filter(|(step, _)| *step == number).map(|(_, error)| error);
        let error = failed.or(self.ended.is_none().then_some(CANCELLED));
        let first_token = self.first_token.map(|at| at.micros_since(self.began));
        let mut attributes = vec![
            ("gen_ai.operation.name", text(operation)),
            ("gen_ai.provider.name", text(provider)),
            ("gen_ai.agent.name", text(agent)),
            ("gen_ai.request.model", text(model)),
            ("gen_ai.request.stream", Value::Flag(true)),
            ("server.address", text(host)),
            ("server.port", Value::Count(u64::from(*port))),
        ];
        // Exact below 2^53 microseconds, which is 285 years.
        let seconds = first_token.map(|micros| micros as f64 / 1e6);
        attributes.extend(seconds.map(|seconds| ("gen_ai.response.time_to_first_chunk", Value::Seconds(seconds))));
        attributes.extend(usage(self.prompt_tokens, self.cached_tokens, self.written_tokens(), self.reasoning_tokens));
        attributes.extend(error.map(|error| ("error.type", text(error))));
        Span {
            context: traced.context.within(places::of_step(number)),
            parent: Some(traced.context.span()),
            parent_is_remote: false,
            name: format!("{operation} {model}"),
            kind: Kind::Client,
            start: self.began,
            end: self.ended.unwrap_or(ending.at),
            attributes,
            is_error: failed.is_some_and(|error| error != CANCELLED),
        }
    }
}

impl ToolCall {
    fn end(&mut self, call: &Call) {
        self.began = call.started_at;
        self.ended = call.end.as_ref().map(|end| {
            let error = match &end.result {
                CallResult::Answered(Observation::Result(_)) => None,
                CallResult::Answered(Observation::Error { kind, .. }) => Some(*kind),
                CallResult::Cancelled => Some(CANCELLED),
            };
            (end.at, error)
        });
    }

    fn span(&self, traced: &Traced, id: CallId, ending: Ending) -> Span {
        let (end, error) = self.ended.unwrap_or((ending.at, Some(CANCELLED)));
        let mut attributes = vec![
            ("gen_ai.operation.name", text("execute_tool")),
            ("gen_ai.tool.name", text(&self.name)),
            ("gen_ai.tool.type", text("extension")),
            ("gen_ai.tool.call.id", text(&format!("{}-{}", id.step, id.index + 1))),
        ];
        attributes.extend(error.map(|error| ("error.type", text(error))));
        Span {
            context: traced.context.within(places::of_call(id)),
            parent: Some(traced.context.span()),
            parent_is_remote: false,
            name: format!("execute_tool {}", self.name),
            kind: Kind::Internal,
            start: self.began,
            end,
            attributes,
            is_error: error.is_some_and(|error| error != CANCELLED),
        }
    }
}

/// Tokens, as far as they were counted.
fn usage(
    prompt: Option<u32>,
    cached: Option<u32>,
    output: Option<u32>,
    reasoning: u32,
) -> impl Iterator<Item = (&'static str, Value)> {
    let counts = [
        ("gen_ai.usage.input_tokens", prompt),
        ("gen_ai.usage.cache_read.input_tokens", cached),
        ("gen_ai.usage.output_tokens", output),
        ("gen_ai.usage.reasoning.output_tokens", Some(reasoning).filter(|tokens| *tokens > 0)),
    ];
    counts.into_iter().filter_map(|(name, count)| Some((name, Value::Count(count?.into()))))
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
