//! Manifests as an API server would answer them, without one, and what an accepted one will take. Pure.

use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use slipway_backends::config_json::ConfigFigures;
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_manifest::{Accepted, Definitions, Finding, Problem as FieldProblem, Refused, UNCHECKED};
use thiserror::Error;

use crate::{
    demand::{self, Demand, demand},
    memory::{self, MemoryPlan, memory},
    notes::notes,
    output::Shown,
    refusals,
    table::indented,
};

/// What is said in place of a plan of memory.
const UNKNOWN_MEMORY: &str = "memory: unknown until the model is read; name its config.json with --config\n";

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

/// What was found in files: an answer for each object of slipway.dev.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The answers, in the order of the files.
    pub objects: Vec<Answer>,
}

impl Shown for Checked {
    const KIND: &'static str = "Check";
}

/// The answer to one object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The file that it stands in.
    pub file: String,
    /// Its kind, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_kind: Option<String>,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the API server would accept it, and the operator too, as far as the model is known.
    pub accepted: bool,
    /// Why the API server would refuse it, in its words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// Why the operator would refuse it, as far as the spec alone tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Problem>,
    /// Whether its rules could not be evaluated, because a value that they read is not what it should be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_unchecked_rules: bool,
    /// What of an accepted object does less than it seems to, and the remedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Problem>,
    /// What it will take. Absent of a refused object, and of other kinds than AgentDeployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// What its engines take of a GPU's memory. Absent where the model is not known, or its engines are the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPlan>,
    /// Whether its memory could be planned if the model were known.
    #[serde(skip)]
    lacks_model: bool,
}

/// One reason against an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Path of the field. Absent where the problem is none of a field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl Checked {
    /// Whether all of it can be applied.
    ///
    /// # Errors
    /// When an object would be refused, or there is none.
    pub fn verdict(&self, files: &[File]) -> Result<(), Unfit> {
        let (checked, refused) = (self.objects.len(), self.objects.iter().filter(|answer| !answer.accepted).count());
        match (checked, refused) {
            (0, _) => Err(Unfit::Empty(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", "))),
            (_, 0) => Ok(()),
            _ => Err(Unfit::Refused { refused, checked }),
        }
    }
}

/// The answers for people: the reasons of a refused object, and what an accepted one will take.
pub fn text(checked: &Checked) -> String {
    checked.objects.iter().map(of_answer).collect()
}

fn of_answer(answer: &Answer) -> String {
    let Answer { file, object_kind, name, accepted, problems, refusals, has_unchecked_rules, notes, .. } = answer;
    let Answer { demand, memory, lacks_model, .. } = answer;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "without a name".to_owned());
    let verdict = if *accepted { "accepted" } else { "refused" };
    let mut text = format!("{file}: {} {}: {verdict}\n", or_unknown(object_kind), or_unknown(name));
    let problems = problems.iter().map(|Problem { message, .. }| format!("{message}\n"));
    text.push_str(&indented(&problems.collect::<String>()));
    if *has_unchecked_rules {
        text.push_str(&indented(UNCHECKED));
    }
    let refusals = refusals
        .iter()
        .map(|Problem { field, message }| memory::refused_line(field.as_deref().unwrap_or("spec"), message));
    text.push_str(&indented(&refusals.collect::<String>()));
    let notes = notes.iter().map(|Problem { message, .. }| format!("note: {message}\n"));
    text.push_str(&indented(&notes.collect::<String>()));
    text.push_str(&indented(&demand.as_ref().map(demand::text).unwrap_or_default()));
    text.push_str(&indented(&memory.as_ref().map(memory::text).unwrap_or_default()));
    if *lacks_model {
        text.push_str(&indented(UNKNOWN_MEMORY));
    }
    text
}

/// Answers every object of slipway.dev in files; objects of other groups are left out. The model's figures, where they
/// are known, are those of every AgentDeployment.
///
/// # Errors
/// When a file cannot be read as YAML.
pub fn check(files: &[File], model: Option<&ConfigFigures>) -> Result<Checked, Unfit> {
    let definitions = Definitions::new();
    let mut checked = Checked::default();
    for file in files {
        let syntax = |source| Unfit::Syntax { file: file.name.clone(), source };
        for object in objects(&file.text).map_err(syntax)? {
            checked.objects.extend(answer(&file.name, &object, (definitions.check(&object), model)));
        }
    }
    Ok(checked)
}

fn answer(
    file: &str,
    object: &Value,
    (answer, model): (Result<Accepted, Refused>, Option<&ConfigFigures>),
) -> Option<Answer> {
    let named = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let bare = Answer {
        file: file.to_owned(),
        object_kind: named("/kind"),
        name: named("/metadata/name"),
        accepted: false,
        problems: Vec::new(),
        refusals: Vec::new(),
        has_unchecked_rules: false,
        notes: Vec::new(),
        demand: None,
        memory: None,
        lacks_model: false,
    };
    match answer {
        Err(Refused::Foreign { .. }) => None,
        Err(unknown @ Refused::UnknownKind { .. }) => {
            Some(Answer { problems: vec![Problem { field: None, message: unknown.to_string() }], ..bare })
        }
        Err(Refused::Invalid { findings, has_unchecked_rules }) => {
            Some(Answer { problems: findings.iter().map(problem).collect(), has_unchecked_rules, ..bare })
        }
        Ok(Accepted(object)) => Some(of_accepted(object, model, bare)),
    }
}

/// A finding in the API server's words, with the remedy that these leave out.
fn problem(finding: &Finding) -> Problem {
    let remedy = match &finding.problem {
        // What YAML makes of a value without quotes.
        FieldProblem::Type { expected, found: "number" | "integer" | "boolean" } if expected == "string" => {
            ": put it in quotes"
        }
        FieldProblem::Duplicate(_) => ": give each entry its own",
        _ => "",
    };
    Problem { field: Some(finding.path.clone()), message: format!("{finding}{remedy}") }
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

/// The demand of an AgentDeployment; of other kinds there is none to tell.
fn of_accepted(object: Value, model: Option<&ConfigFigures>, bare: Answer) -> Answer {
    let bare = Answer { accepted: true, ..bare };
    let is_agent = object["kind"] == "AgentDeployment";
    let read = || serde_json::from_value::<AgentDeployment>(object);
    match is_agent.then(read) {
        None => bare,
        Some(Ok(agent)) => {
            let memory = model.and_then(|model| memory(&agent.spec, model));
            let name = agent.metadata.name.as_deref().unwrap_or_default();
            let refusals = refusals::refusals(name, &agent.spec, memory.is_some());
            Answer {
                accepted: refusals.is_empty() && memory.as_ref().is_none_or(MemoryPlan::is_possible),
                refusals,
                lacks_model: model.is_none() && memory::is_planned(&agent.spec),
                notes: notes(&agent.spec),
                demand: Some(demand(&agent.spec)),
                memory,
                ..bare
            }
        }
        // The schema keeps nothing that its types cannot read. The operator would leave such an object alone.
        Some(Err(error)) => {
            let message = format!("the operator cannot read it: {error}");
            Answer { accepted: false, problems: vec![Problem { field: None, message }], ..bare }
        }
    }
}
