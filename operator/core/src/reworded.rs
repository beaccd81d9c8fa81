//! Replaces what people read by other words, as an operator of another release would have written it. Tests hold every
//! plan against the plan of a world with other words: it must decide, tell and record the same.

use slipway_crds::v1alpha1::{AgentDeploymentStatus, EngineStatus, ProfileStatus};

use crate::plan::Plan;

/// What all words are replaced by.
const OTHER: &str = "in other words";

/// Asserts that two plans differ in their words at most.
pub fn assert_alike<Status: Clone + PartialEq + std::fmt::Debug>(
    plan: &Plan<Status>,
    reworded: &Plan<Status>,
    reword: impl Fn(&mut Status),
) {
    let without_words = |plan: &Plan<Status>| {
        let mut plan = plan.clone();
        reword(&mut plan.status);
        plan.notes.iter_mut().for_each(|note| replace(&mut note.message));
        plan.announcements.iter_mut().for_each(|announcement| replace(&mut announcement.message));
        plan
    };
    pretty_assertions::assert_eq!(without_words(plan), without_words(reworded), "words decide nothing");
}

/// Replaces what people read in the status of an AgentDeployment, and nothing that is a name, a figure or a code.
pub fn agent_deployment(status: &mut AgentDeploymentStatus) {
    status.conditions.iter_mut().for_each(|condition| replace(&mut condition.message));
    status.undelivered.iter_mut().for_each(|known| replace(&mut known.message));
    status.engines.iter_mut().for_each(|engine| replace(&mut engine.state));
    if let Some(selected) = &mut status.selected {
        replace(&mut selected.why);
        selected.cost.iter_mut().for_each(|cost| replace(&mut cost.text));
    }
    if let Some(rollout) = &mut status.rollout {
        let optional = [&mut rollout.message, &mut rollout.expected_verdict];
        optional.into_iter().flatten().for_each(replace);
        rollout.rejected.iter_mut().for_each(|rejected| replace(&mut rejected.reason));
        rollout.guardrails.iter_mut().filter_map(|guardrail| guardrail.problem.as_mut()).for_each(replace);
        if let Some(room) = &mut rollout.capacity {
            replace(&mut room.message);
            room.reason.iter_mut().for_each(replace);
        }
        if let Some(proposed) = &mut rollout.proposed {
            replace(&mut proposed.why);
            proposed.changes.iter_mut().for_each(replace);
        }
    }
    if let Some(drift) = &mut status.drift {
        replace(&mut drift.message);
        [&mut drift.restarted, &mut drift.left_out].into_iter().flatten().for_each(replace);
        drift.risk.iter_mut().for_each(|risk| replace(&mut risk.message));
    }
    let run = status.reprofiling.as_mut().and_then(|reprofiling| reprofiling.run.as_mut());
    run.into_iter().for_each(|run| replace(&mut run.message));
    status.autoscaling.iter_mut().for_each(|autoscaling| replace(&mut autoscaling.message));
}

/// The same in the status of an Engine.
pub fn engine(status: &mut EngineStatus) {
    status.conditions.iter_mut().for_each(|condition| replace(&mut condition.message));
    let failures = status.attempts.iter_mut().filter_map(|attempt| attempt.failure.as_mut());
    failures.for_each(|failure| replace(&mut failure.message));
}

/// The same in the status of a Profile.
pub fn profile(status: &mut ProfileStatus) {
    replace(&mut status.message);
    status.conditions.iter_mut().for_each(|condition| replace(&mut condition.message));
    status.measurements.iter_mut().for_each(|row| replace(&mut row.reason));
    status.not_measured.iter_mut().for_each(|skipped| replace(&mut skipped.reason));
    status.asked.iter_mut().for_each(|asked| replace(&mut asked.why));
    status.engines.iter_mut().for_each(|engine| replace(&mut engine.end));
    status.choice.iter_mut().for_each(|choice| replace(&mut choice.why));
    status.infeasible.iter_mut().for_each(|infeasible| replace(&mut infeasible.what_it_would_take));
}

/// An absent text stays absent: its absence is not a matter of wording.
fn replace(words: &mut String) {
    if !words.is_empty() {
        OTHER.clone_into(words);
    }
}
