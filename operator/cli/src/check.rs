//! Manifests as an API server would answer them, without one, and what an accepted one will take. Pure.

use std::fmt::Write as _;

use serde::Deserialize as _;
use serde_json::Value;
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_manifest::{Accepted, Definitions, Refused};
use thiserror::Error;

use crate::{demand::demand, table::indented};

/// Why manifests are not fit to be applied.
#[derive(Debug, Error)]
pub enum Unfit {
    /// A file cannot be read as YAML.
    #[error("{file} cannot be read as YAML")]
    Syntax {
        /// As it was named.
        file: String,
        /// With line and column.
        #[source]
        source: serde_norway::Error,
    },
    /// Nothing of slipway.dev was found.
    #[error("no object of slipway.dev in {0}: name a file with an AgentDeployment, Engine or Profile")]
    Empty(String),
    /// Some objects would be refused.
    #[error("{refused} of {checked} objects would be refused")]
    Refused {
        /// How many.
        refused: usize,
        /// Of how many of slipway.dev.
        checked: usize,
    },
}

/// Text of a file, with the name to call it by.
#[derive(Debug, Clone)]
pub struct File {
    /// Its path, or `standard input`.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// What was found in files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// An answer for each object of slipway.dev, with the reasons of a refused one and the demand of an accepted one.
    pub text: String,
    checked: usize,
    refused: usize,
}

impl Checked {
    /// Whether all of it can be applied.
    ///
    /// # Errors
    /// When an object would be refused, or there is none.
    pub fn verdict(&self, files: &[File]) -> Result<(), Unfit> {
        let Self { checked, refused, .. } = *self;
        match (checked, refused) {
            (0, _) => Err(Unfit::Empty(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", "))),
            (_, 0) => Ok(()),
            _ => Err(Unfit::Refused { refused, checked }),
        }
    }

    fn add(&mut self, file: &str, object: &Value, answer: Result<Accepted, Refused>) {
        let title = format!("{file}: {} {}", named(object, "/kind"), named(object, "/metadata/name"));
        let (answer, details) = match answer {
            Err(Refused::Foreign { .. }) => return,
            Err(refused) => {
                self.refused += 1;
                ("refused", refused.to_string())
            }
            Ok(Accepted(object)) => ("accepted", of_accepted(object)),
        };
        self.checked += 1;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{title}: {answer}");
        self.text.push_str(&indented(&details));
    }
}

/// Answers every object of slipway.dev in files; objects of other groups are left out.
///
/// # Errors
/// When a file cannot be read as YAML.
pub fn check(files: &[File]) -> Result<Checked, Unfit> {
    let definitions = Definitions::new();
    let mut checked = Checked::default();
    for file in files {
        let syntax = |source| Unfit::Syntax { file: file.name.clone(), source };
        for object in objects(&file.text).map_err(syntax)? {
            checked.add(&file.name, &object, definitions.check(&object));
        }
    }
    Ok(checked)
}

/// The objects of a file: its documents, and the items of lists.
fn objects(text: &str) -> Result<Vec<Value>, serde_norway::Error> {
    let documents: Result<Vec<Value>, _> = serde_norway::Deserializer::from_str(text).map(Value::deserialize).collect();
    let items = |document: Value| match document {
        Value::Null => Vec::new(),
        Value::Object(mut members) if members.get("kind").is_some_and(|kind| kind == "List") => {
            let items = members.remove("items").unwrap_or_default();
            items.as_array().cloned().unwrap_or_default()
        }
        document => vec![document],
    };
    Ok(documents?.into_iter().flat_map(items).collect())
}

fn named<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("without a name")
}

/// The demand of an AgentDeployment; of other kinds there is none to tell.
fn of_accepted(object: Value) -> String {
    let is_agent = object["kind"] == "AgentDeployment";
    let read = || serde_json::from_value::<AgentDeployment>(object);
    match is_agent.then(read) {
        None => String::new(),
        Some(Ok(agent)) => demand(&agent.spec),
        // The schema is made of these types: whatever it takes they read.
        Some(Err(error)) => format!("what it will take is unknown: {error}\n"),
    }
}
