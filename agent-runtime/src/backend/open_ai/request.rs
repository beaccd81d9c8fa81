//! What servers of the OpenAI API are asked for. Pure.

use serde_json::{Map, Value, json};

use super::OpenAiServer;
use crate::backend::{Generation, Guide, sampling};

/// Texts that end a generation, at most: OpenAI's own servers take no more. All are cut at here as well.
const STOP_WORDS: usize = 4;

/// What messages have for templates alone: hosted servers refuse such fields.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The body of a generation for `/v1/completions`.
pub(super) fn completion(server: OpenAiServer, model: &str, generation: &Generation) -> Value {
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
        return body;
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
    if let Some(guide) = guide {
        write_guide(server, guide, &mut body);
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

/// The body of a generation for `/v1/chat/completions`. `limit` names the field with the most tokens.
pub(super) fn chat(model: &str, generation: &Generation, limit: &str) -> Value {
    let Generation { prompt, max_tokens, stop_words, sampling: chosen, .. } = generation;
    let (messages, tools) = conversation(prompt);
    let mut body = json!({
        "model": model,
        "messages": messages,
        limit: max_tokens,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if let Some(tools) = tools {
        body["tools"] = tools;
    }
    sampling::write_if_set(*chosen, &mut body);
    write_stop_words(stop_words, &mut body);
    body
}

/// The messages and tools that a prompt is. Warm-ups send texts alone.
fn conversation(prompt: &str) -> (Value, Option<Value>) {
    let read = serde_json::from_str::<Map<String, Value>>(prompt).ok();
    let mut read = read.unwrap_or_default();
    match read.remove("messages") {
        Some(Value::Array(messages)) => {
            let messages = messages.into_iter().map(message).collect();
            (Value::Array(messages), read.remove("tools").filter(|tools| !tools.is_null()))
        }
        Some(_) | None => (json!([{"role": "user", "content": prompt}]), None),
    }
}

/// A message as the API takes it: arguments are a text, and what only chat templates read is left out.
fn message(mut message: Value) -> Value {
    let is_of_tool = message["role"] == "tool";
    if let Some(fields) = message.as_object_mut() {
        THOUGHTS.iter().for_each(|name| drop(fields.remove(*name)));
        if is_of_tool {
            fields.remove("name");
        }
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for arguments in calls.into_iter().flatten().filter_map(|call| call.pointer_mut("/function/arguments")) {
        if !arguments.is_string() {
            *arguments = json!(arguments.to_string());
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
fn write_guide(server: OpenAiServer, guide: &Guide, body: &mut Value) {
    match (server, guide) {
        (OpenAiServer::SgLang, Guide::JsonObject) => body["json_schema"] = json!("{\"type\":\"object\"}"),
        (OpenAiServer::SgLang, Guide::JsonSchema(schema)) => body["json_schema"] = json!(schema.to_string()),
        (OpenAiServer::TrtLlm, Guide::JsonSchema(schema)) => {
            body["response_format"] = json!({ "type": "json", "schema": schema });
        }
        (
            OpenAiServer::Vllm | OpenAiServer::TrtLlm | OpenAiServer::Completions | OpenAiServer::Chat,
            Guide::JsonObject,
        ) => body["response_format"] = json!({ "type": "json_object" }),
        (OpenAiServer::Vllm | OpenAiServer::Completions | OpenAiServer::Chat, Guide::JsonSchema(schema)) => {
            let named = json!({ "name": "answer", "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
    }
}
