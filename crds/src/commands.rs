//! What people tell a rollout or a campaign, as fields of the spec and as annotations.
//!
//! A field belongs to who applies the manifest. GitOps tools put it back. An annotation that no manifest has belongs to
//! nobody else, so a command to a running rollout stays where it was given.

use std::fmt;

use crate::identity::is_short_hash;

/// A command to a rollout, or to a campaign that is proposed.
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
    /// Lets a campaign begin that is proposed for a plan, because users ask for other work.
    ApproveReprofiling,
}

/// Prefix of every annotation of an AgentDeployment that is a command.
pub const PREFIX: &str = "slipway.dev/";

impl Command {
    /// Every command.
    pub const ALL: [Self; 6] =
        [Self::Approve, Self::Promote, Self::Abort, Self::Retry, Self::Pause, Self::ApproveReprofiling];

    /// Annotation of an AgentDeployment whose value names the plan that the command is for.
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Approve => "slipway.dev/approve",
            Self::Promote => "slipway.dev/promote",
            Self::Abort => "slipway.dev/abort",
            Self::Retry => "slipway.dev/retry",
            Self::Pause => "slipway.dev/pause",
            Self::ApproveReprofiling => "slipway.dev/approve-reprofiling",
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
            Self::ApproveReprofiling => "spec.profiling.approveReprofiling",
        }
    }

    /// The plan that a value of the annotation names; absent if the command takes no such value. A value of `retry` may
    /// have a number, as `7c1f9a2b3d/2`. One that approves a campaign has that of the campaign, as `7c1f9a2b3d-1`.
    pub fn plan_of(self, value: &str) -> Option<&str> {
        let numbered = |(plan, number)| Some(plan).filter(|_| is_count(number));
        let plan = match self {
            Self::Approve | Self::Promote | Self::Abort | Self::Pause => Some(value),
            Self::Retry => value.split_once('/').map_or(Some(value), numbered),
            Self::ApproveReprofiling => value.split_once('-').and_then(numbered),
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
    /// A field of the spec.
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
    fn a_value_names_one_plan_and_a_retry_may_have_a_number() {
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
    fn an_approved_campaign_has_the_plan_and_its_number() {
        let plan = |value| Command::ApproveReprofiling.plan_of(value);
        assert_eq!(plan("7c1f9a2b3d-12"), Some("7c1f9a2b3d"));
        for value in ["", "true", "7c1f9a2b3d", "7c1f9a2b3d-", "7c1f9a2b3d-01", "7c1f9a2b3d/1", "7C1F9A2B3D-1"] {
            assert_eq!(plan(value), None, "{value}");
        }
    }

    #[test]
    fn every_annotation_has_the_prefix() {
        assert!(Command::ALL.iter().all(|command| command.annotation().starts_with(PREFIX)));
    }
}
