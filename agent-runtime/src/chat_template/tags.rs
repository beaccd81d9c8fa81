//! Tags that transformers' environment reads differently from minijinja. Pure.
//!
//! - The block `generation`, by which training finds what the model is to learn, renders what it holds.
//! - The line break behind `{% raw %}` stays, whatever is done behind other tags.

/// Writes a template with tags that mean here what they mean there.
pub(super) fn rewritten(source: &str) -> String {
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
}
