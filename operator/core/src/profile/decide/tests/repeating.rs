//! Points that one measurement each does not tell apart.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfilePhase};
use slipway_worker_contract::{Campaign, Phase, ProfileEnd};

use super::{
    super::*,
    cluster::{Cluster, cluster},
};
use crate::profile::world::Earlier;

/// A campaign in which the best point, int8 with two instances, loses 6 % to something else on its node.
fn disturbed() -> Cluster {
    let mut cluster = cluster();
    cluster.disturbed.insert(("engine-b", "instances-2", 0), 16_900);
    cluster
}

/// Engine, arms and round of every Job that measured points again.
fn rounds(cluster: &Cluster) -> Vec<String> {
    let of = |task: &slipway_worker_contract::ProfileTask| match &task.campaign {
        Campaign::Repeat { points, .. } => {
            let arms: Vec<_> = points.iter().map(|cell| format!("{} at {}", cell.arm.id, cell.level)).collect();
            Some(format!("{}: {}", task.engine.identity, arms.join(", ")))
        }
        Campaign::Explore { .. } | Campaign::Confirm { .. } => None,
    };
    cluster.tasks.iter().filter_map(of).collect()
}

fn chosen(status: &ProfileStatus) -> (&str, &str, i32) {
    let choice = status.choice.as_ref().expect("a choice");
    (&choice.engine, &choice.configuration, choice.predicted_by)
}

fn why(status: &ProfileStatus) -> &str {
    &status.choice.as_ref().expect("a choice").why
}

fn repeated(status: &ProfileStatus) -> Vec<&Measurement> {
    status.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Repeat).collect()
}

#[test]
fn close_points_are_measured_again_in_turn_before_one_wins() {
    let mut cluster = disturbed();
    let status = cluster.finish().clone();
    let turns = ["engine-b: instances-1 at 4, instances-2 at 4", "engine-b: instances-2 at 4, instances-1 at 4"];
    assert_eq!(rounds(&cluster), turns);
    assert_eq!(chosen(&status), ("engine-b", "instances-2", 9), "its middle measurement is the prediction");
    let words = "int8/instances-2 at 4 in flight, 18.00 requests a second, p95 100ms; next is int8/instances-1 at 4 in \
                 flight, 17.00 requests a second, p95 100ms; 2 close points were measured 4 times more in turn, and \
                 the middle of each counts; a measurement with a fixed number in flight, not confirmed";
    assert!(why(&status).contains(words), "{}", why(&status));
    let round_of: Vec<_> = repeated(&status).iter().map(|row| row.round).collect();
    assert_eq!(round_of, [Some(1), Some(1), Some(2), Some(2)]);
    let told = "the bounds of int8/instances-1 at 4 in flight, int8/instances-2 at 4 in flight overlap: they are \
                measured at least 2 times more, in turn";
    assert_eq!(cluster.notes.iter().filter(|note| *note == told).count(), 1, "{:?}", cluster.notes);
    assert_eq!((status.rows, status.gpu_milliseconds), (12, 144_000), "they cost what measurements cost");
}

#[test]
fn points_of_several_engines_take_turns_as_well() {
    let mut cluster = cluster();
    cluster.disturbed.insert(("engine-a", "instances-2", 0), 17_500);
    cluster.disturbed.insert(("engine-b", "instances-2", 0), 17_100);
    let status = cluster.finish().clone();
    let turns = [
        "engine-a: instances-2 at 1",
        "engine-b: instances-1 at 4, instances-2 at 4",
        "engine-b: instances-2 at 4, instances-1 at 4",
        "engine-a: instances-2 at 1",
        "engine-b: instances-1 at 4, instances-2 at 4",
        "engine-b: instances-2 at 4, instances-1 at 4",
    ];
    assert_eq!(rounds(&cluster), turns, "two rounds tell engine-a apart, and four are the most");
    assert_eq!(chosen(&status).0, "engine-b");
    assert_eq!(chosen(&status).1, "instances-2");
}

/// Of two engines a point each is close, and two may be measured at once.
fn side_by_side() -> Cluster {
    let mut cluster = cluster();
    cluster.disturbed.insert(("engine-a", "instances-2", 0), 17_500);
    cluster.disturbed.insert(("engine-b", "instances-2", 0), 17_100);
    cluster.world.agent.parallel_jobs = Some(2);
    cluster
}

/// Both engines are explored; the Jobs that run then, after all is settled.
fn explored_at_once(cluster: &mut Cluster) -> Vec<String> {
    cluster.settle();
    let explored = cluster.named.clone();
    assert_eq!(explored.len(), 2, "both are explored at once");
    for job in explored {
        cluster.end_job(&job, ProfileEnd::Complete, 0);
    }
    cluster.settle();
    cluster.named[2..].to_vec()
}

#[test]
fn with_parallel_jobs_the_engines_of_a_round_are_measured_side_by_side() {
    let mut cluster = side_by_side();
    let first = explored_at_once(&mut cluster);
    let turns = ["engine-a: instances-2 at 1", "engine-b: instances-1 at 4, instances-2 at 4"];
    assert_eq!(rounds(&cluster), turns);
    let (_, message) = cluster.told();
    assert_eq!(message.matches("runs").count(), 2, "{message}");

    cluster.end_job(&first[0], ProfileEnd::Complete, 0);
    cluster.settle();
    assert_eq!(rounds(&cluster).len(), 2, "the next round waits for the whole of this one");
    cluster.end_job(&first[1], ProfileEnd::Complete, 0);
    cluster.settle();
    let turns = ["engine-b: instances-2 at 4, instances-1 at 4", "engine-a: instances-2 at 1"];
    assert_eq!(rounds(&cluster)[2..], turns);
    let second = cluster.named[4..].to_vec();
    for job in &second {
        cluster.end_job(job, ProfileEnd::Complete, 0);
    }
    let status = cluster.finish().clone();
    assert_eq!((chosen(&status).0, chosen(&status).1), ("engine-b", "instances-2"));
    let rounds: Vec<_> = repeated(&status).iter().filter_map(|row| row.round).collect();
    assert_eq!(rounds, [1, 1, 1, 2, 2, 2, 3, 3, 4, 4], "two rounds tell engine-a apart");
}

#[test]
fn a_job_beside_another_waits_where_the_budget_has_room_for_one_of_them() {
    let mut cluster = side_by_side();
    cluster.world.spec.inputs.budget.measurements = 10;
    let first = explored_at_once(&mut cluster);
    assert_eq!(rounds(&cluster), ["engine-a: instances-2 at 1"]);
    cluster.end_job(&first[0], ProfileEnd::Complete, 0);
    let status = cluster.finish().clone();
    assert_eq!((rounds(&cluster).len(), repeated(&status).len()), (1, 1));
    let words = "close points were not all measured again: spec.profiling.budget.measurements leaves 1, and a round \
                 takes 2";
    assert!(why(&status).contains(words), "{}", why(&status));
}

#[test]
fn a_job_of_a_round_is_still_looked_at_when_fewer_may_run_at_once() {
    let mut cluster = side_by_side();
    let first = explored_at_once(&mut cluster);
    cluster.world.agent.parallel_jobs = None;
    cluster.end_job(&first[1], ProfileEnd::Complete, 0);
    cluster.settle();
    assert_eq!(repeated(&cluster.world.status).len(), 2, "the rows of the second Job are known");
}

/// What a round shows reaches the status with the end of its Job, and the next round depends on it.
#[test]
fn a_third_round_follows_where_two_disagree() {
    let mut cluster = disturbed();
    cluster.disturbed.insert(("engine-b", "instances-2", 1), 16_000);
    cluster.disturbed.insert(("engine-b", "instances-1", 2), 15_500);
    let status = cluster.finish().clone();
    let rounds: Vec<_> = repeated(&status).iter().filter_map(|row| row.round).collect();
    assert_eq!(rounds, [1, 1, 2, 2, 3, 3, 4, 4]);
    assert_eq!(chosen(&status).1, "instances-2");
}

#[test]
fn the_phase_tells_that_configurations_are_still_compared() {
    let mut cluster = disturbed();
    for _ in 0..2 {
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
    }
    cluster.settle();
    cluster.show(1, Phase::Measuring { arm: "instances-2".to_owned(), level: 4, count: 17 });
    cluster.settle();
    let told = (Some(ProfilePhase::Exploring), "int8: measuring instances-2 at 4 in flight, 5 rows");
    assert_eq!(cluster.told(), told);
}

#[test]
fn a_job_that_was_lost_goes_on_with_the_points_that_have_no_row() {
    let mut cluster = disturbed();
    for _ in 0..2 {
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
    }
    cluster.settle();
    cluster.show(1, Phase::Measuring { arm: "instances-2".to_owned(), level: 4, count: 17 });
    cluster.settle();
    cluster.end(ProfileEnd::Interrupted, 2);
    cluster.settle();
    let task = cluster.tasks.last().expect("a second attempt");
    assert_eq!(task.measured.iter().map(|row| row.arm.as_str()).collect::<Vec<_>>(), ["instances-1"]);
    let status = cluster.finish().clone();
    assert_eq!((repeated(&status).len(), chosen(&status).1), (4, "instances-2"));
}

#[test]
fn a_round_begins_only_when_the_job_of_the_one_before_has_ended() {
    let mut cluster = disturbed();
    for _ in 0..2 {
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
    }
    cluster.settle();
    let first = cluster.running();
    cluster.show(2, Phase::Finished { end: ProfileEnd::Complete, reason: "done".to_owned() });
    cluster.settle();
    assert_eq!((cluster.tasks.len(), cluster.running()), (3, first), "its pod is still there");
    assert_eq!(repeated(&cluster.world.status).len(), 2);
}

#[test]
fn without_a_budget_for_a_round_the_first_measurements_choose_and_it_is_said() {
    let mut cluster = disturbed();
    cluster.world.spec.inputs.budget.measurements = 9;
    let status = cluster.finish().clone();
    assert_eq!((rounds(&cluster).len(), chosen(&status).1), (0, "instances-1"));
    let words = "close points were not all measured again: spec.profiling.budget.measurements leaves 1, and a round \
                 takes 2";
    assert!(why(&status).contains(words), "{}", why(&status));
}

#[test]
fn a_budget_that_ends_between_rounds_leaves_the_worse_of_two_measurements() {
    let mut cluster = disturbed();
    cluster.world.spec.inputs.budget.measurements = 10;
    let status = cluster.finish().clone();
    assert_eq!((rounds(&cluster).len(), chosen(&status).1), (1, "instances-1"));
    let words = "close points were not all measured again: spec.profiling.budget.measurements 10 is used up: raise it \
                 to measure more";
    assert!(why(&status).contains(words), "{}", why(&status));
}

#[test]
fn a_round_that_fails_decides_nothing() {
    let mut cluster = disturbed();
    for _ in 0..2 {
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
    }
    cluster.broken = vec!["engine-b"];
    let status = cluster.finish().clone();
    assert_eq!(chosen(&status), ("engine-b", "instances-1", 5));
    assert!(repeated(&status).iter().all(|row| row.verdict == MeasurementVerdict::Failed));
    assert!(repeated(&status)[0].reason.ends_with("Triton does not load the model: no such file"));
}

#[test]
fn the_middle_measurement_of_a_point_decides_its_load_to_confirm() {
    let mut cluster = disturbed().with_trace();
    let status = cluster.finish().clone();
    assert_eq!(chosen(&status), ("engine-b", "instances-2", 12));
    let Campaign::Confirm { arrivals_per_kilosecond, .. } = cluster.tasks[4].campaign else {
        panic!("{:?}", cluster.tasks[4].campaign)
    };
    assert_eq!(arrivals_per_kilosecond, 3_000, "a sixth of 18,000");
}

/// An operator that is upgraded starts no Job.
#[test]
fn a_campaign_that_confirms_already_goes_on_as_it_began() {
    let mut cluster = cluster().with_trace();
    for _ in 0..2 {
        cluster.settle();
        cluster.end(ProfileEnd::Complete, 0);
    }
    cluster.settle();
    assert!(matches!(cluster.tasks[2].campaign, Campaign::Confirm { .. }));
    cluster.world.status.measurements[5].per_kilosecond = 17_600;
    let status = cluster.finish().clone();
    assert_eq!((cluster.tasks.len(), rounds(&cluster).len()), (3, 0));
    assert!(!why(&status).contains("close points"), "{}", why(&status));
}

#[test]
fn rounds_that_leave_an_objective_open_choose_as_others_do() {
    let mut cluster = disturbed();
    cluster.open_rounds = true;
    let status = cluster.finish().clone();
    assert!(repeated(&status).iter().all(|row| row.verdict == MeasurementVerdict::Unbounded));
    assert_eq!(rounds(&cluster).len(), 2);
    assert_eq!(chosen(&status), ("engine-b", "instances-2", 9), "its middle measurement is the prediction");
    assert_eq!(status.phase, Some(ProfilePhase::Chosen));
}

#[test]
fn rounds_are_measured_again_where_one_of_the_earlier_campaign_left_an_objective_open() {
    let mut earlier = disturbed();
    earlier.open_rounds = true;
    earlier.finish();
    earlier.world.status.measurements[8].verdict = MeasurementVerdict::Feasible;
    let mut next = after(earlier);
    let status = next.finish().clone();
    assert_eq!((next.tasks.len(), rounds(&next).len()), (2, 2), "nothing else is");
    assert!(repeated(&status).iter().all(|row| row.measured_in.is_none()));
}

#[test]
fn what_was_measured_again_is_known_to_the_next_campaign() {
    let mut earlier = disturbed();
    earlier.finish();
    let mut next = after(earlier);
    let status = next.finish().clone();
    assert!(next.tasks.is_empty(), "no Job is started");
    assert_eq!((repeated(&status).len(), chosen(&status).1), (4, "instances-2"));
    assert_eq!(next.notes[0], "fp32: 4 of 4 points were measured by earlier campaigns");
}

/// The next campaign of the same agent, by a looser objective.
fn after(earlier: Cluster) -> Cluster {
    let mut next = disturbed();
    next.world.earlier = vec![Earlier {
        name: "facts-earlier".to_owned(),
        inputs: earlier.world.spec.inputs.clone(),
        status: earlier.world.status,
    }];
    next.world.spec.inputs.objectives[0].max = "250ms".parse().expect("a duration");
    next
}
