//! Tags that transformers' environment reads differently from minijinja. Pure.
//!
//! - The block `generation`, by which training finds what the model is to learn, renders what it holds.
//! - The line break behind `{% raw %}` stays, whatever is done behind other tags.
//! - `loop.last` is known in a loop over the characters of a text too. minijinja does not count them.

use super::markup;

/// Whether an item is the last of its loop.
const LAST: &str = "loop.last";
/// The same, found by looking at the next item.
const NONE_FOLLOWS: &str = "(loop.nextitem is undefined)";

/// Writes a template with tags that mean here what they mean there.
pub(super) fn rewritten(source: &str) -> String {
    markup::with_sums(&looking_ahead(&with_other_tags(source)))
}

/// What a template's source is at some place.
#[derive(Clone, Copy)]
enum Source {
    Text,
    /// Code up to this mark.
    Code(&'static str),
}

/// Finds last items by looking at the next one.
fn looking_ahead(source: &str) -> String {
    let mut rest = source;
    let mut text = String::with_capacity(source.len());
    let mut inside = Source::Text;
    while let Some(next) = rest.chars().next() {
        let all = rest.len();
        let (length, then) = match inside {
            Source::Text if rest.starts_with("{#") => (rest.find("#}").unwrap_or(all), Source::Text),
            Source::Text if is_raw(rest) => (rest.find("endraw").unwrap_or(all), Source::Text),
            Source::Text if rest.starts_with("{%") => (2, Source::Code("%}")),
            Source::Text if rest.starts_with("{{") => (2, Source::Code("}}")),
            Source::Code(end) if rest.starts_with(end) => (end.len(), Source::Text),
            Source::Code(_) if matches!(next, '"' | '\'') => (quoted(rest, next), inside),
            Source::Code(_) if is_word(&text, rest) => {
                text.push_str(NONE_FOLLOWS);
                rest = &rest[LAST.len()..];
                continue;
            }
            Source::Text | Source::Code(_) => (next.len_utf8(), inside),
        };
        text.push_str(&rest[..length]);
        (rest, inside) = (&rest[length..], then);
    }
    text
}

fn is_raw(rest: &str) -> bool {
    let inner = rest.strip_prefix("{%").and_then(|tag| tag.split_once("%}")).map(|(inner, _)| inner);
    inner.is_some_and(|inner| inner.trim_matches(|c: char| matches!(c, '-' | '+') || c.is_whitespace()) == "raw")
}

/// How long a quoted text is.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

fn is_word(before: &str, rest: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    rest.strip_prefix(LAST).is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        && !before.ends_with(is_part)
}

fn with_other_tags(source: &str) -> String {
    let mut rest = source;
    let mut text = String::with_capacity(source.len());
    while let Some(begin) = rest.find("{%") {
        let (before, tag) = rest.split_at(begin);
        text.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        text.push_str(&replaced(&tag[..end]));
        rest = &tag[end..];
    }
    text.push_str(rest);
    text
}

/// The tag that stands for another; itself, if it means the same. White space around it is removed as before.
fn replaced(tag: &str) -> String {
    let inner = tag.trim_start_matches("{%").trim_end_matches("%}");
    match inner.trim_matches(|c: char| matches!(c, '-' | '+') || c.is_whitespace()) {
        // A condition that always holds.
        "generation" => tag.replace("generation", "if true"),
        "endgeneration" => tag.replace("endgeneration", "endif"),
        "raw" if !inner.ends_with(['-', '+']) => tag.replace("%}", "+%}"),
        _ => tag.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_block_of_training_becomes_a_condition_that_holds() {
        let template = "{% if a %}x{%- generation -%}{{ generation }}{%endgeneration%}{% endif %} {% open";
        let expected = "{% if a %}x{%- if true -%}{{ generation }}{%endif%}{% endif %} {% open";
        assert_eq!(rewritten(template), expected);
    }

    #[test]
    fn the_line_break_behind_raw_stays_unless_the_tag_takes_it_away() {
        let template = "{% raw %}\na{% endraw %}{%- raw -%}\nb{% endraw %}";
        assert_eq!(rewritten(template), "{% raw +%}\na{% endraw %}{%- raw -%}\nb{% endraw %}");
    }

    #[test]
    fn the_last_item_is_found_by_looking_at_the_next_in_code_alone() {
        let template = "loop.last {{ \"loop.last\\\" %}\" if not loop.last }}{%- if loop.last -%}é{# loop.last #}\
                        {% raw %}{{ loop.last }}{% endraw %}{{ myloop.last or loop.lastly }}{% if loop.last";
        let expected = "loop.last {{ \"loop.last\\\" %}\" if not (loop.nextitem is undefined) }}\
                        {%- if (loop.nextitem is undefined) -%}é{# loop.last #}\
                        {% raw +%}{{ loop.last }}{% endraw %}{{ myloop.last or loop.lastly }}\
                        {% if (loop.nextitem is undefined)";
        assert_eq!(rewritten(template), expected);
    }
}
