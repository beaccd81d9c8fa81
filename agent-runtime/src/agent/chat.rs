//! Prompts by a checkpoint's chat template: a conversation, the tools, and the turns of a run as messages. Pure.

mod calls;
mod client;
mod generated;
mod messages;
mod offer;
mod vocabulary;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

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
    grammar::ToolCall,
    marks::Written,
    state::Step,
    wishes::{ClientCall, Wishes},
};

use calls::CallForm;
pub use client::Mistake;
use messages::{identity, message};
use offer::OfferError;
pub use offer::{Calls, Offer};
pub use vocabulary::{Author, LazyVocabulary, MakeTokenizer, Vocabulary};

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
    /// How it takes calls.
    calls: CallForm,
    /// Whether instructions have a message of their own.
    has_system: bool,
    /// What turns prompts into tokens, for an engine that takes these.
    vocabulary: Option<Arc<LazyVocabulary>>,
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
    /// What was said before the run, as messages.
    messages: Vec<Value>,
    wishes: Arc<Wishes>,
    /// The tools of the run.
    offer: Arc<Offer>,
    /// The schema of the answer, if the client named one.
    schema: Option<Schema>,
    now: Timestamp,
    /// The prompt of the first step.
    first: Written,
    /// The prompt of the last question alone, once it was needed.
    of_question: Arc<OnceLock<Option<String>>>,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("first", &self.first.text).field("now", &self.now).finish_non_exhaustive()
    }
}

impl PartialEq for Talk {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.format, &other.format)
            && (&self.messages, &self.wishes, self.now, &self.first)
                == (&other.messages, &other.wishes, other.now, &other.first)
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
    /// How many calls it wrote, those of the client's tools included.
    pub(super) calls: usize,
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
        let shows_tools = template.source().contains("tools");
        // Instructions that describe tools ask for calls in JSON, whatever marks the template has.
        let told = || if shows_tools { choose(template.source()) } else { ToolCallDialect::JSON };
        let dialect = dialect.unwrap_or_else(told);
        let has_tool_messages = shows_tools && template.source().contains("tool_calls");
        let system_prompt = system_prompt.trim_end().to_owned();
        let (offer, checkpoint) = (offer(tools, shows_tools)?, Arc::new(checkpoint));
        let mut format = Self {
            checkpoint,
            dialect,
            system_prompt,
            offer,
            shows_tools,
            has_tool_messages,
            calls: CallForm::USUAL,
            has_system: true,
            vocabulary: None,
        };
        format.probe()?;
        if has_tool_messages {
            let form = CallForm::of(&format);
            format.has_tool_messages = form.is_some();
            format.calls = form.unwrap_or(CallForm::USUAL);
        }
        Ok(format)
    }

    /// The same, whose prompts are put as tokens.
    #[must_use]
    pub fn with_tokenizer(mut self, make: MakeTokenizer) -> Self {
        // The marks of both: agents with and without tools have texts of others.
        let templates = [true, false].map(|has_tools| self.checkpoint.template(has_tools).source()).concat();
        self.vocabulary = Some(Arc::new(LazyVocabulary::new(make, templates, self.dialect)));
        self
    }

    /// What turns prompts into tokens, if they are put as such.
    pub(super) fn vocabulary(&self) -> Option<&Arc<Vocabulary>> {
        self.vocabulary.as_ref().and_then(|vocabulary| vocabulary.get())
    }

    /// Whether that has to be made first.
    pub(super) fn waits_for_vocabulary(&self) -> bool {
        self.vocabulary.as_ref().is_some_and(|vocabulary| !vocabulary.is_made())
    }

    /// A text for the template. Where it becomes tokens, its marks do not count.
    fn harmless<'a>(&self, author: Author, text: &'a str) -> Cow<'a, str> {
        match self.vocabulary() {
            Some(vocabulary) => vocabulary.harmless(author, text),
            None => Cow::Borrowed(text),
        }
    }

    fn text(&self, author: Author, text: &str) -> Value {
        Value::from(self.harmless(author, text).as_ref())
    }

    fn harmless_value(&self, value: Value) -> Value {
        match self.vocabulary() {
            Some(vocabulary) => vocabulary.harmless_value(&value),
            None => value,
        }
    }

    /// The same for other tools.
    ///
    /// # Errors
    /// [`ChatFormatError`].
    pub fn with_tools(&self, tools: &[ShownTool]) -> Result<Self, ChatFormatError> {
        // A probe needs no tokens.
        let mut format = Self { offer: offer(tools, self.shows_tools)?, vocabulary: None, ..self.clone() };
        format.probe()?;
        Ok(Self { vocabulary: self.vocabulary.clone(), ..format })
    }

    /// Finds out whether the template takes instructions by themselves, and whether it renders anything.
    fn probe(&mut self) -> Result<(), ChatFormatError> {
        let question = |role: &str, text: &str| message(role, Value::from(text));
        let with_system = vec![question("system", "s"), question("user", "q")];
        let now = Timestamp::default();
        if let Err(RenderError::Refused { .. }) = self.render(with_system, &self.offer, Turns::AreAsked, now) {
            self.has_system = false;
        }
        let rendered = self.render(vec![question("user", "q")], &self.offer, Turns::AreAsked, now);
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

    /// The token by which the tokenizer ends a turn, as text.
    pub fn end(&self) -> Option<&Arc<str>> {
        self.checkpoint.end()
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
        let messages = self.conversation(conversation, wishes, &offer);
        let first = self.render(messages.clone(), &offer, Turns::AreAsked, now)?;
        let schema = client::schema(&wishes.format);
        let (format, wishes) = (Arc::clone(self), Arc::clone(wishes));
        Ok(Talk { format, messages, wishes, offer, schema, now, first, of_question: Arc::default() })
    }

    fn render(
        &self,
        messages: Vec<Value>,
        offer: &Offer,
        turns: Turns,
        now: Timestamp,
    ) -> Result<Written, RenderError> {
        let prompt = Prompt {
            messages: Value::from(messages),
            tools: offer.shown.clone().map(|tools| self.harmless_value(tools)),
            generation_prompt: turns == Turns::AreAsked,
            now,
            extra: BTreeMap::new(),
        };
        let text = self.checkpoint.template(!offer.is_empty()).render(&prompt)?;
        Ok(if self.vocabulary().is_some() { Written::rendered(text) } else { Written::plain(text) })
    }

    fn conversation(&self, conversation: &Conversation, wishes: &Wishes, offer: &Offer) -> Vec<Value> {
        let described = offer.described.as_deref().unwrap_or_default();
        let format = wishes.format.instruction().unwrap_or_default();
        let theirs = [described, conversation.instructions(), &format].map(|text| self.harmless(Author::Other, text));
        // What the agent's author wrote may have marks.
        let parts = [self.system_prompt.as_str()].into_iter().chain(theirs.iter().map(AsRef::as_ref));
        let system = parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
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
                    let text = system.unwrap_or_default() + &self.harmless(Author::Other, text);
                    messages.push(message("user", Value::from(text)));
                }
                Turn::Answer(text) => messages.push(message("assistant", self.text(Author::Model, text))),
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
            let parts = parts.collect::<Vec<_>>().join("\n");
            messages.push(message("assistant", self.text(Author::Model, &parts)));
            return;
        }
        let calls = calls.iter().enumerate().map(|(index, call)| {
            let call = ToolCall { name: call.name.clone(), input: call.arguments.clone() };
            self.written_call(earlier.identity(index), &call, offer)
        });
        messages.push(self.with_calls(text, thoughts, calls.collect()));
    }

    fn write_result(&self, earlier: &mut Earlier, call: &str, text: &str, messages: &mut Vec<Value>) {
        let Some(index) = earlier.open.iter().position(|open| open.id == call) else { return };
        let name = earlier.open[index].name.clone();
        messages.push(match self.has_tool_messages {
            true => self.result(earlier.identity(index), &name, text),
            false => message("user", self.text(Author::Other, &format!("Result of {name}: {text}"))),
        });
    }
}

/// What a prompt ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    /// The beginning of the model's next turn.
    AreAsked,
    /// The end of the last message.
    AreOver,
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

    /// Whether the message of this number is that with the agent's own instructions. Templates without instructions put
    /// them before the client's first question, whose message is the client's then.
    pub(super) fn is_own_message(&self, number: usize) -> bool {
        let has_own = !self.format.system_prompt.is_empty() || self.offer.described.is_some();
        number == 0 && self.format.has_system && has_own
    }

    /// The prompt of the first step.
    pub(super) fn first(&self) -> &str {
        &self.first.text
    }

    /// The prompt of the next model call.
    ///
    /// # Errors
    /// The template refuses what the run has become.
    pub(super) fn prompt(&self, steps: &[Step]) -> Result<Written, RenderError> {
        if steps.is_empty() {
            return Ok(self.first.clone());
        }
        let mut messages = self.messages.clone();
        let before = messages.len();
        steps.iter().for_each(|step| self.format.write(step, &self.offer, &mut messages));
        if messages.len() == before {
            return Ok(self.first.clone());
        }
        self.format.render(messages, &self.offer, Turns::AreAsked, self.now)
    }
}
