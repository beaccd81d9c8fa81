//! What a query in PromQL names: metrics with their matchers, and labels. That it is one at all is for the operator's
//! own reader of guardrails to say, and for Prometheus.

use slipway_operator_core::agent_deployment::rollout::guardrails::{Scope, scoped};

/// A metric that a query selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// Its name.
    pub metric: String,
    /// Labels and the texts that they are compared with.
    pub matchers: Vec<(String, String)>,
}

/// What a query names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Metrics.
    pub selectors: Vec<Selector>,
    /// Labels of `by`, `on`, `group_left` and the like.
    pub labels: Vec<String>,
}

/// Words before a list of labels.
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words between values.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// Reads a query whose variables have values.
///
/// # Errors
/// When it is not a query.
pub fn named(query: &str) -> Result<Named, String> {
    let labels = ["namespace".to_owned()];
    scoped(query, Scope { namespace: "team", labels: &labels }).map_err(|error| format!("{query}: {error}"))?;
    let words = words(query);
    let mut named = Named::default();
    let mut next = 0;
    while let Some(word) = words.get(next) {
        next += 1;
        let after = words.get(next).map_or("", String::as_str);
        if LISTS.contains(&word.as_str()) {
            let end = next + words[next..].iter().position(|word| word == ")").unwrap();
            named.labels.extend(words[next + 1..end].iter().filter(|word| *word != ",").cloned());
            next = end + 1;
        } else if is_name(word) && !OPERATORS.contains(&word.as_str()) && after != "(" && !LISTS.contains(&after) {
            let (matchers, end) = if after == "{" { matchers(&words, next) } else { (Vec::new(), next) };
            named.selectors.push(Selector { metric: word.clone(), matchers });
            next = end;
        }
    }
    Ok(named)
}

/// The matchers from a brace on, and what comes after it.
fn matchers(words: &[String], open: usize) -> (Vec<(String, String)>, usize) {
    let end = open + words[open..].iter().position(|word| word == "}").unwrap();
    let inside: Vec<_> = words[open + 1..end].iter().filter(|word| is_name(word) || word.starts_with('"')).collect();
    let pairs = inside.chunks(2).map(|pair| (pair[0].clone(), pair[1].trim_matches('"').to_owned()));
    (pairs.collect(), end + 1)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Names, texts and signs. Numbers and durations are one sign each.
fn words(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
        let length = match first {
            '"' => rest[1..].find('"').unwrap() + 2,
            c if is_part(c) => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        words.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn metrics_matchers_and_labels_of_a_query_are_read() {
        let query = r#"sum by (le, revision) (rate(a_bucket{pod=~"x-[0-9]+",good!="b|c"}[5m]) * on (pod) group_left (revision) b) > bool 0.5 or vector(0)"#;
        let selector = |metric: &str, matchers: &[(&str, &str)]| Selector {
            metric: metric.to_owned(),
            matchers: matchers.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect(),
        };
        let expected = Named {
            selectors: vec![selector("a_bucket", &[("pod", "x-[0-9]+"), ("good", "b|c")]), selector("b", &[])],
            labels: ["le", "revision", "pod", "revision"].map(str::to_owned).to_vec(),
        };
        assert_eq!(named(query), Ok(expected));
    }

    #[test]
    fn what_is_not_a_query_is_refused() {
        let error = named("sum by (le) (a").unwrap_err();
        assert!(error.starts_with("sum by (le) (a: "), "{error}");
    }
}
