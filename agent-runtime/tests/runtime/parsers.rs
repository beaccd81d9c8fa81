//! Calls of tools and thoughts as vLLM's own parsers read them, recorded by `make parser-parity`, beside what is read
//! here.
//!
//! The first snapshot has all differences of calls. Their reasons:
//!
//! - Calls with mistakes are told to the model here. Upstream hands them out as text, or guesses.
//! - Phi4: upstream ends the list at its first bracket, and so loses calls with lists in them. It loses the text before
//!   calls, too.
//! - Granite: upstream reads calls only at the beginning of a turn.
//! - Llama3Json: an object behind other text is part of an answer here: a call is the whole turn of these models.
//! - Llama4Pythonic: upstream knows no negative numbers.
//!
//! Of thoughts there is one difference: a second end of them is left out here, as in upstream's parser of Qwen3. Its
//! parsers of DeepSeek and Mistral leave it in the answer.

use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::Value;
use slipway_agent_runtime::agent::dialect::{Arguments, Turn};
use slipway_runtime_config::ToolCallDialect;

const RECORDED: &str = include_str!("parsers/recorded.json");

#[derive(Deserialize)]
struct Record {
    vllm: String,
    cases: Vec<Case>,
    thoughts: Vec<ThinkingCase>,
}

#[derive(Deserialize)]
struct ThinkingCase {
    dialect: ToolCallDialect,
    prompt: String,
    output: String,
    thoughts: Option<String>,
    content: Option<String>,
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
    ours_in_pieces(case.dialect, [case.output.as_str()])
}

fn ours_in_pieces<'a>(dialect: ToolCallDialect, pieces: impl IntoIterator<Item = &'a str>) -> (Read, Option<String>) {
    let mut turn = Turn::new(dialect, "");
    let mut text: String = pieces.into_iter().filter_map(|piece| turn.push(piece)).collect();
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
    let Record { vllm, cases, thoughts: _ } = serde_json::from_str(RECORDED).expect("the record is JSON");
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

/// At every byte that begins a character: the sidecar gets whole characters of every engine.
#[test]
fn it_makes_no_difference_at_which_byte_an_output_is_cut() {
    let Record { vllm: _, cases, thoughts: _ } = serde_json::from_str(RECORDED).expect("the record is JSON");
    for case in &cases {
        let whole = ours(case);
        for (at, _) in case.output.char_indices() {
            let (first, second) = case.output.split_at(at);
            let cut = ours_in_pieces(case.dialect, [first, second]);
            assert_eq!(cut, whole, "{:?} {:?} cut at {at}", case.dialect, case.output);
        }
    }
}

#[test]
fn thoughts_are_read_as_upstream_reads_them_but_for_a_second_end() {
    let Record { vllm: _, cases: _, thoughts } = serde_json::from_str(RECORDED).expect("the record is JSON");
    let mut different = Vec::new();
    for case in &thoughts {
        let mut turn = Turn::new(case.dialect, &case.prompt);
        let mut text: String = case.output.split_inclusive(' ').filter_map(|piece| turn.push(piece)).collect();
        text.extend(turn.finish().0);
        let trimmed = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
        if (trimmed(&case.thoughts), trimmed(&case.content)) != (turn.thoughts().trim().to_owned(), text) {
            different.push((case.dialect, case.output.as_str()));
        }
    }
    let second_end = [
        (ToolCallDialect::DeepSeek, "<think>Hm.</think>Hm.</think>"),
        (ToolCallDialect::DeepSeek, "Hm.</think>Hm.</think>"),
        (ToolCallDialect::Mistral, "[THINK]Hm.[/THINK]Hm.[/THINK]"),
    ];
    assert_eq!((thoughts.len(), different), (75, second_end.to_vec()));
}
