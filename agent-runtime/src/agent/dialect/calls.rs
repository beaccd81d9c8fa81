//! Calls as a model wrote them, and the JSON that most dialects write them in. Pure.

use minijinja::Value;

use crate::chat_template;

/// A call before its arguments were compared with the tool's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCall {
    /// The tool's name.
    pub name: String,
    /// What it is called with.
    pub arguments: Arguments,
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// An object of JSON, in the order in which it was written.
    Json(String),
    /// Names and texts, whose types the schema knows.
    Texts(Vec<(String, String)>),
}

/// Names under which an object has its arguments.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];
/// What an object may have beside them.
const OTHERS: [&str; 3] = ["name", "type", "id"];

/// Reads the one value of JSON that a text is.
pub(super) fn json(text: &str) -> Result<Value, String> {
    chat_template::json(text.trim())
        .map_err(|_| "the call is not valid JSON; write one object with its name and arguments".to_owned())
}

/// Reads a call, or a list of calls.
pub(super) fn one_or_several(value: &Value) -> Result<Vec<WrittenCall>, String> {
    match value.kind() {
        minijinja::value::ValueKind::Seq => {
            let items = value.try_iter().map_err(|error| error.to_string())?;
            items.map(|item| one(&item)).collect()
        }
        _ => Ok(vec![one(value)?]),
    }
}

/// Reads a call: an object with a name and arguments.
pub(super) fn one(value: &Value) -> Result<WrittenCall, String> {
    let field = |name: &str| value.get_attr(name).ok().filter(|field| !field.is_undefined() && !field.is_none());
    // Some models put both below `function`, as the API of OpenAI has them.
    if let Some(function) = field("function").filter(|function| function.as_str().is_none()) {
        return one(&function);
    }
    let name = field("name").and_then(|name| name.as_str().map(str::to_owned));
    let name = name.ok_or_else(|| "a call has no name; write an object with its name and arguments".to_owned())?;
    let arguments = ARGUMENTS.iter().find_map(|name| field(name));
    // Under another name they would be lost, and the call made without them.
    let is_known = |key: Value| key.as_str().is_some_and(|key| ARGUMENTS.contains(&key) || OTHERS.contains(&key));
    if arguments.is_none() && !value.try_iter().map_err(|error| error.to_string())?.all(is_known) {
        return Err(format!("the call of {name:?} has no arguments; write an object with its name and arguments"));
    }
    Ok(WrittenCall { arguments: Arguments::Json(object(&name, arguments)?), name })
}

/// Reads the text of arguments that are an object, or a text that is one.
pub(super) fn arguments(name: &str, text: &str) -> Result<Arguments, String> {
    let text = text.trim();
    let value = if text.is_empty() { None } else { Some(json(text)?) };
    object(name, value).map(Arguments::Json)
}

fn object(name: &str, arguments: Option<Value>) -> Result<String, String> {
    let arguments = match arguments {
        None => return Ok("{}".to_owned()),
        Some(value) => match value.as_str() {
            Some(text) => json(text)?,
            None => value,
        },
    };
    if arguments.kind() != minijinja::value::ValueKind::Map {
        return Err(format!("the arguments of {name:?} are not an object"));
    }
    serde_json::to_string(&arguments).map_err(|error| error.to_string())
}
