//! Text for HTML and SVG. Pure.

/// Text that stands for itself in an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML 1.0 has no other control characters, not even escaped.
            control if control.is_control() && !matches!(control, '\n' | '\t') => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// A cell of a table.
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// A number, which stands at the right.
    Number(String),
    /// A word with a class of its own.
    Mark(&'static str, String),
}

impl Cell {
    fn html(&self) -> String {
        match self {
            Self::Text(text) => format!("<td>{}</td>", escaped(text)),
            Self::Number(text) => format!("<td class=\"n\">{}</td>", escaped(text)),
            Self::Mark(class, text) => format!("<td><span class=\"mark {class}\">{}</span></td>", escaped(text)),
        }
    }
}

/// A row, and the class that it has.
pub(super) struct Line {
    /// Empty, or a class.
    pub class: &'static str,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A table with a caption for those who cannot see its place.
pub(super) fn table(caption: &str, header: &[&str], lines: &[Line]) -> String {
    let head: String = header.iter().map(|title| format!("<th scope=\"col\">{}</th>", escaped(title))).collect();
    let row = |line: &Line| {
        let cells: String = line.cells.iter().map(Cell::html).collect();
        let class = if line.class.is_empty() { String::new() } else { format!(" class=\"{}\"", line.class) };
        format!("<tr{class}>{cells}</tr>\n")
    };
    let body: String = lines.iter().map(row).collect();
    format!(
        "<table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n",
        escaped(caption)
    )
}

/// A list of names with what they stand for; values are code.
pub(super) fn definitions(pairs: &[(String, String)]) -> String {
    let pair = |(name, value): &(String, String)| {
        format!("<dt>{}</dt><dd><code>{}</code></dd>\n", escaped(name), escaped(value))
    };
    format!("<dl>\n{}</dl>\n", pairs.iter().map(pair).collect::<String>())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn text_cannot_leave_an_element_or_an_attribute() {
        assert_eq!(escaped(r#"<b a='1' c="2">&amp;"#), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
    }

    #[test]
    fn characters_that_xml_has_not_are_replaced() {
        assert_eq!(escaped("a\u{0}b\u{1b}c\nd\te"), "a\u{fffd}b\u{fffd}c\nd\te");
    }
}
