//! What people read of a store.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use kubectl_slipway::{
    output::{Format, document},
    store::store,
    view::store::StoreView,
};
use pretty_assertions::assert_eq;
use slipway_crds::store::StoreRecord;

fn shown(items: &str, rest: &str) -> StoreView {
    let record = format!("{{version: 1, items: {items}, sweeps: 3{rest}}}");
    StoreView::of(&serde_norway::from_str::<StoreRecord>(&record).unwrap())
}

fn digest(digit: char) -> String {
    digit.to_string().repeat(64)
}

#[test]
fn each_folder_is_shown_with_its_size_and_with_what_holds_it() {
    let items = format!(
        "{{engines/engine-1/{}: {{bytes: 17400000000, heldBy: [AgentDeployment support, ControllerRevision support-7c1f]}}, \
         checkpoints/{}: {{bytes: 18250000, unreferencedSince: '2026-01-02T00:00:00Z'}}, profiles/7c1f9a: {{heldBy: [Profile p]}}}}",
        digest('a'),
        digest('b'),
    );
    let last = ", last: {number: 3, at: '2026-01-01T00:00:00Z', figures: {removed: 2, removedBytes: 1500, kept: 3, young: 1, \
                busy: 0, keptBytes: 17400000000, foreign: 2, freeBytes: 82600000000, capacityBytes: 100000000000}}";
    let text = "Folders: 2 (17.4 GB) needed, 1 (18.2 MB) kept for a while
Sweep 3 ended at 2026-01-01T00:00:00Z: 2 folders (1.5 kB) removed, 17.4 GB left, 82.6 GB of 100.0 GB free
Left alone: 1 changed lately, 2 not of the store
  WHAT         NAME                    SIZE      UNNEEDED SINCE         HELD BY
  Checkpoint   bbbbbbbbbbbb            18.2 MB   2026-01-02T00:00:00Z
  Engine       engine-1/aaaaaaaaaaaa   17.4 GB   -                      AgentDeployment support, ControllerRevision support-7c1f
  Records      7c1f9a                  -         -                      Profile p
";
    assert_eq!(store(&shown(&items, last)), text);
}

#[test]
fn a_sweep_that_waits_and_one_that_failed_say_why() {
    let rest = ", sweep: {number: 4, at: '2026-01-02T00:00:00Z', waitsFor: 'no node has room'}, \
                last: {number: 3, at: '2026-01-01T00:00:00Z', failure: the volume is read-only}";
    let text = "Folders: 0 (0.0 kB) needed, 0 (0.0 kB) kept for a while
Sweep 4 is in progress since 2026-01-02T00:00:00Z; it waits: no node has room
Sweep 3 ended at 2026-01-01T00:00:00Z with a failure: the volume is read-only
";
    assert_eq!(store(&shown("{}", rest)), text);
}

#[test]
fn programs_read_the_same_as_a_document() {
    let items =
        "{engines/engine-1/aa: {bytes: 5, heldBy: [Pod p]}, profiles/b: {unreferencedSince: '2026-01-02T00:00:00Z'}}";
    let text = "apiVersion: cli.slipway.dev/v1alpha1
kind: Store
folders:
- path: engines/engine-1/aa
  content: Engine
  bytes: 5
  heldBy:
  - Pod p
- path: profiles/b
  content: Records
  unneededSince: 2026-01-02T00:00:00Z
lastSweep:
  number: 3
  at: 2026-01-01T00:00:00Z
  failure: the volume is read-only
";
    let last = ", last: {number: 3, at: '2026-01-01T00:00:00Z', failure: the volume is read-only}";
    assert_eq!(document(Format::Yaml, &shown(items, last)).unwrap(), text);
}
