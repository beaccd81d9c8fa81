//! What people tell the rollout, and a campaign that is proposed: fields of the spec, and annotations with the same
//! effect. Pure.
//!
//! Each command names the plan that it is for, and does nothing to another one. Only `spec.rollout.paused` names none.

use std::collections::BTreeMap;

use slipway_crds::{
    commands::{Command, PREFIX, Place, Source},
    v1alpha1::agent_deployment::{Profiling, Rollout},
};

use crate::why::{CommandProblem, InvalidCommand};

/// What is kept of an annotation in a message.
const MAX_SHOWN: usize = 63;
/// Invalid annotations that a message lists.
const MAX_LISTED: usize = 5;

/// The commands among the annotations of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotated {
    /// Valid values.
    values: BTreeMap<Command, String>,
    /// Annotations that name an unknown command, or no plan.
    invalid: Vec<InvalidCommand>,
}

impl Annotated {
    /// Reads annotations. Those of others are not looked at.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let mut read = Self::default();
        for (key, value) in annotations.iter().filter(|(key, _)| key.starts_with(PREFIX)) {
            let command = Command::ALL.into_iter().find(|command| command.annotation() == key);
            match command {
                Some(command) if command.plan_of(value).is_some() => {
                    read.values.insert(command, value.clone());
                }
                Some(command) => read.refuse(key, value, CommandProblem::NoPlan(command)),
                None => read.refuse(key, value, CommandProblem::Unknown),
            }
        }
        read
    }

    fn refuse(&mut self, key: &str, value: &str, problem: CommandProblem) {
        if self.invalid.len() < MAX_LISTED {
            let cut = |text: &str| text.chars().take(MAX_SHOWN).collect();
            self.invalid.push(InvalidCommand { annotation: cut(key), value: cut(value), problem });
        }
    }

    /// Annotations that name an unknown command, or no plan, in the order of their keys.
    pub fn invalid(&self) -> &[InvalidCommand] {
        &self.invalid
    }

    /// The value of a command's annotation, for whatever plan.
    pub fn value(&self, command: Command) -> Option<&String> {
        self.values.get(&command)
    }

    fn value_for(&self, command: Command, plan: &str) -> Option<&String> {
        self.value(command).filter(|value| command.plan_of(value) == Some(plan))
    }
}

/// The commands that hold: those of the spec and those of annotations.
#[derive(Debug, Clone, Copy)]
pub struct Commands<'a> {
    rollout: &'a Rollout,
    annotated: &'a Annotated,
}

impl<'a> Commands<'a> {
    /// The commands of a spec and of annotations.
    pub fn new(rollout: &'a Rollout, annotated: &'a Annotated) -> Self {
        Self { rollout, annotated }
    }

    /// Whether a plan is approved.
    pub fn approves(self, plan: &str) -> bool {
        self.names(Command::Approve, self.rollout.approve.as_deref(), plan).is_some()
    }

    /// What lets a plan take over without further judgement.
    pub fn promotes(self, plan: &str) -> Option<Source> {
        self.names(Command::Promote, self.rollout.promote.as_deref(), plan)
    }

    /// What rolls a plan back, or declines it.
    pub fn aborts(self, plan: &str) -> Option<Source> {
        self.names(Command::Abort, self.rollout.abort.as_deref(), plan)
    }

    /// What lets a proposed campaign begin.
    pub fn approves_reprofiling(self, profiling: &Profiling, proposal: &str) -> Option<Source> {
        let command = Command::ApproveReprofiling;
        if profiling.approve_reprofiling.as_deref() == Some(proposal) {
            return Some(Source { command, place: Place::Field });
        }
        let is_annotated = self.annotated.value(command).is_some_and(|value| value == proposal);
        is_annotated.then_some(Source { command, place: Place::Annotation })
    }

    /// What keeps a plan's rollout at its step.
    pub fn pauses(self, plan: &str) -> Option<Source> {
        let command = Command::Pause;
        if self.rollout.paused {
            return Some(Source { command, place: Place::Field });
        }
        self.annotated.value_for(command, plan).map(|_| Source { command, place: Place::Annotation })
    }

    /// The value of `spec.rollout.retry`, if it is for this plan.
    pub fn retry_of_spec(self, plan: &str) -> Option<&'a String> {
        let is_for_it =
            |token: &&String| token.strip_prefix(plan).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.rollout.retry.as_ref().filter(is_for_it)
    }

    /// The value of the annotation, if it is for this plan.
    pub fn retry_of_annotation(self, plan: &str) -> Option<&'a String> {
        self.annotated.value_for(Command::Retry, plan)
    }

    fn names(self, command: Command, field: Option<&str>, plan: &str) -> Option<Source> {
        if field == Some(plan) {
            return Some(Source { command, place: Place::Field });
        }
        self.annotated.value_for(command, plan).map(|_| Source { command, place: Place::Annotation })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const PLAN: &str = "7c1f9a2b3d";

    fn annotated(annotations: &[(&str, &str)]) -> Annotated {
        Annotated::read(&annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn an_annotation_commands_the_plan_that_it_names_and_no_other() {
        let rollout = Rollout::default();
        let annotated = annotated(&[("slipway.dev/abort", PLAN), ("slipway.dev/pause", PLAN)]);
        let commands = Commands::new(&rollout, &annotated);
        let told = [commands.aborts(PLAN), commands.pauses(PLAN)].map(|source| source.map(|source| source.to_string()));
        let expected = ["annotation slipway.dev/abort", "annotation slipway.dev/pause"].map(str::to_owned).map(Some);
        assert_eq!(told, expected);
        assert_eq!((commands.aborts("0123456789"), commands.pauses("0123456789")), (None, None));
        assert_eq!((commands.promotes(PLAN), commands.approves(PLAN)), (None, false));
    }

    #[test]
    fn a_field_is_named_where_both_say_the_same() {
        let rollout = Rollout { abort: Some(PLAN.to_owned()), paused: true, ..Rollout::default() };
        let annotated = annotated(&[("slipway.dev/abort", PLAN), ("slipway.dev/pause", PLAN)]);
        let commands = Commands::new(&rollout, &annotated);
        assert_eq!(commands.aborts(PLAN).map(|source| source.to_string()), Some("spec.rollout.abort".to_owned()));
        assert_eq!(commands.pauses("any").map(|source| source.to_string()), Some("spec.rollout.paused".to_owned()));
    }

    #[test]
    fn what_is_no_command_is_kept_with_what_is_wrong() {
        let annotated = annotated(&[
            ("argocd.argoproj.io/tracking-id", "x"),
            ("slipway.dev/aprove", PLAN),
            ("slipway.dev/pause", "true"),
            ("slipway.dev/promote", PLAN),
        ]);
        let problems: Vec<_> =
            annotated.invalid().iter().map(|invalid| (invalid.annotation.as_str(), invalid.problem)).collect();
        let expected = [
            ("slipway.dev/aprove", CommandProblem::Unknown),
            ("slipway.dev/pause", CommandProblem::NoPlan(Command::Pause)),
        ];
        assert_eq!(problems, expected);
        assert_eq!(annotated.value(Command::Promote).map(String::as_str), Some(PLAN));
    }
}
