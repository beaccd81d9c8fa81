//! Annotations that name an unknown command, or no plan. Pure.

use std::fmt;

use slipway_crds::commands::Command;

/// An annotation that names an unknown command, or no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCommand {
    /// Its key, cut.
    pub annotation: String,
    /// Its value, cut.
    pub value: String,
    /// What is wrong with it.
    pub problem: CommandProblem,
}

/// What is wrong with an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandProblem {
    /// There is no such command.
    Unknown,
    /// The value names no plan.
    NoPlan(Command),
}

impl fmt::Display for InvalidCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { annotation, value, problem } = self;
        match problem {
            CommandProblem::Unknown => {
                let known = Command::ALL.map(Command::annotation).join(", ");
                write!(f, "annotation {annotation} is unknown: remove it, or use one of {known}")
            }
            CommandProblem::NoPlan(command) => write!(
                f,
                "annotation {annotation} is {value:?}, which names no plan: remove it, or set it to the hash in {}",
                place_of_hash(*command)
            ),
        }
    }
}

/// Some of them, as one text.
pub(super) fn listed(invalid: &[InvalidCommand]) -> String {
    let lines: Vec<String> = invalid.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// Where the status has the hash of the plan that a command is for.
fn place_of_hash(command: Command) -> &'static str {
    match command {
        Command::Approve => "status.rollout.proposed.planHash",
        Command::Promote | Command::Pause => "status.rollout.canary",
        Command::Abort => "status.rollout.canary or status.rollout.proposed.planHash",
        Command::Retry => "status.rollout.rejected, with /2, /3 for further retries",
        Command::ApproveReprofiling => "status.drift.proposal, with its number",
    }
}
