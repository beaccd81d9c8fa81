use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{
        agent_deployment::JobAttempt,
        profile::{MeasuredEngine, MeasurementPurpose, ProfileChoice, ProfilePhase},
    },
};
use slipway_worker_contract::{Campaign, Driver, FailureClass, MeasurementVerdict, Phase, ProfileEnd, Row};

use super::{
    super::{job::POLL, *},
    cluster::{cluster, engine_a},
};
use crate::{
    jobs::view::JobPhase,
    profile::{build::rate, rows},
};

fn measuring() -> Phase {
    Phase::Measuring { arm: "instances-2".to_owned(), level: 4, count: 17 }
}

fn finished() -> Phase {
    Phase::Finished { end: ProfileEnd::Complete, reason: "done".to_owned() }
}

fn conditions(status: &ProfileStatus) -> Vec<String> {
    status.conditions.iter().map(|c| format!("{}={} {}", c.type_, c.status, c.reason)).collect()
}

#[test]
fn engines_are_measured_in_order_and_the_fastest_feasible_point_is_chosen() {
    let mut cluster = cluster();
    let status = cluster.finish();
    let choice = ProfileChoice {
        engine: "engine-b".to_owned(),
        configuration: "instances-2".to_owned(),
        level: 4,
        predicted_by: 7,
        why:
            "highest throughput of 6 measured points that meet the objectives: int8/instances-2 at 4 in flight, 18.00 \
              requests a second, p95 100ms; next is int8/instances-1 at 4 in flight, 17.00 requests a second, p95 \
              100ms; a measurement with a fixed number in flight, not confirmed: add a workload with runs"
                .to_owned(),
    };
    assert_eq!(status.choice, Some(choice));
    assert_eq!(status.front, [6, 7], "int8 with two instances, at either level");
    assert_eq!((status.rows, status.gpu_milliseconds), (8, 96_000));
    assert_eq!(
        conditions(status),
        ["Ready=True ConfigurationFound", "Reconciling=False UpToDate", "Stalled=False UpToDate"]
    );
    let engines: Vec<_> = cluster.tasks.iter().map(|task| task.engine.identity.as_str()).collect();
    assert_eq!(engines, ["engine-a", "engine-b"]);
    assert_eq!(cluster.tasks[1].other_engines.len(), 1, "the second engine's Job knows what it has to beat");
}

#[test]
fn an_ended_campaign_writes_nothing_more() {
    let mut cluster = cluster();
    cluster.finish();
    cluster.world.jobs.clear();
    let before = cluster.world.status.clone();
    let plan = decide(&cluster.world);
    assert_eq!((plan.status, plan.children, plan.notes), (before, vec![], vec![]));
}

#[test]
fn progress_is_told_and_does_not_change_with_every_look() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.show(3, measuring());
    cluster.settle();
    let told = (Some(ProfilePhase::Exploring), "fp32: measuring instances-2 at 4 in flight, 3 rows");
    assert_eq!(cluster.told(), told);
    let again = Phase::Measuring { arm: "instances-2".to_owned(), level: 4, count: 55 };
    cluster.show(3, again);
    assert!(!cluster.step(), "nothing is written while the count of a level grows");
    assert_eq!(decide(&cluster.world).requeue, POLL);
}

#[test]
fn a_job_is_acknowledged_only_once_the_status_holds_every_row() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.show(4, finished());
    let job = cluster.running().expect("a Job runs");
    let is_recorded = |cluster: &super::cluster::Cluster| {
        let of = rows::purpose(&cluster.world.status, &job).expect("the status knows the Job");
        rows::is_recorded(&cluster.world.status, of, &cluster.world.progress[&job])
    };
    assert!(!is_recorded(&cluster), "before the status is written");
    cluster.settle();
    assert!(is_recorded(&cluster), "afterwards");
    cluster.show(4, measuring());
    assert!(!is_recorded(&cluster), "more rows may come");
}

#[test]
fn progress_of_another_campaign_is_not_believed() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.show(3, measuring());
    for progress in cluster.world.progress.values_mut() {
        progress.input_hash = "another".to_owned();
    }
    cluster.settle();
    assert_eq!(cluster.world.status.rows, 0);
}

#[test]
fn rows_that_neither_progress_nor_message_brought_are_measured_by_another_job() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.end(ProfileEnd::Complete, 3);
    cluster.settle();
    assert_eq!(cluster.tasks.len(), 2);
    assert_eq!(cluster.tasks[1].engine, engine_a());
    assert_eq!(cluster.tasks[1].measured.len(), 1, "the second Job knows the row that came through");
    assert_eq!(cluster.rows().len(), 3);
}

#[test]
fn an_interrupted_job_is_followed_by_another() {
    let mut cluster = cluster();
    cluster.settle();
    cluster.end(ProfileEnd::Interrupted, 0);
    cluster.settle();
    assert!(cluster.running().is_some_and(|name| name.ends_with("-2")), "{:?}", cluster.running());
}

#[test]
fn one_engine_may_fail() {
    let mut cluster = cluster();
    cluster.broken = vec!["engine-a"];
    let status = cluster.finish();
    assert_eq!(status.choice.as_ref().map(|choice| choice.engine.as_str()), Some("engine-b"));
    let end = &status.engines[0].end;
    assert!(end.ends_with("failed (BadModel): Triton does not load the model: no such file"), "{end}");
    assert_eq!(status.not_measured[0].engine, "engine-a");
}

#[test]
fn a_store_that_records_fill_is_in_the_conditions_with_its_figures() {
    let failure = "a volume is full: enlarge it, or remove what it need not hold (/slipway/store has 0.1 of 107374.2 MB \
                   free): failed to keep records at /slipway/store/profiles/1: No space left on device (os error 28)";
    let mut cluster = cluster();
    for _ in 0..6 {
        cluster.settle();
        let Some(job) = cluster.running() else { break };
        let finished_at = Some(cluster.world.now);
        let class = FailureClass::Infrastructure;
        cluster.world.jobs.get_mut(&job).expect("the Job is there").phase =
            JobPhase::Failed { class, failure: failure.to_owned(), finished_at };
        cluster.world.now += jiff::SignedDuration::from_mins(5);
    }
    cluster.settle();
    let status = &cluster.world.status;
    assert_eq!(status.phase, Some(ProfilePhase::Failed));
    let stalled = status.conditions.iter().find(|condition| condition.type_ == "Stalled").expect("it is there");
    assert!(stalled.status == "True" && stalled.message.contains(failure), "{stalled:?}");
}

#[test]
fn a_campaign_without_any_usable_row_says_what_failed_first() {
    let mut cluster = cluster();
    cluster.broken = vec!["engine-a", "engine-b"];
    let status = cluster.finish().clone();
    assert_eq!(status.phase, Some(ProfilePhase::Failed));
    assert!(status.message.contains("Triton does not load the model: no such file"), "{}", status.message);
    assert_eq!(
        conditions(&status),
        ["Ready=False ProfilingFailed", "Reconciling=False UpToDate", "Stalled=True ProfilingFailed"]
    );
}

#[test]
fn a_budget_too_small_for_a_first_measurement_is_named() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.budget.gpu_hours = "0.0001".parse().expect("a number");
    cluster.finish();
    let message = "spec.profiling.budget.gpuHours 0.0001 is used up before a first measurement has finished: raise it";
    assert_eq!(cluster.told(), (Some(ProfilePhase::Failed), message));
    assert_eq!(cluster.tasks.len(), 0, "no GPU is taken");
}

#[test]
fn what_the_first_engine_leaves_of_the_budget_is_the_second_ones() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.budget.measurements = 4;
    let status = cluster.finish();
    assert_eq!(status.choice.as_ref().map(|choice| choice.engine.as_str()), Some("engine-a"));
    let words = "spec.profiling.budget.measurements 4 is used up: raise it to measure more".to_owned();
    assert_eq!(status.engines[1], MeasuredEngine { engine: "engine-b".to_owned(), end: words });
    assert_eq!(cluster.tasks.len(), 1);
}

#[test]
fn the_choice_is_confirmed_by_runs_where_there_is_a_trace() {
    let mut cluster = cluster().with_trace();
    let status = cluster.finish();
    let choice = status.choice.clone().expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.predicted_by), ("engine-b", 8));
    assert_eq!(status.measurements[8].purpose, MeasurementPurpose::Confirm);
    assert!(choice.why.contains("confirmed by 120 runs"), "{}", choice.why);
    let Campaign::Confirm { arrivals_per_kilosecond, run_millis, driver, level, .. } = &cluster.tasks[2].campaign
    else {
        panic!("{:?}", cluster.tasks[2].campaign);
    };
    assert_eq!(
        (*level, *arrivals_per_kilosecond, *run_millis),
        (4, 3_000, 27_000),
        "a sixth of 18,000, 60 runs and 3 sigma"
    );
    assert!(matches!(driver, Driver::AgentRun(_)));
    let judged_by: Vec<_> = cluster.tasks[2].objectives.iter().map(|o| (o.name.as_str(), o.metric)).collect();
    assert_eq!(judged_by.len(), cluster.world.spec.inputs.objectives.len(), "runs show requests too: {judged_by:?}");
}

#[test]
fn agents_with_equal_inputs_have_jobs_of_their_own() {
    let first_job = |name: &str| {
        let mut cluster = cluster();
        cluster.world.name = name.to_owned();
        cluster.settle();
        cluster.named.first().cloned().expect("a Job")
    };
    assert_ne!(first_job("facts-5f0c2a"), first_job("copy-5f0c2a"));
    assert_eq!(first_job("facts-5f0c2a"), first_job("facts-5f0c2a"));
}

#[test]
fn a_job_that_an_earlier_release_recorded_keeps_its_name() {
    let mut cluster = cluster();
    let profile = &cluster.world.spec.input_hash;
    let value = json!({"profile": profile, "engine": "engine-a", "kind": "explore", "point": null});
    let input_hash = content_hash(&value).expect("a hash").short().to_owned();
    let name = format!("profile-{input_hash}-1");
    cluster.world.status.jobs = vec![JobAttempt { kind: "explore".to_owned(), input_hash, attempt: 1 }];
    cluster.settle();
    assert_eq!(cluster.named, [name]);
}

/// Without a rate that anybody asked for, a limit on errors leaves room for runs that find all places taken.
#[rstest]
#[case::without_a_limit(None, 4, 3_000)]
#[case::where_places_are_many(Some("5%"), 64, 3_000)]
#[case::where_places_are_few(Some("5%"), 4, 1_606)]
#[case::where_errors_are_few(Some("1%"), 4, 449)]
#[case::where_no_rate_would_do(Some("1%"), 1, 135)]
fn the_rate_of_a_confirm_run_leaves_room_for_refused_runs(
    #[case] max: Option<&str>,
    #[case] level: i32,
    #[case] arrivals: u64,
) {
    let mut world = cluster().with_trace().world;
    world.spec.inputs.error_rate = max.map(|max| serde_norway::from_str(&format!("max: {max}")).expect("a limit"));
    let explored = rate::Explored { level, per_kilosecond: 18_000 };
    assert_eq!(rate::arrivals_per_kilosecond(&world.spec.inputs, "engine-a", explored), arrivals);
}

#[test]
fn a_point_that_fails_its_confirm_run_makes_room_for_the_next() {
    let mut cluster = cluster().with_trace();
    cluster.confirms.insert("instances-2", MeasurementVerdict::Infeasible);
    let choice = cluster.finish().choice.clone().expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.configuration.as_str(), choice.level), ("engine-b", "instances-1", 4));
}

#[test]
fn three_failed_confirm_runs_end_the_campaign() {
    let mut cluster = cluster().with_trace();
    cluster.confirms.insert("instances-1", MeasurementVerdict::Infeasible);
    cluster.confirms.insert("instances-2", MeasurementVerdict::Infeasible);
    let status = cluster.finish();
    assert_eq!(status.phase, Some(ProfilePhase::Infeasible));
    assert!(status.message.starts_with("three candidates failed their confirm run: "), "{}", status.message);
    assert_eq!(cluster.tasks.len(), 5);
}

#[test]
fn that_nothing_is_feasible_is_said_of_what_was_measured() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.throughput = Some(serde_norway::from_str("{min: '90', unit: Requests}").expect("a rate"));
    cluster.world.spec.inputs.budget.measurements = 6;
    let message = cluster.finish().message.clone();
    let begins = "none of the 6 points that were measured meets the objectives (2 missed with 95 % confidence, 4 within \
                  the latencies but not all limits; 2 of 8 were not measured: the search gives each a chance of 1 % at \
                  most): throughput would be met with a min of ";
    assert!(message.starts_with(begins), "{message}");
    let mut whole = super::cluster::cluster();
    whole.world.spec.inputs.throughput = Some(serde_norway::from_str("{min: '90', unit: Requests}").expect("a rate"));
    let message = whole.finish().message.clone();
    let begins = "no configuration meets the objectives (2 missed with 95 % confidence, 6 within the latencies \
                  but not all limits): throughput would";
    assert!(message.starts_with(begins), "{message}");
}

#[test]
fn engines_without_a_row_are_not_among_what_the_search_gives_no_chance() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.throughput = Some(serde_norway::from_str("{min: '90', unit: Requests}").expect("a rate"));
    cluster.world.spec.inputs.budget.measurements = 4;
    let message = cluster.finish().message.clone();
    let begins = "none of the 4 points that were measured meets the objectives (2 missed with 95 % confidence, 2 within \
                  the latencies but not all limits; 4 are of engines that were not measured: status.notMeasured says \
                  why): throughput would";
    assert!(message.starts_with(begins), "{message}");
}

#[test]
fn points_that_failed_too_often_are_not_said_to_have_missed_with_confidence() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.error_rate = Some(serde_norway::from_str("{max: '1%'}").expect("a share"));
    end_both(&mut cluster, |row| (row.verdict, row.errors) = (MeasurementVerdict::Infeasible, 1_000_000));
    let message = cluster.finish().message.clone();
    assert!(message.starts_with("no configuration meets the objectives (8 with too many errors): "), "{message}");
}

/// Ends the Jobs of both engines, with their rows changed.
fn end_both(cluster: &mut super::cluster::Cluster, change: impl Fn(&mut Row)) {
    for _ in 0..2 {
        cluster.settle();
        let job = cluster.running().expect("a Job runs");
        cluster.end(ProfileEnd::Complete, 0);
        let phase = &mut cluster.world.jobs.get_mut(&job).expect("the Job").phase;
        if let crate::jobs::view::JobPhase::Succeeded { outcome, .. } = phase
            && let slipway_worker_contract::Outcome::Profile(result) = outcome.as_mut()
        {
            result.rows.iter_mut().for_each(&change);
        }
    }
}

#[test]
fn an_infeasible_campaign_names_the_objective_and_what_it_would_take() {
    let mut cluster = cluster();
    cluster.world.spec.inputs.objectives[0].max = "20ms".parse().expect("a duration");
    end_both(&mut cluster, |row| row.verdict = MeasurementVerdict::Infeasible);
    let infeasible = cluster.finish().infeasible.clone().expect("an answer");
    assert_eq!((infeasible.binding_objective.as_str(), infeasible.nearest), ("fast", Some(4)));
    let words = "fast would be met with a max of 55ms or more (it is 20ms), by int8/instances-1 at 1 in flight";
    assert_eq!(infeasible.what_it_would_take, words);
    let begins = "no configuration meets the objectives (8 missed with 95 % confidence): fast would be met";
    assert!(cluster.world.status.message.starts_with(begins), "{}", cluster.world.status.message);
    assert_eq!(conditions(&cluster.world.status)[0], "Ready=True NoFeasibleConfiguration");
}

proptest! {
    /// Wherever the operator is cut off, the campaign ends as if it had not been.
    #[test]
    fn a_campaign_goes_on_from_any_prefix_of_rows(prefix in 0usize..=4, is_job_lost in any::<bool>()) {
        let mut whole = cluster();
        whole.finish();
        let mut cut_off = cluster();
        cut_off.settle();
        cut_off.show(prefix, measuring());
        cut_off.settle();
        cut_off.world.progress.clear();
        if is_job_lost {
            let job = cut_off.running().expect("a Job runs");
            cut_off.world.jobs.remove(&job);
        }
        cut_off.finish();
        prop_assert_eq!(&whole.world.status.choice, &cut_off.world.status.choice);
        prop_assert_eq!(&whole.world.status.measurements, &cut_off.world.status.measurements);
    }
}
