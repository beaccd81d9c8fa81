//! What servers of the OpenAI API are asked for. Pure.

use serde::Serialize;
use serde_json::{Value, json};

use super::OpenAiServer;
use crate::{
    backend::{AnswerGuide, Generation, Guide, sampling},
    ordered_value::{OrderedMap, OrderedValue},
};

/// Texts that end a generation, at most: OpenAI's own servers take no more. All are cut at here as well.
const STOP_WORDS: usize = 4;

/// OpenAI's newer models know the limit on tokens by this name alone.
const LATER_LIMIT: &str = "max_completion_tokens";

/// What messages have for templates alone: hosted servers refuse such fields.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Body {
    /// Fields whose keys may have any order.
    #[serde(flatten)]
    plain: Value,
    /// Fields whose keys have that of their author.
    #[serde(flatten)]
    ordered: OrderedMap,
}

impl From<Value> for Body {
    fn from(plain: Value) -> Self {
        Self { plain, ordered: OrderedMap::default() }
    }
}

/// The body of a generation for `/v1/completions`.
pub(super) fn completion(server: OpenAiServer, model: &str, generation: &Generation) -> Body {
    let is_rendered = generation.wants_special_tokens();
    let text = match server {
        OpenAiServer::Vllm | OpenAiServer::TrtLlm => &generation.prompt,
        OpenAiServer::SgLang | OpenAiServer::Completions | OpenAiServer::Chat => generation.prompt_without_begin(),
    };
    let Generation {
        id: _,
        prompt: _,
        tokens,
        max_tokens,
        stop_words,
        form: _,
        sampling: chosen,
        guide,
        format: _,
        logprobs,
        ignores_end,
        wants_whole,
        trace: _,
    } = generation;
    let has_tokens = tokens.is_some();
    let mut body = json!({
        "model": model,
        "prompt": tokens.as_ref().map_or_else(|| json!(text), |tokens| json!(tokens)),
        "max_tokens": max_tokens,
        "stream": true,
    });
    if server.is_of_any_make() {
        body["stream_options"] = json!({"include_usage": true});
        sampling::write_if_set(*chosen, &mut body);
        write_stop_words(stop_words, &mut body);
        return body.into();
    }
    if *wants_whole {
        body["stream"] = json!(false);
    } else {
        // Every event says how many tokens there are so far.
        body["stream_options"] = json!({"include_usage": true, "continuous_usage_stats": true});
    }
    sampling::write(*chosen, &mut body);
    let has_stop_words = !stop_words.is_empty();
    if has_stop_words {
        body["stop"] = json!(stop_words);
    }
    if let Some(top) = logprobs {
        body["logprobs"] = json!(server.likely_tokens(*top));
    }
    if has_tokens && server != OpenAiServer::TrtLlm {
        // Others that do not know it give none.
        body["return_token_ids"] = json!(true);
    }
    if is_rendered {
        body["skip_special_tokens"] = json!(false);
        if matches!(server, OpenAiServer::Vllm | OpenAiServer::TrtLlm) {
            body["add_special_tokens"] = json!(false);
        }
    }
    if *ignores_end {
        body["ignore_eos"] = json!(true);
    }
    if let Some(name) = server.keeps_stop_words().filter(|_| has_stop_words) {
        body[name] = json!(true);
    }
    let mut body = Body::from(body);
    if let Some(guide) = guide {
        write_guide(server, guide, &mut body);
    }
    body
}

impl OpenAiServer {
    /// The field that leaves stop words in the text, where text is cut here. It is for requests with such words:
    /// without them SGLang would leave the token there at which a turn ends.
    fn keeps_stop_words(self) -> Option<&'static str> {
        match self {
            Self::SgLang => Some("no_stop_trim"),
            // Else all of a stop word but its last token stays there.
            Self::TrtLlm => Some("include_stop_str_in_output"),
            Self::Vllm | Self::Completions | Self::Chat => None,
        }
    }

    /// How many likely tokens are asked for. TensorRT-LLM's takes 0 for no probabilities at all.
    fn likely_tokens(self, wanted: u32) -> u32 {
        match self {
            Self::TrtLlm => wanted.max(1),
            Self::Vllm | Self::SgLang | Self::Completions | Self::Chat => wanted,
        }
    }
}

/// The body of a generation for `/v1/chat/completions`.
pub(super) fn chat(model: &str, generation: &Generation, fields: ChatFields) -> Body {
    let Generation { prompt, max_tokens, stop_words, sampling: chosen, format, logprobs, .. } = generation;
    let mut body = json!({
        "model": model,
        fields.limit(): max_tokens,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    sampling::write_if_set(*chosen, &mut body);
    write_stop_words(stop_words, &mut body);
    if let Some(top) = logprobs {
        body["logprobs"] = json!(true);
        if *top > 0 {
            body["top_logprobs"] = json!(top);
        }
    }
    let mut body = Body { plain: body, ordered: conversation(prompt) };
    if let Some(AnswerGuide { guide, is_strict }) = format.as_ref().filter(|_| fields.has_format) {
        body.ordered.insert("response_format", response_format(guide, *is_strict));
    }
    body
}

/// Which fields a chat is put with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChatFields {
    /// Whether the limit on tokens has the later of its names.
    pub(super) has_later_limit: bool,
    /// Whether it says what the answer is to be.
    pub(super) has_format: bool,
}

impl ChatFields {
    /// The field with the most tokens.
    pub(super) fn limit(self) -> &'static str {
        if self.has_later_limit { LATER_LIMIT } else { "max_tokens" }
    }

    /// Those to ask with after a refusal of the request in these words; nothing where no others may help. Servers have
    /// many words for a format that they do not know.
    pub(super) fn after(self, words: &str) -> Option<Self> {
        match self {
            Self { has_later_limit: false, .. } if words.contains(LATER_LIMIT) => {
                Some(Self { has_later_limit: true, ..self })
            }
            Self { has_format: true, .. } => Some(Self { has_format: false, ..self }),
            Self { .. } => None,
        }
    }
}

/// The messages and tools that a prompt is. Warm-ups send texts alone.
fn conversation(prompt: &str) -> OrderedMap {
    let mut read = serde_json::from_str::<OrderedMap>(prompt).unwrap_or_default();
    let mut body = OrderedMap::default();
    match read.remove("messages") {
        Some(OrderedValue::Array(messages)) => {
            body.insert("messages", OrderedValue::Array(messages.into_iter().map(message).collect()));
            if let Some(tools) = read.remove("tools").filter(|tools| !tools.is_null()) {
                body.insert("tools", tools);
            }
        }
        Some(_) | None => body.insert("messages", json!([{"role": "user", "content": prompt}]).into()),
    }
    body
}

/// A message as the API takes it: arguments are a text, and what only chat templates read is left out.
fn message(mut message: OrderedValue) -> OrderedValue {
    let is_of_tool = message.get("role").and_then(OrderedValue::as_str) == Some("tool");
    if let OrderedValue::Object(fields) = &mut message {
        THOUGHTS.iter().for_each(|name| drop(fields.remove(name)));
        if is_of_tool {
            fields.remove("name");
        }
    }
    if let Some(OrderedValue::Array(calls)) = message.get_mut("tool_calls") {
        let arguments = |call| OrderedValue::get_mut(call, "function")?.get_mut("arguments");
        for arguments in calls.iter_mut().filter_map(arguments).filter(|arguments| arguments.as_str().is_none()) {
            *arguments = OrderedValue::String(arguments.to_string());
        }
    }
    message
}

fn write_stop_words(stop_words: &[String], body: &mut Value) {
    if !stop_words.is_empty() {
        body["stop"] = json!(stop_words[..stop_words.len().min(STOP_WORDS)]);
    }
}

/// Holds tokens to a format: the servers' names of it for `/v1/completions`. TensorRT-LLM's takes the envelope of a
/// `json_schema` for the schema itself (NVIDIA/TensorRT issue 4855), and has a name for a bare one.
fn write_guide(server: OpenAiServer, guide: &Guide, body: &mut Body) {
    let text = |text: &str| OrderedValue::String(text.to_owned());
    let (field, value) = match (server, guide) {
        (OpenAiServer::SgLang, Guide::JsonObject) => ("json_schema", text("{\"type\":\"object\"}")),
        (OpenAiServer::SgLang, Guide::JsonSchema(schema)) => ("json_schema", text(&schema.to_string())),
        (OpenAiServer::TrtLlm, Guide::JsonSchema(schema)) => {
            ("response_format", OrderedValue::object([("type", text("json")), ("schema", schema.clone())]))
        }
        (OpenAiServer::Vllm | OpenAiServer::TrtLlm | OpenAiServer::Completions | OpenAiServer::Chat, guide) => {
            ("response_format", response_format(guide, false))
        }
    };
    body.ordered.insert(field, value);
}

/// The format of an answer, as the OpenAI API has it.
fn response_format(guide: &Guide, is_strict: bool) -> OrderedValue {
    let text = |text: &str| OrderedValue::String(text.to_owned());
    match guide {
        Guide::JsonObject => OrderedValue::object([("type", text("json_object"))]),
        Guide::JsonSchema(schema) => {
            let strict = is_strict.then_some(("strict", OrderedValue::Bool(true)));
            let named = [("name", text("answer")), ("schema", schema.clone())].into_iter().chain(strict);
            let named = OrderedValue::Object(named.map(|(name, value)| (name.to_owned(), value)).collect());
            OrderedValue::object([("type", text("json_schema")), ("json_schema", named)])
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn sent(prompt: &str) -> String {
        let generation = Generation { prompt: prompt.into(), max_tokens: 7, ..Generation::default() };
        serde_json::to_string(&chat("large", &generation, ChatFields { has_later_limit: false, has_format: true }))
            .expect("it is JSON")
    }

    #[test]
    fn a_chat_upstream_gets_tools_and_arguments_in_their_order() {
        let prompt = r#"{"messages": [
            {"role": "assistant", "content": null, "thinking": "Hm.", "tool_calls": [
                {"id": "c1", "function": {"name": "find", "arguments": {"who": "Eve", "as": ["b", "a"]}}},
                {"id": "c2", "function": {"name": "find", "arguments": "{\"who\": \"Bob\"}"}}]},
            {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "{}"}
        ], "tools": [{"type": "function", "function": {"name": "find", "parameters": {"who": {}, "as": {}}}}]}"#;
        let expected = concat!(
            r#"{"max_tokens":7,"model":"large","stream":true,"stream_options":{"include_usage":true},"messages":["#,
            r#"{"role":"assistant","content":null,"tool_calls":["#,
            r#"{"id":"c1","function":{"name":"find","arguments":"{\"who\":\"Eve\",\"as\":[\"b\",\"a\"]}"}},"#,
            r#"{"id":"c2","function":{"name":"find","arguments":"{\"who\": \"Bob\"}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"{}"}],"#,
            r#""tools":[{"type":"function","function":{"name":"find","parameters":{"who":{},"as":{}}}}]}"#,
        );
        assert_eq!(sent(prompt), expected);
    }

    #[test]
    fn a_prompt_that_is_no_conversation_is_a_question() {
        let question = |text: Value| {
            let message = json!({ "content": text, "role": "user" });
            format!(
                r#"{{"max_tokens":7,"model":"large","stream":true,"stream_options":{{"include_usage":true}},"messages":[{message}]}}"#
            )
        };
        assert_eq!(sent("Hello"), question(json!("Hello")));
        assert_eq!(sent("[[], null]"), question(json!("[[], null]")));
        assert_eq!(sent(r#"{"messages": 5}"#), question(json!(r#"{"messages": 5}"#)));
    }
}
