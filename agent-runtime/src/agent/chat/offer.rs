//! The tools that the model of a run may call: the agent's, and those of the client. Pure.

use std::collections::BTreeMap;

use minijinja::Value;
use slipway_runtime_config::{Schema, SchemaError, Unknown};

use crate::{
    agent::{
        dialect::{Arguments, MAX_CALLS_PER_TURN, WrittenCall},
        grammar::ToolCall,
        tool_list,
        wishes::{ClientTool, Wishes},
    },
    chat_template::{self, JsonError},
    ordered_value::OrderedValue,
    tools::{ShownTool, ToolInput},
};

/// The tools of a run.
#[derive(Default)]
pub struct Offer {
    known: BTreeMap<String, KnownTool>,
    /// The agent's, as the model sees each.
    own: Vec<String>,
    /// All of them, for the template.
    pub(super) shown: Option<Value>,
    /// All of them, for instructions, where the template has no place for them.
    pub(super) described: Option<String>,
}

/// What is known of a tool.
#[derive(Clone)]
struct KnownTool {
    fits: Fits,
    /// The only argument, where the tool takes its text.
    sole: Option<&'static str>,
    owner: Owner,
}

/// What fits a tool.
#[derive(Clone)]
enum Fits {
    /// Only who runs it can tell.
    Anything,
    /// These properties and no others.
    Closed(Schema),
    /// What of the schema can be checked here.
    Open(Schema),
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Agent,
    Caller,
}

/// The calls of a turn, by who makes them.
#[derive(Debug, PartialEq, Eq)]
pub struct Calls {
    /// Of the agent's tools.
    pub own: Vec<ToolCall>,
    /// Of the client's.
    pub clients: Vec<ToolCall>,
}

impl Offer {
    /// The agent's tools alone. `has_place` tells whether the template shows tools.
    pub(super) fn of_agent(tools: &[ShownTool], has_place: bool) -> Result<Self, OfferError> {
        let known = tools.iter().map(known).collect::<Result<_, _>>()?;
        let own = tools.iter().map(tool_list::function).collect();
        Self { known, own, shown: None, described: None }.written(&Wishes::default(), has_place)
    }

    /// The same with the client's. Those that it has chosen against are left out.
    pub(super) fn with_clients(&self, wishes: &Wishes, has_place: bool) -> Result<Self, OfferError> {
        let clients = wishes.offered().map(known_to_client);
        let known = self.known.clone().into_iter().chain(clients).collect();
        Self { known, own: self.own.clone(), shown: None, described: None }.written(wishes, has_place)
    }

    fn written(mut self, wishes: &Wishes, has_place: bool) -> Result<Self, OfferError> {
        if !self.known.is_empty() {
            let list = tool_list::for_template(&self.own, wishes.offered());
            if has_place {
                self.shown = Some(chat_template::json(&list).map_err(OfferError::Json)?);
            } else {
                self.described = Some(tool_list::described(&list));
            }
        }
        Ok(self)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the tool of this number in the list is the client's: they follow the agent's.
    pub(in crate::agent) fn is_clients(&self, number: usize) -> bool {
        (self.own.len()..self.known.len()).contains(&number)
    }

    /// Whether all tools are the client's, and there is one.
    pub(in crate::agent) fn is_of_client_alone(&self) -> bool {
        self.own.is_empty() && !self.is_empty()
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Compares calls with their tools.
    ///
    /// # Errors
    /// What the model should correct.
    pub fn check(&self, calls: Vec<WrittenCall>) -> Result<Calls, String> {
        if calls.len() > MAX_CALLS_PER_TURN {
            return Err(format!("{} calls in one turn; at most {MAX_CALLS_PER_TURN} are made", calls.len()));
        }
        let mut checked = Calls { own: Vec::new(), clients: Vec::new() };
        for call in calls {
            match self.check_one(call)? {
                (Owner::Agent, call) => checked.own.push(call),
                (Owner::Caller, call) => checked.clients.push(call),
            }
        }
        Ok(checked)
    }

    fn check_one(&self, call: WrittenCall) -> Result<(Owner, ToolCall), String> {
        let WrittenCall { name, arguments } = call;
        let Some(KnownTool { fits, sole, owner }) = self.known.get(&name) else {
            let known = self.names().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            return Err(format!("unknown tool {name:?}; the tools are {known}"));
        };
        let text = match arguments {
            Arguments::Json(text) => text,
            Arguments::Texts(texts) => written_object(fits.schema(), texts),
        };
        let unreadable = |_| format!("the arguments of {name:?} are not an object of JSON");
        let object: serde_json::Map<_, _> = serde_json::from_str(&text).map_err(unreadable)?;
        let checked = match fits {
            Fits::Anything => Ok(()),
            Fits::Closed(schema) => schema.check(&object),
            Fits::Open(schema) => schema.check_value(&serde_json::Value::Object(object.clone())),
        };
        checked.map_err(|problem| format!("the arguments of {name:?} do not fit: {problem}"))?;
        let input = match sole.and_then(|sole| object.get(sole)?.as_str()) {
            Some(sole) => sole.to_owned(),
            None => text,
        };
        Ok((*owner, ToolCall { name, input }))
    }

    /// The arguments of a call, for the template.
    pub(super) fn arguments(&self, call: &ToolCall) -> Value {
        match self.known.get(&call.name).and_then(|tool| tool.sole) {
            Some(sole) => Value::from_pairs([(sole, Value::from(call.input.as_str()))]),
            None => chat_template::json(&call.input).unwrap_or_else(|_| Value::from(call.input.as_str())),
        }
    }
}

/// Why tools cannot be offered.
pub(super) enum OfferError {
    /// The schema of a tool of the agent's cannot be used.
    Schema { tool: String, source: SchemaError },
    /// They cannot be written.
    Json(JsonError),
}

impl Fits {
    fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Anything => None,
            Self::Closed(schema) | Self::Open(schema) => Some(schema),
        }
    }

    /// A schema that cannot be read here is left to who runs the tool.
    fn of(schema: &OrderedValue) -> Self {
        Schema::of_value(&schema.clone().into(), "parameters", Unknown::Unchecked).map_or(Self::Anything, Self::Open)
    }
}

fn known(tool: &ShownTool) -> Result<(String, KnownTool), OfferError> {
    let ShownTool { name, description: _, input } = tool;
    let (fits, sole) = match input {
        ToolInput::Typed(written) => {
            let schema = Schema::of_tool(written);
            (Fits::Closed(schema.map_err(|source| OfferError::Schema { tool: name.clone(), source })?), None)
        }
        ToolInput::Served(written) => (Fits::of(written), None),
        ToolInput::Texts(names) => (Fits::Closed(Schema::of_texts(names.iter().map(String::as_str))), None),
        ToolInput::Text(argument) => (Fits::Closed(Schema::of_texts([*argument].into_iter())), Some(*argument)),
    };
    Ok((name.clone(), KnownTool { fits, sole, owner: Owner::Agent }))
}

fn known_to_client(tool: &ClientTool) -> (String, KnownTool) {
    (tool.name.clone(), KnownTool { fits: Fits::of(&tool.parameters), sole: None, owner: Owner::Caller })
}

/// An object in the order of its texts.
fn written_object(schema: Option<&Schema>, texts: Vec<(String, String)>) -> String {
    let value = |name: &str, text: String| match schema {
        Some(schema) => schema.value_of(name, &text),
        None => serde_json::Value::String(text),
    };
    let pair =
        |(name, text): (String, String)| format!("{}:{}", serde_json::Value::String(name.clone()), value(&name, text));
    format!("{{{}}}", texts.into_iter().map(pair).collect::<Vec<_>>().join(","))
}
