//! Prompts by a checkpoint's chat template: a conversation, the tools, and the turns of a run as messages. Pure.

use std::{collections::BTreeMap, fmt, sync::Arc};

use minijinja::Value;
use slipway_runtime_config::{Schema, Tool, ToolKind};
use slipway_vocabulary::ToolCallDialect;

use crate::{
    chat_template::{self, Checkpoint, Prompt, RenderError},
    clock::Timestamp,
};

use super::{
    conversation::{Conversation, Turn},
    dialect::{Arguments, MAX_CALLS_PER_TURN, WrittenCall, choose},
    grammar::{Observation, ToolCall},
    state::{Call, CallEnd, CallResult, Step},
    tool_list,
};

/// The argument of the calculator.
pub(super) const EXPRESSION: &str = "expression";

/// How an agent's prompts are written, and its turns read.
pub struct ChatFormat {
    checkpoint: Checkpoint,
    dialect: ToolCallDialect,
    system_prompt: String,
    tools: BTreeMap<String, KnownTool>,
    /// The tools for the template.
    shown: Option<Value>,
    /// Whether the template writes calls and results of tools.
    has_tool_messages: bool,
    /// Whether instructions have a message of their own.
    has_system: bool,
}

/// What is known of a tool.
struct KnownTool {
    schema: Schema,
    /// The only argument, where the tool takes its text.
    sole: Option<&'static str>,
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
            && (&self.conversation, self.now, &self.first) == (&other.conversation, other.now, &other.first)
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
    /// What the model is told in place of results, where its calls had mistakes.
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
        tools: &[Tool],
    ) -> Result<Self, ChatFormatError> {
        let template = checkpoint.template(!tools.is_empty());
        let dialect = dialect.unwrap_or_else(|| choose(template.source()));
        let shows_tools = template.source().contains("tools");
        let has_tool_messages = shows_tools && template.source().contains("tool_calls");
        let known = tools.iter().map(known).collect::<Result<_, _>>()?;
        let shown = tool_list::for_template(tools);
        let mut system_prompt = system_prompt.trim_end().to_owned();
        if !shows_tools && !tools.is_empty() {
            let described = tool_list::described(&shown);
            system_prompt =
                [system_prompt, described].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        }
        let shown = if shows_tools && !tools.is_empty() { Some(shown) } else { None };
        let shown = shown.map(|text| chat_template::json(&text)).transpose().map_err(ChatFormatError::Tools)?;
        let mut format =
            Self { checkpoint, dialect, system_prompt, tools: known, shown, has_tool_messages, has_system: true };
        format.probe()?;
        Ok(format)
    }

    /// Finds out whether the template takes instructions by themselves, and whether it renders anything.
    fn probe(&mut self) -> Result<(), ChatFormatError> {
        let question = |role: &str, text: &str| message(role, Value::from(text));
        let with_system = vec![question("system", "s"), question("user", "q")];
        if let Err(RenderError::Refused { .. }) = self.render(with_system, Timestamp::default()) {
            self.has_system = false;
        }
        let rendered = self.render(vec![question("user", "q")], Timestamp::default());
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

    /// Opens a run.
    ///
    /// # Errors
    /// The template renders no prompt.
    pub fn open(self: &Arc<Self>, conversation: &Conversation, now: Timestamp) -> Result<Talk, RenderError> {
        let first = self.render(self.conversation(conversation), now)?;
        Ok(Talk { format: Arc::clone(self), conversation: conversation.clone(), now, first })
    }

    fn render(&self, messages: Vec<Value>, now: Timestamp) -> Result<String, RenderError> {
        let prompt = Prompt {
            messages: Value::from(messages),
            tools: self.shown.clone(),
            generation_prompt: true,
            now,
            extra: BTreeMap::new(),
        };
        self.checkpoint.template(!self.tools.is_empty()).render(&prompt)
    }

    fn conversation(&self, conversation: &Conversation) -> Vec<Value> {
        let both = [self.system_prompt.as_str(), conversation.instructions()];
        let system = both.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        let mut turns: Vec<(&str, String)> = conversation
            .earlier()
            .iter()
            .map(|turn| match turn {
                Turn::Question(text) => ("user", text.clone()),
                Turn::Answer(text) => ("assistant", text.clone()),
            })
            .collect();
        turns.push(("user", conversation.last_question().to_owned()));
        if !system.is_empty() && self.has_system {
            turns.insert(0, ("system", system));
        } else if let Some((_, text)) =
            turns.iter_mut().find(|(role, _)| *role == "user").filter(|_| !system.is_empty())
        {
            *text = format!("{system}\n\n{text}");
        }
        turns.into_iter().map(|(role, text)| message(role, Value::from(text))).collect()
    }

    /// Compares calls with their tools.
    ///
    /// # Errors
    /// What the model should correct.
    pub fn check(&self, calls: Vec<WrittenCall>) -> Result<Vec<ToolCall>, String> {
        if calls.len() > MAX_CALLS_PER_TURN {
            return Err(format!("{} calls in one turn; at most {MAX_CALLS_PER_TURN} are made", calls.len()));
        }
        calls.into_iter().map(|call| self.check_one(call)).collect()
    }

    fn check_one(&self, call: WrittenCall) -> Result<ToolCall, String> {
        let WrittenCall { name, arguments } = call;
        let Some(KnownTool { schema, sole }) = self.tools.get(&name) else {
            let known = self.tools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            return Err(format!("unknown tool {name:?}; the tools are {known}"));
        };
        let text = match arguments {
            Arguments::Json(text) => text,
            Arguments::Texts(texts) => written_object(schema, texts),
        };
        let unreadable = |_| format!("the arguments of {name:?} are not an object of JSON");
        let object: serde_json::Map<_, _> = serde_json::from_str(&text).map_err(unreadable)?;
        schema.check(&object).map_err(|problem| format!("the arguments of {name:?} do not fit: {problem}"))?;
        let input = match sole.and_then(|sole| object.get(sole)?.as_str()) {
            Some(sole) => sole.to_owned(),
            None => text,
        };
        Ok(ToolCall { name, input })
    }
}

impl Talk {
    /// How it is written.
    pub(super) fn format(&self) -> &ChatFormat {
        &self.format
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
        let mut messages = self.format.conversation(&self.conversation);
        let before = messages.len();
        steps.iter().for_each(|step| self.format.write(step, &mut messages));
        if messages.len() == before { Ok(self.first.clone()) } else { self.format.render(messages, self.now) }
    }
}

impl ChatFormat {
    /// Adds a finished step: its turn, and what its calls gave.
    fn write(&self, step: &Step, messages: &mut Vec<Value>) {
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
            let is_first = group == 0;
            messages.push(self.with_calls(
                if is_first { turn.clone() } else { ChatTurn::default() },
                step.number,
                first,
                calls,
            ));
            for (index, call) in calls.iter().enumerate() {
                let result = observations.get(first + index).map(|result| content(result)).unwrap_or_default();
                messages.push(Value::from_pairs([
                    ("role", Value::from("tool")),
                    ("tool_call_id", Value::from(identity(step.number, first + index))),
                    ("name", Value::from(call.call.name.as_str())),
                    ("content", Value::from(result)),
                ]));
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

    fn with_calls(&self, turn: ChatTurn, step: u32, first: usize, calls: &[Call]) -> Value {
        let call = |(index, call): (usize, &Call)| {
            let function = Value::from_pairs([
                ("name", Value::from(call.call.name.as_str())),
                ("arguments", self.arguments(&call.call)),
            ]);
            Value::from_pairs([
                ("type", Value::from("function")),
                ("id", Value::from(identity(step, first + index))),
                ("function", function),
            ])
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        let content = if turn.content.is_empty() { Value::from(()) } else { Value::from(turn.content) };
        let mut pairs = vec![("role", Value::from("assistant")), ("content", content)];
        if !turn.thoughts.is_empty() {
            pairs.push(("reasoning_content", Value::from(turn.thoughts)));
        }
        pairs.push(("tool_calls", Value::from(calls)));
        Value::from_pairs(pairs)
    }

    fn arguments(&self, call: &ToolCall) -> Value {
        match self.tools.get(&call.name).and_then(|tool| tool.sole) {
            Some(sole) => Value::from_pairs([(sole, Value::from(call.input.as_str()))]),
            None => chat_template::json(&call.input).unwrap_or_else(|_| Value::from(call.input.as_str())),
        }
    }
}

fn known(tool: &Tool) -> Result<(String, KnownTool), ChatFormatError> {
    let schema = |source| ChatFormatError::Schema { tool: tool.name.clone(), source };
    let known = match (&tool.input_schema, &tool.kind) {
        (Some(written), _) => KnownTool { schema: Schema::of_tool(written).map_err(schema)?, sole: None },
        (None, ToolKind::Calculator) => {
            KnownTool { schema: Schema::of_texts([EXPRESSION].into_iter()), sole: Some(EXPRESSION) }
        }
        (None, ToolKind::Http(http)) => {
            let names = http.parameters.iter().map(|parameter| parameter.name.as_str());
            KnownTool { schema: Schema::of_texts(names), sole: None }
        }
    };
    Ok((tool.name.clone(), known))
}

/// An object in the order of its texts.
fn written_object(schema: &Schema, texts: Vec<(String, String)>) -> String {
    let pair = |(name, text): (String, String)| {
        format!("{}:{}", serde_json::Value::String(name.clone()), schema.value_of(&name, &text))
    };
    format!("{{{}}}", texts.into_iter().map(pair).collect::<Vec<_>>().join(","))
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
