//! What people tell a rollout, as fields of `spec.rollout` and as annotations.
//!
//! A field belongs to who applies the manifest. GitOps tools put it back. An annotation that no manifest has belongs to
//! nobody else, so a command to a running rollout stays where it was given.

use std::fmt;

use crate::identity::is_short_hash;

/// A command to a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Lets a plan continue that waits for approval.
    Approve,
    /// Promotes a plan without further judgement.
    Promote,
    /// Rolls a plan back, or declines it.
    Abort,
    /// Tries a plan once more that was rolled back.
    Retry,
    /// Keeps a plan's rollout at its step.
    Pause,
}

/// Prefix of every annotation of an AgentDeployment that is a command.
pub const PREFIX: &str = "slipway.dev/";

impl Command {
    /// Every command.
    pub const ALL: [Self; 5] = [Self::Approve, Self::Promote, Self::Abort, Self::Retry, Self::Pause];

    /// Annotation of an AgentDeployment whose value names the plan that the command is for.
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Approve => "slipway.dev/approve",
            Self::Promote => "slipway.dev/promote",
            Self::Abort => "slipway.dev/abort",
            Self::Retry => "slipway.dev/retry",
            Self::Pause => "slipway.dev/pause",
        }
    }

    /// The field with the same effect.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Approve => "spec.rollout.approve",
            Self::Promote => "spec.rollout.promote",
            Self::Abort => "spec.rollout.abort",
            Self::Retry => "spec.rollout.retry",
            Self::Pause => "spec.rollout.paused",
        }
    }

    /// The plan that a value of the annotation names; absent if the command takes no such value. A value of `retry` may
    /// have a number, as `7c1f9a2b3d/2`.
    pub fn plan_of(self, value: &str) -> Option<&str> {
        let plan = match (self, value.split_once('/')) {
            (Self::Retry, Some((plan, number))) => Some(plan).filter(|_| is_count(number)),
            (Self::Approve | Self::Promote | Self::Abort | Self::Pause, Some(_)) => None,
            (_, None) => Some(value),
        };
        plan.filter(|plan| is_short_hash(plan))
    }
}

fn is_count(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number.to_string() == text)
}

/// Where a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The command.
    pub command: Command,
    /// The field or the annotation.
    pub place: Place,
}

/// The two places of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A field of `spec.rollout`.
    Field,
    /// An annotation.
    Annotation,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Field => f.write_str(self.command.field()),
            Place::Annotation => write!(f, "annotation {}", self.command.annotation()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_one_plan_and_only_a_retry_has_a_number() {
        let plan = |command: Command, value| command.plan_of(value);
        assert_eq!(plan(Command::Approve, "7c1f9a2b3d"), Some("7c1f9a2b3d"));
        assert_eq!(plan(Command::Retry, "7c1f9a2b3d"), Some("7c1f9a2b3d"));
        assert_eq!(plan(Command::Retry, "7c1f9a2b3d/2"), Some("7c1f9a2b3d"));
        for value in ["", "true", "7c1f9a2b3", "7C1F9A2B3D", "7c1f9a2b3d/02", "7c1f9a2b3d/", "7c1f9a2b3d/2/3"] {
            assert_eq!(plan(Command::Retry, value), None, "{value}");
        }
        assert_eq!(plan(Command::Pause, "7c1f9a2b3d/2"), None);
    }

    #[test]
    fn every_annotation_has_the_prefix() {
        assert!(Command::ALL.iter().all(|command| command.annotation().starts_with(PREFIX)));
    }
}
