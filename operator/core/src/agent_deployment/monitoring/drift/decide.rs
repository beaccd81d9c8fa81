//! Beside the five steps: whether the serving revision or its workload has changed since the first day. Pure.
//!
//! Drift is tested block by block while all traffic goes to one revision ([`drift`]). This planner reads the memory, or
//! gives it up and reports that; [`repetitions`] decides what follows from drift. A first memory is written before the
//! status shows it: if it is missing later, it was there.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{
        DriftStatus, DriftVerdict, OnDrift, ReprofilingCause, ReprofilingResult, ReprofilingRun, RolloutStatus,
    },
};

use super::{Look, Memory, MemoryView, Restart, config_map};
use crate::{
    agent_deployment::{
        monitoring::drift,
        parts::{Parts, Planned},
        profiling::repetitions,
        world::World,
    },
    plan::{Child, Note, SOON},
};

/// Counts what is new, and says what it shows. The rollout is that of the status that is being written.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    rollout: Option<&RolloutStatus>,
) -> Planned<Option<DriftStatus>> {
    let Some(stable) = world.stable() else { return Parts::default().with(None) };
    let known = world.status.drift.clone().filter(|known| known.revision == stable);
    if !has_all_traffic(stable, rollout) {
        return Parts::default().with(known.map(|known| DriftStatus { paused: true, ..known }));
    }
    let known = known.map(|known| resumed(known, world.now));
    let Planned { value: followed, parts } = follow(world, (stable, known));
    let Some(followed) = followed else { return parts.with(None) };
    let followed = DriftStatus { proposal: proposal(world, &followed), ..followed };
    let before = world.status.drift.as_ref().filter(|before| before.revision == followed.revision);
    parts.and(Parts::of_notes(news(before, &followed))).with(Some(followed))
}

/// Whether no canary has a share, nor is this the moment at which another revision takes over.
fn has_all_traffic(stable: &str, rollout: Option<&RolloutStatus>) -> bool {
    rollout.is_some_and(|rollout| rollout.stable.as_deref() == Some(stable) && rollout.weight.unwrap_or(0) == 0)
}

/// Counts beside a canary do not belong to a first day.
fn resumed(known: DriftStatus, now: Timestamp) -> DriftStatus {
    if !known.paused {
        return known;
    }
    DriftStatus { paused: false, resumed_at: Some(Time(now)), ..known }
}

/// What is remembered.
enum Remembered<'a> {
    /// Nothing has been counted yet.
    Nothing,
    /// As it was written.
    Memory(&'a Memory),
    /// It was given up.
    GivenUp {
        /// Why.
        because: Restart,
        /// Windows from before are not counted again.
        from: Option<Timestamp>,
    },
}

fn follow(world: &World, (stable, known): (&str, Option<DriftStatus>)) -> Planned<Option<DriftStatus>> {
    let remembered = remembered(world, stable, known.as_ref());
    let (memory, given_up) = match remembered {
        Remembered::Nothing => (None, None),
        Remembered::Memory(memory) => (Some(memory), None),
        Remembered::GivenUp { because, from } => (None, Some((because, from))),
    };
    let from = given_up.as_ref().and_then(|(_, from)| *from);
    let resumed_at = known.as_ref().and_then(|known| known.resumed_at.as_ref()).map(|at| at.0);
    let engine = world.revision(stable).map(|revision| revision.plan.served.identity());
    let look = Look {
        revision: stable,
        engine: engine.as_deref(),
        pods: &world.live,
        from_seconds: from.max(resumed_at).and_then(|at| u64::try_from(at.as_second()).ok()).unwrap_or(0),
        end_seconds: drift::block_end(world.now),
    };
    let because = given_up.map(|(because, _)| because);
    match (drift::advance(memory, &look), known) {
        (Some(advanced), known) => {
            let object = config_map::config_map(world, &advanced.memory);
            let parts = Parts::of_children([Child::ConfigMap(Box::new(object))]);
            if memory.is_none() && known.is_none() && because.is_none() {
                // The status shows a first memory once it is there, so that one that is missing later was lost.
                return parts.and(Parts::look_within(SOON)).with(None);
            }
            parts.with(Some(drift::follow(world, known.as_ref(), &advanced, because.as_ref())))
        }
        (None, Some(known)) => Parts::default().with(Some(match because {
            Some(because) => drift::begun_again(world, known, &because),
            None => known,
        })),
        (None, None) => Parts::default().with(memory.map(|memory| drift::shown(world, memory))),
    }
}

fn remembered<'a>(world: &'a World, stable: &str, known: Option<&DriftStatus>) -> Remembered<'a> {
    let name = config_map::object_name(&world.name);
    match &world.memory {
        MemoryView::Read(memory) if memory.revision == stable => {
            measured_since(world, memory).map_or(Remembered::Memory(memory), |(run, ended)| Remembered::GivenUp {
                because: Restart::Measured { number: run.number },
                from: Some(ended),
            })
        }
        MemoryView::Unreadable { problem } => {
            let because = Restart::MemoryUnreadable { config_map: name, problem: problem.clone() };
            Remembered::GivenUp { because, from: None }
        }
        MemoryView::Absent if known.is_some() => {
            Remembered::GivenUp { because: Restart::MemoryMissing { config_map: name }, from: None }
        }
        // That of another plan, whose place it takes.
        MemoryView::Absent | MemoryView::Read(_) => Remembered::Nothing,
    }
}

/// The adopted measurement after drift: the revision that serves then is compared with itself from then on.
fn measured_since<'a>(world: &'a World, memory: &Memory) -> Option<(&'a ReprofilingRun, Timestamp)> {
    let run = world.status.reprofiling.as_ref()?.run.as_ref()?;
    let ended = run.ended_at.as_ref()?.0;
    let is_of_drift = run.because == ReprofilingCause::Drift && run.result == Some(ReprofilingResult::Unchanged);
    let is_later = u64::try_from(ended.as_second()).is_ok_and(|ended| ended > memory.begun_seconds);
    (is_of_drift && is_later).then_some((run, ended))
}

/// The token by which a person requests a measurement for another workload. It holds the number of the measurement, so
/// that each token is good for one.
fn proposal(world: &World, drift: &DriftStatus) -> Option<String> {
    match world.spec.profiling.as_ref()?.on_drift {
        OnDrift::Report => return None,
        OnDrift::Reprofile => {}
    }
    let is_proposed = drift.verdict == DriftVerdict::WorkloadDrift && !repetitions::is_under_way(world);
    is_proposed.then(|| format!("{}-{}", drift.revision, repetitions::next_number(world)))
}

/// News is announced once.
fn news(before: Option<&DriftStatus>, now: &DriftStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    let verdict = before.map(|before| before.verdict);
    if verdict != Some(now.verdict) {
        let was_drift = matches!(verdict, Some(DriftVerdict::WorkloadDrift | DriftVerdict::BehaviorDrift));
        match now.verdict {
            DriftVerdict::WorkloadDrift => notes.push(Note::warning(Reason::WorkloadChanged, now.message.clone())),
            DriftVerdict::BehaviorDrift => notes.push(Note::warning(Reason::BehaviorChanged, now.message.clone())),
            DriftVerdict::NoDrift if was_drift => notes.push(Note::normal(Reason::NoDrift, now.message.clone())),
            DriftVerdict::Collecting | DriftVerdict::NotEnough | DriftVerdict::NoDrift => {}
        }
    }
    let restarted = now.restarted.as_ref().filter(|_| !before.is_some_and(|before| is_same_restart(before, now)));
    notes.extend(restarted.map(|because| {
        Note::normal(
            Reason::DriftBaselineRestarted,
            format!("the first day, which drift is measured against, begins again: {because}"),
        )
    }));
    notes
}

/// Whether the baseline began again for the same cause, as far as the earlier status knows. A release that recorded no
/// causes wrote only a message.
fn is_same_restart(before: &DriftStatus, now: &DriftStatus) -> bool {
    before.restarted_by == now.restarted_by || (before.restarted_by.is_none() && before.restarted.is_some())
}
