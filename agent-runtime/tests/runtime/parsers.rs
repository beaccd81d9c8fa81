//! Calls of tools as vLLM's own parsers read them, recorded by `make parser-parity`, beside what is read here.

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

/// What is read here, and what the model would be told of its mistakes.
fn ours(case: &Case) -> (Read, Option<String>) {
    let mut turn = Turn::new(case.dialect, "");
    let mut text = turn.push(&case.output).unwrap_or_default();
    let (rest, finished) = turn.finish();
    text.extend(rest);
    let value = |arguments| match arguments {
        Arguments::Json(json) => serde_json::from_str(&json).expect("arguments are JSON"),
        // Without a schema upstream takes JSON for what it is, and other texts as they are.
        Arguments::Texts(texts) => {
            let typed = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
            texts.into_iter().map(|(name, text)| (name, typed(text))).collect()
        }
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
