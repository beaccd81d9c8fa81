//! Filling one template.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// Why a template cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FillError {
    /// Outside quotes, and unknown.
    #[error("line {line}: placeholder {name} is unknown, and protobuf text cannot hold it unfilled; report the image")]
    Unknown {
        /// The placeholder.
        name: String,
        /// Its line, from 1.
        line: usize,
    },
    /// Not closed.
    #[error("line {line}: a placeholder is not closed")]
    Open {
        /// Its line, from 1.
        line: usize,
    },
}

/// A filled template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The configuration.
    pub text: String,
    /// Placeholders that had a value.
    pub used: BTreeSet<String>,
    /// Quoted placeholders that had none and stay, so that the backend takes its default.
    pub left: BTreeSet<String>,
}

/// Replaces `${x}` by its value; in quotes the value is escaped as protobuf's text format wants it.
///
/// # Errors
/// A placeholder outside quotes has no value, or one is not closed. Comments are left as they are.
pub fn fill(template: &str, values: &BTreeMap<&'static str, String>) -> Result<Filled, FillError> {
    let mut filled = Filled { text: String::new(), used: BTreeSet::new(), left: BTreeSet::new() };
    for (index, line) in template.split_inclusive('\n').enumerate() {
        if line.trim_start().starts_with('#') {
            filled.text.push_str(line);
        } else {
            fill_line(line, index + 1, values, &mut filled)?;
        }
    }
    Ok(filled)
}

fn fill_line(
    line: &str,
    number: usize,
    values: &BTreeMap<&'static str, String>,
    filled: &mut Filled,
) -> Result<(), FillError> {
    let mut rest = line;
    let mut is_quoted = false;
    while let Some((before, behind)) = rest.split_once("${") {
        is_quoted ^= before.matches('"').count() % 2 == 1;
        let (name, after) = behind.split_once('}').ok_or(FillError::Open { line: number })?;
        filled.text.push_str(before);
        match values.get(name) {
            Some(value) => {
                filled.text.push_str(&if is_quoted { escaped(value) } else { value.clone() });
                filled.used.insert(name.to_owned());
            }
            None if is_quoted => {
                filled.text.push_str(&format!("${{{name}}}"));
                filled.left.insert(name.to_owned());
            }
            None => return Err(FillError::Unknown { name: name.to_owned(), line: number }),
        }
        rest = after;
    }
    filled.text.push_str(rest);
    Ok(())
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
