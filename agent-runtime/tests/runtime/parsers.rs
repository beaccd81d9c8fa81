//! Calls of tools as vLLM's own parsers read them, recorded by `make parser-parity`, beside what is read here.
//!
//! The snapshot has all differences. Their reasons:
//!
//! - Calls with mistakes are told to the model here. Upstream hands them out as text, or guesses.
//! - Phi4: upstream ends the list at its first bracket, and so loses calls with lists in them. Behind other text a list
//!   is text here.
//! - Granite: upstream reads calls only at the beginning of a turn.
//! - Llama3Json: an object behind other text is part of an answer here: a call is the whole turn of these models.
//! - Llama4Pythonic: upstream knows no negative numbers.

use insta::assert_snapshot;
use serde::Deserialize;
use serde_json::Value;
use slipway_agent_runtime::agent::dialect::{Arguments, Turn};
use slipway_runtime_config::ToolCallDialect;

const RECORDED: &str = include_str!("parsers/recorded.json");

#[derive(Deserialize)]
struct Record {
    vllm: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    dialect: ToolCallDialect,
    output: String,
    content: Option<String>,
    calls: Vec<(String, String)>,
}

/// What is read of an output, as far as both tell it.
#[derive(Debug, PartialEq)]
struct Read {
    text: String,
    calls: Vec<(String, Value)>,
}

fn upstream(case: &Case) -> Read {
    let value = |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
    let calls = case.calls.iter().map(|(name, arguments)| (name.clone(), value(arguments)));
    Read { text: case.content.clone().unwrap_or_default().trim().to_owned(), calls: calls.collect() }
}

/// What is read here, and the mistakes that the model would hear about.
fn ours(case: &Case) -> (Read, Option<String>) {
    let mut turn = Turn::new(case.dialect, "");
    let mut text = turn.push(&case.output).unwrap_or_default();
    let (rest, finished) = turn.finish();
    text.extend(rest);
    let value = |arguments| match arguments {
        Arguments::Json(json) => serde_json::from_str(&json).expect("arguments are JSON"),
        // Without a schema upstream takes all of them as texts.
        Arguments::Texts(texts) => texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect(),
    };
    let calls = finished.calls.into_iter().map(|call| (call.name, value(call.arguments))).collect();
    (Read { text, calls }, finished.problem)
}

#[test]
fn calls_are_read_as_upstream_reads_them_but_for_known_reasons() {
    let Record { vllm, cases } = serde_json::from_str(RECORDED).expect("the record is JSON");
    let mut equal = 0;
    let mut lines = Vec::new();
    for case in &cases {
        let (theirs, (ours, problem)) = (upstream(case), ours(case));
        if theirs == ours && problem.is_none() {
            equal += 1;
            continue;
        }
        let told = problem.map_or_else(|| format!("{ours:?}"), |problem| format!("a mistake: {problem}"));
        lines.push(format!("{:?} {:?}\n  upstream {theirs:?}\n  here     {told}", case.dialect, case.output));
    }
    let summary = format!("vLLM {vllm}: {equal} of {} are read alike\n\n{}\n", cases.len(), lines.join("\n"));
    assert_snapshot!(summary);
}
