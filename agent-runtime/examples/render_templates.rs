//! Renders chat templates for `make template-parity`: reads one object of JSON a line, and writes one a line.
//!
//! In: `template`, `specialTokens`, `messages`, `tools`, `generationPrompt`, `nowSeconds`, `extra`. Out: `text`, or
//! `refused` with what the template itself says, or `failed`.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{BufRead, stdin},
};

use minijinja::Value;
use serde_json::json;
use slipway_agent_runtime::{
    chat_template::{self, ChatTemplate, Prompt, RenderError},
    clock::Timestamp,
};

fn main() -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        println!("{}", render(&line?)?);
    }
    Ok(())
}

fn render(line: &str) -> Result<serde_json::Value, Box<dyn Error>> {
    let asked = chat_template::json(line)?;
    let template = asked.get_attr("template")?;
    let texts = |name: &str| entries(&asked.get_attr(name)?);
    let tokens = texts("specialTokens")?.into_iter().map(|(name, token)| (name, token.to_string())).collect();
    let template = match ChatTemplate::compile(template.as_str().ok_or("template is no text")?, &tokens) {
        Ok(template) => template,
        Err(error) => return Ok(json!({ "failed": error.to_string() })),
    };
    let seconds = asked.get_attr("nowSeconds")?.as_usize().ok_or("nowSeconds is no number")?;
    let prompt = Prompt {
        messages: asked.get_attr("messages")?,
        tools: Some(asked.get_attr("tools")?).filter(|tools| !tools.is_none()),
        generation_prompt: asked.get_attr("generationPrompt")?.is_true(),
        now: Timestamp::from_micros(u64::try_from(seconds)? * 1_000_000),
        extra: texts("extra")?,
    };
    Ok(match template.render(&prompt) {
        Ok(text) => json!({ "text": text }),
        Err(RenderError::Refused { reason }) => json!({ "refused": reason }),
        Err(error @ (RenderError::TooLong | RenderError::Failed { .. })) => json!({ "failed": error.to_string() }),
    })
}

fn entries(object: &Value) -> Result<BTreeMap<String, Value>, minijinja::Error> {
    object.try_iter()?.map(|key| Ok((key.to_string(), object.get_item(&key)?))).collect()
}
