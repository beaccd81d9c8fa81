//! What planners return: a value, and with it their part of the plan. Pure.
//!
//! A planner sees the world and its arguments, never what others have contributed. Its caller joins the parts in the
//! order of the calls, which is the order of objects and events.

use std::time::Duration;

use crate::plan::{Child, Note, Removal};

/// What planners found out for the status of their kind of object.
pub trait Findings: Default {
    /// These findings, and later ones after them. Grouping changes nothing, and no findings beside others change
    /// nothing either.
    #[must_use]
    fn and(self, later: Self) -> Self;
}

/// What a planner contributes to the plan.
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "a planner's contribution belongs in the plan"]
pub struct Parts<Found> {
    /// Objects that must exist.
    pub children: Vec<Child>,
    /// Objects that must go.
    pub removals: Vec<Removal>,
    /// Events to publish.
    pub notes: Vec<Note>,
    /// When to look again at the latest; absent where any time will do.
    pub requeue: Option<Duration>,
    /// What was found out for the status.
    pub found: Found,
}

impl<Found: Findings> Parts<Found> {
    /// Objects that must exist, and nothing else.
    pub fn of_children(children: impl IntoIterator<Item = Child>) -> Self {
        Self { children: children.into_iter().collect(), ..Self::default() }
    }

    /// Objects that must go, and nothing else.
    pub fn of_removals(removals: impl IntoIterator<Item = Removal>) -> Self {
        Self { removals: removals.into_iter().collect(), ..Self::default() }
    }

    /// Events, and nothing else.
    pub fn of_notes(notes: impl IntoIterator<Item = Note>) -> Self {
        Self { notes: notes.into_iter().collect(), ..Self::default() }
    }

    /// A look within a time, and nothing else.
    pub fn look_within(time: Duration) -> Self {
        Self { requeue: Some(time), ..Self::default() }
    }

    /// A part of the status, and nothing else.
    pub fn of_found(found: Found) -> Self {
        Self { found, ..Self::default() }
    }

    /// These parts, and later ones after them.
    pub fn and(mut self, later: Self) -> Self {
        let Self { children, removals, notes, requeue, found } = later;
        self.children.extend(children);
        self.removals.extend(removals);
        self.notes.extend(notes);
        self.requeue = self.requeue.into_iter().chain(requeue).min();
        self.found = self.found.and(found);
        self
    }

    /// Adds later parts.
    pub fn add(&mut self, later: Self) {
        *self = std::mem::take(self).and(later);
    }

    /// Adds what a planner contributes, and hands out its value.
    pub fn join<T>(&mut self, planned: Planned<T, Found>) -> T {
        let Planned { value, parts } = planned;
        self.add(parts);
        value
    }

    /// These parts beside a value.
    pub fn with<T>(self, value: T) -> Planned<T, Found> {
        Planned { value, parts: self }
    }
}

/// A planner's value, and what it contributes.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a planner's contribution belongs in the plan"]
pub struct Planned<T, Found> {
    /// The value.
    pub value: T,
    /// The contribution.
    pub parts: Parts<Found>,
}

impl<T, Found: Findings> Planned<T, Found> {
    /// Runs several planners one after the other, and keeps the parts of all that ran, even if the last is blocked.
    pub fn of(steps: impl FnOnce(&mut Parts<Found>) -> T) -> Self {
        let mut parts = Parts::default();
        let value = steps(&mut parts);
        Self { value, parts }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_crds::conditions::Reason;

    use super::*;

    /// The last line that was found.
    #[derive(Debug, Clone, PartialEq, Default)]
    struct Last(Option<String>);

    impl Findings for Last {
        fn and(self, later: Self) -> Self {
            Self(later.0.or(self.0))
        }
    }

    fn part(line: &str, seconds: u64) -> Parts<Last> {
        let note = Parts::of_notes([Note::normal(Reason::Profiling, line)]);
        let look = Parts::look_within(Duration::from_secs(seconds));
        note.and(look).and(Parts::of_found(Last(Some(line.to_owned()))))
    }

    #[test]
    fn parts_are_joined_in_order_and_the_soonest_look_counts() {
        let joined = part("first", 5).and(part("second", 60));
        let lines: Vec<&str> = joined.notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(lines, ["first", "second"]);
        assert_eq!(joined.requeue, Some(Duration::from_secs(5)));
        assert_eq!(joined.found, Last(Some("second".to_owned())));
    }

    #[test]
    fn neither_grouping_nor_empty_parts_change_the_plan() {
        let [a, b, c] = [part("a", 3), part("b", 2), part("c", 9)];
        assert_eq!(a.clone().and(b.clone()).and(c.clone()), a.clone().and(b.and(c)));
        assert_eq!(Parts::default().and(a.clone()), a);
        assert_eq!(a.clone().and(Parts::default()), a);
    }

    #[test]
    fn what_was_contributed_before_a_planner_is_blocked_is_kept() {
        let planned: Planned<Result<(), &str>, Last> = Planned::of(|parts| {
            parts.add(part("before", 5));
            let blocked: Result<(), &str> = Err("no gateway");
            blocked?;
            parts.add(part("after", 1));
            Ok(())
        });
        assert_eq!(planned, part("before", 5).with(Err("no gateway")));
    }
}
