//! A memory that is lost, damaged or could not be written.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_lost_memory_begins_again_and_says_so() {
    let mut life = Life::of(serving()).hours(30, USUAL);
    life.cluster.world.memory = MemoryView::Absent;
    let life = life.hours(1, USUAL);
    let drift = life.drift();
    assert_eq!(
        (drift.verdict, drift.restarted.as_deref()),
        (DriftVerdict::Collecting, Some("ConfigMap support-drift is missing"))
    );
    assert_eq!((life.told("DriftBaselineRestarted"), life.condition("Ready").as_str()), (1, "True Serving"));
    let life = life.hours(26, USUAL);
    assert_eq!((life.drift().verdict, life.told("DriftBaselineRestarted")), (DriftVerdict::NoDrift, 1));
}

#[test]
fn a_first_memory_that_could_not_be_written_was_not_lost() {
    let mut life = Life::of(serving());
    life.count(USUAL);
    for _ in 0..3 {
        life.look();
        let plan = life.cluster.plan();
        assert!(plan.children.iter().any(|child| name_of(child) == MEMORY));
        life.cluster.step();
        // The status was written, the memory was not.
        life.cluster.world.memory = MemoryView::Absent;
        assert_eq!(life.cluster.world.status.drift, None);
    }
    life.settle();
    let drift = life.drift();
    assert_eq!((drift.verdict, drift.restarted, drift.restarted_by), (DriftVerdict::Collecting, None, None));
    let images = drift.unknown.iter().filter(|name| name.starts_with("image.")).count();
    assert_eq!((images, life.told("DriftBaselineRestarted")), (0, 0));
}

#[test]
fn a_memory_that_cannot_be_read_begins_again_with_the_next_traffic() {
    let mut life = Life::of(serving()).hours(30, USUAL);
    let problem = "it has version 2, this operator reads version 1".to_owned();
    life.cluster.world.memory = MemoryView::Unreadable { problem };
    let life = life.hours(1, NO_USERS);
    let drift = life.drift();
    let because = "ConfigMap support-drift cannot be read: it has version 2, this operator reads version 1";
    assert_eq!((drift.verdict, drift.restarted.as_deref()), (DriftVerdict::Collecting, Some(because)));
    assert_eq!(
        (life.conditions(), life.told("DriftBaselineRestarted")),
        (["absent".to_owned(), "absent".to_owned()], 1)
    );
}
