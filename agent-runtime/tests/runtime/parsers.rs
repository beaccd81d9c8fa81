//! Calls of tools and thoughts as vLLM's own parsers read them, recorded by `make parser-parity`, beside what is read
//! here.
//!
//! The first snapshot has all differences of calls, the second those of thoughts. Their reasons:
//!
//! - Calls with mistakes are told to the model here. Upstream hands them out as text, or guesses.
//! - Phi4: upstream ends the list at its first bracket, and so loses calls with lists in them. It loses the text before
//!   calls, too.
//! - Granite: upstream reads calls only at the beginning of a turn.
//! - Llama3Json: upstream leaves out the text before calls.
//! - Llama4Pythonic: upstream knows no negative numbers.
//! - Harmony: every recipient is a tool here, and the model is told which tools exist. Upstream leaves out those that
//!   are not functions. It hands a cut header out as text, loses text of other channels, and fails at text between
//!   messages.
//!
//! Of thoughts:
//!
//! - A second end of them is left out here, as in upstream's parser of Qwen3. Its parsers of DeepSeek and Mistral leave
//!   it in the answer.
//! - Granite: the sentence before thoughts counts here only at the beginning of a turn. Upstream loses what precedes
//!   it. Thoughts that never end are thoughts here, as where upstream streams; read whole, they are its answer.
//!   Upstream's parser knows no tags.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::Value;
use slipway_agent_runtime::agent::dialect::{Arguments, Turn};
use slipway_runtime_config::ToolCallDialect;

const RECORDED: &str = include_str!("parsers/recorded.json");
/// The tools that the outputs call.
const TOOLS: [&str; 2] = ["look", "order"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    vllm: String,
    openai_harmony: String,
    vocabulary: String,
    /// Which of upstream's parsers read thoughts of a dialect.
    thinking_parsers: BTreeMap<String, String>,
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
    #[serde(default)]
    calls: Vec<(String, String)>,
    /// What upstream says where it reads nothing of an output.
    fails: Option<String>,
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
    let mut turn = Turn::new(dialect, "", TOOLS);
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
    let Record { vllm, openai_harmony, vocabulary, cases, .. } =
        serde_json::from_str(RECORDED).expect("the record is JSON");
    let mut equal = 0;
    let mut lines = Vec::new();
    for case in &cases {
        let (theirs, (ours, problem)) = (upstream(case), ours(case));
        if theirs == ours && problem.is_none() && case.fails.is_none() {
            equal += 1;
            continue;
        }
        let theirs = case.fails.as_ref().map_or_else(|| format!("{theirs:?}"), |reason| format!("fails: {reason}"));
        let told = problem.map_or_else(|| format!("{ours:?}"), |problem| format!("a mistake: {problem}"));
        lines.push(format!("{:?} {:?}\n  upstream {theirs}\n  here     {told}", case.dialect, case.output));
    }
    let versions = format!("vLLM {vllm}, openai-harmony {openai_harmony} with the vocabulary of {vocabulary}");
    let summary = format!("{versions}: {equal} of {} are read alike\n\n{}\n", cases.len(), lines.join("\n"));
    assert_snapshot!(summary);
}

/// At every byte that begins a character: the sidecar gets whole characters of every engine.
#[test]
fn it_makes_no_difference_at_which_byte_an_output_is_cut() {
    let Record { cases, .. } = serde_json::from_str(RECORDED).expect("the record is JSON");
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
fn thoughts_are_read_as_upstream_reads_them_but_for_known_reasons() {
    let Record { thinking_parsers, thoughts, .. } = serde_json::from_str(RECORDED).expect("the record is JSON");
    let mut lines = Vec::new();
    for case in &thoughts {
        let mut turn = Turn::new(case.dialect, &case.prompt, TOOLS);
        let mut text: String = case.output.split_inclusive(' ').filter_map(|piece| turn.push(piece)).collect();
        text.extend(turn.finish().0);
        let trimmed = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
        let theirs = (trimmed(&case.thoughts), trimmed(&case.content));
        let ours = (turn.thoughts().trim().to_owned(), text);
        if theirs != ours {
            lines.push(format!("{:?} {:?}\n  upstream {theirs:?}\n  here     {ours:?}", case.dialect, case.output));
        }
    }
    let (equal, all) = (thoughts.len() - lines.len(), thoughts.len());
    let parsers: Vec<_> = thinking_parsers.iter().map(|(dialect, parser)| format!("{dialect}: {parser}")).collect();
    let summary = format!("{equal} of {all} are read alike\n{}\n\n{}\n", parsers.join("\n"), lines.join("\n"));
    assert_snapshot!(summary);
}
