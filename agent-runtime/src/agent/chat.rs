//! Prompts by a checkpoint's chat template: a conversation, the tools, and the turns of a run as messages. Pure.

mod client;
mod offer;

use std::{collections::BTreeMap, fmt, sync::Arc};

use minijinja::Value;
use slipway_runtime_config::Schema;
use slipway_vocabulary::ToolCallDialect;

use crate::{
    chat_template::{self, Checkpoint, Prompt, RenderError},
    clock::Timestamp,
    tools::ShownTool,
};

use super::{
    conversation::{Conversation, Turn},
    dialect::choose,
    grammar::{Observation, ToolCall},
    state::{Call, CallEnd, CallResult, Step},
    wishes::{ClientCall, Wishes},
};

pub use client::Mistake;
use offer::OfferError;
pub use offer::{Calls, Offer};

/// How an agent's prompts are written, and its turns read.
#[derive(Clone)]
pub struct ChatFormat {
    checkpoint: Arc<Checkpoint>,
    dialect: ToolCallDialect,
    system_prompt: String,
    /// The agent's tools.
    offer: Arc<Offer>,
    /// Whether the template shows tools.
    shows_tools: bool,
    /// Whether the template writes calls and results of tools.
    has_tool_messages: bool,
    /// Whether instructions have a message of their own.
    has_system: bool,
}

/// Why an agent cannot be served with a chat template.
#[derive(Debug, thiserror::Error)]
pub enum ChatFormatError {
    /// The schema of a tool cannot be used.
    #[error("the inputSchema of tool {tool:?} cannot be used")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        #[source]
        source: slipway_runtime_config::SchemaError,
    },
    /// The template renders no conversation at all.
    #[error("the chat template of the checkpoint renders no conversation")]
    Render(#[source] RenderError),
    /// What the template is given cannot be made.
    #[error("the tools cannot be written")]
    Tools(#[source] chat_template::JsonError),
}

/// The conversation of a run, and how it is written.
#[derive(Clone)]
pub struct Talk {
    format: Arc<ChatFormat>,
    conversation: Conversation,
    wishes: Arc<Wishes>,
    /// The tools of the run.
    offer: Arc<Offer>,
    /// The schema of the answer, if the client named one.
    schema: Option<Schema>,
    now: Timestamp,
    /// The prompt of the first step.
    first: String,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("first", &self.first).field("now", &self.now).finish_non_exhaustive()
    }
}

impl PartialEq for Talk {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.format, &other.format)
            && (&self.conversation, &self.wishes, self.now, &self.first)
                == (&other.conversation, &other.wishes, other.now, &other.first)
    }
}

impl Eq for Talk {}

/// What of a chat's turn is kept beside its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTurn {
    /// Its text.
    pub(super) content: String,
    /// What the model thought.
    pub(super) thoughts: String,
    /// What the model is told in place of results, where its turn had mistakes.
    pub(super) repair: Option<String>,
}

impl ChatFormat {
    /// Prepares the prompts of an agent. A conversation is rendered, so that a template that cannot be used is found
    /// now.
    ///
    /// # Errors
    /// [`ChatFormatError`].
    pub fn new(
        checkpoint: Checkpoint,
        dialect: Option<ToolCallDialect>,
        system_prompt: &str,
        tools: &[ShownTool],
    ) -> Result<Self, ChatFormatError> {
        // With tools, as clients may bring some.
        let template = checkpoint.template(true);
        let dialect = dialect.unwrap_or_else(|| choose(template.source()));
        let shows_tools = template.source().contains("tools");
        let has_tool_messages = shows_tools && template.source().contains("tool_calls");
        let system_prompt = system_prompt.trim_end().to_owned();
        let (offer, checkpoint) = (offer(tools, shows_tools)?, Arc::new(checkpoint));
        let mut format =
            Self { checkpoint, dialect, system_prompt, offer, shows_tools, has_tool_messages, has_system: true };
        format.probe()?;
        Ok(format)
    }

    /// The same for other tools.
    ///
    /// # Errors
    /// [`ChatFormatError`].
    pub fn with_tools(&self, tools: &[ShownTool]) -> Result<Self, ChatFormatError> {
        let mut format = Self { offer: offer(tools, self.shows_tools)?, ..self.clone() };
        format.probe()?;
        Ok(format)
    }

    /// Finds out whether the template takes instructions by themselves, and whether it renders anything.
    fn probe(&mut self) -> Result<(), ChatFormatError> {
        let question = |role: &str, text: &str| message(role, Value::from(text));
        let with_system = vec![question("system", "s"), question("user", "q")];
        if let Err(RenderError::Refused { .. }) = self.render(with_system, &self.offer, Timestamp::default()) {
            self.has_system = false;
        }
        let rendered = self.render(vec![question("user", "q")], &self.offer, Timestamp::default());
        rendered.map(|_| ()).map_err(ChatFormatError::Render)
    }

    /// How turns are read.
    pub fn dialect(&self) -> ToolCallDialect {
        self.dialect
    }

    /// What the tokenizer puts before every text by itself, where the template does too.
    pub fn begin(&self) -> Option<&Arc<str>> {
        self.checkpoint.begin()
    }

    /// Whether thoughts and answers are messages of their own.
    fn has_channels(&self) -> bool {
        self.dialect == ToolCallDialect::Harmony
    }

    /// Opens a run.
    ///
    /// # Errors
    /// The template renders no prompt.
    pub fn open(
        self: &Arc<Self>,
        conversation: &Conversation,
        wishes: &Arc<Wishes>,
        now: Timestamp,
    ) -> Result<Talk, RenderError> {
        let offer = match wishes.offered().next() {
            None => Arc::clone(&self.offer),
            Some(_) => Arc::new(self.offer.with_clients(wishes, self.shows_tools).map_err(unwritten)?),
        };
        let first = self.render(self.conversation(conversation, wishes, &offer), &offer, now)?;
        let schema = client::schema(&wishes.format);
        let (format, conversation, wishes) = (Arc::clone(self), conversation.clone(), Arc::clone(wishes));
        Ok(Talk { format, conversation, wishes, offer, schema, now, first })
    }

    fn render(&self, messages: Vec<Value>, offer: &Offer, now: Timestamp) -> Result<String, RenderError> {
        let prompt = Prompt {
            messages: Value::from(messages),
            tools: offer.shown.clone(),
            generation_prompt: true,
            now,
            extra: BTreeMap::new(),
        };
        self.checkpoint.template(!offer.is_empty()).render(&prompt)
    }

    fn conversation(&self, conversation: &Conversation, wishes: &Wishes, offer: &Offer) -> Vec<Value> {
        let described = offer.described.as_deref().unwrap_or_default();
        let format = wishes.format.instruction().unwrap_or_default();
        let parts = [self.system_prompt.as_str(), described, conversation.instructions(), &format];
        let system = parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        let mut messages = Vec::new();
        let mut in_question = None;
        match (system.is_empty(), self.has_system) {
            (true, _) => {}
            (false, true) => messages.push(message("system", Value::from(system))),
            (false, false) => in_question = Some(system),
        }
        let mut earlier = Earlier::default();
        for turn in conversation.turns() {
            match turn {
                Turn::Question(text) => {
                    let system = in_question.take().map(|system| format!("{system}\n\n"));
                    let text = system.unwrap_or_default() + text;
                    messages.push(message("user", Value::from(text)));
                }
                Turn::Answer(text) => messages.push(message("assistant", Value::from(text.as_str()))),
                Turn::Calls { text, thoughts, calls } => {
                    self.write_calls(&mut earlier, text, thoughts, calls, offer, &mut messages);
                }
                Turn::Result { call, text } => self.write_result(&mut earlier, call, text, &mut messages),
            }
        }
        messages
    }

    /// Writes calls of the client's tools as the model made them.
    fn write_calls(
        &self,
        earlier: &mut Earlier,
        text: &str,
        thoughts: &str,
        calls: &[ClientCall],
        offer: &Offer,
        messages: &mut Vec<Value>,
    ) {
        earlier.turns += 1;
        earlier.open = calls.to_vec();
        if !self.has_tool_messages {
            let written = |call: &ClientCall| {
                let name = serde_json::Value::String(call.name.clone());
                format!("{{\"name\": {name}, \"arguments\": {}}}", call.arguments)
            };
            let calls = calls.iter().map(written);
            let parts = [text.to_owned()].into_iter().chain(calls).filter(|part| !part.is_empty());
            messages.push(message("assistant", Value::from(parts.collect::<Vec<_>>().join("\n"))));
            return;
        }
        let calls = calls.iter().enumerate().map(|(index, call)| {
            let call = ToolCall { name: call.name.clone(), input: call.arguments.clone() };
            written_call(earlier.identity(index), &call, offer.arguments(&call))
        });
        messages.push(with_calls(text, thoughts, calls.collect()));
    }

    fn write_result(&self, earlier: &mut Earlier, call: &str, text: &str, messages: &mut Vec<Value>) {
        let Some(index) = earlier.open.iter().position(|open| open.id == call) else { return };
        let name = earlier.open[index].name.clone();
        messages.push(match self.has_tool_messages {
            true => result(earlier.identity(index), &name, text),
            false => message("user", Value::from(format!("Result of {name}: {text}"))),
        });
    }
}

/// Calls of the client's tools that a conversation has.
#[derive(Default)]
struct Earlier {
    turns: u32,
    open: Vec<ClientCall>,
}

impl Earlier {
    /// Apart from the calls of the run itself, which are counted from the other end.
    fn identity(&self, index: usize) -> String {
        identity(10_000 - self.turns % 5_000, index)
    }
}

fn offer(tools: &[ShownTool], shows_tools: bool) -> Result<Arc<Offer>, ChatFormatError> {
    Offer::of_agent(tools, shows_tools).map(Arc::new).map_err(|error| match error {
        OfferError::Schema { tool, source } => ChatFormatError::Schema { tool, source },
        OfferError::Json(source) => ChatFormatError::Tools(source),
    })
}

fn unwritten(error: OfferError) -> RenderError {
    let problem = match error {
        OfferError::Schema { tool, source } => format!("tool {tool:?}: {source}"),
        OfferError::Json(source) => source.to_string(),
    };
    RenderError::Refused { reason: problem }
}

impl Talk {
    /// How it is written.
    pub(super) fn format(&self) -> &ChatFormat {
        &self.format
    }

    /// The tools of the run.
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// What the client asked for.
    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// The prompt of the first step.
    pub(super) fn first(&self) -> &str {
        &self.first
    }

    /// The prompt of the next model call.
    ///
    /// # Errors
    /// The template refuses what the run has become.
    pub(super) fn prompt(&self, steps: &[Step]) -> Result<String, RenderError> {
        let mut messages = self.format.conversation(&self.conversation, &self.wishes, &self.offer);
        let before = messages.len();
        steps.iter().for_each(|step| self.format.write(step, &self.offer, &mut messages));
        if messages.len() == before {
            return Ok(self.first.clone());
        }
        self.format.render(messages, &self.offer, self.now)
    }
}

impl ChatFormat {
    /// Adds a finished step: its turn, and what its calls gave.
    fn write(&self, step: &Step, offer: &Offer, messages: &mut Vec<Value>) {
        let Some(turn) = &step.chat else { return };
        if let Some(repair) = &turn.repair {
            messages.push(message("assistant", Value::from(self.as_written(step, turn))));
            messages.push(message("user", Value::from(repair.as_str())));
            return;
        }
        let answered: Option<Vec<_>> = step.calls.iter().map(observation).collect();
        let Some(observations) = answered.filter(|observations| !observations.is_empty()) else { return };
        if !self.has_tool_messages {
            messages.push(message("assistant", Value::from(self.as_written(step, turn))));
            let each = step.calls.iter().zip(&observations);
            let results = each.map(|(call, result)| format!("Result of {}: {}", call.call.name, content(result)));
            messages.push(message("user", Value::from(results.collect::<Vec<_>>().join("\n"))));
            return;
        }
        // Templates of Llama 3 refuse two calls in one message.
        let together = if self.dialect == ToolCallDialect::Llama3Json { 1 } else { step.calls.len() };
        for (group, calls) in step.calls.chunks(together).enumerate() {
            let first = group * together;
            let (text, thoughts) = if group == 0 { (turn.content.as_str(), turn.thoughts.as_str()) } else { ("", "") };
            let written = calls.iter().enumerate().map(|(index, call)| {
                written_call(identity(step.number, first + index), &call.call, offer.arguments(&call.call))
            });
            messages.push(with_calls(text, thoughts, written.collect()));
            for (index, call) in calls.iter().enumerate() {
                let given = observations.get(first + index).map(|given| content(given)).unwrap_or_default();
                messages.push(result(identity(step.number, first + index), &call.call.name, &given));
            }
        }
    }

    /// What the model wrote, without its thoughts.
    fn as_written(&self, step: &Step, turn: &ChatTurn) -> String {
        if self.dialect == ToolCallDialect::Harmony {
            // Its template refuses a text with channels.
            return if turn.content.is_empty() { "(a call with mistakes)".to_owned() } else { turn.content.clone() };
        }
        let marks = ["</think>", "[/THINK]"];
        let behind =
            marks.iter().find_map(|mark| step.text.rsplit_once(mark)).map_or(step.text.as_str(), |(_, rest)| rest);
        behind.trim().to_owned()
    }
}

fn with_calls(text: &str, thoughts: &str, calls: Vec<Value>) -> Value {
    let content = if text.is_empty() { Value::from(()) } else { Value::from(text) };
    let mut pairs = vec![("role", Value::from("assistant")), ("content", content)];
    if !thoughts.is_empty() {
        pairs.push(("reasoning_content", Value::from(thoughts)));
    }
    pairs.push(("tool_calls", Value::from(calls)));
    Value::from_pairs(pairs)
}

fn written_call(id: String, call: &ToolCall, arguments: Value) -> Value {
    let function = Value::from_pairs([("name", Value::from(call.name.as_str())), ("arguments", arguments)]);
    Value::from_pairs([("type", Value::from("function")), ("id", Value::from(id)), ("function", function)])
}

fn result(id: String, name: &str, text: &str) -> Value {
    Value::from_pairs([
        ("role", Value::from("tool")),
        ("tool_call_id", Value::from(id)),
        ("name", Value::from(name)),
        ("content", Value::from(text)),
    ])
}

fn message(role: &str, content: Value) -> Value {
    Value::from_pairs([("role", Value::from(role)), ("content", content)])
}

fn observation(call: &Call) -> Option<&Observation> {
    match &call.end {
        Some(CallEnd { result: CallResult::Answered(observation), .. }) => Some(observation),
        Some(CallEnd { result: CallResult::Cancelled, .. }) | None => None,
    }
}

/// What a tool gave, with its line breaks.
fn content(observation: &Observation) -> String {
    match observation {
        Observation::Result(text) => text.clone(),
        Observation::Error { message, .. } => format!("error: {message}"),
    }
}

/// Names a call: nine letters and digits, as templates of Mistral demand.
fn identity(step: u32, index: usize) -> String {
    format!("c{:04}{:04}", step % 10_000, index % 10_000)
}
