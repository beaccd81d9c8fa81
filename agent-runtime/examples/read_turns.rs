//! Reads turns of models for `make parser-parity`: takes one object of JSON a line, and writes one a line.
//!
//! In: `dialect`, `prompt`, `output`, and the names of `tools`. Out: `text`, `thoughts`, `calls` as pairs of name and
//! arguments, and the `problem` that the model would hear of. `same` says whether the output reads alike character by
//! character.

use std::{
    error::Error,
    io::{BufRead, stdin},
};

use serde::Deserialize;
use serde_json::{Value, json};
use slipway_agent_runtime::agent::dialect::{Arguments, Turn};
use slipway_runtime_config::ToolCallDialect;

#[derive(Deserialize)]
struct Asked {
    dialect: ToolCallDialect,
    #[serde(default)]
    prompt: String,
    output: String,
    #[serde(default)]
    tools: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        let asked: Asked = serde_json::from_str(&line?)?;
        let mut whole = read(&asked, [asked.output.as_str()])?;
        let characters = asked.output.split("").filter(|part| !part.is_empty());
        whole["same"] = json!(read(&asked, characters)? == whole);
        println!("{whole}");
    }
    Ok(())
}

fn read<'a>(asked: &Asked, pieces: impl IntoIterator<Item = &'a str>) -> Result<Value, serde_json::Error> {
    let mut turn = Turn::new(asked.dialect, &asked.prompt, asked.tools.iter().map(String::as_str));
    let mut text: String = pieces.into_iter().filter_map(|piece| turn.push(piece)).collect();
    let (rest, finished) = turn.finish();
    text.extend(rest);
    let mut calls = Vec::new();
    for call in finished.calls {
        let arguments: Value = match call.arguments {
            Arguments::Json(json) => serde_json::from_str(&json)?,
            // Without a schema all of them are texts.
            Arguments::Texts(texts) => texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect(),
        };
        calls.push(json!([call.name, arguments]));
    }
    Ok(json!({ "text": text, "thoughts": turn.thoughts(), "calls": calls, "problem": finished.problem }))
}
