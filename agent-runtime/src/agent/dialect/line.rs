//! Objects at the beginning of a line that call a tool of the run, in a text that comes in pieces. Pure.

use std::collections::BTreeSet;

/// An object that calls a tool, or may turn out to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallAtLine {
    /// Where it begins.
    pub at: usize,
    /// Whether its tool is known; what follows tells otherwise.
    pub is_sure: bool,
}

/// The first object that names one of `tools` before anything else, and has only blanks before it in its line.
/// `is_line_start` tells that of what precedes the text.
pub fn call_at_line(text: &str, is_line_start: bool, tools: &BTreeSet<String>) -> Option<CallAtLine> {
    let mut end = 0;
    text.split_inclusive('\n').find_map(|line| {
        let begin = end;
        end += line.len();
        let at = begin + line.len() - line.trim_start().len();
        let counts = begin > 0 || is_line_start;
        counts.then(|| names(&text[at..], tools)).flatten().map(|is_sure| CallAtLine { at, is_sure })
    })
}

/// Whether an object names one of the tools; none where it cannot any more.
fn names(text: &str, tools: &BTreeSet<String>) -> Option<bool> {
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    for word in ["{", "\"name\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(word) {
            Some(behind) => rest = behind,
            None => return word.starts_with(rest).then_some(false),
        }
    }
    match rest.split_once('"') {
        Some((name, _)) => tools.contains(name).then_some(true),
        None => tools.iter().any(|tool| tool.starts_with(rest)).then_some(false),
    }
}
