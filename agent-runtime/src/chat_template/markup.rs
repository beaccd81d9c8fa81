//! Sums of texts that a template marks as `safe`. Pure.
//!
//! In transformers' environment such a text is a `Markup`. What is added to one is escaped as HTML, whatever the
//! environment escapes, and the sum is a `Markup` again (<https://markupsafe.palletsprojects.com/en/stable/escaping/>).
//! minijinja's sums are plain texts. So an expression that adds to a safe text becomes a call of [`SUM`].

use minijinja::{Error, ErrorKind, Value, value::Rest};

/// The function that adds texts as Python does.
pub(super) const SUM: &str = "sum_of_texts";

/// What ends the operands of a sum, or has them belong to something else. Expressions with one are left alone.
const OTHER_OPERATORS: [&str; 10] = ["~", "-", "==", "!=", "<", ">", " if ", " and ", " or ", " is "];

/// Writes the printed expressions of a template that add to a safe text as calls.
pub(super) fn with_sums(source: &str) -> String {
    let mut parts = source.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("{{");
        match part.split_once("}}").and_then(|(inner, rest)| Some((sum(inner)?, rest))) {
            Some((inner, rest)) => {
                text.push_str(&inner);
                text.push_str("}}");
                text.push_str(rest);
            }
            None => text.push_str(part),
        }
    }
    text
}

/// The call in place of a sum with a safe operand.
fn sum(inner: &str) -> Option<String> {
    let (begin, rest) = inner.strip_prefix('-').map_or(("", inner), |rest| ("-", rest));
    let (expression, end) = rest.strip_suffix('-').map_or((rest, ""), |rest| (rest, "-"));
    let operands = operands(expression)?;
    let is_safe = |operand: &&str| operand.rsplit_once('|').is_some_and(|(_, filter)| filter.trim() == "safe");
    (operands.len() > 1 && operands.iter().any(is_safe))
        .then(|| format!("{begin} {SUM}({}) {end}", operands.join(", ")))
}

/// What is added up; nothing where the expression is more than a sum.
fn operands(expression: &str) -> Option<Vec<&str>> {
    let (mut operands, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    let mut is_escaped = false;
    for (at, c) in expression.char_indices() {
        if let Some(opened) = quote {
            quote = (c != opened || is_escaped).then_some(opened);
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            '+' if depth == 0 => {
                operands.push(expression[begin..at].trim());
                begin = at + 1;
            }
            _ if depth == 0 && OTHER_OPERATORS.iter().any(|other| expression[at..].starts_with(other)) => return None,
            _ => {}
        }
    }
    operands.push(expression[begin..].trim());
    (depth == 0 && quote.is_none()).then_some(operands)
}

/// Adds texts from left to right.
///
/// # Errors
/// One of them is not a text.
pub(super) fn add(texts: &[Value]) -> Result<Value, Error> {
    let mut texts = texts.iter();
    let first = texts.next().cloned().unwrap_or_default();
    texts.try_fold(first, |sum, next| match (sum.as_str(), next.as_str()) {
        (Some(left), Some(right)) if sum.is_safe() || next.is_safe() => {
            let text = escaped(left, sum.is_safe()) + &escaped(right, next.is_safe());
            Ok(Value::from_safe_string(text))
        }
        (Some(left), Some(right)) => Ok(Value::from(format!("{left}{right}"))),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "only texts can be added to a text")),
    })
}

/// The function of that name.
pub(super) fn function(texts: Rest<Value>) -> Result<Value, Error> {
    add(&texts)
}

fn escaped(text: &str, is_safe: bool) -> String {
    if is_safe {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            _ => escaped.push(c),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_sum("{{- 'a'|safe + b['c'] + \"+\" }}", "{{- sum_of_texts('a'|safe, b['c'], \"+\") }}")]
    #[case::filters_of_others("{{ 'a' | safe + b | tojson() -}}", "{{ sum_of_texts('a' | safe, b | tojson()) -}}")]
    #[case::without_safe("{{ 'safe' + b }}", "{{ 'safe' + b }}")]
    #[case::one_text("{{ b|safe }}", "{{ b|safe }}")]
    #[case::within_a_call("{{ f('a'|safe + b) }}", "{{ f('a'|safe + b) }}")]
    #[case::a_choice("{{ 'a'|safe + b if c }}", "{{ 'a'|safe + b if c }}")]
    #[case::a_statement("{% if a %}{{ 'b' }}", "{% if a %}{{ 'b' }}")]
    fn a_sum_with_a_safe_text_is_a_call(#[case] source: &str, #[case] expected: &str) {
        assert_eq!(with_sums(source), expected);
    }

    #[test]
    fn what_is_added_to_a_safe_text_is_escaped_once() {
        let safe = |text: &str| Value::from_safe_string(text.to_owned());
        let sum = add(&[safe("<b>"), Value::from("<\"&'>"), safe("</b>")]).unwrap();
        assert_eq!((sum.as_str(), sum.is_safe()), (Some("<b>&lt;&#34;&amp;&#39;&gt;</b>"), true));
        let sum = add(&[Value::from("<"), Value::from(">"), safe("<")]).unwrap();
        assert_eq!(sum.as_str(), Some("&lt;&gt;<"));
        let sum = add(&[Value::from("<"), Value::from(">")]).unwrap();
        assert_eq!((sum.as_str(), sum.is_safe()), (Some("<>"), false));
    }

    #[test]
    fn a_number_is_added_to_no_text() {
        let error = add(&[Value::from_safe_string("a".to_owned()), Value::from(1)]).unwrap_err();
        assert_eq!(error.to_string(), "invalid operation: only texts can be added to a text");
    }
}
