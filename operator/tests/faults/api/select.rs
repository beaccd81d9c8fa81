//! Selectors of labels and fields.

use serde_json::Value;

use super::refusal::Refusal;

/// Whether an object has the labels that a selector asks for: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b, c)`,
/// `a notin (b, c)`.
///
/// # Errors
/// A refusal where the selector cannot be read.
pub fn has_labels(object: &Value, selector: &str) -> Result<bool, Refusal> {
    let labels = &object["metadata"]["labels"];
    for requirement in requirements(selector) {
        if !holds(labels, requirement.trim())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The parts of a selector: a comma within brackets parts nothing.
fn requirements(selector: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = selector.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).collect()
}

fn holds(labels: &Value, requirement: &str) -> Result<bool, Refusal> {
    let value = |key: &str| labels.get(key.trim()).and_then(Value::as_str);
    for (word, is_in) in [(" notin ", false), (" in ", true)] {
        if let Some((key, values)) = requirement.split_once(word) {
            let values = values.trim().trim_start_matches('(').trim_end_matches(')');
            let found = value(key);
            let is_listed = found.is_some_and(|found| values.split(',').any(|value| value.trim() == found));
            return Ok(is_listed == is_in);
        }
    }
    if let Some((key, wanted)) = requirement.split_once("!=") {
        return Ok(value(key) != Some(wanted.trim()));
    }
    if let Some((key, wanted)) = requirement.split_once("==").or_else(|| requirement.split_once('=')) {
        return Ok(value(key) == Some(wanted.trim()));
    }
    if let Some(key) = requirement.strip_prefix('!') {
        return Ok(value(key).is_none());
    }
    let is_key = !requirement.is_empty() && !requirement.contains(|c: char| c.is_whitespace() || "()<>".contains(c));
    if is_key { Ok(value(requirement).is_some()) } else { Err(unreadable(requirement)) }
}

fn unreadable(selector: &str) -> Refusal {
    Refusal::bad_request(format!("unable to parse requirement: found '{selector}', expected: a key and its values"))
}

/// Whether an object has the values that a selector of fields asks for.
///
/// # Errors
/// A refusal where it cannot be read.
pub fn has_fields(object: &Value, selector: &str) -> Result<bool, Refusal> {
    for requirement in selector.split(',').filter(|requirement| !requirement.is_empty()) {
        let differs = requirement.split_once("!=");
        let same = requirement.split_once("==").or_else(|| requirement.split_once('='));
        let (path, wanted) = differs.or(same).ok_or_else(|| unreadable(requirement))?;
        let found = path.split('.').try_fold(object, |value, name| value.get(name));
        let is_it = found.and_then(Value::as_str).unwrap_or_default() == wanted;
        if is_it == differs.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
